"""Every error that Accord raises, as one tree. The type says whose fault it was; the message says what was tried.

    AccordError
    +-- UsageError                 ours: the caller asked for something that cannot be done
    |   +-- NotOffered             the peer did not advertise the capability that this call needs
    |   +-- MissingExtra           an optional part of Accord is not installed
    +-- RpcError                   an error answer, sent or received: code, message, data
    |   +-- ParseError             -32700
    |   +-- InvalidRequest         -32600
    |   +-- MethodNotFound         -32601
    |   +-- InvalidParams          -32602
    |   +-- InternalError          -32603
    |   +-- RequestCancelled       -32800
    |   +-- AuthRequired           -32000
    |   +-- NotFound               -32002
    |   +-- LimitReached           -32029, a limit of the gateway; lives in `accord.gateway.access.resource_limits`
    +-- Refused                    the gateway's door let nobody in; lives in `accord.gateway.access`
    +-- StoreError                 the session log cannot be read or written; names the file
    |   +-- SessionInUse           another process writes to this session
    +-- ModelError                 a model gave no whole answer; lives in `accord.coder.models`
    +-- BadAnswer                  theirs: the peer answered, but not in the shape the protocol names
    +-- ConnectionClosed           the other side is gone; says how it ended
    |   +-- NeverStarted           the program could not be launched
    |   +-- HandshakeFailed        it ran, but never completed `initialize`
    |   +-- Crashed                it exited by itself while it was needed
    |   +-- Killed                 a signal ended it
    +-- LimitReached               a time limit ran out
        +-- RequestTimeout         an ordinary request stayed unanswered
        +-- TurnSilent             a prompt turn showed no sign of life

`to_rpc_error` is the one place where an exception becomes a JSON-RPC error.
"""

import asyncio
from typing import Any, ClassVar, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002

_NO_DATA: Final = object()


class AccordError(Exception):
    """The root of everything Accord raises on purpose."""


class UsageError(AccordError):
    """The caller asked for something that cannot be done; nothing was sent."""


class NotOffered(UsageError):
    """The peer did not advertise the capability that this call needs."""


class MissingExtra(UsageError):
    """An optional part of Accord is not installed; the message carries the install command."""

    def __init__(self, extra: str, needed_by: str) -> None:
        super().__init__(
            f"{needed_by} needs the [{extra}] extra, which is not installed: pip install 'accord[{extra}]'"
        )
        self.extra = extra


class RpcError(AccordError):
    """An error answer: raise it in a handler to send one; a failed request raises the one received."""

    default_code: ClassVar[int] = INTERNAL_ERROR
    default_message: ClassVar[str] = "Internal error"

    def __init__(self, message: str | None = None, data: Any = _NO_DATA, *, code: int | None = None) -> None:
        if message is not None and not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"an RpcError begins with its text: {type(self).__name__}('why', code={message!r})"
            )
        self.code = self.default_code if code is None else code
        self.message = self.default_message if message is None else message
        self._data = data
        super().__init__(self.message)

    @property
    def has_data(self) -> bool:
        """Whether the answer carries a `data` member; `null` counts."""
        return self._data is not _NO_DATA

    @property
    def data(self) -> Any:
        """The `data` member, or None where there is none."""
        return None if self._data is _NO_DATA else self._data

    def __str__(self) -> str:
        detail = f" ({self.data})" if self.has_data and self.data is not None else ""
        return f"{self.message}{detail} [{self.code}]"

    @staticmethod
    def of(code: int, message: str, data: Any = _NO_DATA) -> "RpcError":
        """The member of the tree for this code; unknown codes give a plain RpcError."""
        return _BY_CODE.get(code, RpcError)(message, data, code=code)


class ParseError(RpcError):
    """The line was not JSON."""

    default_code = PARSE_ERROR
    default_message = "Parse error"


class InvalidRequest(RpcError):
    """JSON, but no valid message; or a method used out of order."""

    default_code = INVALID_REQUEST
    default_message = "Invalid request"


class MethodNotFound(RpcError):
    """A method that this side does not serve, or whose capability was not advertised."""

    default_code = METHOD_NOT_FOUND
    default_message = "Method not found"


class InvalidParams(RpcError):
    """Parameters that are missing, mistyped, or name something that does not exist."""

    default_code = INVALID_PARAMS
    default_message = "Invalid params"


class InternalError(RpcError):
    """An unexpected failure inside the handler."""

    default_code = INTERNAL_ERROR
    default_message = "Internal error"


class RequestCancelled(RpcError):
    """The work was given up: by `$/cancel_request`, by shutdown, or by the side that did it."""

    default_code = REQUEST_CANCELLED
    default_message = "Request cancelled"


class AuthRequired(RpcError):
    """The agent wants the user to sign in first."""

    default_code = AUTH_REQUIRED
    default_message = "Authentication required"
    methods: tuple[Any, ...] = ()
    """At a client: the ways to sign in that the agent advertised, as `accord.schema.AuthMethod`."""


class NotFound(RpcError):
    """A named thing does not exist: a session, a file, a terminal."""

    default_code = NOT_FOUND
    default_message = "Resource not found"


_BY_CODE: dict[int, type[RpcError]] = {
    cls.default_code: cls
    for cls in (
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        RequestCancelled,
        AuthRequired,
        NotFound,
    )
}


class StoreError(AccordError):
    """A file of session logs cannot be read or written as asked. The message names it and says what to do."""


class SessionInUse(StoreError):
    """Another process has this session open for writing."""


class BadAnswer(AccordError):
    """The peer answered, but the result does not have the shape the protocol names."""


class ConnectionClosed(AccordError):
    """The other side is gone. `exit_code`, `signal` and `stderr` say how, as far as it is known."""

    def __init__(
        self, message: str, *, exit_code: int | None = None, signal: str | None = None, stderr: str = ""
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = stderr

    def __str__(self) -> str:
        text = super().__str__()
        tail = self.stderr.rstrip()
        return f"{text}; its last stderr lines:\n{tail}" if tail else text


class NeverStarted(ConnectionClosed):
    """The program could not be launched."""


class HandshakeFailed(ConnectionClosed):
    """The program ran, but `initialize` was not completed."""


class Crashed(ConnectionClosed):
    """The program exited by itself while it was needed."""


class Killed(ConnectionClosed):
    """A signal ended the program."""


class LimitReached(AccordError):
    """A time limit ran out."""


class RequestTimeout(LimitReached):
    """An ordinary request stayed unanswered for its time limit."""


class TurnSilent(LimitReached):
    """A prompt turn showed no sign of life for the silence limit."""


def to_rpc_error(error: BaseException) -> RpcError:
    """The error answer for whatever a request handler raised. Internals stay inside: only the type is named."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, asyncio.CancelledError):
        return RequestCancelled()
    if isinstance(error, AccordError):
        return InternalError(data=str(error))
    return InternalError(data=f"{type(error).__name__} in the handler")
