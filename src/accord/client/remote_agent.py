"""`connect()` and `RemoteAgent`: start an agent or connect to one; sessions, sign-in, providers, close.

A call that the agent did not advertise raises `NotOffered` before anything is sent. A restart can replace the
program; the `RemoteAgent` and its sessions stay.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from accord.client import agent_connection, session_registry
from accord.client.agent_handle import AgentEndpoint, AgentHandle
from accord.client.client_events import AgentEvent, AuthStatus, auth_status
from accord.client.client_options import ClientOptions, ProtocolChoice
from accord.client.client_session import ClientSession
from accord.client.event_stream import EventStream
from accord.client.handlers import AgentCommand, ClientHandlers
from accord.client.session_core import AnyPath, SessionSetup
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
from accord.schema.methods import (
    SESSION_ARCHIVE,
    SESSION_RENAME,
    SESSION_UNARCHIVE,
    check_extension_name,
)
from accord.wire.connection import require_asyncio
from accord.wire.remote.address import RemoteLauncher, Tls, is_address, read_address
from accord.wire.transport import Transport

if TYPE_CHECKING:
    from accord.client.session_subscription import SessionSubscription


def connect(
    *command: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    tls: Tls | None = None,
    handlers: ClientHandlers | None = None,
    options: ClientOptions | None = None,
    protocol: ProtocolChoice | None = None,
) -> "PendingAgent":
    """Start an agent and connect to its stdin and stdout, or connect to an agent at an address.

    For a program: `cwd` is where it starts (sessions have their own directories), and `env` changes the
    environment of this process, where None removes a variable.

    An address begins with `ws://` or `wss://` (WebSocket), `http://` or `https://` (streamable HTTP). `token`
    is sent as a bearer token (`#token=...` in the address is the same), `headers` adds HTTP headers, and
    `tls` is an SSL context or a file of certificates.

    `protocol` is that of the options: 1, 2, or "auto" for version 2 (a draft) if the agent speaks it.

    Raises NeverStarted, HandshakeFailed or RequestTimeout on entry.
    """
    if not command:
        raise UsageError("connect needs the agent's command, such as connect('some-agent', '--acp')")
    for word in command:
        if not isinstance(word, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a common mistake
            raise UsageError(
                "connect takes the program and its arguments as separate strings, such as "
                f"connect('some-agent', '--acp'); got {word!r}"
            )
    if protocol is not None:
        options = replace(options or ClientOptions(), protocol=protocol)
    program, *arguments = command
    if is_address(program):
        if arguments or cwd is not None or env is not None:
            raise UsageError("an agent at an address takes no arguments, cwd or env")
        address = read_address(program, token=token, headers=headers, tls=tls)
        return PendingAgent(RemoteLauncher(address), handlers, options)
    if token is not None or headers is not None or tls is not None:
        raise UsageError(f"token, headers and tls are for an agent at an address; {program!r} is a program")
    agent_command = AgentCommand(command, None if cwd is None else os.fspath(cwd), env)
    return PendingAgent(agent_command, handlers, options)


def connect_transport(
    transport: Transport, *, handlers: ClientHandlers | None = None, options: ClientOptions | None = None
) -> "PendingAgent":
    """Connect to an agent through a transport. Such an agent cannot be restarted."""
    return PendingAgent(transport, handlers, options)


class PendingAgent:
    """An agent that is not connected yet. Use it with `async with`, or `await` it and call `aclose` later."""

    def __init__(
        self, source: AgentEndpoint, handlers: ClientHandlers | None, options: ClientOptions | None
    ) -> None:
        self._handle = AgentHandle(source, handlers or ClientHandlers(), options or ClientOptions())
        self._agent = RemoteAgent(self._handle)

    async def _connect(self) -> "RemoteAgent":
        require_asyncio("accord.connect")
        await self._handle.start()
        return self._agent

    def __await__(self) -> "Generator[Any, Any, RemoteAgent]":
        return self._connect().__await__()

    async def __aenter__(self) -> "RemoteAgent":
        return await self._connect()

    async def __aexit__(self, *_: object) -> None:
        await self._handle.aclose()


class RemoteAgent:
    """A connected agent. `connect` creates it."""

    def __init__(self, handle: AgentHandle) -> None:
        handle.agent = self
        self._handle = handle
        self.providers: Providers = Providers(self._call)
        """Unstable. The model providers of the agent."""

    @property
    def name(self) -> str:
        """The name that the agent reports, or the name of its program."""
        return self._handle.name

    @property
    def info(self) -> Implementation | None:
        """The name and version that the agent reports."""
        return self._handle.connection.initialize_response.agent_info or None

    @property
    def capabilities(self) -> AgentCapabilities:
        """The capabilities that the agent advertised."""
        return self._handle.connection.capabilities

    @property
    def can_steer(self) -> bool:
        """Whether the agent takes messages during a turn (`ClientSession.steer`)."""
        return self._handle.connection.can_steer

    @property
    def can_rewind(self) -> bool:
        """Whether sessions of the agent can go back to earlier messages (`ClientSession.rewind`)."""
        return self._handle.connection.can_rewind

    @property
    def can_follow_sessions(self) -> bool:
        """Whether the agent tells changes of its list of sessions (`follow_sessions`)."""
        return self._handle.connection.has_session_index

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The sign-in methods of the agent."""
        return self._handle.connection.auth_methods

    @property
    def sessions(self) -> list[ClientSession]:
        """The open sessions."""
        return [session.session for session in self._handle.sessions]

    @property
    def options(self) -> ClientOptions:
        """The options of this connection."""
        return self._handle.options

    @property
    def remote(self) -> bool:
        """Whether the agent is at an address and not a program of this machine."""
        return self._handle.remote

    @property
    def connected(self) -> bool:
        """Whether the connection is up. False after the agent ended, until it was restarted."""
        return self._handle.connection.rpc.end is None

    @property
    def reading_paused(self) -> bool:
        """Whether the client reads nothing from the agent now, because too many events are unread."""
        return self._handle.connection.rpc.pressure.paused

    def events(self) -> EventStream[AgentEvent]:
        """Iterate over new events of the agent itself, such as its end or a restart.

        If the agent has already ended, `AgentEnded` is the first event.
        """
        queue = self._handle.open_queue()
        return EventStream(queue, lambda: self._handle.remove_queue(queue))

    # -- sessions --------------------------------------------------------------------------------------------

    async def new_session(
        self,
        cwd: AnyPath,
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[AnyPath] = (),
        system_prompt: SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a session in a directory.

        Raises AuthRequired, with the sign-in methods, if the user must sign in.
        """
        setup = SessionSetup.of(cwd, mcp_servers, additional_directories, system_prompt)
        return (await session_registry.new_session(self._handle, setup)).session

    async def load_session(
        self,
        session_id: str,
        cwd: AnyPath,
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[AnyPath] = (),
        system_prompt: SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a stored session. Its history is in `session.state` when this returns.

        Pass all directories and servers again.
        """
        setup = SessionSetup.of(cwd, mcp_servers, additional_directories, system_prompt)
        return (await session_registry.load_session(self._handle, session_id, setup)).session

    async def resume_session(
        self,
        session_id: str,
        cwd: AnyPath,
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[AnyPath] = (),
        system_prompt: SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a stored session without its history. Pass all directories and servers again."""
        setup = SessionSetup.of(cwd, mcp_servers, additional_directories, system_prompt)
        return (await session_registry.resume_session(self._handle, session_id, setup)).session

    async def fork_session(
        self,
        source: ClientSession | str,
        cwd: AnyPath | None = None,
        *,
        mcp_servers: Sequence[McpServer] = (),
    ) -> ClientSession:
        """Unstable. Open a new session that starts with the history of another one.

        The directories, servers and instructions are those of the source. For a stored session that is not
        open, pass its id and the directory of the fork.
        """
        if isinstance(source, str):
            if cwd is None:
                raise UsageError(
                    f"the session {source!r} is not open here; pass cwd, the directory of the fork"
                )
            fork = await session_registry.fork_session(
                self._handle, source, SessionSetup.of(cwd, mcp_servers)
            )
            return fork.session
        setup = SessionSetup.of(
            source.cwd if cwd is None else cwd,
            source.mcp_servers,
            source.additional_directories,
            source.system_prompt,
        )
        return (await session_registry.fork_session(self._handle, source.id, setup)).session

    async def list_page(
        self, *, cwd: AnyPath | None = None, cursor: str | None = None, archived: str | None = None
    ) -> ListSessionsResponse:
        """Fetch one page of the stored sessions. Pass `next_cursor` of the response as `cursor` for the next.

        `archived` (unstable) is `exclude`, `include` or `only`.
        """
        if archived is not None:
            sessions = self.capabilities.session_capabilities or None
            if not (sessions and sessions.archive):
                raise NotOffered("the filter `archived` needs sessionCapabilities.archive, which is not set")
        params = ListSessionsRequest(
            cwd=SessionSetup.of(cwd).cwd if cwd is not None else UNSET,
            cursor=UNSET if cursor is None else cursor,
            archived=UNSET if archived is None else archived,
        )
        return await self._call("session/list", params)

    async def list_sessions(
        self, *, cwd: AnyPath | None = None, archived: str | None = None
    ) -> AsyncGenerator[SessionInfo]:
        """Iterate over all stored sessions; fetches pages as needed."""
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
                    f"session/list: the agent returned the cursor {cursor!r} twice; the list would never end"
                )
            seen.add(cursor)

    def follow_sessions(self, cwd: AnyPath) -> "SessionSubscription":
        """Follow the list of sessions of a directory: `async with agent.follow_sessions(cwd) as changes`.

        Needs an agent with the extension `sessionIndex` (`RemoteAgent.can_follow_sessions`).
        """
        from accord.client.session_subscription import SessionSubscription

        return SessionSubscription(self._handle, SessionSetup.of(cwd).cwd)

    async def delete_session(self, session_id: str) -> None:
        """Delete a stored session."""
        await self._call("session/delete", DeleteSessionRequest(session_id))
        await self._end_session(session_id, "the session was deleted")

    async def archive_session(self, session_id: str) -> None:
        """Unstable. Close a session and hide it from the ordinary list."""
        if not await self._index_call("archive", SESSION_ARCHIVE, {"sessionId": session_id}):
            await self._call("session/archive", ArchiveSessionRequest(session_id))
        await self._end_session(session_id, "the session was archived")

    async def unarchive_session(self, session_id: str) -> None:
        """Unstable. Show a session in the ordinary list again, so that it can be loaded or resumed."""
        if not await self._index_call("archive", SESSION_UNARCHIVE, {"sessionId": session_id}):
            await self._call("session/unarchive", UnarchiveSessionRequest(session_id))

    async def session_status(self, session_id: str) -> str:
        """Unstable. `open` if the agent has the session in memory, otherwise `saved`.

        In both cases it must be loaded or resumed here before use.
        """
        response: SessionStatusResponse = await self._call("session/status", SessionStatusRequest(session_id))
        return response.status if response.status == "open" else "saved"

    async def set_title(self, session_id: str, title: str) -> str:
        """Unstable. Set the title of a session. Returns the title that the agent stored; show that one.

        An agent that only has `_session/rename` does not say what it stored.
        """
        if await self._index_call("title", SESSION_RENAME, {"sessionId": session_id, "title": title}):
            return title
        response: SetSessionTitleResponse = await self._call(
            "session/set_title", SetSessionTitleRequest(session_id, title)
        )
        return response.title

    # -- sign-in ---------------------------------------------------------------------------------------------

    async def authenticate(self, method_id: str) -> None:
        """Sign in with a method of the agent. There is no time limit, because it waits for the user."""
        method = self._auth_method(method_id)
        if isinstance(method, AuthMethodTerminal):
            raise UsageError(
                f"{method_id!r} is a terminal method, which `authenticate` cannot use; call sign_in instead"
            )
        connection = await self._handle.ready()
        await connection.unlimited_call("authenticate", AuthenticateRequest(method_id))

    async def sign_in(self, method: AuthMethod | str) -> None:
        """Sign in with any advertised method.

        A terminal method runs the agent's program with additional arguments through `ClientHandlers.login`.
        When the program exits with 0, the agent is restarted.
        """
        chosen = self._auth_method(method if isinstance(method, str) else method.id)
        if not isinstance(chosen, AuthMethodTerminal):
            await self.authenticate(chosen.id)
            return
        login, source = self._handle.handlers.login, self._handle.source
        if login is None or not isinstance(source, AgentCommand):
            raise UsageError(
                "a terminal sign-in needs ClientHandlers(login=...) and an agent that connect() started"
            )
        code = await login(source.for_login(chosen))
        if code != 0:
            raise UsageError(f"the sign-in {chosen.name!r} failed: the program exited with {code}")
        await self._handle.restart()

    async def logout(self) -> None:
        """Sign out. Open sessions can continue, end, or require a new sign-in."""
        await self._call("logout", LogoutRequest())

    async def auth_status(self) -> AuthStatus:
        """Unstable. Fetch the sign-in status."""
        return auth_status(await self._call("auth/status", AuthStatusRequest()))

    def _auth_method(self, method_id: str) -> AuthMethod:
        for method in self.auth_methods:
            if method.id == method_id:
                return method
        listed = ", ".join(repr(method.id) for method in self.auth_methods) or "none"
        raise UsageError(f"the agent has no sign-in method {method_id!r}; it lists {listed}")

    # -- extensions ------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Any = None) -> Any:
        """Call an extension method of the agent with plain JSON values.

        Its name begins with an underscore.
        """
        check_extension_name(method)
        connection = await self._handle.ready()
        return await connection.call(method, {} if params is None else params, read=_plain_json)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send an extension notification. Raises ConnectionClosed if the agent is gone."""
        check_extension_name(method)
        connection = await self._handle.ready()
        connection.notify(method, {} if params is None else params)
        await connection.rpc.drain()

    # -- restart and end -------------------------------------------------------------------------------------

    async def restart(self) -> None:
        """Restart the program and reopen the sessions."""
        await self._handle.restart()

    async def ready(self) -> None:
        """Wait for a restart that is in progress. Raises its error if it failed."""
        await self._handle.ready()

    async def aclose(self) -> None:
        """End the agent and everything it started. Bounded; can be called twice."""
        await self._handle.aclose()

    async def _call(self, method: str, params: Any) -> Any:
        connection = await self._handle.ready()
        agent_connection.require_method(method, connection.capabilities)
        return await connection.call(method, params)

    async def _index_call(self, capability: str, method: str, params: dict[str, str]) -> bool:
        """Use the extension `sessionIndex` if the agent lacks the standard method. Returns whether it did."""
        connection = await self._handle.ready()
        sessions = connection.capabilities.session_capabilities or None
        if not connection.has_session_index or (sessions and getattr(sessions, capability)):
            return False
        await connection.call(method, params, read=_plain_json)
        return True

    async def _end_session(self, session_id: str, reason: str) -> None:
        session = self._handle.sessions.find(session_id)
        if session is not None:
            await session.end(reason)


def _plain_json(raw: Raw) -> Any:
    try:
        return parse_json(raw)
    except NotJson as error:
        raise BadAnswer(f"the result cannot be read: {error}") from None


class Providers:
    """Unstable. The model providers of an agent. Set them before you open sessions.

    The agent forgets them when it ends.
    """

    def __init__(self, call: Callable[[str, Any], Awaitable[Any]]) -> None:
        self._call = call

    async def list(self) -> list[ProviderInfo]:
        """All providers, including the disabled ones."""
        response: ListProvidersResponse = await self._call("providers/list", ListProvidersRequest())
        return response.providers

    async def set(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Set how the agent reaches a provider; `headers` replaces all earlier headers."""
        params = SetProviderRequest(provider_id, api_type, base_url, dict(headers) if headers else UNSET)
        await self._call("providers/set", params)

    async def disable(self, provider_id: str) -> None:
        """Disable a provider."""
        await self._call("providers/disable", DisableProviderRequest(provider_id))
