"""What an application has registered: functions that the built-in behaviour calls, and methods it serves itself."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from accord.errors import UsageError
from accord.schema.prompts import PromptResponse, StopReason
from accord.schema.sessions import (
    ForkSessionResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    ResumeSessionResponse,
    SessionInfo,
)

if TYPE_CHECKING:
    from .connection import AgentConnection
    from .request import ClientRequest
    from .session import AgentSession
    from .turn import Turn

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


class Handlers:
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
