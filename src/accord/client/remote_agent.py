"""`connect()` and `RemoteAgent`: start, dial or attach; sessions, sign-in, providers, close."""

import os
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from accord.client import agent_connection, session_registry
from accord.client.agent_handle import AgentHandle, Source
from accord.client.client_events import AgentEvent, AuthStatus
from accord.client.client_options import ClientOptions
from accord.client.client_session import AnyPath, ClientSession, SessionSetup
from accord.client.event_stream import EventStream
from accord.client.handlers import AgentCommand, ClientHandlers
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
    DisableProviderRequest,
    Implementation,
    ListProvidersRequest,
    ListProvidersResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LogoutRequest,
    McpServer,
    ProviderInfo,
    SessionInfo,
    SessionStatusRequest,
    SessionStatusResponse,
    SetProviderRequest,
    SetSessionTitleRequest,
    SetSessionTitleResponse,
    SystemPrompt,
    UnarchiveSessionRequest,
)
from accord.schema.codec import NotJson, parse_json
from accord.wire.remote.address import RemoteLauncher, Tls, is_address, read_address
from accord.wire.transport import Transport

if TYPE_CHECKING:
    from accord.client.agent_connection import InitializedConnection


# MERGED client.providers: Unstable. The model providers of an agent: which there are, and by way of which address they are reached.


class Providers:
    """What `providers/*` does. Set them before sessions are opened; the agent forgets them when it ends."""

    def __init__(self, life: "AgentHandle") -> None:
        self._life = life

    async def list(self) -> list[ProviderInfo]:
        """All providers, those that are switched off included."""
        link = await self._offered("providers/list")
        answer: ListProvidersResponse = await link.call("providers/list", ListProvidersRequest())
        return answer.providers

    async def set(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Reach a provider this way from now on; headers replace all that were set before."""
        link = await self._offered("providers/set")
        wanted = SetProviderRequest(provider_id, api_type, base_url, dict(headers) if headers else UNSET)
        await link.call("providers/set", wanted)

    async def disable(self, provider_id: str) -> None:
        """Switch a provider off."""
        link = await self._offered("providers/disable")
        await link.call("providers/disable", DisableProviderRequest(provider_id))

    async def _offered(self, method: str) -> "InitializedConnection":
        link = await self._life.ready()
        agent_connection.require(method, link.capabilities)
        return link


# MERGED client.remote: The agent at the other end: what it can do, its sessions, signing in, and its end.
#
# What it did not advertise is refused here with `NotOffered`, before anything is sent. The program behind it may be
# replaced by a restart; this handle and its sessions stay.


class RemoteAgent:
    """A connected agent. Made by `connect`."""

    def __init__(self, life: AgentHandle) -> None:
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
        return await session_registry.new_session(self._life, setup)

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
        return await session_registry.load_session(self._life, session_id, setup)

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
        return await session_registry.resume_session(self._life, session_id, setup)

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
            return await session_registry.fork_session(self._life, source, SessionSetup.of(cwd, mcp_servers))
        setup = source.setup
        if cwd is not None:
            setup = SessionSetup.of(cwd, setup.mcp_servers, setup.additional_directories, setup.system_prompt)
        return await session_registry.fork_session(self._life, source.id, setup)

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
        if login is None or not isinstance(source, AgentCommand):
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
        agent_connection.require(method, link.capabilities)
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


# MERGED client.connect: Where it begins: start a program, dial an address, or take a transport, and get a connected agent.


class PendingAgent:
    """An agent about to be connected: `async with` it, or `await` it and call `aclose` yourself."""

    def __init__(
        self, source: Source, handlers: ClientHandlers | None, options: ClientOptions | None
    ) -> None:
        self._life = AgentHandle(source, handlers or ClientHandlers(), options or ClientOptions())

    async def _connected(self) -> RemoteAgent:
        await self._life.start()
        return RemoteAgent(self._life)

    def __await__(self) -> Generator[Any, Any, RemoteAgent]:
        return self._connected().__await__()

    async def __aenter__(self) -> RemoteAgent:
        return await self._connected()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._life.aclose()


def connect(
    *command: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    tls: Tls | None = None,
    handlers: ClientHandlers | None = None,
    options: ClientOptions | None = None,
) -> PendingAgent:
    """Start an agent and connect to it over its stdin and stdout, or connect to one at an address.

    `cwd` is where the program starts (sessions have folders of their own), `env` is laid over our own environment, with
    None for what to leave out. An address begins with `ws://` or `wss://` (WebSocket), `http://` or `https://` (streamable
    HTTP); with it go `token` (sent as a bearer token; `#token=...` in the address is the same), further `headers`, and whom
    to trust: `tls`, a context or a file of certificates. Raises NeverStarted, HandshakeFailed or RequestTimeout when it is
    entered.
    """
    if not command:
        raise UsageError("connect needs the agent's command, such as connect('some-agent', '--acp')")
    program, *arguments = command
    if is_address(program):
        if arguments or cwd is not None or env is not None:
            raise UsageError("an agent at an address is not started here: it takes no arguments, cwd or env")
        address = read_address(program, token=token, headers=headers, tls=tls)
        return PendingAgent(RemoteLauncher(address), handlers, options)
    if token is not None or headers is not None or tls is not None:
        raise UsageError(f"token, headers and tls are for an agent at an address; {program!r} is a program")
    launch = AgentCommand(command, None if cwd is None else os.fspath(cwd), env)
    return PendingAgent(launch, handlers, options)


def connect_transport(
    transport: Transport, *, handlers: ClientHandlers | None = None, options: ClientOptions | None = None
) -> PendingAgent:
    """Connect to an agent at the other end of a transport. It cannot be restarted."""
    return PendingAgent(transport, handlers, options)
