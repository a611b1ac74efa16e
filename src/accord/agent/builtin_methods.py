"""The built-in behavior of requests: sessions and prompts, `initialize` and sign-in.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from accord.agent.agent_session import AgentSessionCore, OpeningRequest
from accord.agent.capabilities import advertise, check_prompt, check_session_request, unknown_session
from accord.agent.client import LOG, Client, ClientPeer, check_valid
from accord.agent.decorators import AgentHandlers, ClientRequest
from accord.agent.session_updates import new_session_id
from accord.agent.turn import TurnTask
from accord.errors import InvalidParams, InvalidRequest, RpcError, UsageError
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
from accord.schema.content import CancelNotification, PromptRequest, PromptResponse
from accord.schema.initialize import ClientCapabilities, InitializeRequest, InitializeResponse
from accord.schema.mcp import MessageMcpNotification
from accord.schema.session_requests import (
    ArchiveSessionRequest,
    ArchiveSessionResponse,
    CloseSessionRequest,
    CloseSessionResponse,
    DeleteSessionRequest,
    DeleteSessionResponse,
    ForkSessionRequest,
    ForkSessionResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    OpeningResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
)
from accord.wire.calls import IncomingCall

if TYPE_CHECKING:
    from accord.agent.app import Agent, AgentConnection


class BuiltinMethods:
    """The sessions of one connection and the requests that act on them."""

    def __init__(
        self,
        agent: "Agent",
        handlers: AgentHandlers,
        connection: "AgentConnection",
        peer: ClientPeer,
        held_prompts: int,
    ) -> None:
        self.sessions: dict[str, AgentSessionCore] = {}
        self._agent = agent
        self._handlers = handlers
        self._connection = connection
        self._peer = peer
        self._held_prompts = held_prompts
        self._disconnected = False

    @property
    def serves_version_2(self) -> bool:
        """Whether the agent may be asked to stop a single tool call or terminal."""
        return 2 in self._agent.protocol

    def session(self, session_id: str) -> AgentSessionCore:
        """Return an open session; raise the "session not found" error if there is none."""
        session = self.sessions.get(session_id)
        if session is None:
            raise unknown_session(session_id)
        return session

    def client_request(self, call: IncomingCall, session: AgentSessionCore | None = None) -> ClientRequest:
        """Return the second argument of request handlers."""
        return ClientRequest(self._peer, self._connection, call, None if session is None else session.session)

    def start_handler(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a handler; return its result, or an awaitable of it. Logs unexpected exceptions."""
        try:
            result = function(*args)
        except RpcError:
            raise
        except Exception:
            _log_failure(function)
            raise
        return _await_logged(function, result) if hasattr(result, "__await__") else result

    async def call_handler(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a handler and wait for its result."""
        result = self.start_handler(function, *args)
        return await result if hasattr(result, "__await__") else result

    # -- open sessions --

    async def open(self, params: OpeningRequest, call: IncomingCall) -> OpeningResponse:
        """Serve `session/new`, `session/load`, `session/resume` and `session/fork`."""
        check_session_request(params, self._agent.accepts)
        stored = isinstance(params, LoadSessionRequest | ResumeSessionRequest)
        if stored and (active := self.sessions.get(params.session_id)) is not None and active.turn_task:
            raise InvalidRequest("A prompt is running in this session")
        session_id = params.session_id if stored else new_session_id()
        session = AgentSessionCore(
            self._peer, session_id, params, hold=not isinstance(params, LoadSessionRequest)
        )
        result = await self._call_opening_handler(session, params, call)
        if isinstance(result, NewSessionResponse | ForkSessionResponse):
            session.session.id = result.session_id
        session_id = session.session.id  # the handler may have set another one
        response = _session_response(session, result)
        check_valid(response)
        previous = self.sessions.get(session_id)
        # Before the next `await`: messages behind this request must find the session.
        self.sessions[session_id] = session
        if previous is not None:
            await self._end(previous)
        call.after_answer(session.mark_open)
        return response

    async def _call_opening_handler(
        self, session: AgentSessionCore, params: OpeningRequest, call: IncomingCall
    ) -> OpeningResponse | None:
        method = _opening_method(params)
        override = self._handlers.overrides.get(method)
        if override is not None:
            session.servers_read = True  # they are in the params
            return await self.call_handler(override, params, self.client_request(call, session))
        hook = self._handlers.hooks.get(method)
        if hook is None:
            return None
        if isinstance(params, ForkSessionRequest):
            return await self.call_handler(hook, session.session, params.session_id)
        return await self.call_handler(hook, session.session)

    # -- end sessions --

    async def close(self, params: CloseSessionRequest, call: IncomingCall) -> CloseSessionResponse:
        """Cancel the turn and end the session."""
        session = self.sessions.pop(params.session_id, None)
        if session is None:
            raise unknown_session(params.session_id)
        await self._end_shielded(session)
        override = self._handlers.overrides.get("session/close")
        result = (
            None
            if override is None
            else await self.call_handler(override, params, self.client_request(call, session))
        )
        return CloseSessionResponse() if result is None else result

    async def delete(self, params: DeleteSessionRequest, call: IncomingCall) -> DeleteSessionResponse:
        """End the session if it is open, then call the handler."""
        await self.close_if_open(params.session_id)
        override = self._handlers.overrides.get("session/delete")
        if override is not None:
            return (
                await self.call_handler(override, params, self.client_request(call))
                or DeleteSessionResponse()
            )
        await self.call_handler(
            self._handlers.hooks["session/delete"], params.session_id, self.client_request(call)
        )
        return DeleteSessionResponse()

    async def archive(self, params: ArchiveSessionRequest, call: IncomingCall) -> ArchiveSessionResponse:
        """End the session if it is open, then call the handler."""
        await self.close_if_open(params.session_id)
        override = self._handlers.overrides["session/archive"]
        return (
            await self.call_handler(override, params, self.client_request(call)) or ArchiveSessionResponse()
        )

    async def close_if_open(self, session_id: str) -> None:
        """End a session if it is open."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            await self._end_shielded(session)

    async def _end_shielded(self, session: AgentSessionCore) -> None:
        # The session is already out of `sessions`: a canceled request must not leave it half closed.
        await asyncio.shield(self._peer.tasks.start(self._end(session)))

    async def _end(self, session: AgentSessionCore) -> None:
        """Cancel the turns, wait for their responses, close the session, call the close handler."""
        turns = session.cancel_turns()
        if turns:
            await asyncio.wait([turn.answered for turn in turns])
        session.mark_closed()
        hook = self._handlers.hooks.get("session/close")
        if hook is not None:
            await self.call_handler(hook, session.session)

    def cancel_all_turns(self) -> None:
        """Cancel all turns, and each turn that still starts. Called when the client has disconnected."""
        self._disconnected = True
        for session in self.sessions.values():
            session.cancel_turns()

    async def end_all_sessions(self) -> None:
        """End all sessions in parallel. Bounded; slow handlers continue until the connection ends."""
        tasks = [self._peer.tasks.start(self._end_quietly(session)) for session in self.sessions.values()]
        self.sessions.clear()
        await self._peer.tasks.wait(tasks)

    async def _end_quietly(self, session: AgentSessionCore) -> None:
        try:
            await self._end(session)
        except Exception:  # noqa: BLE001 - already logged, and the client is gone
            pass

    async def list(self, params: ListSessionsRequest, call: IncomingCall) -> ListSessionsResponse:
        """List the stored sessions. Refuses filters that the agent does not support."""
        if params.cwd and not os.path.isabs(params.cwd):
            raise InvalidParams(f"cwd is not absolute: {params.cwd!r}")
        known = ("exclude", "include", "only") if "session/archive" in self._handlers.served else ()
        if params.archived and params.archived not in known:
            raise InvalidParams(f"archived: this agent does not support the filter {params.archived!r}")
        handler = self._handlers.overrides.get("session/list") or self._handlers.hooks["session/list"]
        result = await self.call_handler(handler, params, self.client_request(call))
        response = result if isinstance(result, ListSessionsResponse) else ListSessionsResponse([*result])
        check_valid(response)
        for info in response.sessions:
            if info.title is None:
                info.title = UNSET  # some clients fail on a title that is null
        return response

    # -- turns --

    async def prompt(self, params: PromptRequest, call: IncomingCall) -> PromptResponse:
        """Run one turn, after the turns that the client has asked for before it."""
        session, turn_task = self.add_turn(params)

        def after_answer() -> None:
            session.remove_turn(turn_task)
            if session.request.mcp_servers and not session.servers_read:
                warn_of_dropped_servers(session)

        call.after_answer(after_answer)
        if turn_task is not session.turn_task and not await turn_task.wait_for_start():
            return PromptResponse("cancelled")
        override = self._handlers.overrides.get("session/prompt")
        if override is None:
            return await turn_task.run(self.prompt_handler)
        return await turn_task.run(lambda turn: override(params, self.client_request(call, session)))

    def add_turn(self, params: PromptRequest) -> tuple[AgentSessionCore, TurnTask]:
        """Create a turn: the running one, or one that is held. Raises InvalidRequest."""
        session = self.session(params.session_id)
        if session.turn_task is not None and len(session.held_turns) >= self._held_prompts:
            raise InvalidRequest(f"A prompt is already running; at most {self._held_prompts} can wait")
        if self._peer.reader.strict:
            check_prompt(params.prompt, self._agent.accepts)
        turn_task = TurnTask(session, params)
        session.add_turn(turn_task)
        if self._disconnected:
            turn_task.cancel()
        return session, turn_task

    @property
    def prompt_handler(self) -> Callable[..., Any]:
        """The function that answers prompts."""
        return self._handlers.hooks["session/prompt"]

    def cancel(self, params: CancelNotification) -> None:
        """Cancel the turn and the held prompts of a session, or a child session that can be canceled."""
        session = self.sessions.get(params.session_id)
        if session is not None:
            session.cancel_turns()
            return
        for parent in self.sessions.values():
            if (cancel_child := parent.children.get(params.session_id)) is not None:
                cancel_child()

    def mcp_message(self, params: MessageMcpNotification) -> None:
        """Pass on the progress of an MCP request."""
        from accord.agent.client_services import dispatch_mcp_notification

        dispatch_mcp_notification(self._peer, params)


def _session_response(core: AgentSessionCore, result: OpeningResponse | None) -> OpeningResponse:
    """Return the response that opens a session, with the modes and options that the handler set."""
    session, options = core.session, core.options
    if result is not None:
        if result.modes:
            options.offer_modes(result.modes)
        if result.config_options:
            options.offer_options(result.config_options)
    members: dict[str, Any] = {
        "modes": options.modes or UNSET,
        "config_options": options.for_client() or UNSET,
        "meta": UNSET if result is None else result.meta,
    }
    match core.request:
        case LoadSessionRequest():
            return LoadSessionResponse(**members)
        case ResumeSessionRequest():
            return ResumeSessionResponse(**members)
        case ForkSessionRequest():
            return ForkSessionResponse(session.id, **members)
        case _:
            return NewSessionResponse(session.id, **members)


def _opening_method(params: OpeningRequest) -> str:
    match params:
        case NewSessionRequest():
            return "session/new"
        case LoadSessionRequest():
            return "session/load"
        case ResumeSessionRequest():
            return "session/resume"
        case ForkSessionRequest():
            return "session/fork"


def warn_of_dropped_servers(core: AgentSessionCore) -> None:
    """Log once per session that no handler has read the client's MCP servers."""
    names = ", ".join(repr(server.name) for server in core.session.mcp_servers)
    text = "the MCP servers %s are not used: no handler read session.mcp_servers; connect to them there"
    LOG.warning(text, names)


async def _await_logged(function: Callable[..., Any], result: Awaitable[Any]) -> Any:
    try:
        return await result
    except RpcError:
        raise
    except Exception:
        _log_failure(function)
        raise


def _log_failure(function: Callable[..., Any]) -> None:
    LOG.exception("%s failed", getattr(function, "__qualname__", function))


PROTOCOL_VERSION: Final = 1


class InitializeMethods:
    """`initialize` and the requests for sign-in."""

    def __init__(
        self,
        agent: "Agent",
        handlers: AgentHandlers,
        peer: ClientPeer,
        client: Client,
        methods: BuiltinMethods,
    ) -> None:
        self.initialized: bool = False
        self._agent = agent
        self._handlers = handlers
        self._peer = peer
        self._client = client
        self._methods = methods
        self._reported_status: AuthStatusUpdateNotification | None = None

    def initialize(
        self, params: InitializeRequest, call: IncomingCall
    ) -> InitializeResponse | Awaitable[InitializeResponse]:
        """Answer with protocol version 1 and the capabilities of the agent."""
        if self.initialized and not self._may_repeat:
            raise InvalidRequest("Already initialized")
        # Immediately: requests behind this one may be dispatched before the response.
        self.initialized = True
        self._peer.capabilities = params.client_capabilities or ClientCapabilities()
        self._peer.info = params.client_info or None
        if "initialize" in self._handlers.overrides:
            return self._call_override(params, call)
        return self.response()

    def response(self) -> InitializeResponse:
        """Return the default response for this client."""
        agent = self._agent
        methods = [
            method
            for method in agent.auth_methods
            if not isinstance(method, AuthMethodTerminal) or self._client.can_sign_in_by_terminal
        ]
        return InitializeResponse(
            PROTOCOL_VERSION, advertise(self._handlers.served, agent.accepts), methods, agent.info
        )

    @property
    def _may_repeat(self) -> bool:
        """Whether `initialize` may come again; version 2 allows it until the first other request."""
        return self._peer.translation is not None and self._peer.translation.takes_events

    async def _call_override(self, params: InitializeRequest, call: IncomingCall) -> InitializeResponse:
        handler = self._handlers.overrides["initialize"]
        try:
            result = await self._methods.call_handler(handler, params, self._methods.client_request(call))
        except BaseException:
            self.initialized = False
            raise
        return self.response() if result is None else result

    async def authenticate(self, params: AuthenticateRequest, call: IncomingCall) -> AuthenticateResponse:
        """Sign in with a method of the agent; clients run terminal methods themselves."""
        methods = [method.id for method in self._agent.auth_methods if isinstance(method, AuthMethodAgent)]
        if params.method_id not in methods:
            raise InvalidParams(f"Unknown auth method: {params.method_id}")
        hook = self._handlers.hooks["authenticate"]
        await self._methods.call_handler(hook, params.method_id, self._methods.client_request(call))
        return AuthenticateResponse()

    async def logout(self, params: LogoutRequest, call: IncomingCall) -> LogoutResponse:
        await self._methods.call_handler(self._handlers.hooks["logout"], self._methods.client_request(call))
        return LogoutResponse()

    def report_auth_status(self, state: str, accounts: list[AuthAccount] | None) -> None:
        """Notify the client of the auth status if it has changed."""
        if "auth/status" not in self._handlers.served:
            raise UsageError('cannot report an auth status without @agent.on("auth/status")')
        report = AuthStatusUpdateNotification(state, UNSET if accounts is None else accounts)
        if self.initialized and report != self._reported_status:
            self._reported_status = report
            self._peer.connection.notify("auth/status_update", report)

    async def auth_status(self, params: AuthStatusRequest, call: IncomingCall) -> AuthStatusResponse:
        """Return the auth status, and do not report the same status again."""
        handler = self._handlers.overrides["auth/status"]
        status: AuthStatusResponse = await self._methods.call_handler(
            handler, params, self._methods.client_request(call)
        )
        self._reported_status = AuthStatusUpdateNotification(status.state, status.accounts)
        return status
