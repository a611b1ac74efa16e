"""The MCP servers of one session: starts them, names their features, and connects them to the session and its
user.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from accord.agent.elicitation import ElicitationAnswer
from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.library_imports import preload_mcp_in_background
from accord.coder.mcp.own_servers import user_servers
from accord.coder.mcp.server import SessionMcpServer
from accord.coder.mcp.server_features import McpPrompt, McpTool, Resources, read_resource
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
from accord.coder.mcp.sign_in import McpSignIn
from accord.coder.model_history import Part, TextPart
from accord.coder.resources import write_stderr
from accord.coder.tools.tool import Tool
from accord.coder.tools.tool_context import ToolContext, ToolLimits
from accord.errors import AccordError
from accord.paths import config_dir
from accord.schema.base import Mismatch
from accord.schema.client_requests import ElicitationSchema
from accord.schema.codec import read
from accord.schema.mcp import McpServer, McpServerHttp, McpServerSse, McpServerStdio
from accord.text_width import count_text

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.session.coder_session import CoderSession


_MAX_NAME_CHARS: Final = 64
_INVALID_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_DIGITS: Final = 6
_MAX_SERVER_NAME_CHARS: Final = 40
_MENTION: Final = re.compile(r"(?:^|(?<=[\s(\"'`]))@([A-Za-z0-9_.-]{1,40}):([^\s\"'`<>]{1,2000})")
_PROMPT_COMMAND: Final = re.compile(r"\s*/([A-Za-z0-9_-]{1,64}):")
_MAX_MENTIONS: Final = 10
_SHOWN_LEFT_OUT: Final = 20
_RESOURCE_TOOLS: Final = frozenset(("list_mcp_resources", "read_mcp_resource"))


class FeatureNames:
    """Unique names for the tools or prompts of servers, stable during a session.

    A name has letters, digits, `_` and `-`, at most 64, and starts with a letter or `_`, as every model
    provider accepts it. A name that is taken or too long ends with some digits of a hash.
    """

    def __init__(self, separator: str, taken: frozenset[str] = frozenset()) -> None:
        self._separator = separator
        self._names: dict[tuple[str, str], str] = {}
        self._taken = set(taken)

    def name_for(self, server: str, feature: str) -> str:
        """Return our name for a feature of a server; always the same one."""
        name = self._names.get((server, feature))
        if name is None:
            name = self._names[server, feature] = self._new_name(server, feature)
            self._taken.add(name)
        return name

    def _new_name(self, server: str, feature: str) -> str:
        joined = f"{_valid_name(server)}{self._separator}{_valid_name(feature)}"
        if len(joined) <= _MAX_NAME_CHARS and joined not in self._taken:
            return joined
        number = 0
        while True:
            digest = hashlib.sha256(f"{number}\0{server}\0{feature}".encode(errors="replace")).hexdigest()
            name = f"{joined[: _MAX_NAME_CHARS - _HASH_DIGITS - 1]}_{digest[:_HASH_DIGITS]}"
            if name not in self._taken:
                return name
            number += 1


def _valid_name(name: str) -> str:
    """Replace characters that are not allowed."""
    valid = _INVALID_CHARACTERS.sub("_", name).strip("_-") or "unnamed"
    return valid if valid[0].isalpha() else f"_{valid}"


def mention_name(server: str) -> str:
    """The name of a server in a mention, which has no spaces."""
    return server if _MENTION.fullmatch(f"@{server}:x") else _valid_name(server)


class McpHost:
    """All MCP servers of one session. It never raises: a server that fails is reported to the hooks."""

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
        self._reported_late: set[str] = set()
        self._context = partial(
            ServerContext,
            cwd=cwd,
            roots=tuple(roots),
            hooks=hooks,
            limits=limits or McpLimits(),
            clock=clock,
            environment=environment,
            acp=acp,
            on_lost=_no_connection,
            on_features_changed=_no_connection,
        )
        for server in servers:
            self._add(server)
        self._tool_names = FeatureNames("__", _RESOURCE_TOOLS)
        self._command_names = FeatureNames(":")
        self._resources = Resources(self._servers_with_resources)

    def _add(self, server: McpServer) -> None:
        name = self._unique_name(server.name)
        server_context = self._context(name=name, secrets=_secrets(server), sign_in=McpSignIn(self._clock))
        self._servers[name] = SessionMcpServer(server, server_context)

    def start(self) -> None:
        """Start all servers in the background."""
        if self._servers:
            preload_mcp_in_background()
        for server in self._servers.values():
            server.start()

    def add_servers(self, servers: Sequence[McpServer]) -> None:
        """Start more servers in the background, without those whose name is taken."""
        for server in servers:
            if clean_line(server.name, _MAX_SERVER_NAME_CHARS) not in self._servers:
                self._add(server)
        self.start()

    def server(self, name: str) -> SessionMcpServer | None:
        """The server with this name, or with this name in commands and mentions."""
        named = (server for server in self._servers.values() if _valid_name(server.name) == name)
        return self._servers.get(name) or next(named, None)

    def restart(self, name: str) -> bool:
        """Restart a failed server in the background. Return whether there is one of that name."""
        server = self._servers.get(name)
        if server is not None:
            server.restart()
        return server is not None

    async def mentioned_resources(self, text: str, context: ToolContext) -> list[Part]:
        """The resources that a prompt mentions as `@SERVER:URI`. One that cannot be read becomes a note."""
        parts: list[Part] = []
        mentions = dict.fromkeys(_MENTION.findall(text))
        for name, uri in list(mentions)[:_MAX_MENTIONS]:
            server = self.server(name)
            if server is None or not server.features.has_resources:
                continue
            address = uri.rstrip(".,;:!?)")
            known = {resource.uri for resource in server.features.resources}
            outcome = await read_resource(server, uri if uri in known else address, context)
            note = f"[the user mentioned @{name}:{address}, a resource of the MCP server {name}]"
            parts += [TextPart(note), *outcome.parts]
        return parts

    async def wait_started(self, seconds: float, prompt: str = "") -> Sequence[str]:
        """Wait until every server is ready or has failed, at most until `seconds` after its start.

        Waits longer for servers that the prompt needs, by `/SERVER:PROMPT` or `@SERVER:URI`. Returns the
        servers that still connect, each once.
        """
        await asyncio.gather(*(server.wait_started(seconds) for server in self._servers.values()))
        names = {name for name, _ in _MENTION.findall(prompt)}
        if command := _PROMPT_COMMAND.match(prompt):
            names.add(command[1])
        named = [server for server in map(self.server, names) if server is not None]
        await asyncio.gather(*(server.wait_started(server.connect_seconds) for server in named))
        late = [server.name for server in self._servers.values() if server.state.status == "connecting"]
        new = [name for name in late if name not in self._reported_late]
        self._reported_late.update(new)
        return new

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The current tools of all servers, by names that are stable during the session."""
        tools: dict[str, Tool] = {}
        for server in self._servers.values():
            for feature in server.features.tools:
                name = self._tool_names.name_for(server.name, feature.name)
                tools[name] = McpTool(name, server, feature)
        if self._servers_with_resources():
            tools.update((tool.name, tool) for tool in self._resources.tools)
        return tools

    @property
    def prompts(self) -> Sequence[McpPrompt]:
        """The prompts of all servers, for use as slash commands."""
        return [
            McpPrompt(
                self._command_names.name_for(server.name, feature.name),
                feature.description,
                server,
                feature,
                self._tool_limits.output_chars,
                self._tool_limits.image_bytes,
            )
            for server in self._servers.values()
            for feature in server.features.prompts
        ]

    @property
    def states(self) -> Sequence[ServerState]:
        """The states of the servers, in their configured order."""
        return [server.state for server in self._servers.values()]

    @property
    def instructions(self) -> Mapping[str, str]:
        """The instructions of the servers for the model, by server. The text comes from the servers."""
        return {
            server.name: server.features.instructions
            for server in self._servers.values()
            if server.features.instructions
        }

    async def aclose(self) -> None:
        """End all connections and processes, in bounded time. Can be called twice."""
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))

    def _servers_with_resources(self) -> Mapping[str, SessionMcpServer]:
        return {name: server for name, server in self._servers.items() if server.features.has_resources}

    def _unique_name(self, name: str) -> str:
        cleaned = clean_line(name, _MAX_SERVER_NAME_CHARS) or "server"
        unique, number = cleaned, 2
        while unique in self._servers:
            unique, number = f"{cleaned}-{number}", number + 1
        return unique


def _secrets(server: McpServer) -> Secrets:
    if isinstance(server, McpServerHttp | McpServerSse):
        return Secrets([header.value for header in server.headers] + secrets_of_url(server.url))
    if isinstance(server, McpServerStdio):
        return Secrets([variable.value for variable in server.env])
    return Secrets()


def _no_connection(*_: object) -> None:
    """Does nothing: there is no connection yet."""


def start_servers(session: "CoderSession") -> McpHost:
    """Start the MCP servers of a session in the background."""
    agent_session = session.agent_session
    own_servers, problems = user_servers(
        session.resources.config.mapping, session.resources.config.file, config_dir()
    )
    for problem in problems:
        session.spawn(agent_session.notice("MCP server not used", problem, severity="warning"))
    host = McpHost(
        agent_session.mcp_servers,
        cwd=agent_session.cwd,
        roots=agent_session.roots,
        hooks=_Hooks(session),
        clock=session.clock,
        acp=agent_session.mcp_request,
    )
    host.add_servers(own_servers)
    session.spawn(_report_commands(session, host))
    return host


async def _report_commands(session: "CoderSession", host: McpHost) -> None:
    """Report the commands that were started for the client: as a notice, or on stderr."""
    names = {clean_line(server.name, _MAX_SERVER_NAME_CHARS) for server in session.agent_session.mcp_servers}
    of_client = [state for state in host.states if state.command and state.name in names]
    commands = [f"{state.name}: {state.command}" for state in of_client]
    if not commands:
        return
    if session.agent_session.client.shows_notices:
        await session.agent_session.notice("Started MCP servers of the client", "\n".join(commands))
    else:
        for command in commands:
            write_stderr(f"started the MCP server {command}")


class _Hooks:
    """What a session does for its servers."""

    def __init__(self, session: "CoderSession") -> None:
        self._session = session

    def changed(self) -> None:
        """Update the slash commands: they include the prompts of the servers."""
        self._session.spawn(self._send_commands())

    async def _send_commands(self) -> None:
        runtime = self._session.existing_runtime
        if runtime is not None:
            await runtime.offer_commands()

    def failed(self, name: str, reason: str) -> None:
        """Show the user a notice. The session goes on."""
        notice = self._session.agent_session.notice(f"MCP server {name} failed", reason, severity="warning")
        self._session.spawn(notice)

    def left_out(self, name: str, tools: Sequence[str]) -> None:
        """Name the tools that are not used."""
        shown = ", ".join(tools[:_SHOWN_LEFT_OUT])
        more = f" and {len(tools) - _SHOWN_LEFT_OUT} more; `/mcp {name}` lists them"
        text = f"left out: {shown}{more if len(tools) > _SHOWN_LEFT_OUT else ''}"
        title = f"{count_text(len(tools), 'tool')} of the MCP server {name} not used"
        self._session.spawn(self._session.agent_session.notice(title, text, severity="warning"))

    async def elicit_form(self, message: str, schema: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """Show the user a form of a server.

        Answers `cancel` without a running turn, or if the client shows no forms: the user saw nothing.
        """
        turn = self._turn()
        if turn is None or not turn.client.can_show_forms:
            return "cancel", None
        try:
            form = read(ElicitationSchema, schema)
            answer = await turn.elicit(message, form)
        except (Mismatch, AccordError):
            return "cancel", None  # a form that cannot be shown, or that asks for a secret
        return _action(answer), dict(answer.content) if answer else None

    async def elicit_url(self, message: str, url: str) -> str:
        """Ask the user to open a page for a server."""
        turn = self._turn()
        if turn is None or not turn.client.can_open_urls:
            return "cancel"
        try:
            return _action(await turn.elicit_url(message, url))
        except AccordError:
            return "cancel"

    def _turn(self) -> "Turn | None":
        turn = self._session.agent_session.turn
        return turn if turn is not None and turn.live else None


def _action(answer: ElicitationAnswer) -> str:
    if answer:
        return "accept"
    return "decline" if answer.action == "decline" else "cancel"
