"""The start of a connection: `initialize`, who the user is, and what the agent says about itself."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from msgspec import UNSET

from accord.errors import InvalidParams, InvalidRequest, UsageError
from accord.schema.auth import (
    AuthAccount,
    AuthenticateRequest,
    AuthenticateResponse,
    AuthMethodAgent,
    AuthMethodTerminal,
    AuthStatusRequest,
    AuthStatusResponse,
    AuthStatusUpdateNotification,
    LogoutRequest,
    LogoutResponse,
)
from accord.schema.capabilities import ClientCapabilities
from accord.schema.initialize import InitializeRequest, InitializeResponse
from accord.wire.routes import Call

from .capabilities import advertise
from .client import Client
from .peer import Peer
from .service import Service

if TYPE_CHECKING:
    from .app import Agent

PROTOCOL_VERSION = 1


class Handshake:
    """Whether `initialize` has come, and the methods around signing in."""

    def __init__(self, agent: "Agent", peer: Peer, client: Client, service: Service) -> None:
        self.done = False
        self._agent = agent
        self._peer = peer
        self._client = client
        self._service = service
        self._reported: AuthStatusUpdateNotification | None = None

    def initialize(
        self, params: InitializeRequest, call: Call
    ) -> InitializeResponse | Awaitable[InitializeResponse]:
        """Agree on version 1, whatever the client asked for, and tell what this agent can do."""
        if self.done:
            raise InvalidRequest("Already initialized")
        # At once, so that requests which come in the same breath find the connection ready.
        self.done = True
        self._peer.capabilities = params.client_capabilities or ClientCapabilities()
        self._peer.info = params.client_info or None
        if "initialize" in self._agent.handlers.taken:
            return self._taken_over(params, call)
        return self.answer()

    def answer(self) -> InitializeResponse:
        """What this agent says about itself to this client."""
        agent = self._agent
        methods = [
            method
            for method in agent.auth_methods
            if not isinstance(method, AuthMethodTerminal) or self._client.can_sign_in_by_terminal
        ]
        return InitializeResponse(
            PROTOCOL_VERSION, advertise(agent.handlers.served, agent.accepts), methods, agent.info
        )

    async def _taken_over(self, params: InitializeRequest, call: Call) -> InitializeResponse:
        handler = self._agent.handlers.taken["initialize"]
        try:
            given = await self._service.app(handler, params, self._service.request(call))
        except BaseException:
            self.done = False
            raise
        return self.answer() if given is None else given

    async def authenticate(self, params: AuthenticateRequest, call: Call) -> AuthenticateResponse:
        """Sign in by a method of the agent's own; a terminal method is the client's to run."""
        methods = [method.id for method in self._agent.auth_methods if isinstance(method, AuthMethodAgent)]
        if params.method_id not in methods:
            raise InvalidParams(f"Unknown auth method: {params.method_id}")
        hook = self._agent.handlers.hooks["authenticate"]
        await self._service.app(hook, params.method_id, self._service.request(call))
        return AuthenticateResponse()

    async def logout(self, params: LogoutRequest, call: Call) -> LogoutResponse:
        """Sign out."""
        await self._service.app(self._agent.handlers.hooks["logout"], self._service.request(call))
        return LogoutResponse()

    def report_auth_status(self, state: str, accounts: list[AuthAccount] | None) -> None:
        """Tell the client who is signed in, if that differs from what it was told before."""
        if "auth/status" not in self._agent.handlers.served:
            raise UsageError(
                'the auth status is reported by agents that serve it: register @agent.on("auth/status")'
            )
        report = AuthStatusUpdateNotification(state, UNSET if accounts is None else accounts)
        if self.done and report != self._reported:
            self._reported = report
            self._peer.connection.notify("auth/status_update", report)

    async def auth_status(self, params: AuthStatusRequest, call: Call) -> AuthStatusResponse:
        """Who is signed in. An answer is a report as well: the same need not be told again."""
        handler = self._agent.handlers.taken["auth/status"]
        answer: AuthStatusResponse = await self._service.app(handler, params, self._service.request(call))
        self._reported = AuthStatusUpdateNotification(answer.state, answer.accounts)
        return answer
