"""What every agent does by itself for each method of the protocol, calling the application's functions on the way."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from accord.clock import within
from accord.errors import InvalidParams, InvalidRequest, RpcError
from accord.schema.mcp import MessageMcpNotification
from accord.schema.prompts import CancelNotification, PromptRequest, PromptResponse
from accord.schema.sessions import (
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
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
)
from accord.wire.routes import Call

from .course import Course
from .ids import new_session_id
from .opening import OpeningResponse, answer, check, unknown_session
from .peer import LOG, Peer
from .request import ClientRequest
from .session import AgentSession, OpeningRequest
from .turn import Turn

if TYPE_CHECKING:
    from .app import Agent
    from .connection import AgentConnection


class Service:
    """The sessions of one connection, and the methods that act on them."""

    def __init__(self, agent: "Agent", connection: "AgentConnection", peer: Peer) -> None:
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

    def request(self, call: Call, session: AgentSession | None = None) -> ClientRequest:
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

    async def open(self, params: OpeningRequest, call: Call) -> OpeningResponse:
        """New, load, resume and fork."""
        check(params, self._agent.accepts)
        stored = isinstance(params, LoadSessionRequest | ResumeSessionRequest)
        if stored and (open_one := self.sessions.get(params.session_id)) is not None and open_one.course:
            raise InvalidRequest("A prompt is running in this session")
        session = AgentSession(self._peer, params.session_id if stored else new_session_id(), params)
        if not isinstance(params, LoadSessionRequest):
            session.hold()
        given = await self._opened_by(session, params, call)
        if isinstance(given, NewSessionResponse | ForkSessionResponse):
            session.id = given.session_id
        response = answer(session, given)
        before = self.sessions.get(session.id)
        self.sessions[session.id] = session  # at once: what is sent behind the request finds it
        if before is not None:
            await self.end(before)
        call.after_answer(session.opened)
        return response

    async def _opened_by(
        self, session: AgentSession, params: OpeningRequest, call: Call
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

    async def close(self, params: CloseSessionRequest, call: Call) -> CloseSessionResponse:
        """Cancel what runs, free the session."""
        session = self.sessions.pop(params.session_id, None)
        if session is None:
            raise unknown_session(params.session_id)
        await self._end_undisturbed(session)
        taken = self._handlers.taken.get("session/close")
        given = None if taken is None else await self.app(taken, params, self.request(call, session))
        return CloseSessionResponse() if given is None else given

    async def delete(self, params: DeleteSessionRequest, call: Call) -> DeleteSessionResponse:
        """Close the session if it is open, then let the application forget it."""
        await self._close_if_open(params.session_id)
        taken = self._handlers.taken.get("session/delete")
        if taken is not None:
            return await self.app(taken, params, self.request(call)) or DeleteSessionResponse()
        await self.app(self._handlers.hooks["session/delete"], params.session_id, self.request(call))
        return DeleteSessionResponse()

    async def archive(self, params: ArchiveSessionRequest, call: Call) -> ArchiveSessionResponse:
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

    async def list(self, params: ListSessionsRequest, call: Call) -> ListSessionsResponse:
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

    async def prompt(self, params: PromptRequest, call: Call) -> PromptResponse:
        """Run one turn."""
        session = self.session(params.session_id)
        if session.course is not None:
            raise InvalidRequest("A prompt is already running in this session")
        if self._peer.reader.strict:
            self._agent.check_prompt(params.prompt)
        session.course = course = Course(self._peer, Turn(self._peer, session, params))

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
        from .mcp import mcp_heard

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
