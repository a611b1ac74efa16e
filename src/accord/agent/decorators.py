"""The `@agent.…` decorators, the handlers they register, and `ClientRequest`.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, overload

from accord.agent.client import Client, ClientPeer, run_quietly
from accord.errors import UsageError
from accord.schema.content import PromptResponse, StopReason
from accord.schema.session_requests import (
    ForkSessionResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    ResumeSessionResponse,
    SessionInfo,
)
from accord.wire.calls import IncomingCall
from accord.wire.envelope import RequestId

if TYPE_CHECKING:
    import accord.schema as s
    from accord.agent.agent_session import AgentSession
    from accord.agent.app import AgentConnection
    from accord.agent.elicitation import ElicitationAnswer, ElicitationScope, Form, UrlAnswer
    from accord.agent.turn import Turn


# MERGED agent.on: `agent.on(method)`: the decorator that takes a method over. For type checkers, the name decides the types.

P = TypeVar("P")
R = TypeVar("R")
Taking: TypeAlias = "Callable[[Callable[[P, ClientRequest], Or[R]]], Callable[[P, ClientRequest], Or[R]]]"
"""Takes a function of parameters and request, and gives it back."""


class MethodDecorator:
    """Registers a function as the one that serves a method."""

    def __init__(self, take: Callable[[str, Callable[..., Any]], None]) -> None:
        self._take = take

    # One line for every request of the method table, then extensions.
    # fmt: off
    @overload
    def __call__(self, method: Literal["initialize"]) -> "Taking[s.InitializeRequest, s.InitializeResponse | None]": ...
    @overload
    def __call__(self, method: Literal["authenticate"]) -> "Taking[s.AuthenticateRequest, s.AuthenticateResponse | None]": ...
    @overload
    def __call__(self, method: Literal["logout"]) -> "Taking[s.LogoutRequest, s.LogoutResponse | None]": ...
    @overload
    def __call__(self, method: Literal["session/new"]) -> "Taking[s.NewSessionRequest, s.NewSessionResponse]": ...
    @overload
    def __call__(self, method: Literal["session/load"]) -> "Taking[s.LoadSessionRequest, s.LoadSessionResponse | None]": ...
    @overload
    def __call__(self, method: Literal["session/resume"]) -> "Taking[s.ResumeSessionRequest, s.ResumeSessionResponse | None]": ...
    @overload
    def __call__(self, method: Literal["session/close"]) -> "Taking[s.CloseSessionRequest, s.CloseSessionResponse | None]": ...
    @overload
    def __call__(self, method: Literal["session/list"]) -> "Taking[s.ListSessionsRequest, s.ListSessionsResponse]": ...
    @overload
    def __call__(self, method: Literal["session/delete"]) -> "Taking[s.DeleteSessionRequest, s.DeleteSessionResponse | None]": ...
    @overload
    def __call__(self, method: Literal["session/prompt"]) -> "Taking[s.PromptRequest, s.PromptResponse]": ...
    @overload
    def __call__(self, method: Literal["session/set_mode"]) -> "Taking[s.SetSessionModeRequest, s.SetSessionModeResponse | None]": ...
    @overload
    def __call__(self, method: Literal["session/set_config_option"]) -> "Taking[s.SetSessionConfigOptionRequest, s.SetSessionConfigOptionResponse]": ...
    @overload
    def __call__(self, method: Literal["session/fork"]) -> "Taking[s.ForkSessionRequest, s.ForkSessionResponse]": ...
    @overload
    def __call__(self, method: Literal["session/archive"]) -> "Taking[s.ArchiveSessionRequest, s.ArchiveSessionResponse | None]": ...
    @overload
    def __call__(self, method: Literal["session/unarchive"]) -> "Taking[s.UnarchiveSessionRequest, s.UnarchiveSessionResponse | None]": ...
    @overload
    def __call__(self, method: Literal["session/status"]) -> "Taking[s.SessionStatusRequest, s.SessionStatusResponse]": ...
    @overload
    def __call__(self, method: Literal["session/set_title"]) -> "Taking[s.SetSessionTitleRequest, s.SetSessionTitleResponse]": ...
    @overload
    def __call__(self, method: Literal["auth/status"]) -> "Taking[s.AuthStatusRequest, s.AuthStatusResponse]": ...
    @overload
    def __call__(self, method: Literal["providers/list"]) -> "Taking[s.ListProvidersRequest, s.ListProvidersResponse]": ...
    @overload
    def __call__(self, method: Literal["providers/set"]) -> "Taking[s.SetProviderRequest, s.SetProviderResponse | None]": ...
    @overload
    def __call__(self, method: Literal["providers/disable"]) -> "Taking[s.DisableProviderRequest, s.DisableProviderResponse | None]": ...
    @overload
    def __call__(self, method: str) -> "Taking[Any, Any]": ...
    # fmt: on
    def __call__(self, method: str) -> Any:
        """Serve the method: `(params, call)` in, its result out (None where it has none)."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._take(method, function)
            return function

        return register


# MERGED agent.handlers: What an application has registered: functions that the built-in behaviour calls, and methods it serves itself.

T = TypeVar("T")
Or: TypeAlias = T | Awaitable[T]
"""Handlers may be plain functions or coroutine functions."""

# What each decorator of the agent takes, and gives back unchanged, so that a function may have several.
PromptHandler = TypeVar("PromptHandler", bound="Callable[[Turn], Or[StopReason | PromptResponse | None]]")
NewSessionHandler = TypeVar(
    "NewSessionHandler", bound="Callable[[AgentSession], Or[NewSessionResponse | None]]"
)
LoadSessionHandler = TypeVar(
    "LoadSessionHandler", bound="Callable[[AgentSession], Or[LoadSessionResponse | None]]"
)
ResumeSessionHandler = TypeVar(
    "ResumeSessionHandler", bound="Callable[[AgentSession], Or[ResumeSessionResponse | None]]"
)
ForkSessionHandler = TypeVar(
    "ForkSessionHandler", bound="Callable[[AgentSession, str], Or[ForkSessionResponse | None]]"
)
CloseSessionHandler = TypeVar("CloseSessionHandler", bound="Callable[[AgentSession], Or[None]]")
ListSessionsHandler = TypeVar(
    "ListSessionsHandler",
    bound="Callable[[ListSessionsRequest, ClientRequest], Or[ListSessionsResponse | Sequence[SessionInfo]]]",
)
DeleteSessionHandler = TypeVar("DeleteSessionHandler", bound="Callable[[str, ClientRequest], Or[None]]")
SetModeHandler = TypeVar("SetModeHandler", bound="Callable[[AgentSession, str], Or[None]]")
SetConfigOptionHandler = TypeVar(
    "SetConfigOptionHandler", bound="Callable[[AgentSession, str, str | bool], Or[None]]"
)
AuthenticateHandler = TypeVar("AuthenticateHandler", bound="Callable[[str, ClientRequest], Or[None]]")
LogoutHandler = TypeVar("LogoutHandler", bound="Callable[[ClientRequest], Or[None]]")
RequestHandler: TypeAlias = "Callable[[Any, ClientRequest], Or[Any]]"
NotificationHandler: TypeAlias = "Callable[[Any, AgentConnection], Or[None]]"
Listener = TypeVar("Listener", bound=NotificationHandler)

BUILT_IN: Final = frozenset(
    (
        "initialize",
        "session/new",
        "session/prompt",
        "session/close",
        "session/set_mode",
        "session/set_config_option",
    )
)
"""Requests that every agent serves, with or without a function of the application."""


class AgentHandlers:
    """The functions of one application, by method."""

    def __init__(self) -> None:
        self.hooks: dict[str, Callable[..., Any]] = {}
        """Called from within the built-in behaviour of the method."""
        self.taken: dict[str, RequestHandler] = {}
        """Called instead of it."""
        self.notifications: dict[str, NotificationHandler] = {}

    def hook(self, method: str, function: Callable[..., Any]) -> None:
        """Let the built-in behaviour of a method call the function."""
        self._free(method)
        self.hooks[method] = function

    def take(self, method: str, function: RequestHandler) -> None:
        """Let the function serve the method."""
        self._free(method)
        self.taken[method] = function

    def listen(self, method: str, function: NotificationHandler) -> None:
        """Let the function hear a notification."""
        if method in self.notifications:
            raise UsageError(f"{method} already has a handler")
        self.notifications[method] = function

    @property
    def served(self) -> frozenset[str]:
        """Every request that is served."""
        return BUILT_IN | self.hooks.keys() | self.taken.keys()

    def _free(self, method: str) -> None:
        if method in self.hooks or method in self.taken:
            raise UsageError(f"{method} already has a handler")


# MERGED agent.request: One request of the client while a handler of the application serves it.


class ClientRequest:
    """What a handler may want to know and do beside the parameters."""

    def __init__(
        self,
        peer: ClientPeer,
        connection: "AgentConnection",
        call: IncomingCall,
        session: "AgentSession | None",
    ) -> None:
        self.connection = connection
        self.session = session
        """The open session that the request names, or the one that it opens."""
        self.client: Client = connection.client
        self._peer = peer
        self._call = call

    @property
    def id(self) -> RequestId:
        """The id of the request on the wire."""
        return self._call.id

    @property
    def method(self) -> str:
        """The method's name."""
        return self._call.method

    def after_answer(self, callback: Callable[[], object]) -> None:
        """Run something right behind the answer, before anything else can be sent."""
        self._call.after_answer(lambda: run_quietly(callback))

    async def elicit(
        self, message: str, form: "Form", *, timeout: float | None = None
    ) -> "ElicitationAnswer":
        """Ask the user by a form, as part of this request (while signing in, for example). Never for secrets."""
        from accord.agent.elicitation import ask_form

        scope: ElicitationScope = {"request_id": self.id}
        return await ask_form(self._peer, self.client.can_show_forms, message, form, scope, timeout)

    async def elicit_url(self, message: str, url: str, *, timeout: float | None = None) -> "UrlAnswer":
        """Ask the user to open a web page, as part of this request."""
        from accord.agent.elicitation import ask_url

        scope: ElicitationScope = {"request_id": self.id}
        return await ask_url(self._peer, self.client.can_open_urls, message, url, scope, timeout)
