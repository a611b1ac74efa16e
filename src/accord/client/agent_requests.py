"""Serves the requests and notifications of the agent, files and terminals included.

A method that the client did not advertise has no route and is refused. A request about an unknown session is
refused before anything is done.
"""

from collections.abc import Awaitable, Callable, Hashable
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from msgspec import Raw

from accord.client.client_events import AuthStatusChanged, TerminalViews, auth_status
from accord.client.client_options import LoggedFailures
from accord.client.handlers import offers
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
from accord.schema.methods import AGENTAO_ASK_USER, SESSION_LIST_CHANGES, Method, notification, request
from accord.wire.calls import IncomingCall, Route
from accord.workspace.terminals import ExitStatus
from accord.workspace.text_files import TextFiles
from accord.workspace.workspace import LocalWorkspace, Workspace

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
        self.notifications[SESSION_LIST_CHANGES] = Route(self._list_changes, _plain_json, _no_key)
        for name, handler in handle.handlers.extensions.items():
            logged = _logged(handler, f"the handler of {name}")
            run = self._question(logged) if name == AGENTAO_ASK_USER else _extension(logged)
            self.requests[name] = Route(run, _plain_json, _no_key, translated=False)
            self.notifications[name] = Route(logged, _plain_json, _no_key)
        if handle.handlers.mcp:
            from accord.client.mcp_requests import McpRequests

            read = self._reader.params_reader(_require_method(request("client", "mcp/message")))
            self.requests |= McpRequests(handle, read).routes
        self._add_aliases()

    def _list_changes(self, params: Any) -> None:
        members = cast(dict[str, Any], params) if isinstance(params, dict) else {}
        subscription = self._handle.subscriptions.get(str(members.get("subscriptionId")))
        if subscription is not None:
            subscription.receive(members)

    def _add_session_routes(self) -> None:
        handle = self._handle
        update = _require_method(notification("client", "session/update"))
        self.notifications["session/update"] = Route(
            handle.sessions.update,
            self._reader.params_reader(update),
            self._lane,
            read_lines=self._reader.lines_reader(update),
            run_read=handle.sessions.receive,
        )
        self._add_notification("elicitation/complete", handle.elicitations.complete)
        self._add_notification("auth/status_update", self._auth_status)
        self._add_request("session/request_permission", self._permission, self._lane)
        self._add_request("elicitation/create", self._elicitation, self._elicitation_lane)

    def _add_workspace_routes(self) -> None:
        handlers = self._handle.handlers
        if offers(handlers, "read"):
            self._add_workspace_request(
                "fs/read_text_file", read_text_file, in_turn=True, run_now=read_text_file_now
            )
        if offers(handlers, "write"):
            self._add_workspace_request("fs/write_text_file", write_text_file, in_turn=True, changes=True)
        if offers(handlers, "terminal"):
            self._add_workspace_request("terminal/create", create_terminal, in_turn=True, changes=True)
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
                self.requests[alias.sent] = Route(route.run, read, route.key, run_now=route.run_now)
        for alias in self._reader.aliases("client", "notification"):
            if alias.method in self.notifications and alias.sent not in self.notifications:
                read = self._reader.params_reader(
                    _require_method(notification("client", alias.method)), alias
                )
                route = self.notifications[alias.method]
                self.notifications[alias.sent] = Route(route.run, read, route.key)

    def _add_request(
        self,
        name: str,
        run: Callable[[Any, IncomingCall], Any],
        key: Callable[[Any], Hashable],
        run_now: Callable[[Any], Any] | None = None,
    ) -> None:
        read = self._reader.params_reader(_require_method(request("client", name)))
        self.requests[name] = Route(run, read, key, run_now=run_now)

    def _add_notification(self, name: str, run: Callable[[Any], None]) -> None:
        read = self._reader.params_reader(_require_method(notification("client", name)))
        self.notifications[name] = Route(run, read, _no_key)

    def _lane(self, params: Any) -> Hashable:
        """The session whose order the message keeps: the parent, whose turn is also that of its children."""
        session = self._handle.sessions.find(params.session_id)
        while session is not None and session.parent is not None:
            session = session.parent
        return params.session_id if session is None else session.id

    def _elicitation_lane(self, params: Any) -> Hashable | None:
        return None if isinstance(params, Unknown) or not params.session_id else self._lane(params)

    def _add_workspace_request(
        self,
        name: str,
        run: WorkspaceMethod,
        *,
        in_turn: bool = False,
        changes: bool = False,
        run_now: Callable[["SessionCore", Any], Any] | None = None,
    ) -> None:
        """Add a workspace method. `in_turn`: its requests end with the turn; `changes`: they write or start.

        `run_now` may return the response at once, or None.
        """

        def serve(params: Any, call: IncomingCall) -> Any:
            session = self._handle.sessions.get(params.session_id)
            request = session.turn_requests.admit(changes=changes) if in_turn else None
            session.open_requests += 1
            call.after_answer(session.request_answered)

            async def work() -> Any:
                with _WORKSPACE_FAILURES:
                    return await run(session, params)

            return work() if request is None else request.serve(call, work)

        def serve_now(params: Any) -> Any:
            session = get_session(params.session_id)
            session.turn_requests.check()
            return None if run_now is None else run_now(session, params)

        get_session = self._handle.sessions.get
        self._add_request(name, serve, self._lane, None if run_now is None else serve_now)

    # -- handlers --------------------------------------------------------------------------------------------

    def _permission(self, params: RequestPermissionRequest, _call: IncomingCall) -> Awaitable[Any]:
        session = self._handle.sessions.get(params.session_id)
        return self._ask_user(session, lambda: session.permissions.answer(params))

    def _elicitation(
        self, params: ElicitationFormMode | ElicitationUrlMode | Unknown, _call: IncomingCall
    ) -> Awaitable[Any]:
        session_id = None if isinstance(params, Unknown) else params.session_id
        session = self._handle.sessions.get(session_id) if session_id else None
        running = session or self._running_session()
        requests = None if running is None else running.turn_requests
        public = None if session is None else session.session
        return self._ask_user(session, lambda: self._handle.elicitations.create(public, params, requests))

    def _running_session(self) -> "SessionCore | None":
        """The session that a request without a session id belongs to: the only one whose turn runs."""
        active = self._handle.sessions.active()
        return None if active is None else self._handle.sessions.find(active)

    def _question(self, handler: Callable[[Any], Any]) -> Callable[[Any, IncomingCall], Any]:
        """A handler of an extension that asks the user: the question ends with the turn."""

        def run(params: Any, _call: IncomingCall) -> Awaitable[Any]:
            members = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
            named = members.get("sessionId")
            session = self._handle.sessions.find(named) if isinstance(named, str) else self._running_session()

            async def ask() -> Any:
                answer = handler(params)
                return await answer if isawaitable(answer) else answer

            if session is None:
                return self._ask_user(None, ask)
            request = session.turn_requests.admit()
            return self._ask_user(session, lambda: request.run(ask))

        return run

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


def _require_method(method: Method | None) -> Method:
    assert method is not None, "the method is in the table"
    return method


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


def _logged(handler: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    """Return the handler with unexpected exceptions logged. The result stays awaitable if it was."""

    async def wait(result: Awaitable[Any]) -> Any:
        with LoggedFailures(what):
            return await result

    def serve(params: Any) -> Any:
        with LoggedFailures(what):
            result = handler(params)
        return wait(result) if hasattr(result, "__await__") else result

    return serve


# -- files and terminals -------------------------------------------------------------------------------------


_WORKSPACE_FAILURES: Final = LoggedFailures("the workspace")


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
                session.handle.tasks.start(self._workspace.aclose())
            make_workspace = session.handle.handlers.workspace
            assert make_workspace is not None, "the client offers a workspace"
            self._workspace, self._directories = make_workspace(session.session), directories
        return self._workspace

    async def aclose(self) -> None:
        """End everything that runs in the workspace. `use` creates a new one."""
        workspace, self._workspace = self._workspace, None
        if workspace is not None:
            await workspace.aclose()


def read_text_file_now(session: WorkspaceOwner, params: ReadTextFileRequest) -> ReadTextFileResponse | None:
    """`fs/read_text_file` without waiting. None unless the workspace is the default one and can do that."""
    line, limit = params.line, params.limit
    try:
        workspace = session.workspace.use()
        if type(workspace) is not LocalWorkspace or type(workspace.files) is not TextFiles:
            return None
        text = workspace.files.read_now(
            params.path, None if line is UNSET else line, None if limit is UNSET else limit
        )
    except Exception as error:
        _WORKSPACE_FAILURES.log(error)
        raise
    return None if text is None else ReadTextFileResponse(text)


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
