"""The JSON-RPC envelope: one decode that leaves `params` and `result` raw, a patient second look at lines that fail it,
and the encoding of what goes out. No I/O, no ACP methods.
"""

import re
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.errors import INVALID_REQUEST, PARSE_ERROR, InternalError, RpcError, UsageError
from accord.schema.codec import NotJson, encode, is_utf8, mend_surrogates, parse_json
from accord.wire.transport import OversizedFrame

RequestId = int | str | None

ABSENT = Raw()
"""Stands for a `params`, `result` or `error` member that the line did not have."""

UNSENDABLE = (TypeError, ValueError, RecursionError)
"""What encoding raises for values that are not JSON."""


class Envelope(Struct, gc=False):
    """One line, decoded once; the members that carry ACP stay raw."""

    jsonrpc: str = ""
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = ABSENT
    result: Raw = ABSENT
    error: Raw = ABSENT


class Request(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """An outgoing call."""

    id: int
    method: str
    params: Any


class Notification(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """An outgoing notification."""

    method: str
    params: Any


class Success(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """An outgoing answer."""

    id: RequestId
    result: Any


class ErrorBody(Struct, gc=False):
    """The `error` member, outgoing."""

    code: int
    message: str
    data: Any = UNSET


class Failure(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """An outgoing error answer."""

    id: RequestId
    error: ErrorBody


class InvalidMessage(Exception):
    """The line is no message. `code` says whether it was not even JSON; `id` is the one to answer to, if any."""

    def __init__(self, code: int, reason: str, id: RequestId = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.id = id

    @property
    def sentence(self) -> str:
        """The message of the error answer."""
        return "Parse error" if self.code == PARSE_ERROR else "Invalid request"


decode_envelope = msgspec.json.Decoder(Envelope).decode
"""The fast reading. What it refuses goes to `second_look`."""


def second_look(frame: bytes) -> Envelope:
    """Read a line that the fast decode refused: lone surrogates are mended, everything else is judged."""
    mended = mend_surrogates(frame)
    if mended is not None:
        frame = mended
    try:
        return decode_envelope(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise _verdict(frame) from None


def envelope_of(frame: bytes) -> Envelope:
    """A line read with patience and judged whole. Raises NoMessage for what is no message of version 2.0 in UTF-8."""
    try:
        envelope = decode_envelope(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        envelope = second_look(frame)
    if envelope.jsonrpc and envelope.jsonrpc != "2.0":
        raise InvalidMessage(INVALID_REQUEST, '`jsonrpc` is not "2.0"', id_of_call(envelope))
    if not frame.isascii() and not is_utf8(frame):
        raise InvalidMessage(PARSE_ERROR, "the line is not UTF-8", id_of_call(envelope))
    return envelope


def _verdict(frame: bytes) -> InvalidMessage:
    try:
        value = parse_json(frame)
    except NotJson as error:
        return InvalidMessage(PARSE_ERROR, str(error))
    if not isinstance(value, dict):
        what = "an array; messages are sent one by one" if isinstance(value, list) else "no object"
        return InvalidMessage(INVALID_REQUEST, f"the line is {what}")
    members = cast(dict[str, Any], value)
    id = members.get("id")
    sound = isinstance(id, (int, str)) and not isinstance(id, bool)
    if "method" not in members:
        # Never answered under its id: that could be the id of a call of theirs.
        return InvalidMessage(INVALID_REQUEST, "a malformed answer")
    if not isinstance(members["method"], str):
        return InvalidMessage(INVALID_REQUEST, "`method` is not a string", id if sound else None)
    if not sound and id is not None:
        return InvalidMessage(INVALID_REQUEST, "`id` is neither a string nor an integer")
    return InvalidMessage(INVALID_REQUEST, "`jsonrpc` is not a string", id if sound else None)


def id_of_call(envelope: Envelope) -> RequestId:
    """The id to answer to, if the line was a call at all."""
    return None if envelope.method is UNSET or envelope.id is UNSET else envelope.id


def is_message(envelope: Envelope) -> bool:
    """Whether the line calls or answers at all."""
    return envelope.method is not UNSET or envelope.result is not ABSENT or envelope.error is not ABSENT


def read_error(raw: Raw) -> RpcError:
    """The error answer that a peer sent, however oddly it is shaped."""
    try:
        value = parse_json(bytes(raw))
    except NotJson as error:
        return InternalError("The peer sent an unreadable error", str(error))
    if isinstance(value, str):
        return InternalError(value)
    if not isinstance(value, dict):
        return InternalError("The peer sent a malformed error", value)
    body = cast(dict[str, Any], value)
    code, message = body.get("code"), body.get("message")
    if not isinstance(code, int) or isinstance(code, bool):
        code = InternalError.default_code
    if not isinstance(message, str):
        message = "The peer gave no reason" if message is None else str(message)
    return RpcError.of(code, message, body["data"]) if "data" in body else RpcError.of(code, message)


def not_json(method: str, error: Exception) -> UsageError:
    """Why a call of ours was not sent."""
    return UsageError(f"{method} cannot be sent, its parameters are not JSON: {error}")


def encode_failure(id: RequestId, error: RpcError) -> bytes:
    """An error answer as bytes; `data` that is not JSON is left out rather than failing the answer."""
    if error.has_data:
        try:
            return encode(Failure(id, ErrorBody(error.code, error.message, error.data)))
        except UNSENDABLE:
            pass
    return encode(Failure(id, ErrorBody(error.code, error.message)))


_ID_MEMBER = re.compile(rb'"id"\s*:\s*(-?\d{1,19}|"(?:[^"\\]|\\.){0,256}")\s*[,}]')


def id_of_oversized(frame: OversizedFrame) -> tuple[RequestId, bool | None]:
    """A guess at the id of a refused line, from its first and last bytes, and whether it was an answer.

    The id is only taken where it cannot be nested: in the head before any other object begins, or in the tail after
    the last one closed.
    """
    opening = frame.head.find(b"{") + 1
    nested = frame.head.find(b"{", opening)
    found = _ID_MEMBER.search(frame.head, opening, nested if nested > 0 else len(frame.head))
    if found is None:
        found = _ID_MEMBER.search(frame.tail, frame.tail.rfind(b"}", 0, len(frame.tail.rstrip()) - 1) + 1)
    if found is None:
        return None, None
    is_call = b'"method"' in frame.head[:nested] or b'"method"' in frame.tail[frame.tail.rfind(b"}", 0, -1) :]
    return msgspec.json.decode(found[1]), not is_call
