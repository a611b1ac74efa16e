"""The MCP servers of one session: started together, each on its own, and all they offer under names of ours."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.mcp.cleaning import Secrets, clean_line, secrets_of_url
from accord.coder.mcp.hooks import AcpRequest, McpHooks, McpLimits, ServerState
from accord.coder.mcp.loading import preload_in_background
from accord.coder.mcp.names import Names
from accord.coder.mcp.prompt import McpPrompt
from accord.coder.mcp.resources import Resources
from accord.coder.mcp.server import Server
from accord.coder.mcp.terms import Terms
from accord.coder.mcp.tool import McpTool
from accord.coder.tools.context import Limits
from accord.coder.tools.tool import Tool
from accord.schema.mcp import McpServer, McpServerHttp, McpServerSse, McpServerStdio

_LONGEST_NAME: Final = 40
_RESOURCE_TOOLS: Final = frozenset(("list_mcp_resources", "read_mcp_resource"))


class McpHost:
    """Whatever its servers do, it raises nothing: who fails is told to the hooks, and has nothing to offer."""

    def __init__(
        self,
        servers: Sequence[McpServer],
        *,
        cwd: str,
        roots: Sequence[str],
        hooks: McpHooks,
        clock: Clock = SYSTEM_CLOCK,
        limits: McpLimits | None = None,
        tool_limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
        acp: AcpRequest | None = None,
    ) -> None:
        self._clock = clock
        self._tool_limits = tool_limits or Limits()
        self._servers: dict[str, Server] = {}
        for server in servers:
            name = self._unique(server.name)
            terms = Terms(
                name=name,
                cwd=cwd,
                roots=tuple(roots),
                hooks=hooks,
                limits=limits or McpLimits(),
                clock=clock,
                environment=environment,
                secrets=_secrets(server),
                acp=acp,
                lost=_nothing,
                stale=_nothing,
            )
            self._servers[name] = Server(server, terms)
        self._tool_names = Names("__", _RESOURCE_TOOLS)
        self._command_names = Names(":")
        self._resources = Resources(self._with_resources)

    def start(self) -> None:
        """Start all of them, at once and in the background."""
        if self._servers:
            preload_in_background()
        for server in self._servers.values():
            server.start()

    def restart(self, name: str) -> bool:
        """Start a server again that failed, in the background; whether there is one of that name."""
        server = self._servers.get(name)
        if server is not None:
            server.restart()
        return server is not None

    async def settled(self, seconds: float) -> None:
        """Return when every server is ready or has failed, at the latest after so many seconds."""
        deadline = self._clock.now() + seconds
        for server in self._servers.values():
            if not await server.settled(deadline - self._clock.now()):
                return

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What the servers offer now, by names that are the same all session."""
        tools: dict[str, Tool] = {}
        for server in self._servers.values():
            for offered in server.offers.tools:
                name = self._tool_names.of(server.name, offered.name)
                tools[name] = McpTool(name, server, offered)
        if self._with_resources():
            tools.update((tool.name, tool) for tool in self._resources.tools)
        return tools

    @property
    def prompts(self) -> Sequence[McpPrompt]:
        """The servers' prompts, to be used as slash commands."""
        return [
            McpPrompt(
                self._command_names.of(server.name, offered.name),
                offered.description,
                server,
                offered,
                self._tool_limits.output_chars,
                self._tool_limits.image_bytes,
            )
            for server in self._servers.values()
            for offered in server.offers.prompts
        ]

    @property
    def states(self) -> Sequence[ServerState]:
        """How the servers stand, in the order they were given."""
        return [server.state for server in self._servers.values()]

    @property
    def instructions(self) -> Mapping[str, str]:
        """What servers want the model to know about using them, by server; their words, not ours."""
        return {
            server.name: server.offers.instructions
            for server in self._servers.values()
            if server.offers.instructions
        }

    async def aclose(self) -> None:
        """End all connections and programs; bounded. May be called twice."""
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))

    def _with_resources(self) -> Mapping[str, Server]:
        return {name: server for name, server in self._servers.items() if server.offers.has_resources}

    def _unique(self, name: str) -> str:
        shown = clean_line(name, _LONGEST_NAME) or "server"
        unique, number = shown, 2
        while unique in self._servers:
            unique, number = f"{shown}-{number}", number + 1
        return unique


def _secrets(server: McpServer) -> Secrets:
    if isinstance(server, McpServerHttp | McpServerSse):
        return Secrets([header.value for header in server.headers] + secrets_of_url(server.url))
    if isinstance(server, McpServerStdio):
        return Secrets([variable.value for variable in server.env])
    return Secrets()


def _nothing(*_: object) -> None:
    """Stands in where there is no connection yet."""
