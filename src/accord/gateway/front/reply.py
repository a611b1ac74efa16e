"""Answers: the headers that every one carries, a refusal as one line of text, what is counted of them."""

from math import ceil

from accord.gateway.access.limits import LimitReached
from accord.gateway.access.refusals import Refused
from accord.gateway.front.exchange import Exchange, Headers
from accord.gateway.front.premises import Premises


def answer(
    premises: Premises,
    exchange: Exchange,
    status: int,
    body: bytes = b"",
    kind: str | None = None,
    headers: Headers | None = None,
) -> None:
    """A whole response. Nothing of it is stored on the way unless its own headers say so."""
    if exchange.answered:
        return
    premises.metrics.requests[str(status)] += 1
    exchange.respond(status, common_headers(premises, exchange, kind, headers or []), body)


def common_headers(premises: Premises, exchange: Exchange, kind: str | None, headers: Headers) -> Headers:
    """The headers of every response, and these."""
    given = {name.lower() for name, _ in headers}
    own = [
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        *premises.door.cors(exchange.request).items(),
    ]
    if kind is not None:
        own.append(("Content-Type", kind))
    return [*(pair for pair in own if pair[0].lower() not in given), *headers]


def refuse(premises: Premises, exchange: Exchange, refusal: Refused) -> None:
    """A refusal: its status, its sentence as text."""
    premises.metrics.refused[_REASONS.get(refusal.status, "request")] += 1
    text = refusal.reason.encode() + b"\n"
    answer(
        premises, exchange, refusal.status, text, "text/plain; charset=utf-8", list(refusal.headers.items())
    )


def limited(error: LimitReached) -> Refused:
    """The refusal for a limit."""
    wait = error.retry_after
    return Refused(
        error.status, error.message, {} if wait is None else {"Retry-After": str(max(1, ceil(wait)))}
    )


_REASONS = {
    401: "token",
    403: "origin",
    404: "unknown",
    408: "slow",
    413: "size",
    421: "host",
    429: "limit",
    500: "failed",
    504: "failed",
}
