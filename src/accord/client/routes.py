"""How each request and notification of the agent is served. What was not advertised has no route and is refused.

A request about a session that is not ours is refused before anything is done.
"""

from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Raw

from accord.client import workspaces
from accord.client.authstatus import AuthStatus
from accord.client.events import AuthStatusChanged
from accord.client.mcp import McpCall, serve
from accord.errors import InvalidParams
from accord.schema import (
    AuthStatusUpdateNotification,
    ElicitationFormMode,
    ElicitationUrlMode,
    MessageMcpNotification,
    MessageMcpRequest,
    RequestPermissionRequest,
    Unknown,
)
from accord.schema.jsontext import NotJson, parse_json
from accord.schema.methods import Method, notification, request
from accord.schema.reader import Reader
from accord.wire.routes import Call, Route

if TYPE_CHECKING:
    from accord.client.life import Life
    from accord.client.session import ClientSession

Serve: TypeAlias = Callable[["ClientSession", Any], Awaitable[Any]]


class Routes:
    """The routes of one agent's connection."""

    def __init__(self, life: "Life", reader: Reader) -> None:
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
            whole=self._reader.line_reader(update),
        )
        self._notification("elicitation/complete", life.elicitations.complete)
        self._notification("auth/status_update", self._auth_status)
        self._request("session/request_permission", self._permission, _session)
        self._request("elicitation/create", self._elicitation, _scope)

    def _workspace(self) -> None:
        handlers = self._life.handlers
        if handlers.offers("read"):
            self._in_session("fs/read_text_file", workspaces.read_text_file)
        if handlers.offers("write"):
            self._in_session("fs/write_text_file", workspaces.write_text_file)
        if handlers.offers("terminal"):
            self._in_session("terminal/create", workspaces.create_terminal)
            self._in_session("terminal/output", workspaces.terminal_output)
            self._in_session("terminal/wait_for_exit", workspaces.wait_for_exit)
            self._in_session("terminal/kill", workspaces.kill_terminal)
            self._in_session("terminal/release", workspaces.release_terminal)

    # -- making routes ------------------------------------------------------------------------------------------

    def _request(self, name: str, run: Callable[[Any, Call], Any], key: Callable[[Any], Hashable]) -> None:
        self.requests[name] = Route(run, self._reader.params_reader(_entry(request("client", name))), key)

    def _notification(self, name: str, run: Callable[[Any], None]) -> None:
        read = self._reader.params_reader(_entry(notification("client", name)))
        self.notifications[name] = Route(run, read, _connection)

    def _in_session(self, name: str, run: Serve) -> None:
        def served(params: Any, _call: Call) -> Awaitable[Any]:
            return _counted(self._life.sessions.get(params.session_id), run, params)

        self._request(name, served, _session)

    def _again(self, route: Route, alias: Any, kind: str) -> Route:
        look = request if kind == "request" else notification
        read = self._reader.params_reader(_entry(look("client", alias.method)), alias)
        return Route(route.run, read, route.key)

    # -- serving ------------------------------------------------------------------------------------------------

    def _permission(self, params: RequestPermissionRequest, _call: Call) -> Awaitable[Any]:
        session = self._life.sessions.get(params.session_id)
        return self._asking(session, lambda: session.questions.ask(params))

    def _elicitation(
        self, params: ElicitationFormMode | ElicitationUrlMode | Unknown, _call: Call
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

    async def _mcp_message(self, params: MessageMcpRequest, _call: Call) -> Any:
        service = self._life.handlers.mcp.get(params.server_id)
        if service is None:
            raise InvalidParams("There is no such MCP server", {"serverId": params.server_id})

        def send(note: MessageMcpNotification) -> None:
            self._life.link.notify("mcp/message", note)

        return await serve(service, McpCall(params.method, params.params or None, params, send))


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


def _extension(handler: Callable[[Any], Any]) -> Callable[[Any, Call], Any]:
    def run(params: Any, _call: Call) -> Any:
        return handler(params)

    return run
