"""Fetching a page: names looked up once, addresses checked at every hop, redirects followed as far as they may be."""

from dataclasses import dataclass
from typing import Final

from accord.coder.web.access import WebAccess
from accord.coder.web.exchange import Answer, Exchange, WebRefused
from accord.coder.web.url import Url

_MOVED: Final = frozenset((301, 302, 303, 307, 308))


@dataclass(frozen=True, slots=True)
class Page:
    """What was fetched."""

    url: Url
    """Where it was in the end."""
    answer: Answer
    data: bytes
    complete: bool
    """Whether these are all its bytes."""
    leads_to: Url | None = None
    """It is only a redirect, to a host that nobody has agreed to."""


async def fetch(url: Url, access: WebAccess, *, most: int, redirects: int) -> Page:
    """The page, and of a larger one the first `most` bytes. Raises WebRefused, BadUrl.

    A redirect is followed on the same host, and between a host and its `www.`; one to another host is handed back,
    because whether that may be asked is to be judged first.
    """
    for _ in range(redirects + 1):
        async with await _connect(url, access) as exchange:
            answer = await exchange.ask()
            location = answer.headers.get("location")
            if answer.status not in _MOVED or not location:
                data, complete = await exchange.body(most)
                return Page(url, answer, data, complete)
        following = url.join(location)
        if url.scheme == "https" and following.scheme == "http":
            raise WebRefused(f"{url} redirects to {following}, which is not encrypted any more")
        if _site(following) != _site(url):
            return Page(url, answer, b"", True, leads_to=following)
        url = following
    raise WebRefused(f"{url.host} redirects more than {redirects} times")


async def _connect(url: Url, access: WebAccess) -> Exchange:
    try:
        addresses = await access.resolve(url.host, url.port)
    except OSError as error:
        raise WebRefused(f"{url.host} is not known: {error.strerror or error}") from None
    if not addresses:
        raise WebRefused(f"{url.host} has no address")
    for address in addresses:
        # One that is not public makes the name suspect: then none of the others is asked either.
        if objection := access.objection(url.host, address):
            raise WebRefused(f"{url.host} may not be asked: {address} {objection}")
    return Exchange(url, addresses, access.tls)


def _site(url: Url) -> str:
    return url.host.removeprefix("www.")
