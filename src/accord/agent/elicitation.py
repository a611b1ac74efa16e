"""Ask the user by a form or a web page, and validate the answer.

Imported on first use.
"""

import os
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, cast

from msgspec import UnsetType

from accord.agent.tool_call_scope import limited
from accord.errors import AccordError, BadAnswer, ConnectionClosed, RpcError, UsageError
from accord.schema.base import RequestId
from accord.schema.client_requests import (
    BooleanPropertySchema,
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
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
)

if TYPE_CHECKING:
    from accord.agent.client import ClientPeer


# MERGED agent.formcheck: Does what a user filled in fit the form? Checked again on our side: a client is not obliged to.


def problem(schema: ElicitationSchema, content: Mapping[str, Any]) -> str | None:
    """The first thing that does not fit, in words; None if all does."""
    missing = [name for name in schema.required or () if name not in content]
    if missing:
        return f"{missing[0]} is missing"
    for name, field in (schema.properties or {}).items():
        if name in content and (wrong := _wrong(field, content[name])) is not None:
            return f"{name} {wrong}"
    return None


def _wrong(field: ElicitationPropertySchema, value: Any) -> str | None:
    match field:
        case StringPropertySchema():
            return _wrong_text(field, value)
        case IntegerPropertySchema() if not isinstance(value, int) or isinstance(value, bool):
            return "is no whole number"
        case NumberPropertySchema() if not isinstance(value, (int, float)) or isinstance(value, bool):
            return "is no number"
        case IntegerPropertySchema() | NumberPropertySchema():
            return _out_of_bounds(value, field.minimum, field.maximum)
        case BooleanPropertySchema():
            return None if isinstance(value, bool) else "is neither true nor false"
        case MultiSelectPropertySchema():
            return _wrong_choices(field, value)
        case _:
            return None


def _wrong_text(field: StringPropertySchema, value: Any) -> str | None:
    if not isinstance(value, str):
        return "is no text"
    choices = list(field.enum or ()) + [option.const for option in field.one_of or ()]
    if choices and value not in choices:
        return "is none of the choices"
    return _out_of_bounds(len(value), field.min_length, field.max_length)


def _wrong_choices(field: MultiSelectPropertySchema, value: Any) -> str | None:
    if not isinstance(value, list):
        return "is no list"
    chosen = cast("list[Any]", value)
    match field.items:
        case StringMultiSelectItems():
            known = field.items.enum
        case TitledMultiSelectItems():
            known = [option.const for option in field.items.any_of]
        case _:
            known = chosen
    if any(item not in known for item in chosen):
        return "holds something that is none of the choices"
    return _out_of_bounds(len(chosen), field.min_items, field.max_items)


def _out_of_bounds(value: float, low: Any, high: Any) -> str | None:
    if isinstance(low, (int, float)) and value < low:
        return f"is below {low}"
    if isinstance(high, (int, float)) and value > high:
        return f"is above {high}"
    return None


# MERGED agent.elicitation: Asking the user something, by a form or by a web page. Only modes the client offers; forms never ask for secrets.

Form: TypeAlias = ElicitationSchema | Mapping[str, ElicitationPropertySchema]
"""A whole form, or just its fields by name, all of them required."""


class ElicitationScope(TypedDict, total=False):
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

    def __init__(self, peer: "ClientPeer", elicitation_id: str, answer: ElicitationAnswer) -> None:
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
    peer: "ClientPeer",
    offered: bool,
    message: str,
    form: Form,
    scope: ElicitationScope,
    timeout: float | None,
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
    peer: "ClientPeer", offered: bool, message: str, url: str, scope: ElicitationScope, timeout: float | None
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
    peer: "ClientPeer",
    params: ElicitationFormMode | ElicitationUrlMode,
    scope: ElicitationScope,
    timeout: float | None,
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
