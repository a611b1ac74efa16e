"""The built-in behavior of every method, `initialize` and the setting of options included.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from accord.agent.agent_session import AgentSession, OpeningRequest
from accord.agent.capabilities import (
    OpeningResponse,
    advertise,
    check_session_request,
    session_response,
    unknown_session,
)
from accord.agent.client import LOG, Client, ClientPeer
from accord.agent.decorators import AgentHandlers, ClientRequest
from accord.agent.session_options import UnknownOption
from accord.agent.session_updates import new_session_id
from accord.agent.turn import Turn, TurnTask
from accord.clock import within
from accord.errors import InvalidParams, InvalidRequest, MethodNotFound, RpcError, UsageError
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
    CurrentModeUpdate,
    DeleteSessionRequest,
    DeleteSessionResponse,
    ForkSessionRequest,
    ForkSessionResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    SetSessionModeResponse,
)
from accord.schema.updates import SessionUpdate
from accord.wire.calls import IncomingCall

if TYPE_CHECKING:
    from accord.agent.app import Agent, AgentConnection


# MERGED agent.service: What every agent does by itself for each method of the protocol, calling the application's functions on the way.


class BuiltinMethods:
    """The sessions of one connection, and the methods that act on them."""

    def __init__(self, agent: "Agent", connection: "AgentConnection", peer: ClientPeer) -> None:
        self.sessions: dict[str, AgentSession] = {}
        self._agent = agent
        self._handlers = agent.handlers
        self._connection = connection
        self._peer = peer
        self._gone = False

    def session(self, session_id: str) -> AgentSession:
        """The open session of this id; raises the protocol's error if there is none."""
        session = self.sessions.get(session_id)
        if session is None:
            raise unknown_session(session_id)
        return session

    def request(self, call: IncomingCall, session: AgentSession | None = None) -> ClientRequest:
        """What a handler is given beside the parameters."""
        return ClientRequest(self._peer, self._connection, call, session)

    def begin(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the application: a plain one gives its result at once, another an awaitable of it.

        What it raises goes on to the client, the traceback to the log.
        """
        try:
            result = function(*args)
        except RpcError:
            raise
        except Exception:
            _log_failure(function)
            raise
        return _awaited(function, result) if hasattr(result, "__await__") else result

    async def app(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the application and wait for its result."""
        result = self.begin(function, *args)
        return await result if hasattr(result, "__await__") else result

    # -- sessions begin -----------------------------------------------------------------------------------------

    async def open(self, params: OpeningRequest, call: IncomingCall) -> OpeningResponse:
        """New, load, resume and fork."""
        check_session_request(params, self._agent.accepts)
        stored = isinstance(params, LoadSessionRequest | ResumeSessionRequest)
        if stored and (open_one := self.sessions.get(params.session_id)) is not None and open_one.course:
            raise InvalidRequest("A prompt is running in this session")
        session = AgentSession(self._peer, params.session_id if stored else new_session_id(), params)
        if not isinstance(params, LoadSessionRequest):
            session.hold()
        given = await self._opened_by(session, params, call)
        if isinstance(given, NewSessionResponse | ForkSessionResponse):
            session.id = given.session_id
        response = session_response(session, given)
        before = self.sessions.get(session.id)
        self.sessions[session.id] = session  # at once: what is sent behind the request finds it
        if before is not None:
            await self.end(before)
        call.after_answer(session.opened)
        return response

    async def _opened_by(
        self, session: AgentSession, params: OpeningRequest, call: IncomingCall
    ) -> OpeningResponse | None:
        method = _opening_method(params)
        taken = self._handlers.taken.get(method)
        if taken is not None:
            return await self.app(taken, params, self.request(call, session))
        hook = self._handlers.hooks.get(method)
        if hook is None:
            return None
        if isinstance(params, ForkSessionRequest):
            return await self.app(hook, session, params.session_id)
        return await self.app(hook, session)

    # -- sessions end -------------------------------------------------------------------------------------------

    async def close(self, params: CloseSessionRequest, call: IncomingCall) -> CloseSessionResponse:
        """Cancel what runs, free the session."""
        session = self.sessions.pop(params.session_id, None)
        if session is None:
            raise unknown_session(params.session_id)
        await self._end_undisturbed(session)
        taken = self._handlers.taken.get("session/close")
        given = None if taken is None else await self.app(taken, params, self.request(call, session))
        return CloseSessionResponse() if given is None else given

    async def delete(self, params: DeleteSessionRequest, call: IncomingCall) -> DeleteSessionResponse:
        """Close the session if it is open, then let the application forget it."""
        await self._close_if_open(params.session_id)
        taken = self._handlers.taken.get("session/delete")
        if taken is not None:
            return await self.app(taken, params, self.request(call)) or DeleteSessionResponse()
        await self.app(self._handlers.hooks["session/delete"], params.session_id, self.request(call))
        return DeleteSessionResponse()

    async def archive(self, params: ArchiveSessionRequest, call: IncomingCall) -> ArchiveSessionResponse:
        """Close the session if it is open, then let the application hide it."""
        await self._close_if_open(params.session_id)
        taken = self._handlers.taken["session/archive"]
        return await self.app(taken, params, self.request(call)) or ArchiveSessionResponse()

    async def _close_if_open(self, session_id: str) -> None:
        session = self.sessions.pop(session_id, None)
        if session is not None:
            await self._end_undisturbed(session)

    async def _end_undisturbed(self, session: AgentSession) -> None:
        # The session is out of the list already: a cancelled request must not leave it half closed.
        await asyncio.shield(self._peer.own(self.end(session)))

    async def end(self, session: AgentSession) -> None:
        """Cancel the session's turn, wait for its answer, tell the application."""
        course = session.course
        if course is not None:
            course.cancel()
            await asyncio.wait((course.answered,))
        session.closed()
        hook = self._handlers.hooks.get("session/close")
        if hook is not None:
            await self.app(hook, session)

    def client_gone(self) -> None:
        """Cancel every turn; those that were still to begin end at once."""
        self._gone = True
        for session in self.sessions.values():
            if session.course is not None:
                session.course.cancel()

    async def end_all(self) -> None:
        """End every session, side by side. Bounded: what takes too long goes on until the tasks are stopped."""
        ending = [self._peer.own(self._end_quietly(session)) for session in self.sessions.values()]
        self.sessions.clear()
        if ending:
            await within(self._peer.clock, self._peer.grace, asyncio.gather(*ending, return_exceptions=True))

    async def _end_quietly(self, session: AgentSession) -> None:
        try:
            await self.end(session)
        except Exception:  # noqa: BLE001 - logged where it was raised; there is nobody left to tell
            pass

    async def list(self, params: ListSessionsRequest, call: IncomingCall) -> ListSessionsResponse:
        """The sessions there are. A filter that cannot be applied is refused, never ignored."""
        if params.cwd and not os.path.isabs(params.cwd):
            raise InvalidParams(f"cwd is not absolute: {params.cwd!r}")
        known = ("exclude", "include", "only") if "session/archive" in self._handlers.served else ()
        if params.archived and params.archived not in known:
            raise InvalidParams(f"archived: this agent does not know the filter {params.archived!r}")
        handler = self._handlers.taken.get("session/list") or self._handlers.hooks["session/list"]
        result = await self.app(handler, params, self.request(call))
        return result if isinstance(result, ListSessionsResponse) else ListSessionsResponse([*result])

    # -- turns --------------------------------------------------------------------------------------------------

    async def prompt(self, params: PromptRequest, call: IncomingCall) -> PromptResponse:
        """Run one turn."""
        session = self.session(params.session_id)
        if session.course is not None:
            raise InvalidRequest("A prompt is already running in this session")
        if self._peer.reader.strict:
            self._agent.check_prompt(params.prompt)
        session.course = course = TurnTask(self._peer, Turn(self._peer, session, params))

        def answered() -> None:
            session.course = None
            course.answered.set_result(None)

        call.after_answer(answered)
        if self._gone:
            course.cancel()
        taken = self._handlers.taken.get("session/prompt")
        if taken is None:
            return await course.run(self._handlers.hooks["session/prompt"])
        return await course.run(lambda turn: taken(params, self.request(call, session)))

    def cancel(self, params: CancelNotification) -> None:
        """Cancel the turn of a session, or a child session that may be cancelled; otherwise nothing happens."""
        session = self.sessions.get(params.session_id)
        if session is not None:
            if session.course is not None:
                session.course.cancel()
            return
        for parent in self.sessions.values():
            if (child := parent.children.get(params.session_id)) is not None:
                child.cancelled()

    def mcp_message(self, params: MessageMcpNotification) -> None:
        """News about an MCP request of ours."""
        from accord.agent.client_services import mcp_heard

        mcp_heard(self._peer, params)


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


async def _awaited(function: Callable[..., Any], result: Awaitable[Any]) -> Any:
    try:
        return await result
    except RpcError:
        raise
    except Exception:
        _log_failure(function)
        raise


def _log_failure(function: Callable[..., Any]) -> None:
    LOG.exception("%s failed", getattr(function, "__qualname__", function))


# MERGED agent.handshake: The start of a connection: `initialize`, who the user is, and what the agent says about itself.

PROTOCOL_VERSION = 1


class Handshake:
    """Whether `initialize` has come, and the methods around signing in."""

    def __init__(self, agent: "Agent", peer: ClientPeer, client: Client, service: BuiltinMethods) -> None:
        self.done = False
        self._agent = agent
        self._peer = peer
        self._client = client
        self._service = service
        self._reported: AuthStatusUpdateNotification | None = None

    def initialize(
        self, params: InitializeRequest, call: IncomingCall
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

    async def _taken_over(self, params: InitializeRequest, call: IncomingCall) -> InitializeResponse:
        handler = self._agent.handlers.taken["initialize"]
        try:
            given = await self._service.app(handler, params, self._service.request(call))
        except BaseException:
            self.done = False
            raise
        return self.answer() if given is None else given

    async def authenticate(self, params: AuthenticateRequest, call: IncomingCall) -> AuthenticateResponse:
        """Sign in by a method of the agent's own; a terminal method is the client's to run."""
        methods = [method.id for method in self._agent.auth_methods if isinstance(method, AuthMethodAgent)]
        if params.method_id not in methods:
            raise InvalidParams(f"Unknown auth method: {params.method_id}")
        hook = self._agent.handlers.hooks["authenticate"]
        await self._service.app(hook, params.method_id, self._service.request(call))
        return AuthenticateResponse()

    async def logout(self, params: LogoutRequest, call: IncomingCall) -> LogoutResponse:
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

    async def auth_status(self, params: AuthStatusRequest, call: IncomingCall) -> AuthStatusResponse:
        """Who is signed in. An answer is a report as well: the same need not be told again."""
        handler = self._agent.handlers.taken["auth/status"]
        answer: AuthStatusResponse = await self._service.app(handler, params, self._service.request(call))
        self._reported = AuthStatusUpdateNotification(answer.state, answer.accounts)
        return answer


# MERGED agent.choices: What the client sets in a session: modes and config options, checked first, then told to the application.


class OptionMethods:
    """`session/set_mode` and `session/set_config_option`."""

    def __init__(self, handlers: AgentHandlers, service: BuiltinMethods) -> None:
        self._handlers = handlers
        self._service = service

    async def set_mode(self, params: SetSessionModeRequest, call: IncomingCall) -> SetSessionModeResponse:
        """Change the mode."""
        session = self._service.session(params.session_id)
        pickers = session.pickers
        if pickers.modes is None:
            raise MethodNotFound("This session has no modes")
        try:
            mode_id = pickers.find_mode(params.mode_id)
        except UnknownOption as error:
            raise InvalidParams(str(error)) from None
        await self._mode_chosen(session, mode_id)
        if pickers.mode_option is not None and pickers.own_mode_option:
            await self._option_chosen(session, pickers.mode_option.id, mode_id)
        updates = pickers.set_mode(mode_id)
        call.after_answer(lambda: _tell(session, updates))
        return SetSessionModeResponse()

    async def set_config_option(
        self, params: SetSessionConfigOptionRequest, call: IncomingCall
    ) -> SetSessionConfigOptionResponse:
        """Change an option; the answer lists all of them."""
        session = self._service.session(params.session_id)
        pickers = session.pickers
        if not pickers.options:
            raise MethodNotFound("This session has no config options")
        config_id = params.config_id
        if call.method == "session/set_model":
            config_id = pickers.find_model_option(config_id)
        try:
            value = pickers.find_value(config_id, params.value)
        except UnknownOption as error:
            if config_id not in session.open_options or not isinstance(params.value, str):
                raise InvalidParams(str(error)) from None
            value = params.value
        is_mode = pickers.mode_option is not None and pickers.mode_option.id == config_id
        if is_mode and isinstance(value, str):
            await self._mode_chosen(session, value)
        if not is_mode or pickers.own_mode_option:
            await self._option_chosen(session, config_id, value)
        try:
            updates = pickers.set_option(config_id, value)
        except UsageError:
            updates = []  # the application has put other options in its place
        call.after_answer(lambda: _tell(session, [u for u in updates if isinstance(u, CurrentModeUpdate)]))
        return SetSessionConfigOptionResponse(pickers.shown())

    async def _mode_chosen(self, session: AgentSession, mode_id: str) -> None:
        hook = self._handlers.hooks.get("session/set_mode")
        if hook is not None:
            await self._service.app(hook, session, mode_id)

    async def _option_chosen(self, session: AgentSession, config_id: str, value: str | bool) -> None:
        hook = self._handlers.hooks.get("session/set_config_option")
        if hook is not None:
            await self._service.app(hook, session, config_id, value)


def _tell(session: AgentSession, updates: list[SessionUpdate]) -> None:
    if session.state != "closed":
        for update in updates:
            session.push(update)
