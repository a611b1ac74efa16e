"""Every error that Accord raises, as one tree. The type says whose fault it is.

    AccordError
    +-- UsageError                 the caller asked for something that cannot be done
    |   +-- NotOffered             the peer did not advertise the capability that this call needs
    |   +-- MissingExtra           an optional part of Accord is not installed
    |   +-- BadSettings            a setting of the user is unusable: configuration, environment, credentials
    +-- RpcError                   a JSON-RPC error, sent or received: code, message, data
    |   +-- ParseError             -32700
    |   +-- InvalidRequest         -32600
    |   +-- MethodNotFound         -32601
    |   +-- InvalidParams          -32602
    |   +-- InternalError          -32603
    |   +-- RequestCancelled       -32800
    |   +-- AuthRequired           -32000
    |   +-- NotFound               -32002
    |   +-- GatewayLimitReached    -32029, a limit of the gateway; in `accord.gateway.access`
    +-- RequestRefused             the gateway rejected a client; in `accord.gateway.access`
    +-- Fenced                     the node lost its right to act for its sessions; in `accord.gateway`
    +-- StoreError                 a session log cannot be read or written
    |   +-- SessionInUse           another process writes to this session
    +-- ModelError                 a model gave no complete answer; in `accord.coder.models`
    +-- BadAnswer                  the peer's result does not have the shape of the protocol
    +-- ConnectionClosed           the peer is gone; says how it ended
    |   +-- NeverStarted           the program could not be started
    |   +-- HandshakeFailed        it ran, but `initialize` was not completed
    |   +-- Crashed                it exited while it was needed
    |   +-- Killed                 a signal killed it
    +-- LimitReached               a time limit expired
        +-- RequestTimeout         a request was not answered
        +-- TurnSilent             the agent sent nothing during a turn

`to_rpc_error` turns an exception into a JSON-RPC error.
"""

import asyncio
from typing import Any, ClassVar, Final, cast

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002
UNSUPPORTED_VERSION: Final = -32022

MCP_LIMIT: Final = -33000
"""`mcp/message`: too many requests to one server are open."""
MCP_UNAVAILABLE: Final = -33001
"""`mcp/message`: no such server."""
MCP_FAILED: Final = -33002
"""`mcp/message`: the server failed without an answer of its own."""

CONFIGURATION: Final = "configuration"
"""The `reason` in the data of an error that an unusable setting of the user causes."""

_NO_DATA: Final = object()


class AccordError(Exception):
    """The base class of all errors of Accord."""


class UsageError(AccordError):
    """The caller asked for something that cannot be done; nothing was sent."""


class NotOffered(UsageError):
    """The peer did not advertise the capability that this call needs."""


class MissingExtra(UsageError):
    """An optional part of Accord is not installed; the message contains the install command."""

    def __init__(self, extra: str, needed_by: str) -> None:
        super().__init__(
            f"{needed_by} needs the [{extra}] extra, which is not installed: pip install 'accord[{extra}]'"
        )
        self.extra: str = extra


class BadSettings(UsageError):
    """A setting of the user is unusable. The message names the file or variable and what to do."""


class RpcError(AccordError):
    """A JSON-RPC error. Raise it in a handler to send it; a failed request raises the received one."""

    default_code: ClassVar[int] = INTERNAL_ERROR
    default_message: ClassVar[str] = "Internal error"

    def __init__(self, message: str | None = None, data: Any = _NO_DATA, *, code: int | None = None) -> None:
        if not isinstance(message, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                "the first argument of an RpcError is its text: "
                f"{type(self).__name__}('why', code={message!r})"
            )
        self.code: int = self.default_code if code is None else code
        self.message: str = self.default_message if message is None else message
        self._data = data
        super().__init__(self.message)

    @property
    def has_data(self) -> bool:
        """Whether the error has a `data` member; `null` counts."""
        return self._data is not _NO_DATA

    @property
    def data(self) -> Any:
        """The `data` member, or None."""
        return None if self._data is _NO_DATA else self._data

    def __str__(self) -> str:
        detail = _data_text(self.data, self.message)
        return f"{self.message} ({detail}) [{self.code}]" if detail else f"{self.message} [{self.code}]"

    @staticmethod
    def of(code: int, message: str, data: Any = _NO_DATA) -> "RpcError":
        """An error of the class for this code; a plain RpcError for an unknown code."""
        return _BY_CODE.get(code, RpcError)(message, data, code=code)


_TEXT_MEMBERS: Final = ("details", "detail", "message", "description", "error")
_CODE_MEMBERS: Final = ("reason", "kind", "type", "code", "status")
_MAX_DATA_CHARS: Final = 1000


def _data_text(data: Any, message: str) -> str:
    """The `data` of an error as text for people; empty if it adds nothing to the message."""
    if data is None:
        return ""
    if not isinstance(data, dict):
        return data if isinstance(data, str) else _json_text(data)
    members = cast("dict[str, Any]", data)
    for name in _TEXT_MEMBERS:
        text = members.get(name)
        if isinstance(text, dict):  # such as the error of a model's provider
            inner = cast("dict[str, Any]", text)
            text = next((inner[key] for key in _TEXT_MEMBERS if isinstance(inner.get(key), str)), None)
        if isinstance(text, str) and text:
            return "" if text in message else text
    # Beside a message of its own, codes are for programs.
    is_default = any(message == cls.default_message for cls in _BY_CODE.values())
    shown = [(name, value) for name, value in members.items() if is_default or name not in _CODE_MEMBERS]
    pairs = [
        f"{name}: {value if isinstance(value, str) else _json_text(value)}"
        for name, value in shown
        if value is not None
    ]
    return ", ".join(pairs)[:_MAX_DATA_CHARS]


def _json_text(value: Any) -> str:
    import json  # imported here because every start loads this file

    try:
        return json.dumps(value, ensure_ascii=False)[:_MAX_DATA_CHARS]
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__


class ParseError(RpcError):
    """The message is not JSON."""

    default_code = PARSE_ERROR
    default_message = "Parse error"


class InvalidRequest(RpcError):
    """JSON, but not a valid message; or a method that is not allowed now."""

    default_code = INVALID_REQUEST
    default_message = "Invalid request"


class MethodNotFound(RpcError):
    """The method is not served, or its capability was not advertised."""

    default_code = METHOD_NOT_FOUND
    default_message = "Method not found"


class InvalidParams(RpcError):
    """Parameters are missing, have a wrong type, or name something that does not exist."""

    default_code = INVALID_PARAMS
    default_message = "Invalid params"


class InternalError(RpcError):
    """An unexpected failure in the handler."""

    default_code = INTERNAL_ERROR
    default_message = "Internal error"


class RequestCancelled(RpcError):
    """The request was canceled: by `$/cancel_request`, by shutdown, or by its handler."""

    default_code = REQUEST_CANCELLED
    default_message = "Request cancelled"


class AuthRequired(RpcError):
    """The user must sign in first."""

    default_code = AUTH_REQUIRED
    default_message = "Authentication required"
    methods: tuple[Any, ...] = ()
    """At a client: the sign-in methods of the agent, as `accord.schema.AuthMethod`."""

    def __str__(self) -> str:
        # `repr` writes out control characters in the names, which are the agent's.
        named = ", ".join(f"{method.id[:80]!r} ({method.name[:80]!r})" for method in self.methods[:9])
        return f"{super().__str__()}; sign in with {named}" if named else super().__str__()


class NotFound(RpcError):
    """A session, file or terminal does not exist."""

    default_code = NOT_FOUND
    default_message = "Resource not found"


_BY_CODE: Final[dict[int, type[RpcError]]] = {
    cls.default_code: cls
    for cls in RpcError.__subclasses__()  # those above
}


class StoreError(AccordError):
    """A session log cannot be read or written. The message names the file and says what to do."""


class SessionInUse(StoreError):
    """Another process has this session open for writing."""

    def __init__(self, message: str, node: str = "") -> None:
        """`node` is the one of a cluster that has the session."""
        super().__init__(message)
        self.node: str = node


class BadAnswer(AccordError):
    """The peer's result does not have the shape that the protocol requires."""


class ConnectionClosed(AccordError):
    """The peer is gone. `exit_code`, `signal` and `stderr` say how it ended, if that is known."""

    def __init__(
        self, message: str, *, exit_code: int | None = None, signal: str | None = None, stderr: str = ""
    ) -> None:
        super().__init__(message)
        self.message: str = message
        """How the peer ended, without its stderr lines."""
        self.exit_code: int | None = exit_code
        self.signal: str | None = signal
        self.stderr: str = stderr

    def __str__(self) -> str:
        tail = self.stderr.rstrip()
        return f"{self.message}; its last stderr lines:\n{tail}" if tail else self.message


class NeverStarted(ConnectionClosed):
    """The program could not be started, or the address not reached."""


class HandshakeFailed(ConnectionClosed):
    """The program ran, but `initialize` was not completed."""


class Crashed(ConnectionClosed):
    """The program exited while it was needed."""


class Killed(ConnectionClosed):
    """A signal killed the program."""


class LimitReached(AccordError):
    """A time limit expired."""


class RequestTimeout(LimitReached):
    """A request was not answered within its time limit."""


class TurnSilent(LimitReached):
    """The agent sent nothing during a turn for the whole time limit."""


def to_rpc_error(error: BaseException) -> RpcError:
    """The JSON-RPC error for an exception of a request handler.

    Of an exception that is not ours only the type is sent, and of a failed import which name was missing.
    """
    if isinstance(error, RpcError):
        return error
    if isinstance(error, asyncio.CancelledError):
        return RequestCancelled()
    if isinstance(error, BadSettings):
        return InvalidRequest(str(error), {"reason": CONFIGURATION})
    if isinstance(error, AccordError):
        return InternalError(data=str(error))
    data = f"{type(error).__name__} in the handler"
    if isinstance(error, ImportError):
        data += f": {error.msg.partition(' (')[0]}"
    return InternalError(data=data)
