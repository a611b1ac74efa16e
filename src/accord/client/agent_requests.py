"""Serves the requests and notifications of the agent, files and terminals included."""

from collections.abc import Awaitable, Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Raw

from accord.client.client_events import AuthStatus, AuthStatusChanged, TerminalViews
from accord.client.handlers import McpCall, serve_mcp_call
from accord.errors import InvalidParams
from accord.schema import (
    UNSET,
    AuthStatusUpdateNotification,
    CreateTerminalRequest,
    CreateTerminalResponse,
    ElicitationFormMode,
    ElicitationUrlMode,
    KillTerminalRequest,
    KillTerminalResponse,
    MessageMcpNotification,
    MessageMcpRequest,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    RequestPermissionRequest,
    TerminalExitStatus,
    TerminalOutputRequest,
    TerminalOutputResponse,
    Unknown,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)
from accord.schema.codec import NotJson, parse_json
from accord.schema.message_reader import MessageReader
from accord.schema.methods import Method, notification, request
from accord.wire.calls import IncomingCall, Route
from accord.workspace.terminals import ExitStatus
from accord.workspace.workspace import Workspace

if TYPE_CHECKING:
    from accord.client.agent_handle import AgentHandle
    from accord.client.client_session import ClientSession


# MERGED client.workspaces: Files and terminals for the agent: `fs/*` and `terminal/*`, each request served by the workspace of its session.


class LazyWorkspace(Protocol):
    """A workspace that is made when it is needed."""

    def use(self) -> Workspace:
        """The workspace as it has to be now."""
        ...


class WorkspaceOwner(Protocol):
    """Whose files and terminals the agent asks for."""

    @property
    def workspace(self) -> LazyWorkspace:
        """What serves it."""
        ...

    @property
    def terminals(self) -> TerminalViews:
        """What its terminals printed."""
        ...


class SessionWorkspace:
    """The workspace of one session: made when it is first needed, ended with the session or its agent."""

    def __init__(self, session: "ClientSession") -> None:
        self._session = session
        self._made: Workspace | None = None
        self._folders: tuple[Path, ...] = ()

    def use(self) -> Workspace:
        """The workspace, bound to the folders that the session has now."""
        session = self._session
        folders = session.roots.folders
        if self._made is None or folders != self._folders:
            # A child may be given other folders while it runs; what it started in the old ones ends.
            if self._made is not None:
                session.life.own(self._made.aclose())
            maker = session.life.handlers.workspace
            assert maker is not None, "only served when a workspace is offered"
            self._made, self._folders = maker(session), folders
        return self._made

    async def aclose(self) -> None:
        """End what runs in it; a new one is made when it is needed again."""
        made, self._made = self._made, None
        if made is not None:
            await made.aclose()


async def read_text_file(session: WorkspaceOwner, asked: ReadTextFileRequest) -> ReadTextFileResponse:
    """`fs/read_text_file`."""
    text = await session.workspace.use().read_text_file(asked.path, _given(asked.line), _given(asked.limit))
    return ReadTextFileResponse(text)


async def write_text_file(session: WorkspaceOwner, asked: WriteTextFileRequest) -> WriteTextFileResponse:
    """`fs/write_text_file`."""
    await session.workspace.use().write_text_file(asked.path, asked.content)
    return WriteTextFileResponse()


async def create_terminal(session: WorkspaceOwner, asked: CreateTerminalRequest) -> CreateTerminalResponse:
    """`terminal/create`."""
    terminal_id = await session.workspace.use().create_terminal(
        asked.command,
        _given(asked.args),
        env={variable.name: variable.value for variable in asked.env or ()},
        cwd=_given(asked.cwd),
        output_byte_limit=_given(asked.output_byte_limit),
    )
    session.terminals.view(terminal_id).command = " ".join([asked.command, *(asked.args or ())])
    return CreateTerminalResponse(terminal_id)


async def terminal_output(session: WorkspaceOwner, asked: TerminalOutputRequest) -> TerminalOutputResponse:
    """`terminal/output`."""
    now = await session.workspace.use().terminal_output(asked.terminal_id)
    answer = TerminalOutputResponse(now.output, now.truncated)
    if now.exit_status is not None:
        session.terminals.view(asked.terminal_id).exit_status = now.exit_status
        answer.exit_status = TerminalExitStatus(*_code_and_signal(now.exit_status))
    return answer


async def wait_for_exit(
    session: WorkspaceOwner, asked: WaitForTerminalExitRequest
) -> WaitForTerminalExitResponse:
    """`terminal/wait_for_exit`."""
    status = await session.workspace.use().wait_for_exit(asked.terminal_id)
    session.terminals.view(asked.terminal_id).exit_status = status
    return WaitForTerminalExitResponse(*_code_and_signal(status))


async def kill_terminal(session: WorkspaceOwner, asked: KillTerminalRequest) -> KillTerminalResponse:
    """`terminal/kill`."""
    await session.workspace.use().kill_terminal(asked.terminal_id)
    return KillTerminalResponse()


async def release_terminal(session: WorkspaceOwner, asked: ReleaseTerminalRequest) -> ReleaseTerminalResponse:
    """`terminal/release`."""
    await session.workspace.use().release_terminal(asked.terminal_id)
    session.terminals.view(asked.terminal_id).released = True
    return ReleaseTerminalResponse()


def _given(value: Any) -> Any:
    """The value, or None where it is absent or null."""
    return None if value is UNSET else value


def _code_and_signal(status: ExitStatus) -> tuple[int | None, str | None]:
    return status.exit_code, status.signal


# MERGED client.routes: How each request and notification of the agent is served. What was not advertised has no route and is refused.
#
# A request about a session that is not ours is refused before anything is done.

Serve: TypeAlias = Callable[["ClientSession", Any], Awaitable[Any]]


class AgentRequestRoutes:
    """The routes of one agent's connection."""

    def __init__(self, life: "AgentHandle", reader: MessageReader) -> None:
        self._life = life
        self._reader = reader
        self.requests: dict[str, Route] = {}
        self.notifications: dict[str, Route] = {}
        self._baseline()
        self._workspace()
        for name, handler in life.handlers.extensions.items():
            self.requests[name] = Route(_extension(handler), _plain, _connection)
            self.notifications[name] = Route(handler, _plain, _connection)
        if life.handlers.mcp:
            self._request("mcp/message", self._mcp_message, _connection)
        for alias in reader.aliases("client", "request"):
            if alias.method in self.requests and alias.sent not in self.requests:
                self.requests[alias.sent] = self._again(self.requests[alias.method], alias, "request")
        for alias in reader.aliases("client", "notification"):
            if alias.method in self.notifications and alias.sent not in self.notifications:
                self.notifications[alias.sent] = self._again(
                    self.notifications[alias.method], alias, "notification"
                )

    def _baseline(self) -> None:
        life = self._life
        update = _entry(notification("client", "session/update"))
        self.notifications["session/update"] = Route(
            life.sessions.update,
            self._reader.params_reader(update),
            _session,
            read_frame=self._reader.line_reader(update),
        )
        self._notification("elicitation/complete", life.elicitations.complete)
        self._notification("auth/status_update", self._auth_status)
        self._request("session/request_permission", self._permission, _session)
        self._request("elicitation/create", self._elicitation, _scope)

    def _workspace(self) -> None:
        handlers = self._life.handlers
        if handlers.offers("read"):
            self._in_session("fs/read_text_file", read_text_file)
        if handlers.offers("write"):
            self._in_session("fs/write_text_file", write_text_file)
        if handlers.offers("terminal"):
            self._in_session("terminal/create", create_terminal)
            self._in_session("terminal/output", terminal_output)
            self._in_session("terminal/wait_for_exit", wait_for_exit)
            self._in_session("terminal/kill", kill_terminal)
            self._in_session("terminal/release", release_terminal)

    # -- making routes ------------------------------------------------------------------------------------------

    def _request(
        self, name: str, run: Callable[[Any, IncomingCall], Any], key: Callable[[Any], Hashable]
    ) -> None:
        self.requests[name] = Route(run, self._reader.params_reader(_entry(request("client", name))), key)

    def _notification(self, name: str, run: Callable[[Any], None]) -> None:
        read = self._reader.params_reader(_entry(notification("client", name)))
        self.notifications[name] = Route(run, read, _connection)

    def _in_session(self, name: str, run: Serve) -> None:
        def served(params: Any, _call: IncomingCall) -> Awaitable[Any]:
            return _counted(self._life.sessions.get(params.session_id), run, params)

        self._request(name, served, _session)

    def _again(self, route: Route, alias: Any, kind: str) -> Route:
        look = request if kind == "request" else notification
        read = self._reader.params_reader(_entry(look("client", alias.method)), alias)
        return Route(route.run, read, route.key)

    # -- serving ------------------------------------------------------------------------------------------------

    def _permission(self, params: RequestPermissionRequest, _call: IncomingCall) -> Awaitable[Any]:
        session = self._life.sessions.get(params.session_id)
        return self._asking(session, lambda: session.questions.ask(params))

    def _elicitation(
        self, params: ElicitationFormMode | ElicitationUrlMode | Unknown, _call: IncomingCall
    ) -> Awaitable[Any]:
        session_id = None if isinstance(params, Unknown) else params.session_id
        session = self._life.sessions.get(session_id) if session_id else None
        return self._asking(session, lambda: self._life.elicitations.create(session, params))

    async def _asking(self, session: "ClientSession | None", ask: Callable[[], Awaitable[Any]]) -> Any:
        """The agent waits for the user: its silence, and that of our own calls, does not count."""
        self._life.asking += 1
        if session is not None:
            session.serving += 1
        try:
            return await ask()
        finally:
            self._life.asking -= 1
            if session is not None:
                session.serving -= 1

    def _auth_status(self, params: AuthStatusUpdateNotification) -> None:
        self._life.tell(AuthStatusChanged(AuthStatus.of(params)))

    async def _mcp_message(self, params: MessageMcpRequest, _call: IncomingCall) -> Any:
        service = self._life.handlers.mcp.get(params.server_id)
        if service is None:
            raise InvalidParams("There is no such MCP server", {"serverId": params.server_id})

        def send(note: MessageMcpNotification) -> None:
            self._life.link.notify("mcp/message", note)

        return await serve_mcp_call(service, McpCall(params.method, params.params or None, params, send))


async def _counted(session: "ClientSession", run: Serve, params: Any) -> Any:
    session.serving += 1
    try:
        return await run(session, params)
    finally:
        session.serving -= 1


def _entry(method: Method | None) -> Method:
    assert method is not None, "the method is in the table"
    return method


def _session(params: Any) -> Hashable:
    return params.session_id


def _scope(params: Any) -> Hashable | None:
    return None if isinstance(params, Unknown) else (params.session_id or None)


def _connection(_params: Any) -> None:
    return None


def _plain(raw: Raw | None) -> Any:
    if raw is None:
        return {}
    try:
        return parse_json(raw)
    except NotJson as error:
        raise InvalidParams(f"Invalid params: {error}") from None


def _extension(handler: Callable[[Any], Any]) -> Callable[[Any, IncomingCall], Any]:
    def run(params: Any, _call: IncomingCall) -> Any:
        return handler(params)

    return run
