"""Ask the user with a form or a web page, and validate the answer.

Imported on first use.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, cast

from msgspec import UnsetType

from accord.clock import with_timeout
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
from accord.trace.secret_names import is_secret_field

if TYPE_CHECKING:
    from accord.agent.client import ClientPeer

Form: TypeAlias = ElicitationSchema | Mapping[str, ElicitationPropertySchema]
"""A complete form, or its fields by name, all required."""


class ElicitationScope(TypedDict, total=False):
    """What an elicitation belongs to: a session, a tool call of it, or a request of the client."""

    session_id: str
    tool_call_id: str | UnsetType
    request_id: RequestId


class ElicitationAnswer:
    """The answer of the user. Truthy only if the user accepted and the form is valid."""

    def __init__(
        self, action: str, content: dict[str, Any] | None = None, error: AccordError | None = None
    ) -> None:
        self.action: str = action
        """`accept`, `decline`, `cancel`, or an unknown action of the client."""
        self.content: dict[str, ElicitationContentValue] = content or {}
        self.error: AccordError | None = error
        """Why the answer is not usable."""

    def __bool__(self) -> bool:
        return self.action == "accept" and self.error is None


class UrlAnswer(ElicitationAnswer):
    """True if the user agreed to open the page. What the user did there is not part of it."""

    def __init__(self, peer: "ClientPeer", elicitation_id: str, answer: ElicitationAnswer) -> None:
        super().__init__(answer.action, error=answer.error)
        self.id: str = elicitation_id
        self._peer = peer

    async def complete(self) -> None:
        """Tell the client that the user has finished on the page. Further calls do nothing."""
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
    """Ask with a form. Raises UsageError for fields that look like secrets."""
    peer.require(offered, "elicitation with forms")
    if isinstance(form, ElicitationSchema):
        schema = form
    else:
        schema = ElicitationSchema("object", dict(form), list(form))
    fields = schema.properties or {}
    secrets = [name for name, field in fields.items() if looks_secret(name, getattr(field, "title", None))]
    if secrets:
        raise UsageError(f"a form must not ask for secrets ({', '.join(secrets)}); use `elicit_url`")
    # Always send `type` and `properties`: older clients need both.
    schema = ElicitationSchema(
        "object", fields, schema.required, schema.title, schema.description, meta=schema.meta
    )
    params = ElicitationFormMode(message=message, requested_schema=schema, **scope)
    answer = await _ask(peer, params, scope, timeout)
    if answer and (problem := form_problem(schema, answer.content)) is not None:
        return ElicitationAnswer("accept", error=BadAnswer(f"invalid answer to the form: {problem}"))
    return answer


async def ask_url(
    peer: "ClientPeer", offered: bool, message: str, url: str, scope: ElicitationScope, timeout: float | None
) -> UrlAnswer:
    """Ask with a web page. There is no fallback to a form."""
    peer.require(offered, "elicitation with web pages")
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
    request = peer.call("elicitation/create", params, key=scope.get("session_id"))
    try:
        answer: CreateElicitationResponse = await with_timeout(request, timeout, peer.clock)
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


def form_problem(schema: ElicitationSchema, content: Mapping[str, Any]) -> str | None:
    """Describe the first invalid field of a form; None if all are valid. Some clients do not validate."""
    missing = [name for name in schema.required or () if name not in content]
    if missing:
        return f"{missing[0]} is missing"
    for name, field in (schema.properties or {}).items():
        if name in content and (problem := _field_problem(field, content[name])) is not None:
            return f"{name} {problem}"
    return None


def _field_problem(field: ElicitationPropertySchema, value: Any) -> str | None:
    match field:
        case StringPropertySchema():
            return _text_problem(field, value)
        case IntegerPropertySchema() if not isinstance(value, int) or isinstance(value, bool):
            return "is not an integer"
        case NumberPropertySchema() if not isinstance(value, (int, float)) or isinstance(value, bool):
            return "is not a number"
        case IntegerPropertySchema() | NumberPropertySchema():
            return _range_problem(value, field.minimum, field.maximum)
        case BooleanPropertySchema():
            return None if isinstance(value, bool) else "is not a boolean"
        case MultiSelectPropertySchema():
            return _selection_problem(field, value)
        case _:
            return None


def _text_problem(field: StringPropertySchema, value: Any) -> str | None:
    if not isinstance(value, str):
        return "is not a string"
    choices = list(field.enum or ()) + [option.const for option in field.one_of or ()]
    if choices and value not in choices:
        return "is not an allowed value"
    return _range_problem(len(value), field.min_length, field.max_length)


def _selection_problem(field: MultiSelectPropertySchema, value: Any) -> str | None:
    if not isinstance(value, list):
        return "is not a list"
    chosen = cast("list[Any]", value)
    match field.items:
        case StringMultiSelectItems():
            known = field.items.enum
        case TitledMultiSelectItems():
            known = [option.const for option in field.items.any_of]
        case _:
            known = chosen
    if any(item not in known for item in chosen):
        return "contains a value that is not allowed"
    return _range_problem(len(chosen), field.min_items, field.max_items)


def _range_problem(value: float, minimum: Any, maximum: Any) -> str | None:
    if isinstance(minimum, (int, float)) and value < minimum:
        return f"is below {minimum}"
    if isinstance(maximum, (int, float)) and value > maximum:
        return f"is above {maximum}"
    return None


def looks_secret(*names: Any) -> bool:
    """Whether a field name suggests a secret."""
    return any(isinstance(name, str) and is_secret_field(name) for name in names)


def _check_url(url: str) -> None:
    from urllib.parse import parse_qsl, urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise UsageError(f"invalid URL {url!r}: {error}") from None
    is_local = host in ("localhost", "127.0.0.1", "::1")
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_local)):
        raise UsageError(f"cannot open {url!r}; use https (http only for localhost)")
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if parts.username or parts.password or any(looks_secret(name) for name in names):
        raise UsageError(f"the URL on {host} contains a credential; let the page ask for it")
