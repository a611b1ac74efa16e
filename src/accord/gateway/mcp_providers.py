"""MCP servers that clients provide over their own connections (`mcp/message`).

Several clients share one agent. If two of them use the same id for a server, the agent gets another one.
"""

from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from msgspec import structs

from accord.errors import MCP_UNAVAILABLE, RpcError
from accord.gateway.upstream import OfficialMessage, Upstream
from accord.schema import McpServer, McpServerAcp, MessageMcpRequest
from accord.schema.codec import encode
from accord.wire.envelope import RequestId

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient
    from accord.gateway.hosted_agent import HostedAgent

MCP_MESSAGE: Final = "mcp/message"


class McpProvider(NamedTuple):
    """A client that provides an MCP server, and its own id of the server."""

    client: "GatewayClient"
    server_id: str


class McpProviders:
    """The servers of all clients."""

    def __init__(self) -> None:
        self._providers: dict[tuple[str, str], McpProvider] = {}
        """By the name of the agent and the id that the agent knows."""

    def opening_params(self, call: "ClientCall") -> OfficialMessage:
        """Decode a request that opens a session, with the ids of the client's servers for the agent."""
        message = call.read_params()
        named: list[McpServer] = message.value.mcp_servers or []
        servers = [
            structs.replace(server, server_id=self._register(call.client, server.server_id))
            if isinstance(server, McpServerAcp)
            else server
            for server in named
        ]
        if servers == named:
            return message
        params = structs.replace(message.value, mcp_servers=servers)
        return OfficialMessage(encode(params), params)

    def _register(self, client: "GatewayClient", server_id: str) -> str:
        """Return the id for the agent. A client that comes back takes over its earlier id."""
        for number in count(1):
            known_id = server_id if number == 1 else f"{server_id}-{number}"
            key = client.agent.name, known_id
            earlier = self._providers.get(key)
            if earlier is None or (
                earlier.server_id == server_id
                and earlier.client.rights.token == client.rights.token
                and (earlier.client is client or not earlier.client.connected)
            ):
                self._providers[key] = McpProvider(client, server_id)
                return known_id
        raise AssertionError

    def forward_request(
        self, agent: "HostedAgent", upstream: Upstream, id: RequestId, params: MessageMcpRequest
    ) -> None:
        """Forward a request of an agent to the client that provides the server. Raises RpcError."""
        provider = self._providers.get((agent.name, params.server_id))
        if provider is None or not provider.client.connected:
            data = {"serverId": params.server_id}
            raise RpcError("No client provides this MCP server", data, code=MCP_UNAVAILABLE)
        own = structs.replace(params, server_id=provider.server_id)
        client = provider.client
        client.gateway.pending_requests.add(None, upstream, id, MCP_MESSAGE, encode(own), own, [client])

    def forward_notification(self, client: "GatewayClient", call: "ClientCall") -> None:
        """Forward a notification of a server, such as its progress, to the agent."""
        value: Any = call.read_params().value
        params = cast("dict[str, Any]", value if isinstance(value, dict) else {})
        upstream = client.agent.upstream
        if upstream is None:
            return
        for (_, known_id), provider in self._providers.items():
            if provider == (client, params.get("serverId")):
                upstream.notify(MCP_MESSAGE, encode({**params, "serverId": known_id}))


async def forward_mcp_notification(client: "GatewayClient", call: "ClientCall") -> None:
    """Forward a message of a client's MCP server to the agent."""
    client.gateway.mcp_providers.forward_notification(client, call)
