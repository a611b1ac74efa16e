"""What streamable HTTP has to know about a message to carry it: its kind, its id and its session. Nothing is judged."""

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.errors import INTERNAL_ERROR
from accord.schema.codec import encode

Kind: TypeAlias = Literal["request", "notification", "answer", "other"]

UPDATE: Final = b'{"jsonrpc":"2.0","method":"session/update",'
"""How the message begins that comes by the thousand, and of which nothing needs to be known."""

OPENING: Final = frozenset(("session/load", "session/resume"))
"""Requests that name a session which the connection need not know yet."""


class Message(Struct, frozen=True):
    """One message, as far as it matters."""

    kind: Kind = "other"
    method: str = ""
    id: bytes = b""
    """As it is written."""
    session: str | None = None
    """Of a call: the session in its parameters; of an answer: the session in its result."""


class _Envelope(Struct):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Scoped(Struct):
    session: str | None = msgspec.field(name="sessionId", default=None)


_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)
_SCOPED: Final = msgspec.json.Decoder(_Scoped)
_OTHER: Final = Message()


def read_message(frame: bytes) -> Message:
    """What there is to know; a frame that is no message is `other`."""
    try:
        found = _ENVELOPE.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _OTHER
    id = b"" if found.id is UNSET else bytes(found.id).strip()
    if found.method is not UNSET:
        kind: Kind = "notification" if found.id is UNSET else "request"
        return Message(kind, found.method, id, _session(found.params))
    if found.id is not UNSET and (found.result is not UNSET or found.error is not UNSET):
        return Message("answer", "", id, _session(found.result))
    return _OTHER


def failure(id: bytes, message: str, data: Any) -> bytes:
    """The error answer to a request that could not be carried."""
    error = {"code": INTERNAL_ERROR, "message": message, "data": data}
    return encode({"jsonrpc": "2.0", "id": Raw(id), "error": error})


def _session(value: Raw | UnsetType) -> str | None:
    if value is UNSET or b'"sessionId"' not in bytes(value):
        return None
    try:
        return _SCOPED.decode(value).session
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
