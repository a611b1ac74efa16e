"""The handlers that the `@agent.…` decorators register, their types, and `ClientRequest`.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from accord.agent.client import Client, ClientPeer, run_callback
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
    from accord.agent.agent_session import AgentSession
    from accord.agent.app import AgentConnection
    from accord.agent.elicitation import ElicitationAnswer, ElicitationScope, Form, UrlAnswer
    from accord.agent.turn import Turn


T = TypeVar("T")
Result: TypeAlias = T | Awaitable[T]
"""The result of a handler: handlers may be plain or `async` functions."""

# The function types of the decorators. A decorator returns its function unchanged.
PromptHandler = TypeVar("PromptHandler", bound="Callable[[Turn], Result[StopReason | PromptResponse | None]]")
NewSessionHandler = TypeVar(
    "NewSessionHandler", bound="Callable[[AgentSession], Result[NewSessionResponse | None]]"
)
LoadSessionHandler = TypeVar(
    "LoadSessionHandler", bound="Callable[[AgentSession], Result[LoadSessionResponse | None]]"
)
ResumeSessionHandler = TypeVar(
    "ResumeSessionHandler", bound="Callable[[AgentSession], Result[ResumeSessionResponse | None]]"
)
ForkSessionHandler = TypeVar(
    "ForkSessionHandler", bound="Callable[[AgentSession, str], Result[ForkSessionResponse | None]]"
)
CloseSessionHandler = TypeVar("CloseSessionHandler", bound="Callable[[AgentSession], Result[None]]")
SessionList: TypeAlias = ListSessionsResponse | Sequence[SessionInfo]
ListSessionsHandler = TypeVar(
    "ListSessionsHandler", bound="Callable[[ListSessionsRequest, ClientRequest], Result[SessionList]]"
)
DeleteSessionHandler = TypeVar("DeleteSessionHandler", bound="Callable[[str, ClientRequest], Result[None]]")
SetModeHandler = TypeVar("SetModeHandler", bound="Callable[[AgentSession, str], Result[None]]")
SetConfigOptionHandler = TypeVar(
    "SetConfigOptionHandler", bound="Callable[[AgentSession, str, str | bool], Result[None]]"
)
AuthenticateHandler = TypeVar("AuthenticateHandler", bound="Callable[[str, ClientRequest], Result[None]]")
LogoutHandler = TypeVar("LogoutHandler", bound="Callable[[ClientRequest], Result[None]]")
RequestHandler: TypeAlias = "Callable[[Any, ClientRequest], Result[Any]]"
NotificationHandler: TypeAlias = "Callable[[Any, AgentConnection], Result[None]]"
NotificationFunction = TypeVar("NotificationFunction", bound=NotificationHandler)

BUILT_IN: Final[frozenset[str]] = frozenset((
    "initialize", "session/new", "session/prompt", "session/close", "session/set_mode",
    "session/set_config_option",
))  # fmt: skip
"""Requests that every agent serves, with or without a handler."""


class AgentHandlers:
    """The registered handlers of one agent, by method."""

    def __init__(self) -> None:
        self.hooks: dict[str, Callable[..., Any]] = {}
        """Called by the built-in behavior of the method."""
        self.overrides: dict[str, RequestHandler] = {}
        """Called instead of the built-in behavior (`@agent.on`)."""
        self.notifications: dict[str, NotificationHandler] = {}

    def add_hook(self, method: str, function: Callable[..., Any]) -> None:
        self._check_unused(method)
        self.hooks[method] = function

    def add_override(self, method: str, function: RequestHandler) -> None:
        self._check_unused(method)
        self.overrides[method] = function

    def add_notification(self, method: str, function: NotificationHandler) -> None:
        if method in self.notifications:
            raise UsageError(f"{method} already has a handler")
        self.notifications[method] = function

    @property
    def served(self) -> frozenset[str]:
        """The names of all requests that the agent serves."""
        return BUILT_IN | self.hooks.keys() | self.overrides.keys()

    def _check_unused(self, method: str) -> None:
        if method in self.hooks or method in self.overrides:
            raise UsageError(f"{method} already has a handler")


class ClientRequest:
    """The request that a handler serves: its session, its client, and questions to the user."""

    def __init__(
        self,
        peer: ClientPeer,
        connection: "AgentConnection",
        call: IncomingCall,
        session: "AgentSession | None",
    ) -> None:
        self.connection: AgentConnection = connection
        self.session: AgentSession | None = session
        """The open session that the request names, or the session that it opens."""
        self.client: Client = connection.client
        self._peer = peer
        self._call = call

    @property
    def id(self) -> RequestId:
        """The JSON-RPC id of the request."""
        return self._call.id

    @property
    def method(self) -> str:
        return self._call.method

    def after_answer(self, callback: Callable[[], object]) -> None:
        """Call a function directly after the response is queued, before any other message."""
        self._call.after_answer(lambda: run_callback(callback))

    async def elicit(
        self, message: str, form: "Form", *, timeout: float | None = None
    ) -> "ElicitationAnswer":
        """Ask the user with a form as part of this request. Never ask for secrets."""
        from accord.agent.elicitation import ask_form

        scope: ElicitationScope = {"request_id": self.id}
        return await ask_form(self._peer, self.client.can_show_forms, message, form, scope, timeout)

    async def elicit_url(self, message: str, url: str, *, timeout: float | None = None) -> "UrlAnswer":
        """Ask the user to open a web page as part of this request."""
        from accord.agent.elicitation import ask_url

        scope: ElicitationScope = {"request_id": self.id}
        return await ask_url(self._peer, self.client.can_open_urls, message, url, scope, timeout)
