"""`agent.on(method)`: the decorator that takes a method over. For type checkers, the name decides the types."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

if TYPE_CHECKING:
    import accord.schema as s

    from .handlers import Or
    from .request import ClientRequest

P = TypeVar("P")
R = TypeVar("R")
Taking: TypeAlias = "Callable[[Callable[[P, ClientRequest], Or[R]]], Callable[[P, ClientRequest], Or[R]]]"
"""Takes a function of parameters and request, and gives it back."""


class On:
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
