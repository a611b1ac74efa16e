"""Serves the MCP servers that a client offers over its connection (unstable). Imported on first use.

The agent calls a method of a server with `mcp/message`. In older drafts it opened a connection to the server
first, with `mcp/connect`: that is understood, too.
"""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Raw

from accord.client.client_options import log_failure
from accord.client.handlers import McpCall, McpMethodFailed, McpService
from accord.errors import (
    MCP_FAILED,
    MCP_LIMIT,
    MCP_UNAVAILABLE,
    UNSUPPORTED_VERSION,
    AccordError,
    InvalidParams,
    RequestCancelled,
    RpcError,
)
from accord.schema import McpError, McpFailure, McpResult, MessageMcpNotification, MessageMcpRequest
from accord.schema.codec import NotJson, parse_json
from accord.schema.mcp import MCP_VERSION
from accord.wire.calls import IncomingCall, Route

if TYPE_CHECKING:
    from accord.client.agent_handle import AgentHandle

_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
MAX_OPEN_CALLS: Final = 64
"""How many calls of one server may be open."""


class McpRequests:
    """The routes for the MCP servers of one connection."""

    def __init__(self, handle: "AgentHandle", read: Callable[[Raw | None], MessageMcpRequest]) -> None:
        self.routes: dict[str, Route] = {
            "mcp/message": Route(self._message, lambda raw: _connected_message(raw) or read(raw), _no_key),
            "mcp/connect": Route(self._connect, _members, _no_key),
            "mcp/disconnect": Route(self._disconnect, _members, _no_key),
        }
        self._handle = handle
        self._open: dict[str, set[str]] = {}
        """The ids of the open requests of each server."""
        self._connections: dict[str, str] = {}
        """The servers of connections in older drafts."""
        self._numbers = count(1)

    def _message(
        self, params: "MessageMcpRequest | dict[str, Any]", incoming: IncomingCall
    ) -> Awaitable[Any]:
        if isinstance(params, dict):
            return self._connected(params, incoming)

        def send(message: MessageMcpNotification) -> None:
            self._handle.connection.notify("mcp/message", message)

        return self._serve(McpCall(params.method, params.params or None, params, send), incoming)

    def _serve(self, call: McpCall, incoming: IncomingCall) -> Awaitable[McpResult | McpFailure]:
        server_id, request_id = call.message.server_id, call.message.request_id
        service = self._service(server_id)
        requests = self._open.setdefault(server_id, set())
        if request_id in requests:
            data = {"serverId": server_id, "requestId": request_id}
            raise InvalidParams("This MCP request is open already", data)
        if len(requests) >= MAX_OPEN_CALLS:
            raise RpcError("Too many MCP requests are open", {"serverId": server_id}, code=MCP_LIMIT)
        requests.add(request_id)
        incoming.after_answer(lambda: requests.discard(request_id))
        return self._within_turn(call, lambda: _result(service, call))

    def _service(self, server_id: str) -> McpService:
        service = self._handle.handlers.mcp.get(server_id)
        if service is None:
            raise RpcError("There is no such MCP server", {"serverId": server_id}, code=MCP_UNAVAILABLE)
        return service

    def _within_turn(self, call: McpCall, serve: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        """Tools are not called for a turn that was stopped."""
        if call.method != "tools/call":
            return serve()
        # A request names no session: it belongs to a turn if only one session can have sent it.
        server_id = call.message.server_id
        sessions = [session for session in self._handle.sessions if session.uses_server(server_id)]
        if len(sessions) == 1:
            return sessions[0].turn_requests.admit(changes=True).run(serve)
        if sessions and all(session.turn_requests.stopped for session in sessions):
            raise RequestCancelled("not done: the turn was stopped")
        return serve()

    # -- older drafts ----------------------------------------------------------------------------------------

    def _connect(self, params: dict[str, Any], _call: IncomingCall) -> dict[str, str]:
        server_id = str(params.get("serverId", params.get("acpId", "")))
        self._service(server_id)
        connection_id = f"mcp-{next(self._numbers)}"
        self._connections[connection_id] = server_id
        return {"connectionId": connection_id}

    def _disconnect(self, params: dict[str, Any], _call: IncomingCall) -> dict[str, str]:
        self._connections.pop(str(params.get("connectionId")), None)
        return {}

    async def _connected(self, params: dict[str, Any], incoming: IncomingCall) -> Any:
        """Serve a request of a connection: its result is the result of the MCP method itself."""
        connection_id, method = params["connectionId"], params.get("method")
        server_id = self._connections.get(connection_id)
        if server_id is None:
            data = {"connectionId": connection_id}
            raise RpcError("There is no such MCP connection", data, code=MCP_UNAVAILABLE)
        given: Any = params.get("params")
        if not isinstance(method, str) or not isinstance(given, dict | None):
            raise InvalidParams("Invalid params: an MCP message needs a method, and an object as params")
        inner = cast("dict[str, Any] | None", given)

        def send(message: MessageMcpNotification) -> None:
            members = {"connectionId": connection_id, "method": message.method, "params": message.params}
            self._handle.connection.notify("mcp/message", members)

        message = MessageMcpRequest(server_id, f"{connection_id}-{next(self._numbers)}", method, inner)
        response = await self._serve(McpCall(method, inner or None, message, send), incoming)
        if isinstance(response, McpFailure):
            error = response.error
            raise RpcError.of(error.code, error.message, *([error.data] if error.data else []))
        return response.result


async def _result(service: McpService, call: McpCall) -> McpResult | McpFailure:
    """Serve one MCP request; the response is a result or an error of the method."""
    meta = (call.params or {}).get("_meta")
    version = cast("dict[str, Any]", meta).get(_VERSION_KEY) if isinstance(meta, dict) else None
    if version not in (None, MCP_VERSION):
        data = {"supported": [MCP_VERSION], "requested": version}
        return McpFailure(McpError(UNSUPPORTED_VERSION, "Unsupported protocol version", data))
    try:
        return McpResult(await service(call))
    except McpMethodFailed as failure:
        return McpFailure(failure.error)
    except AccordError:
        raise
    except Exception as error:
        log_failure(f"the MCP server {call.message.server_id}", error)
        raise RpcError(
            "The MCP server failed", {"serverId": call.message.server_id}, code=MCP_FAILED
        ) from error
    finally:
        call.active = False


def _members(raw: Raw | None) -> dict[str, Any]:
    try:
        params: Any = {} if raw is None else parse_json(raw)
    except NotJson as error:
        raise InvalidParams(f"Invalid params: {error}") from None
    return cast("dict[str, Any]", params) if isinstance(params, dict) else {}


def _connected_message(raw: Raw | None) -> dict[str, Any] | None:
    """The params of a message in the form of older drafts; None for the current form."""
    if raw is None or b'"connectionId"' not in bytes(raw):
        return None
    params = _members(raw)
    return params if "serverId" not in params and isinstance(params.get("connectionId"), str) else None


def _no_key(_params: Any) -> None:
    return None
