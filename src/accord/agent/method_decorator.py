"""The type of `agent.on`: the method name decides the types of its handler. Only for type checkers."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

import accord.schema as s
from accord.agent.decorators import ClientRequest, Result

P = TypeVar("P")
R = TypeVar("R")
Decorator: TypeAlias = Callable[
    [Callable[[P, ClientRequest], Result[R]]], Callable[[P, ClientRequest], Result[R]]
]
"""The type of a decorator that registers a request handler and returns it unchanged."""


class MethodDecorator(Protocol):
    """`@agent.on(method)` registers `function(params, call)`, which returns the result of the method."""

    # One overload per request of the method table, then one for extensions.
    @overload
    def __call__(
        self, method: Literal["initialize"], /
    ) -> Decorator[s.InitializeRequest, s.InitializeResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["authenticate"], /
    ) -> Decorator[s.AuthenticateRequest, s.AuthenticateResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["logout"], /
    ) -> Decorator[s.LogoutRequest, s.LogoutResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["session/new"], /
    ) -> Decorator[s.NewSessionRequest, s.NewSessionResponse]: ...
    @overload
    def __call__(
        self, method: Literal["session/load"], /
    ) -> Decorator[s.LoadSessionRequest, s.LoadSessionResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["session/resume"], /
    ) -> Decorator[s.ResumeSessionRequest, s.ResumeSessionResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["session/close"], /
    ) -> Decorator[s.CloseSessionRequest, s.CloseSessionResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["session/list"], /
    ) -> Decorator[s.ListSessionsRequest, s.ListSessionsResponse]: ...
    @overload
    def __call__(
        self, method: Literal["session/delete"], /
    ) -> Decorator[s.DeleteSessionRequest, s.DeleteSessionResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["session/prompt"], /
    ) -> Decorator[s.PromptRequest, s.PromptResponse]: ...
    @overload
    def __call__(
        self, method: Literal["session/set_mode"], /
    ) -> Decorator[s.SetSessionModeRequest, s.SetSessionModeResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["session/set_config_option"], /
    ) -> Decorator[s.SetSessionConfigOptionRequest, s.SetSessionConfigOptionResponse]: ...
    @overload
    def __call__(
        self, method: Literal["session/fork"], /
    ) -> Decorator[s.ForkSessionRequest, s.ForkSessionResponse]: ...
    @overload
    def __call__(
        self, method: Literal["session/archive"], /
    ) -> Decorator[s.ArchiveSessionRequest, s.ArchiveSessionResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["session/unarchive"], /
    ) -> Decorator[s.UnarchiveSessionRequest, s.UnarchiveSessionResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["session/status"], /
    ) -> Decorator[s.SessionStatusRequest, s.SessionStatusResponse]: ...
    @overload
    def __call__(
        self, method: Literal["session/set_title"], /
    ) -> Decorator[s.SetSessionTitleRequest, s.SetSessionTitleResponse]: ...
    @overload
    def __call__(
        self, method: Literal["auth/status"], /
    ) -> Decorator[s.AuthStatusRequest, s.AuthStatusResponse]: ...
    @overload
    def __call__(
        self, method: Literal["providers/list"], /
    ) -> Decorator[s.ListProvidersRequest, s.ListProvidersResponse]: ...
    @overload
    def __call__(
        self, method: Literal["providers/set"], /
    ) -> Decorator[s.SetProviderRequest, s.SetProviderResponse | None]: ...
    @overload
    def __call__(
        self, method: Literal["providers/disable"], /
    ) -> Decorator[s.DisableProviderRequest, s.DisableProviderResponse | None]: ...
    @overload
    def __call__(self, method: str, /) -> Decorator[Any, Any]: ...
