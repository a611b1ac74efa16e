"""Serves the requests and notifications of the agent, files and terminals included.

A method that the client did not advertise has no route and is refused. A request about an unknown session is
refused before anything is done.
"""

from collections.abc import Awaitable, Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Raw

from accord.client.client_events import AuthStatusChanged, TerminalViews, auth_status
from accord.client.handlers import McpCall, offers, serve_mcp_call
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
    from accord.client.session_core import SessionCore

WorkspaceMethod: TypeAlias = Callable[["SessionCore", Any], Awaitable[Any]]


class AgentRequestRoutes:
    """The routes for the requests and notifications of one agent."""

    def __init__(self, handle: "AgentHandle", reader: MessageReader) -> None:
        self.requests: dict[str, Route] = {}
        self.notifications: dict[str, Route] = {}
        self._handle = handle
        self._reader = reader
        self._add_session_routes()
        self._add_workspace_routes()
        for name, handler in handle.handlers.extensions.items():
            self.requests[name] = Route(_extension(handler), _plain_json, _no_key)
            self.notifications[name] = Route(handler, _plain_json, _no_key)
        if handle.handlers.mcp:
            self._add_request("mcp/message", self._mcp_message, _no_key)
        self._add_aliases()

    def _add_session_routes(self) -> None:
        handle = self._handle
        update = _require_method(notification("client", "session/update"))
        self.notifications["session/update"] = Route(
            handle.sessions.update,
            self._reader.params_reader(update),
            _session_id,
            read_frame=self._reader.line_reader(update),
        )
        self._add_notification("elicitation/complete", handle.elicitations.complete)
        self._add_notification("auth/status_update", self._auth_status)
        self._add_request("session/request_permission", self._permission, _session_id)
        self._add_request("elicitation/create", self._elicitation, _elicitation_session_id)

    def _add_workspace_routes(self) -> None:
        handlers = self._handle.handlers
        if offers(handlers, "read"):
            self._add_workspace_request("fs/read_text_file", read_text_file)
        if offers(handlers, "write"):
            self._add_workspace_request("fs/write_text_file", write_text_file)
        if offers(handlers, "terminal"):
            self._add_workspace_request("terminal/create", create_terminal)
            self._add_workspace_request("terminal/output", terminal_output)
            self._add_workspace_request("terminal/wait_for_exit", wait_for_exit)
            self._add_workspace_request("terminal/kill", kill_terminal)
            self._add_workspace_request("terminal/release", release_terminal)

    def _add_aliases(self) -> None:
        """Route the method names of known dialects to the official methods."""
        for alias in self._reader.aliases("client", "request"):
            if alias.method in self.requests and alias.sent not in self.requests:
                read = self._reader.params_reader(_require_method(request("client", alias.method)), alias)
                route = self.requests[alias.method]
                self.requests[alias.sent] = Route(route.run, read, route.key)
        for alias in self._reader.aliases("client", "notification"):
            if alias.method in self.notifications and alias.sent not in self.notifications:
                read = self._reader.params_reader(
                    _require_method(notification("client", alias.method)), alias
                )
                route = self.notifications[alias.method]
                self.notifications[alias.sent] = Route(route.run, read, route.key)

    def _add_request(
        self, name: str, run: Callable[[Any, IncomingCall], Any], key: Callable[[Any], Hashable]
    ) -> None:
        self.requests[name] = Route(
            run, self._reader.params_reader(_require_method(request("client", name))), key
        )

    def _add_notification(self, name: str, run: Callable[[Any], None]) -> None:
        read = self._reader.params_reader(_require_method(notification("client", name)))
        self.notifications[name] = Route(run, read, _no_key)

    def _add_workspace_request(self, name: str, run: WorkspaceMethod) -> None:
        def serve(params: Any, _call: IncomingCall) -> Awaitable[Any]:
            return _count_request(self._handle.sessions.get(params.session_id), run, params)

        self._add_request(name, serve, _session_id)

    # -- handlers --------------------------------------------------------------------------------------------

    def _permission(self, params: RequestPermissionRequest, _call: IncomingCall) -> Awaitable[Any]:
        session = self._handle.sessions.get(params.session_id)
        return self._ask_user(session, lambda: session.permissions.answer(params))

    def _elicitation(
        self, params: ElicitationFormMode | ElicitationUrlMode | Unknown, _call: IncomingCall
    ) -> Awaitable[Any]:
        session_id = None if isinstance(params, Unknown) else params.session_id
        session = self._handle.sessions.get(session_id) if session_id else None
        public = None if session is None else session.session
        return self._ask_user(session, lambda: self._handle.elicitations.create(public, params))

    async def _ask_user(self, session: "SessionCore | None", ask: Callable[[], Awaitable[Any]]) -> Any:
        """Run `ask` and suspend the time limits of the agent meanwhile."""
        self._handle.user_requests += 1
        if session is not None:
            session.open_requests += 1
        try:
            return await ask()
        finally:
            self._handle.user_requests -= 1
            if session is not None:
                session.open_requests -= 1

    def _auth_status(self, params: AuthStatusUpdateNotification) -> None:
        self._handle.put_event(AuthStatusChanged(auth_status(params)))

    async def _mcp_message(self, params: MessageMcpRequest, _call: IncomingCall) -> Any:
        service = self._handle.handlers.mcp.get(params.server_id)
        if service is None:
            raise InvalidParams("There is no such MCP server", {"serverId": params.server_id})

        def send(message: MessageMcpNotification) -> None:
            self._handle.connection.notify("mcp/message", message)

        return await serve_mcp_call(service, McpCall(params.method, params.params or None, params, send))


async def _count_request(session: "SessionCore", run: WorkspaceMethod, params: Any) -> Any:
    session.open_requests += 1
    try:
        return await run(session, params)
    finally:
        session.open_requests -= 1


def _require_method(method: Method | None) -> Method:
    assert method is not None, "the method is in the table"
    return method


def _session_id(params: Any) -> Hashable:
    return params.session_id


def _elicitation_session_id(params: Any) -> Hashable | None:
    return None if isinstance(params, Unknown) else (params.session_id or None)


def _no_key(_params: Any) -> None:
    return None


def _plain_json(raw: Raw | None) -> Any:
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


# -- files and terminals -------------------------------------------------------------------------------------


class LazyWorkspace(Protocol):
    """A workspace that is created when it is needed."""

    def use(self) -> Workspace:
        """The workspace for the current directories."""
        ...


class WorkspaceOwner(Protocol):
    """A session whose files and terminals the agent uses."""

    @property
    def workspace(self) -> LazyWorkspace:
        """The workspace that serves the session."""
        ...

    @property
    def terminals(self) -> TerminalViews:
        """The output of its terminals."""
        ...


class SessionWorkspace:
    """The workspace of one session: created when it is first needed, closed with the session or its agent."""

    def __init__(self, session: "SessionCore") -> None:
        self._session = session
        self._workspace: Workspace | None = None
        self._directories: tuple[Path, ...] = ()

    def use(self) -> Workspace:
        """The workspace, limited to the current directories of the session."""
        session = self._session
        directories = session.roots.folders
        if self._workspace is None or directories != self._directories:
            # A child session can get other directories while it runs: end what it started in the old ones.
            if self._workspace is not None:
                session.handle.start_task(self._workspace.aclose())
            make_workspace = session.handle.handlers.workspace
            assert make_workspace is not None, "the client offers a workspace"
            self._workspace, self._directories = make_workspace(session.session), directories
        return self._workspace

    async def aclose(self) -> None:
        """End everything that runs in the workspace. `use` creates a new one."""
        workspace, self._workspace = self._workspace, None
        if workspace is not None:
            await workspace.aclose()


async def read_text_file(session: WorkspaceOwner, params: ReadTextFileRequest) -> ReadTextFileResponse:
    """`fs/read_text_file`."""
    text = await session.workspace.use().read_text_file(
        params.path, _or_none(params.line), _or_none(params.limit)
    )
    return ReadTextFileResponse(text)


async def write_text_file(session: WorkspaceOwner, params: WriteTextFileRequest) -> WriteTextFileResponse:
    """`fs/write_text_file`."""
    await session.workspace.use().write_text_file(params.path, params.content)
    return WriteTextFileResponse()


async def create_terminal(session: WorkspaceOwner, params: CreateTerminalRequest) -> CreateTerminalResponse:
    """`terminal/create`."""
    terminal_id = await session.workspace.use().create_terminal(
        params.command,
        _or_none(params.args),
        env={variable.name: variable.value for variable in params.env or ()},
        cwd=_or_none(params.cwd),
        output_byte_limit=_or_none(params.output_byte_limit),
    )
    session.terminals.view(terminal_id).command = " ".join([params.command, *(params.args or ())])
    return CreateTerminalResponse(terminal_id)


async def terminal_output(session: WorkspaceOwner, params: TerminalOutputRequest) -> TerminalOutputResponse:
    """`terminal/output`."""
    output = await session.workspace.use().terminal_output(params.terminal_id)
    response = TerminalOutputResponse(output.output, output.truncated)
    if output.exit_status is not None:
        session.terminals.view(params.terminal_id).exit_status = output.exit_status
        response.exit_status = TerminalExitStatus(*_code_and_signal(output.exit_status))
    return response


async def wait_for_exit(
    session: WorkspaceOwner, params: WaitForTerminalExitRequest
) -> WaitForTerminalExitResponse:
    """`terminal/wait_for_exit`."""
    status = await session.workspace.use().wait_for_exit(params.terminal_id)
    session.terminals.view(params.terminal_id).exit_status = status
    return WaitForTerminalExitResponse(*_code_and_signal(status))


async def kill_terminal(session: WorkspaceOwner, params: KillTerminalRequest) -> KillTerminalResponse:
    """`terminal/kill`."""
    await session.workspace.use().kill_terminal(params.terminal_id)
    return KillTerminalResponse()


async def release_terminal(
    session: WorkspaceOwner, params: ReleaseTerminalRequest
) -> ReleaseTerminalResponse:
    """`terminal/release`."""
    await session.workspace.use().release_terminal(params.terminal_id)
    session.terminals.view(params.terminal_id).released = True
    return ReleaseTerminalResponse()


def _or_none(value: Any) -> Any:
    return None if value is UNSET else value


def _code_and_signal(status: ExitStatus) -> tuple[int | None, str | None]:
    return status.exit_code, status.signal
