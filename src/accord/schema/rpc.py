"""The parts of JSON-RPC that the protocol types itself: ids, errors, and the cancelling of one request."""

from typing import Annotated, Any, TypeAlias

from .base import UNSET, Object, Record
from .marks import Int32, Int64, Known, Opt

RequestId: TypeAlias = Int64 | str | None
"""Echoed exactly as it came. Null is legal, though nobody should choose it."""

ErrorCode: TypeAlias = Annotated[Int32, Known(-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002)]
"""Any 32-bit number; the named ones are the constants of `accord.errors`."""

ExtRequest: TypeAlias = Any
"""The parameters of a method that starts with an underscore."""

ExtResponse: TypeAlias = Any
"""The result of such a method."""

ExtNotification: TypeAlias = Any
"""The parameters of such a notification."""


class Error(Record):
    """A failure as it travels: a code, one short sentence, and whatever else helps."""

    code: ErrorCode
    message: str
    data: Opt[Any] = UNSET


class CancelRequestNotification(Object):
    """Whoever sent a request asks to give it up. It is still answered, exactly once. Any time, either direction."""

    request_id: RequestId
