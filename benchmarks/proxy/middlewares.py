"""Middlewares that change nothing."""

from accord.proxy import CallNext, Middleware
from accord.schema import (
    PromptRequest,
    PromptResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
)


class Prompts(Middleware):
    """Handles prompts; updates have no hook."""

    async def prompt(
        self, request: PromptRequest, call_next: CallNext[PromptRequest, PromptResponse]
    ) -> PromptResponse:
        return await call_next(request)


class Permissions(Middleware):
    """Handles another message of the agent: the envelope of each update is decoded."""

    async def permission(
        self,
        request: RequestPermissionRequest,
        call_next: CallNext[RequestPermissionRequest, RequestPermissionResponse],
    ) -> RequestPermissionResponse:
        return await call_next(request)


class Updates(Middleware):
    """Handles each update."""

    def update(self, notification: SessionNotification) -> SessionNotification | None:
        return notification
