"""One configured agent: command, limits, permissions, MCP servers."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import msgspec

from accord.client.client_options import ClientOptions, RestartPolicy
from accord.client.handlers import AgentCommand, ClientHandlers
from accord.client.remote_agent import PendingAgent
from accord.errors import NeverStarted
from accord.frontend.agent_config.agent_environment import expand, laid_over, whole
from accord.frontend.agent_config.formats import BadAgentConfig, read_env, read_text, read_texts
from accord.frontend.known_agents import BUILT_IN, BUILT_IN_KEYS, KnownAgent, known, started_by
from accord.policy.rules import PermissionDefault, Rules
from accord.schema import EnvVariable, HttpHeader, McpServer, McpServerHttp, McpServerSse, McpServerStdio

if TYPE_CHECKING:
    from accord.policy.policy import Policy


# MERGED client.servers.mcp: MCP servers as a file describes them, and as they are sent to an agent.

_MCP_STDIO: Final = frozenset(("name", "type", "command", "args", "env"))
_MCP_REMOTE: Final = frozenset(("name", "type", "url", "headers"))


@dataclass(frozen=True, slots=True, kw_only=True)
class McpEntry:
    """An MCP server as a file describes it."""

    name: str
    place: str
    """The file and the key where it stands."""
    kind: Literal["stdio", "http", "sse"] = "stdio"
    command: tuple[str, ...] = ()
    url: str = ""
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its environment, or the headers to send."""

    def resolved(self, environ: Mapping[str, str]) -> McpServer:
        """As it is sent to an agent, references resolved. Raises UsageError."""
        part = "env" if self.kind == "stdio" else "headers"
        values = {
            name: expand(value, environ, f"{self.place}.{part}.{name}") for name, value in self.values.items()
        }
        if self.kind == "stdio":
            variables = [EnvVariable(name, value) for name, value in values.items()]
            return McpServerStdio(self.name, self.command[0], list(self.command[1:]), variables)
        headers = [HttpHeader(name, value) for name, value in values.items()]
        kind = McpServerHttp if self.kind == "http" else McpServerSse
        return kind(self.name, self.url, headers)


def read_mcp_servers(value: Any, file: str, key: str, folder: str) -> tuple[McpEntry, ...]:
    """MCP servers as an object by name, as most tools have it, or as a list, as in the protocol. Raises BadServers."""
    entries: dict[str, McpEntry] = {}
    if value is None:
        return ()
    if isinstance(value, dict):
        named = [(name, f"{key}.{name}", said) for name, said in cast("dict[str, Any]", value).items()]
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        named = [(_named(said), f"{key}[{number}]", said) for number, said in enumerate(items)]
    else:
        raise BadAgentConfig(file, key, "it must be an object by name, or a list")
    for name, place, said in named:
        if not name or not name.isprintable() or name in entries:
            raise BadAgentConfig(file, place, "an MCP server needs a name of its own")
        if not isinstance(said, dict):
            raise BadAgentConfig(file, place, "it must be an object with `command` or `url`")
        entries[name] = _mcp(name, place, cast("dict[str, Any]", said), file, folder)
    return tuple(entries.values())


def _mcp(name: str, place: str, said: dict[str, Any], file: str, folder: str) -> McpEntry:
    kind = said.get("type", "http" if "url" in said else "stdio")
    kind = (
        {"streamable-http": "http", "streamableHttp": "http", "local": "stdio"}.get(kind, kind)
        if isinstance(kind, str)
        else kind
    )
    if kind not in ("stdio", "http", "sse"):
        raise BadAgentConfig(file, f"{place}.type", f"{kind!r} is none of stdio, http, sse")
    keys = _MCP_STDIO if kind == "stdio" else _MCP_REMOTE
    for key in said:
        if key not in keys:
            raise BadAgentConfig(
                file,
                f"{place}.{key}",
                f"there is no such key for {kind}; there are: {', '.join(sorted(keys))}",
            )
    if kind == "stdio":
        program = os.path.expanduser(read_text(said.get("command"), file, f"{place}.command", "the program"))
        if not os.path.isabs(program) and os.path.basename(program) != program:
            program = os.path.normpath(os.path.join(folder, program))
        command = (program, *read_texts(said.get("args"), file, f"{place}.args"))
        values = read_env(said.get("env"), file, f"{place}.env")
        return McpEntry(name=name, place=f"{file}: {place}", command=command, values=_set(values))
    url = read_text(said.get("url"), file, f"{place}.url", "an address")
    if not url.startswith(("http://", "https://")):
        raise BadAgentConfig(
            file, f"{place}.url", f"{url!r} is no address: it begins with http:// or https://"
        )
    values = read_env(said.get("headers"), file, f"{place}.headers")
    return McpEntry(name=name, place=f"{file}: {place}", kind=kind, url=url, values=_set(values))


def _set(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _named(said: Any) -> str:
    name = cast("dict[str, Any]", said).get("name") if isinstance(said, dict) else None
    return name if isinstance(name, str) else ""


# MERGED client.servers.server: One agent that can be launched: its program, its environment, its limits, and what it is allowed to do.
#
# It is described by a file, by the catalogue, or is the one in this package. References to the environment are kept as they
# were written, and resolved when it is launched.

Origin: TypeAlias = Literal["built-in", "user", "project", "catalogue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredAgent:
    """An agent, and everything that is configured about it."""

    name: str
    origin: Origin
    command: tuple[str, ...]
    """The program and its arguments; empty where the catalogue knows them."""
    place: str = ""
    """The file and the key where it stands, for messages."""
    folder: str | None = None
    """Where relative paths of its file count from."""
    description: str = ""
    env: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """As written, references not yet resolved; None takes a variable away."""
    cwd: str | None = None
    """Where the program is started; without it, in the folder of the session."""
    timeout: float | None = None
    """Seconds for an ordinary request."""
    startup: float | None = None
    """Seconds from the start of the program to the answer of `initialize`."""
    max_restarts: int | None = None
    permissions: Rules | None = None
    """The user's rules."""
    project_permissions: Rules | None = None
    """The rules of a project's file; they can only make the outcome stricter."""
    unattended: PermissionDefault | None = None
    """What is allowed where nobody can be asked, if the file says so."""
    mcp: tuple[McpEntry, ...] = ()

    @property
    def known(self) -> KnownAgent | None:
        """What the catalogue knows about it, by its name or by its command."""
        if self.command:
            return started_by(self.command) or (known(self.name) if self.origin == "user" else None)
        return known(self.name)

    @property
    def keys(self) -> tuple[str, ...]:
        """Credentials of our environment it gets unasked.

        A program that a project names, or sets up in its own way, gets none: its `env` has to name them.
        """
        if self.origin == "project" and (self.command or self.env or self.cwd):
            return ()
        if self.name == BUILT_IN or (self.command and Path(self.command[0]).name == BUILT_IN):
            return BUILT_IN_KEYS
        agent = self.known
        return agent.keys if agent is not None else ()

    def program(self, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """The command as it will be started. Raises NeverStarted where the catalogue knows it and it is not installed."""
        if not self.command and self.name == BUILT_IN:
            return own_command()
        if self.command:
            first = os.path.expanduser(self.command[0])
            if self.folder is not None and _is_relative_path(first):
                first = os.path.normpath(os.path.join(self.folder, first))
            return (first, *self.command[1:])
        agent = self.known
        assert agent is not None, "only an agent of the catalogue is without a command"
        if agent.found((os.environ if environ is None else environ).get("PATH")) is None:
            raise NeverStarted(f"{self.name} is not installed here: {agent.how_to_get}")
        return agent.command

    def installed(self, environ: Mapping[str, str] | None = None) -> str | None:
        """Where its program is on this machine; None if it is nowhere."""
        try:
            first = self.program(environ)[0]
        except NeverStarted:
            return None
        return shutil.which(first, path=(os.environ if environ is None else environ).get("PATH"))

    def launch(
        self, cwd: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
    ) -> AgentCommand:
        """How it is started, for a session in this folder. Raises UsageError, NeverStarted."""
        ours = dict(os.environ if environ is None else environ)
        command = self.program(ours)
        if shutil.which(command[0], path=ours.get("PATH")) is None and " " in command[0]:
            raise NeverStarted(
                f"{self.place}.command: there is no program {command[0]!r}; arguments belong in `args`, each on its own"
            )
        agent = self.known
        env: dict[str, str | None] = {**(agent.env if agent is not None else {}), **self.env}
        child = whole(ours, self.keys, env, f"{self.place}.env")
        folder = self.cwd if self.cwd is not None else None if cwd is None else os.path.abspath(cwd)
        return AgentCommand(command, folder, laid_over(ours, child))

    def options(self, base: ClientOptions | None = None) -> ClientOptions:
        """The options of a connection with this agent's limits and restarts in them."""
        base = base or ClientOptions()
        limits = base.limits
        if self.timeout is not None:
            limits = replace(limits, request=self.timeout)
        if self.startup is not None:
            limits = replace(limits, startup=self.startup)
        restart = base.restart or RestartPolicy()
        if self.max_restarts is not None:
            restart = replace(restart, max_restarts=self.max_restarts)
        return replace(base, limits=limits, restart=restart if restart.max_restarts else None)

    def mcp_servers(self, environ: Mapping[str, str] | None = None) -> list[McpServer]:
        """The MCP servers of every session, references resolved. Raises UsageError."""
        ours = os.environ if environ is None else environ
        return [entry.resolved(ours) for entry in self.mcp]

    def policy(self, word: PermissionDefault | None = None) -> "Policy":
        """What it is allowed to do. The word takes the place of the user's default; the user's rules stay."""
        from accord.policy.policy import Policy

        user = self.permissions
        if word is not None:
            user = msgspec.structs.replace(user or Rules(), default=word)
        return Policy(user, self.project_permissions)

    def connect(
        self,
        cwd: str | os.PathLike[str] | None = None,
        *,
        handlers: ClientHandlers | None = None,
        options: ClientOptions | None = None,
    ) -> PendingAgent:
        """Start it for a session in this folder and connect to it. Raises as `accord.connect`, and UsageError."""
        return PendingAgent(self.launch(cwd), handlers, self.options(options))


def own_command() -> tuple[str, ...]:
    """How the coding agent in this package is started: by our own Python, and never from the folder it stands in (-P)."""
    return (sys.executable, "-P", "-m", "accord.cli", "agent")


def built_in() -> ConfiguredAgent:
    """The coding agent in this package."""
    return ConfiguredAgent(
        name=BUILT_IN, origin="built-in", command=(), description="the coding agent of this package"
    )


def of_catalogue(agent: KnownAgent) -> ConfiguredAgent:
    """A well-known agent that no file speaks of."""
    return ConfiguredAgent(name=agent.id, origin="catalogue", command=(), description=agent.name)


def _is_relative_path(program: str) -> bool:
    return not os.path.isabs(program) and Path(program).name != program
