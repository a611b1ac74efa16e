"""JSON-RPC without I/O, tasks or futures: the envelope of a message, and the state of one connection.

The envelope is decoded once; `params` and `result` stay raw. A line that the fast decoder refuses is decoded
again, tolerantly: it is repaired, or the fault is explained. `RpcCore` keeps the open calls of one side and
turns each frame into an event. Nothing here knows ACP methods.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import re
from collections.abc import Callable
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.errors import (
    INVALID_REQUEST,
    PARSE_ERROR,
    BadAnswer,
    ConnectionClosed,
    InternalError,
    InvalidRequest,
    RpcError,
    UsageError,
)
from accord.schema.codec import NotJson, encode, is_utf8, parse_json, replace_surrogates
from accord.wire.transport import Frame, OversizedFrame, TransportEnd

C = TypeVar("C")

RequestId = int | str | None

Message: TypeAlias = dict[str, Any]
"""One message as parsed JSON."""

ABSENT: Final[Raw] = Raw()
"""The value of a `params`, `result` or `error` member that is missing."""

ENCODE_ERRORS: Final = (TypeError, ValueError, RecursionError)
"""What encoding raises for values that JSON cannot represent."""


class Envelope(Struct, gc=False):
    """One decoded line; `params`, `result` and `error` stay raw."""

    jsonrpc: str = ""
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = ABSENT
    result: Raw = ABSENT
    error: Raw = ABSENT


class Request(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """An outgoing request; without `params` if they are UNSET."""

    id: RequestId
    method: str
    params: Any


class Notification(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """An outgoing notification; without `params` if they are UNSET."""

    method: str
    params: Any


class Success(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """An outgoing response with a result."""

    id: RequestId
    result: Any


class ErrorBody(Struct, gc=False):
    """The `error` member of an outgoing response."""

    code: int
    message: str
    data: Any = UNSET


class Failure(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """An outgoing response with an error."""

    id: RequestId
    error: ErrorBody


class InvalidMessage(Exception):
    """The line is not a JSON-RPC message. `code` is its error code, `id` the request to answer, if any."""

    def __init__(self, code: int, reason: str, id: RequestId = None) -> None:
        super().__init__(reason)
        self.code: int = code
        self.reason: str = reason
        self.id: RequestId = id

    @property
    def message(self) -> str:
        """The `message` of the error response."""
        return "Parse error" if self.code == PARSE_ERROR else "Invalid request"


_DECODE_ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError)

decode_envelope: Callable[[bytes], Envelope] = msgspec.json.Decoder(Envelope).decode
"""Decode a well-formed line. Lines it refuses go to `decode_tolerantly`."""


def decode_tolerantly(frame: bytes) -> Envelope:
    """Decode a line that the fast decoder refused: replace lone surrogates. Else raises InvalidMessage."""
    repaired = replace_surrogates(frame)
    if repaired is not None:
        frame = repaired
    try:
        return decode_envelope(frame)
    except _DECODE_ERRORS:
        raise _invalid_message(frame) from None


def parse_envelope(frame: bytes, *, strict: bool = False) -> Envelope:
    """Decode and check a line. Raises InvalidMessage unless it is a JSON-RPC 2.0 message in UTF-8.

    A missing `jsonrpc` is tolerated, unless `strict`.
    """
    try:
        envelope = decode_envelope(frame)
    except _DECODE_ERRORS:
        envelope = decode_tolerantly(frame)
    _check(envelope, frame, strict=strict)
    return envelope


def _check(envelope: Envelope, frame: bytes, *, strict: bool) -> None:
    if envelope.jsonrpc != "2.0" and (strict or envelope.jsonrpc):
        raise InvalidMessage(INVALID_REQUEST, '`jsonrpc` is not "2.0"', id_of_call(envelope))
    if not frame.isascii() and not is_utf8(frame):
        raise InvalidMessage(PARSE_ERROR, "the line is not UTF-8", id_of_call(envelope))


def _invalid_message(frame: bytes) -> InvalidMessage:
    try:
        value = parse_json(frame)
    except NotJson as error:
        return InvalidMessage(PARSE_ERROR, str(error))
    if not isinstance(value, dict):
        what = "an array; send messages one by one" if isinstance(value, list) else "not an object"
        return InvalidMessage(INVALID_REQUEST, f"the line is {what}")
    members = cast(dict[str, Any], value)
    id = members.get("id")
    is_valid_id = isinstance(id, (int, str)) and not isinstance(id, bool)
    if "method" not in members:
        # Not answered with its id, which could be the id of one of the peer's own requests.
        return InvalidMessage(INVALID_REQUEST, "a malformed response")
    if not isinstance(members["method"], str):
        return InvalidMessage(INVALID_REQUEST, "`method` is not a string", id if is_valid_id else None)
    if not is_valid_id and id is not None:
        return InvalidMessage(INVALID_REQUEST, "`id` is neither a string nor an integer")
    return InvalidMessage(INVALID_REQUEST, "`jsonrpc` is not a string", id if is_valid_id else None)


def id_of_call(envelope: Envelope) -> RequestId:
    """Return the id to answer if the line is a request, else None."""
    return None if envelope.method is UNSET or envelope.id is UNSET else envelope.id


def id_key(id: Any) -> str:
    """Return a dict key for an id: any JSON value; 1, 1.0 and "1" are different."""
    return repr(id)


def request_number(id: Any) -> int | None:
    """Return the id of a response as a number. Some peers send our numeric ids back as strings."""
    if isinstance(id, str) and len(id) < _MAX_ID_DIGITS and id.isascii() and id.isdecimal():
        return int(id)
    return id if isinstance(id, int) and not isinstance(id, bool) else None


def read_error(raw: Raw) -> RpcError:
    """Read the error of a response, tolerating malformed ones."""
    try:
        value = parse_json(bytes(raw))
    except NotJson as error:
        return InternalError("The peer sent an unreadable error", str(error))
    if isinstance(value, str):
        return InternalError(value)
    if not isinstance(value, dict):
        return InternalError("The peer sent a malformed error", value)
    body = cast(dict[str, Any], value)
    message = body.get("message")
    code = body["code"] if type(body.get("code")) is int else InternalError.default_code
    if not isinstance(message, str) or not message.strip():
        body = body if isinstance(message, str | None) else {"data": message, **body}
        message = "The peer gave no reason"
    return RpcError.of(code, message, body["data"]) if "data" in body else RpcError.of(code, message)


def unsendable_error(method: str, error: Exception) -> UsageError:
    """Return the error for a call whose parameters JSON cannot represent."""
    return UsageError(f"{method} cannot be sent: its parameters are not JSON ({error})")


def encode_failure(id: RequestId, error: RpcError) -> bytes:
    """Encode an error response; leave out `data` that JSON cannot represent."""
    if error.has_data:
        try:
            return encode(Failure(id, ErrorBody(error.code, error.message, error.data)))
        except ENCODE_ERRORS:
            pass
    return encode(Failure(id, ErrorBody(error.code, error.message)))


_MAX_ID_DIGITS: Final = 19
"""More than any of our ids has."""
_ID_MEMBER: Final = rb'"id"\s*:\s*(-?\d{1,19}|"(?:[^"\\]|\\.){0,256}")\s*[,}]'


def id_of_oversized(frame: OversizedFrame) -> tuple[RequestId, bool | None]:
    """Guess the id of an oversized line from its first and last bytes, and whether it is a response.

    The id counts only where it cannot be nested: in the head before another object opens, or in the tail
    after the last one closes.
    """
    id_member = re.compile(_ID_MEMBER)
    opening = frame.head.find(b"{") + 1
    nested = frame.head.find(b"{", opening)
    found = id_member.search(frame.head, opening, nested if nested > 0 else len(frame.head))
    if found is None:
        found = id_member.search(frame.tail, frame.tail.rfind(b"}", 0, len(frame.tail.rstrip()) - 1) + 1)
    if found is None:
        return None, None
    is_call = b'"method"' in frame.head[:nested] or b'"method"' in frame.tail[frame.tail.rfind(b"}", 0, -1) :]
    return msgspec.json.decode(found[1]), not is_call


FaultKind = Literal["noise", "invalid", "oversized", "unmatched"]
_MAX_SHOWN_ID: Final = 100


class Fault(Struct, frozen=True):
    """A frame that is not used: what it was, one line of detail, and the error response that is due."""

    kind: FaultKind
    detail: str
    frame: bytes
    answer: bytes | None = None


class Response(Struct, Generic[C], frozen=True):
    """The response to an open call, which is not open any more."""

    call: C
    result: Raw = ABSENT
    error: RpcError | BadAnswer | ConnectionClosed | None = None
    fault: Fault | None = None
    """What was wrong with a response that could be used."""


class RpcCore(Generic[C]):
    """One side of a JSON-RPC connection: its open calls by id, the frames of its peer, and the end.

    `C` is what the owner keeps for an open call. Each received frame becomes one event:

    | frame | event |
    |---|---|
    | a request or a notification | its `Envelope` |
    | a response to an open call | `Response`; the call is closed |
    | an oversized response to an open call | `Response` with a BadAnswer |
    | any other response | `Fault` "unmatched" |
    | anything else that is too long | `Fault` "oversized", answered if it has an id |
    | a JSON value that is no message | `Fault` "invalid", answered |
    | a line that is not JSON in UTF-8 | `Fault` "noise", answered |

    Faults without an id are answered only with `answer_invalid`: programs print text where messages belong.
    Without `strict`, `jsonrpc` may be missing, and a numeric id may come back as a string.

    A call is closed by its response, by `close_call`, or by `close`, which ends the connection.
    """

    def __init__(self, *, strict: bool = False, answer_invalid: bool = True) -> None:
        self.end: TransportEnd | None = None
        self.calls: dict[RequestId, C] = {}
        """The open calls by id."""
        self._strict = strict
        self._answer_invalid = answer_invalid
        self._last_id = 0

    # -- our calls

    def open_call(self, call: C) -> int:
        """Keep a call until its response. Returns its id, which is never used again."""
        self._last_id = id = self._last_id + 1
        self.calls[id] = call
        return id

    def expect_response(self, id: RequestId, call: C) -> None:
        """Keep a call with an id of the caller's choice, for example the `id_key` of any JSON value."""
        self.calls[id] = call

    def close_call(self, id: RequestId) -> C | None:
        """Remove and return a call whose response is not awaited any more; None if it is not open."""
        return self.calls.pop(id, None)

    def close(self, end: TransportEnd) -> list[C]:
        """End the connection. Returns the calls that are left without a response."""
        self.end = end
        unanswered = list(self.calls.values())
        self.calls.clear()
        return unanswered

    # -- frames of the peer

    def receive(self, frame: Frame) -> "Envelope | Response[C] | Fault":
        """Return the event of a frame."""
        if isinstance(frame, OversizedFrame):
            return self._receive_oversized(frame)
        try:
            try:
                envelope = decode_envelope(frame)
            except _DECODE_ERRORS:
                envelope = decode_tolerantly(frame)
            if envelope.jsonrpc != "2.0" or not frame.isascii():
                _check(envelope, frame, strict=self._strict)
        except InvalidMessage as fault:
            return self._fault(fault, frame)
        return envelope if envelope.method is not UNSET else self.receive_response(envelope, frame)

    def receive_response(self, envelope: Envelope, frame: bytes) -> "Response[C] | Fault":
        """Return the event of an envelope without a method."""
        id = envelope.id
        if id is not UNSET and id in self.calls and envelope.error is ABSENT:
            return Response(self.calls.pop(id), envelope.result)
        own_id = None if id is UNSET else self._own_id(id)
        if own_id is None:
            if id is UNSET or (envelope.result is ABSENT and envelope.error is ABSENT):
                reason = "neither a request, a notification nor a response"
                return self._fault(InvalidMessage(INVALID_REQUEST, reason), frame)
            return Fault(
                "unmatched", f"a response to no pending request (id {repr(id)[:_MAX_SHOWN_ID]})", frame
            )
        has_error = envelope.error is not ABSENT and bytes(envelope.error) != b"null"
        return Response(
            self.calls.pop(own_id),
            envelope.result,
            read_error(envelope.error) if has_error else None,
            None
            if own_id == id
            else Fault("invalid", f"the response to request {own_id!r} has the id {id!r}", frame),
        )

    def _receive_oversized(self, frame: OversizedFrame) -> "Response[C] | Fault":
        reason = f"a message of {frame.size} bytes is over the size limit"
        id, is_response = id_of_oversized(frame)
        answer = None
        if is_response:
            own_id = self._own_id(id)
            if own_id is not None:
                fault = Fault("oversized", reason, frame.head)
                return Response(self.calls.pop(own_id), error=BadAnswer(reason), fault=fault)
        elif id is not None or self._answer_invalid:
            answer = encode_failure(id, InvalidRequest(data=reason))
        return Fault("oversized", reason, frame.head, answer)

    def _own_id(self, id: RequestId) -> RequestId:
        """Our id that a response means; None if no such call is open."""
        if id in self.calls:
            return id
        number = None if self._strict else request_number(id)
        return number if number in self.calls else None

    def _fault(self, fault: InvalidMessage, frame: bytes) -> Fault:
        answer = None
        if self._answer_invalid or fault.id is not None:
            answer = encode_failure(fault.id, RpcError.of(fault.code, fault.message, fault.reason))
        return Fault("invalid" if fault.code == INVALID_REQUEST else "noise", fault.reason, frame, answer)


def connection_closed(method: str, end: TransportEnd) -> ConnectionClosed:
    """Return the error of a call that the end of the connection left without a response."""
    return end.error(f"{method} was not answered: {end.reason}")
