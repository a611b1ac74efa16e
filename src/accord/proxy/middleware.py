"""`Middleware`: what a proxy does with messages. Override the hooks you need; all others cost nothing."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from accord.errors import UsageError
from accord.schema import (
    CreateElicitationRequest,
    CreateElicitationResponse,
    CreateTerminalRequest,
    CreateTerminalResponse,
    InitializeRequest,
    InitializeResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionNotification,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    SetSessionModeResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)
from accord.schema import methods as method_table
from accord.schema.methods import Kind, Method
from accord.wire.connection import CANCEL_REQUEST

P = TypeVar("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

ServedBy: TypeAlias = Literal["agent", "client"]
"""The side that a message goes to."""

CallNext: TypeAlias = Callable[[P], Awaitable[R]]
"""Passes a request on, to the next middleware or the peer, and returns the response. Raises RpcError."""

HookFunction: TypeAlias = Callable[..., Any]

CANCEL_TURN: Final = "session/cancel"


class Peers(Protocol):
    """Sends a middleware's own messages. Results of known methods have their type in `accord.schema`."""

    async def ask_client(self, method: str, params: Any) -> Any:
        """Send a request to the client and return its result. Raises RpcError, ConnectionClosed."""
        ...

    async def ask_agent(self, method: str, params: Any) -> Any:
        """Send a request to the agent and return its result. Raises RpcError, ConnectionClosed."""
        ...

    def notify_client(self, method: str, params: Any) -> None:
        """Send a notification to the client, such as a `session/update` of the proxy itself."""
        ...

    def notify_agent(self, method: str, params: Any) -> None:
        """Send a notification to the agent."""
        ...


class Middleware:
    """Changes, answers or drops messages between a client and an agent.

    A hook of a request gets the request and `call_next`, which passes it on and returns the response. The
    hook returns the response, its own or a changed one, or raises RpcError. A hook of a notification is a
    plain or async function that returns the notification, or None to drop it.
    """

    peers: Peers
    """Sends messages of this middleware itself; set before the first hook is called."""

    # -- requests of the client

    async def initialize(
        self, request: InitializeRequest, call_next: CallNext[InitializeRequest, InitializeResponse]
    ) -> InitializeResponse:
        """Handle the handshake: names, versions and capabilities of both sides."""
        return await call_next(request)

    async def new_session(
        self, request: NewSessionRequest, call_next: CallNext[NewSessionRequest, NewSessionResponse]
    ) -> NewSessionResponse:
        """Handle the start of a session: its folder and MCP servers."""
        return await call_next(request)

    async def load_session(
        self, request: LoadSessionRequest, call_next: CallNext[LoadSessionRequest, LoadSessionResponse]
    ) -> LoadSessionResponse:
        """Handle the loading of a session, with its history."""
        return await call_next(request)

    async def resume_session(
        self,
        request: ResumeSessionRequest,
        call_next: CallNext[ResumeSessionRequest, ResumeSessionResponse],
    ) -> ResumeSessionResponse:
        """Handle the resumption of a session, without its history."""
        return await call_next(request)

    async def prompt(
        self, request: PromptRequest, call_next: CallNext[PromptRequest, PromptResponse]
    ) -> PromptResponse:
        """Handle a prompt. Its updates arrive while `call_next` runs; its response ends the turn."""
        return await call_next(request)

    async def set_mode(
        self,
        request: SetSessionModeRequest,
        call_next: CallNext[SetSessionModeRequest, SetSessionModeResponse],
    ) -> SetSessionModeResponse:
        """Handle a change of the mode."""
        return await call_next(request)

    async def set_config_option(
        self,
        request: SetSessionConfigOptionRequest,
        call_next: CallNext[SetSessionConfigOptionRequest, SetSessionConfigOptionResponse],
    ) -> SetSessionConfigOptionResponse:
        """Handle a change of a configuration option, such as the model."""
        return await call_next(request)

    # -- messages of the agent

    def update(
        self, notification: SessionNotification
    ) -> Awaitable[SessionNotification | None] | SessionNotification | None:
        """Handle one `session/update`. The order of a session's messages stays, also if the hook waits."""
        return notification

    async def permission(
        self,
        request: RequestPermissionRequest,
        call_next: CallNext[RequestPermissionRequest, RequestPermissionResponse],
    ) -> RequestPermissionResponse:
        """Handle a permission request; `call_next` asks the user."""
        return await call_next(request)

    async def read_file(
        self, request: ReadTextFileRequest, call_next: CallNext[ReadTextFileRequest, ReadTextFileResponse]
    ) -> ReadTextFileResponse:
        """Handle the reading of a file through the client."""
        return await call_next(request)

    async def write_file(
        self,
        request: WriteTextFileRequest,
        call_next: CallNext[WriteTextFileRequest, WriteTextFileResponse],
    ) -> WriteTextFileResponse:
        """Handle the writing of a file through the client."""
        return await call_next(request)

    async def create_terminal(
        self,
        request: CreateTerminalRequest,
        call_next: CallNext[CreateTerminalRequest, CreateTerminalResponse],
    ) -> CreateTerminalResponse:
        """Handle the start of a command in a terminal of the client."""
        return await call_next(request)

    async def elicitation(
        self,
        request: CreateElicitationRequest,
        call_next: CallNext[CreateElicitationRequest, CreateElicitationResponse],
    ) -> CreateElicitationResponse:
        """Handle a form or an address for the user."""
        return await call_next(request)

    # -- internal

    _NAMED: ClassVar[dict[str, tuple[str, ServedBy, Kind]]] = {
        "initialize": ("initialize", "agent", "request"),
        "new_session": ("session/new", "agent", "request"),
        "load_session": ("session/load", "agent", "request"),
        "resume_session": ("session/resume", "agent", "request"),
        "prompt": ("session/prompt", "agent", "request"),
        "set_mode": ("session/set_mode", "agent", "request"),
        "set_config_option": ("session/set_config_option", "agent", "request"),
        "update": ("session/update", "client", "notification"),
        "permission": ("session/request_permission", "client", "request"),
        "read_file": ("fs/read_text_file", "client", "request"),
        "write_file": ("fs/write_text_file", "client", "request"),
        "create_terminal": ("terminal/create", "client", "request"),
        "elicitation": ("elicitation/create", "client", "request"),
    }

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a method that looks like a hook but would never be called. Raises UsageError."""
        super().__init_subclass__(**options)
        for name, value in vars(cls).items():
            code = getattr(value, "__code__", None)
            if code is None or name in cls._NAMED or name.startswith("_") or "_accord_hook" in vars(value):
                continue
            if "call_next" in code.co_varnames[: code.co_argcount]:
                known = ", ".join(cls._NAMED)
                raise UsageError(
                    f"{cls.__name__}.{name} is no hook; mark it with @hook, or use one of {known}"
                )


def hook(method: str, *, to: ServedBy, notification: bool = False) -> Callable[[F], F]:
    """Mark a method of a middleware as the hook of any other message, such as `_vendor/name`.

    Messages without a type in `accord.schema` are parsed JSON. Raises UsageError for cancellations, which
    always pass.
    """
    if method in (CANCEL_TURN, CANCEL_REQUEST):
        raise UsageError(f"{method} cannot have a hook: cancellations always pass")
    target = (method, to, "notification" if notification else "request")

    def mark(function: F) -> F:
        vars(function)["_accord_hook"] = target
        return function

    return mark


class HookRoute(NamedTuple):
    """The hooks of one message, in the order in which it meets them."""

    method: Method
    hooks: tuple[HookFunction, ...]


def find_routes(middlewares: Sequence[Middleware], to: ServedBy) -> dict[tuple[str, Kind], HookRoute]:
    """Return the hooks of all messages to one side. The first middleware is next to the client."""
    hooks: dict[tuple[str, Kind], list[HookFunction]] = {}
    for middleware in middlewares if to == "agent" else reversed(middlewares):
        for method, side, kind, handler in _hooks_of(middleware):
            if side == to:
                hooks.setdefault((method, kind), []).append(handler)
    return {key: HookRoute(_typed_method(*key, to), tuple(handlers)) for key, handlers in hooks.items()}


def hook_name(handler: HookFunction) -> str:
    """The name of a hook for messages, such as `Shout.prompt`."""
    return f"{type(getattr(handler, '__self__', handler)).__name__}.{getattr(handler, '__name__', 'hook')}"


def _hooks_of(middleware: Middleware) -> Iterator[tuple[str, ServedBy, Kind, HookFunction]]:
    cls = type(middleware)
    for name, (method, side, kind) in Middleware._NAMED.items():  # pyright: ignore[reportPrivateUsage]
        if getattr(cls, name) is not getattr(Middleware, name):
            yield method, side, kind, getattr(middleware, name)
    for name in dir(cls):
        target = getattr(getattr(cls, name), "_accord_hook", None)
        if target is not None:
            yield *cast("tuple[str, ServedBy, Kind]", target), getattr(middleware, name)


def _typed_method(name: str, kind: Kind, to: ServedBy) -> Method:
    find = method_table.request if kind == "request" else method_table.notification
    return find(to, name) or Method(name, to, kind, Any, Any)
