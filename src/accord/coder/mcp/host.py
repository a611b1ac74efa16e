"""The MCP servers of one session: starts them, names what they offer, connects them to session and user."""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from accord.agent.elicitation import ElicitationAnswer
from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.library_imports import preload_mcp_in_background
from accord.coder.mcp.server import SessionMcpServer
from accord.coder.mcp.server_features import McpPrompt, McpTool, Resources
from accord.coder.mcp.server_interface import (
    AcpRequest,
    McpHooks,
    McpLimits,
    Secrets,
    ServerContext,
    ServerState,
    clean_line,
    secrets_of_url,
)
from accord.coder.tools.tool import Tool
from accord.coder.tools.tool_context import ToolLimits
from accord.errors import AccordError
from accord.schema.base import Mismatch
from accord.schema.client_requests import ElicitationSchema
from accord.schema.codec import read
from accord.schema.mcp import McpServer, McpServerHttp, McpServerSse, McpServerStdio

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.coder_session import CoderSession


# MERGED coder.mcp.names: Names for what servers offer, fit for every model provider and for slash commands, unique and the same all session.
#
# Letters, digits, `_` and `-`, 64 at most, not beginning with a digit or a dash. Whoever comes first gets the plain name;
# one that would be the same, or too long, ends with a few digits of a hash.

LONGEST: Final = 64
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HASH: Final = 6


class FeatureNames:
    """The names given out in one session."""

    def __init__(self, separator: str, taken: frozenset[str] = frozenset()) -> None:
        self._separator = separator
        self._given: dict[tuple[str, str], str] = {}
        self._taken = set(taken)

    def of(self, server: str, offered: str) -> str:
        """The name for what this server calls so. Asked again, the same."""
        given = self._given.get((server, offered))
        if given is None:
            given = self._given[server, offered] = self._new(server, offered)
            self._taken.add(given)
        return given

    def _new(self, server: str, offered: str) -> str:
        plain = f"{fit(server)}{self._separator}{fit(offered)}"
        if len(plain) <= LONGEST and plain not in self._taken:
            return plain
        number = 0
        while True:
            mark = hashlib.sha256(f"{number}\0{server}\0{offered}".encode(errors="replace")).hexdigest()[
                :_HASH
            ]
            name = f"{plain[: LONGEST - _HASH - 1]}_{mark}"
            if name not in self._taken:
                return name
            number += 1


def fit(name: str) -> str:
    """The name in the characters that are allowed."""
    fitting = _UNFIT.sub("_", name).strip("_-") or "unnamed"
    return fitting if fitting[0].isalpha() else f"_{fitting}"


# MERGED coder.mcp.host: The MCP servers of one session: started together, each on its own, and all they offer under names of ours.

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
        tool_limits: ToolLimits | None = None,
        environment: Mapping[str, str] | None = None,
        acp: AcpRequest | None = None,
    ) -> None:
        self._clock = clock
        self._tool_limits = tool_limits or ToolLimits()
        self._servers: dict[str, SessionMcpServer] = {}
        for server in servers:
            name = self._unique(server.name)
            terms = ServerContext(
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
            self._servers[name] = SessionMcpServer(server, terms)
        self._tool_names = FeatureNames("__", _RESOURCE_TOOLS)
        self._command_names = FeatureNames(":")
        self._resources = Resources(self._with_resources)

    def start(self) -> None:
        """Start all of them, at once and in the background."""
        if self._servers:
            preload_mcp_in_background()
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

    def _with_resources(self) -> Mapping[str, SessionMcpServer]:
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


# MERGED coder.servers: The MCP servers of a session: started in its background, and what they want of the session and its user.


def start_servers(session: "CoderSession") -> McpHost:
    """Start them all; the session goes on meanwhile."""
    agent_session = session.agent_session
    host = McpHost(
        agent_session.mcp_servers,
        cwd=agent_session.cwd,
        roots=agent_session.roots,
        hooks=_Hooks(session),
        clock=session.clock,
        acp=agent_session.mcp_request,
    )
    host.start()
    return host


class _Hooks:
    """What a session does for its servers."""

    def __init__(self, session: "CoderSession") -> None:
        self._session = session

    def changed(self) -> None:
        """Their prompts are slash commands: these may be others now."""
        self._session.spawn(self._offer())

    async def _offer(self) -> None:
        runtime = self._session.existing_runtime
        if runtime is not None:
            await runtime.offer_commands()

    def failed(self, name: str, why: str) -> None:
        """The user is told; everything else goes on."""
        notice = self._session.agent_session.notice(f"MCP server {name} failed", why, severity="warning")
        self._session.spawn(notice)

    async def elicit_form(self, message: str, schema: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """A server asks by a form; without a turn, or a client that shows forms, nobody is there to be asked."""
        turn = self._turn()
        if turn is None or not turn.client.can_show_forms:
            return "decline", None
        try:
            form = read(ElicitationSchema, schema)
            answer = await turn.elicit(message, form)
        except (Mismatch, AccordError):
            return "decline", None  # a form that cannot be shown, or one that asks for a secret
        return _action(answer), dict(answer.content) if answer else None

    async def elicit_url(self, message: str, url: str) -> str:
        """A server wants a page to be opened."""
        turn = self._turn()
        if turn is None or not turn.client.can_open_urls:
            return "decline"
        try:
            return _action(await turn.elicit_url(message, url))
        except AccordError:
            return "decline"

    def _turn(self) -> "Turn | None":
        turn = self._session.agent_session.turn
        return turn if turn is not None and turn.live else None


def _action(answer: ElicitationAnswer) -> str:
    if answer:
        return "accept"
    return "decline" if answer.action == "decline" else "cancel"
