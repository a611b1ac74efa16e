"""Asking the user something, by a form or by a web page. Only modes the client offers; forms never ask for secrets."""

import os
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from msgspec import UnsetType

from accord.errors import AccordError, BadAnswer, ConnectionClosed, RpcError, UsageError
from accord.schema.elicitation import (
    CompleteElicitationNotification,
    CreateElicitationResponse,
    ElicitationAcceptAction,
    ElicitationCancelAction,
    ElicitationContentValue,
    ElicitationDeclineAction,
    ElicitationFormMode,
    ElicitationPropertySchema,
    ElicitationSchema,
    ElicitationUrlMode,
)
from accord.schema.rpc import RequestId

from .formcheck import problem
from .waiting import limited

if TYPE_CHECKING:
    from .peer import Peer

Form: TypeAlias = ElicitationSchema | Mapping[str, ElicitationPropertySchema]
"""A whole form, or just its fields by name, all of them required."""


class Scope(TypedDict, total=False):
    """What a question belongs to: a session, possibly one of its tool calls, or an open request of the client."""

    session_id: str
    tool_call_id: str | UnsetType
    request_id: RequestId


class ElicitationAnswer:
    """What the user said. True only if they accepted and, for a form, what they filled in fits it."""

    def __init__(
        self, action: str, content: dict[str, Any] | None = None, error: AccordError | None = None
    ) -> None:
        self.action = action
        """`accept`, `decline`, `cancel`, or a word of the client that counts as neither."""
        self.content: dict[str, ElicitationContentValue] = content or {}
        self.error = error
        """Why there is no usable answer, where there is none."""

    def __bool__(self) -> bool:
        return self.action == "accept" and self.error is None


class UrlAnswer(ElicitationAnswer):
    """True if the user agreed to open the page; what they did there, you learn elsewhere."""

    def __init__(self, peer: "Peer", elicitation_id: str, answer: ElicitationAnswer) -> None:
        super().__init__(answer.action, error=answer.error)
        self.id = elicitation_id
        self._peer = peer

    async def complete(self) -> None:
        """Tell the client that what was to be done on the page is done. Once; later calls do nothing."""
        if self.id in self._peer.elicitations:
            self._peer.elicitations.remove(self.id)
            self._peer.connection.notify("elicitation/complete", CompleteElicitationNotification(self.id))
            await self._peer.connection.drain()


async def ask_form(
    peer: "Peer", offered: bool, message: str, form: Form, scope: Scope, timeout: float | None
) -> ElicitationAnswer:
    """Ask by a form."""
    peer.need(offered, "elicitation by forms")
    if isinstance(form, ElicitationSchema):
        schema = form
    else:
        schema = ElicitationSchema("object", dict(form), list(form))
    fields = schema.properties or {}
    secrets = [name for name, field in fields.items() if looks_secret(name, getattr(field, "title", None))]
    if secrets:
        raise UsageError(
            f"forms never ask for secrets: {', '.join(secrets)}; use `elicit_url` with a page of your own"
        )
    # Both members are always written out; readers of every age find them.
    schema = ElicitationSchema(
        "object", fields, schema.required, schema.title, schema.description, meta=schema.meta
    )
    params = ElicitationFormMode(message=message, requested_schema=schema, **scope)
    answer = await _ask(peer, params, scope, timeout)
    if answer and (wrong := problem(schema, answer.content)) is not None:
        return ElicitationAnswer("accept", error=BadAnswer(f"the form came back unusable: {wrong}"))
    return answer


async def ask_url(
    peer: "Peer", offered: bool, message: str, url: str, scope: Scope, timeout: float | None
) -> UrlAnswer:
    """Ask by a web page. There is no falling back to a form."""
    peer.need(offered, "elicitation by web pages")
    _check_url(url)
    elicitation_id = f"elicitation-{os.urandom(8).hex()}"
    peer.elicitations.add(elicitation_id)
    params = ElicitationUrlMode(message=message, elicitation_id=elicitation_id, url=url, **scope)
    try:
        answer = UrlAnswer(peer, elicitation_id, await _ask(peer, params, scope, timeout))
    except BaseException:
        peer.elicitations.discard(elicitation_id)
        raise
    if not answer:
        peer.elicitations.discard(elicitation_id)
    return answer


async def _ask(
    peer: "Peer", params: ElicitationFormMode | ElicitationUrlMode, scope: Scope, timeout: float | None
) -> ElicitationAnswer:
    question = peer.call("elicitation/create", params, key=scope.get("session_id"))
    try:
        answer: CreateElicitationResponse = await limited(question, timeout, peer.clock)
    except TimeoutError:
        return ElicitationAnswer("cancel")
    except (RpcError, BadAnswer, ConnectionClosed) as error:
        return ElicitationAnswer("cancel", error=error)
    match answer:
        case ElicitationAcceptAction():
            return ElicitationAnswer("accept", answer.content or None)
        case ElicitationDeclineAction():
            return ElicitationAnswer("decline")
        case ElicitationCancelAction():
            return ElicitationAnswer("cancel")
        case _:
            return ElicitationAnswer(answer.kind)


_SECRET_WORDS: Final = frozenset(
    (
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "secret",
        "token",
        "credential",
        "credentials",
        "cvv",
        "cvc",
        "otp",
    )
)
_SECRET_PAIRS: Final = frozenset(
    (
        ("api", "key"),
        ("private", "key"),
        ("access", "key"),
        ("recovery", "code"),
        ("card", "number"),
        ("seed", "phrase"),
    )
)


def looks_secret(*names: Any) -> bool:
    """Whether a field is called something that nobody should type into a form."""
    return any(isinstance(name, str) and _is_secret(name) for name in names)


def _is_secret(name: str) -> bool:
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or not _SECRET_PAIRS.isdisjoint(_pairs(words))
        or "apikey" in words
    )


def _pairs(words: list[str]) -> Iterable[tuple[str, str]]:
    return pairwise(words)


def _check_url(url: str) -> None:
    from urllib.parse import parse_qsl, urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise UsageError(f"{url!r} is no web address: {error}") from None
    local = host in ("localhost", "127.0.0.1", "::1")
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise UsageError(
            f"{url!r} cannot be opened: web pages for the user are https (http only on this machine)"
        )
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if parts.username or parts.password or any(looks_secret(name) for name in names):
        raise UsageError(f"the address on {host} carries a credential; the page itself has to ask for it")
