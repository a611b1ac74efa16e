"""The agent at the other end: what it can do, its sessions, signing in, and its end.

What it did not advertise is refused here with `NotOffered`, before anything is sent. The program behind it may be
replaced by a restart; this handle and its sessions stay.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from msgspec import Raw

from accord.client import gates, opening
from accord.client.authstatus import AuthStatus
from accord.client.events import AgentEvent
from accord.client.life import Life
from accord.client.login import Launch
from accord.client.providers import Providers
from accord.client.session import ClientSession
from accord.client.setup import AnyPath, SessionSetup
from accord.client.stream import EventStream
from accord.errors import BadAnswer, NotOffered, UsageError
from accord.schema import (
    UNSET,
    AgentCapabilities,
    ArchiveSessionRequest,
    AuthenticateRequest,
    AuthMethod,
    AuthMethodTerminal,
    AuthStatusRequest,
    DeleteSessionRequest,
    Implementation,
    ListSessionsRequest,
    ListSessionsResponse,
    LogoutRequest,
    McpServer,
    SessionInfo,
    SessionStatusRequest,
    SessionStatusResponse,
    SetSessionTitleRequest,
    SetSessionTitleResponse,
    SystemPrompt,
    UnarchiveSessionRequest,
)
from accord.schema.jsontext import NotJson, parse_json


class RemoteAgent:
    """A connected agent. Made by `connect`."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self.providers = Providers(life)
        """Unstable. Which model providers the agent uses."""

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What to call it."""
        return self._life.name

    @property
    def info(self) -> Implementation | None:
        """Who it says it is."""
        return self._life.link.agreed.agent_info or None

    @property
    def capabilities(self) -> AgentCapabilities:
        """What it can do; what is absent, null or false it cannot."""
        return self._life.link.capabilities

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The ways to sign in that it offers."""
        return self._life.link.auth_methods

    @property
    def sessions(self) -> list[ClientSession]:
        """The sessions that are open on this connection."""
        return list(self._life.sessions)

    def events(self) -> EventStream[AgentEvent]:
        """What happens to the agent itself from now on: it ended, was restarted, sessions came back or were lost.

        If it is dead already, that is the first event.
        """
        inbox = self._life.listen()
        return EventStream(inbox, lambda: self._life.leave(inbox))

    # -- opening sessions ---------------------------------------------------------------------------------------

    async def new_session(
        self,
        cwd: AnyPath,
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[AnyPath] = (),
        system_prompt: SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a session that works in a folder. May raise AuthRequired, which carries the ways to sign in."""
        setup = SessionSetup.of(cwd, mcp_servers, additional_directories, system_prompt)
        return await opening.new(self._life, setup)

    async def load_session(
        self,
        session_id: str,
        cwd: AnyPath,
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[AnyPath] = (),
        system_prompt: SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a stored session; its history is in the state when this returns. Say all folders and servers again."""
        setup = SessionSetup.of(cwd, mcp_servers, additional_directories, system_prompt)
        return await opening.load(self._life, session_id, setup)

    async def resume_session(
        self,
        session_id: str,
        cwd: AnyPath,
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[AnyPath] = (),
        system_prompt: SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a stored session without its history. Say all folders and servers again."""
        setup = SessionSetup.of(cwd, mcp_servers, additional_directories, system_prompt)
        return await opening.resume(self._life, session_id, setup)

    async def fork_session(
        self,
        source: ClientSession | str,
        cwd: AnyPath | None = None,
        *,
        mcp_servers: Sequence[McpServer] = (),
    ) -> ClientSession:
        """Unstable. A new session that begins with what another one knows; folders, servers and instructions as there.

        A stored session that is not open is named by its id, and the folder has to be said.
        """
        if isinstance(source, str):
            if cwd is None:
                raise UsageError(f"the session {source!r} is not open here: say the folder of its fork")
            return await opening.fork(self._life, source, SessionSetup.of(cwd, mcp_servers))
        setup = source.setup
        if cwd is not None:
            setup = SessionSetup.of(cwd, setup.mcp_servers, setup.additional_directories, setup.system_prompt)
        return await opening.fork(self._life, source.id, setup)

    # -- stored sessions ----------------------------------------------------------------------------------------

    async def list_page(
        self, *, cwd: AnyPath | None = None, cursor: str | None = None, archived: str | None = None
    ) -> ListSessionsResponse:
        """One page of the stored sessions. The cursor is the agent's own, to be handed back as it is.

        `archived` (unstable) is `exclude`, `include` or `only`.
        """
        if archived is not None:
            sessions = self.capabilities.session_capabilities or None
            if not (sessions and sessions.archive):
                raise NotOffered("the filter `archived` needs sessionCapabilities.archive, which is not set")
        wanted = ListSessionsRequest(
            cwd=SessionSetup.of(cwd).cwd if cwd is not None else UNSET,
            cursor=UNSET if cursor is None else cursor,
            archived=UNSET if archived is None else archived,
        )
        return await self._gated("session/list", wanted)

    async def list_sessions(
        self, *, cwd: AnyPath | None = None, archived: str | None = None
    ) -> AsyncGenerator[SessionInfo]:
        """All stored sessions, page after page as the iteration goes on."""
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            page = await self.list_page(cwd=cwd, cursor=cursor, archived=archived)
            for info in page.sessions:
                yield info
            cursor = page.next_cursor if isinstance(page.next_cursor, str) else None
            if cursor is None:
                return
            if cursor in seen:
                raise BadAnswer(
                    f"session/list: the agent gave the cursor {cursor!r} twice; the list has no end"
                )
            seen.add(cursor)

    async def delete_session(self, session_id: str) -> None:
        """Remove a session from the agent's list for good."""
        await self._gated("session/delete", DeleteSessionRequest(session_id))
        await self._shut(session_id, "the session was deleted")

    async def archive_session(self, session_id: str) -> None:
        """Unstable. Close a session and hide it from the ordinary list."""
        await self._gated("session/archive", ArchiveSessionRequest(session_id))
        await self._shut(session_id, "the session was archived")

    async def unarchive_session(self, session_id: str) -> None:
        """Unstable. Show a session in the list again; do this before it is loaded or resumed."""
        await self._gated("session/unarchive", UnarchiveSessionRequest(session_id))

    async def session_status(self, session_id: str) -> str:
        """Unstable. `open` if the agent holds it in memory, else `saved`; either way it has to be loaded or resumed here."""
        answer: SessionStatusResponse = await self._gated("session/status", SessionStatusRequest(session_id))
        return answer.status if answer.status == "open" else "saved"

    async def set_title(self, session_id: str, title: str) -> str:
        """Unstable. Give a session a title; returns the title as the agent stored it, which is the one to show."""
        answer: SetSessionTitleResponse = await self._gated(
            "session/set_title", SetSessionTitleRequest(session_id, title)
        )
        return answer.title

    # -- signing in ---------------------------------------------------------------------------------------------

    async def authenticate(self, method_id: str) -> None:
        """Sign in by one of the agent's own methods. Takes as long as the user does."""
        method = self._auth_method(method_id)
        if isinstance(method, AuthMethodTerminal):
            raise UsageError(
                f"{method_id!r} is a terminal method, which `authenticate` must not name; use sign_in"
            )
        link = await self._life.ready()
        await link.patient_call("authenticate", AuthenticateRequest(method_id))

    async def sign_in(self, method: AuthMethod | str) -> None:
        """Sign in by any advertised method. A terminal method runs the agent's program with further arguments, in the
        terminal of `ClientHandlers.login`; when it exits with 0, the agent is started anew.
        """
        known = self._auth_method(method if isinstance(method, str) else method.id)
        if not isinstance(known, AuthMethodTerminal):
            await self.authenticate(known.id)
            return
        login, source = self._life.handlers.login, self._life.source
        if login is None or not isinstance(source, Launch):
            raise UsageError(
                "signing in by terminal needs ClientHandlers(login=...) and an agent that is started here"
            )
        code = await login(source.for_login(known))
        if code != 0:
            raise UsageError(f"signing in by {known.name!r} failed: the program exited with {code}")
        await self._life.restart()

    async def logout(self) -> None:
        """Sign out. Sessions that are open may go on, end, or ask to sign in again."""
        await self._gated("logout", LogoutRequest())

    async def auth_status(self) -> AuthStatus:
        """Unstable. Whether somebody is signed in."""
        return AuthStatus.of(await self._gated("auth/status", AuthStatusRequest()))

    def _auth_method(self, method_id: str) -> AuthMethod:
        for method in self.auth_methods:
            if method.id == method_id:
                return method
        listed = ", ".join(repr(method.id) for method in self.auth_methods) or "none"
        raise UsageError(f"the agent offers no sign-in method {method_id!r}; it lists {listed}")

    # -- extensions ---------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Any = None) -> Any:
        """Call an extension method of the agent with plain JSON values; its name begins with an underscore."""
        _insist_on_extension(method)
        link = await self._life.ready()
        return await link.call(method, {} if params is None else params, read=_plain)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send an extension notification."""
        _insist_on_extension(method)
        link = await self._life.ready()
        link.notify(method, {} if params is None else params)

    # -- its life -----------------------------------------------------------------------------------------------

    async def restart(self) -> None:
        """Start the program again and take the open sessions up again."""
        await self._life.restart()

    async def aclose(self) -> None:
        """End the agent, with everything it started. Bounded; harmless twice."""
        await self._life.aclose()

    async def _gated(self, method: str, params: Any) -> Any:
        link = await self._life.ready()
        gates.require(method, link.capabilities)
        return await link.call(method, params)

    async def _shut(self, session_id: str, why: str) -> None:
        session = self._life.sessions.find(session_id)
        if session is not None:
            await session.shut(why)


def _insist_on_extension(method: str) -> None:
    if not method.startswith("_"):
        raise UsageError(f"{method!r} is no extension: names of extensions begin with an underscore")


def _plain(raw: Raw) -> Any:
    try:
        return parse_json(raw)
    except NotJson as error:
        raise BadAnswer(f"the result cannot be read: {error}") from None
