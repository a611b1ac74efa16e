"""One configured agent: command, limits, permissions, MCP servers.

An agent comes from a file, from the catalog, or is the coding agent of this package. References to the
environment are kept as written and resolved at launch.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import msgspec

from accord.client.client_options import ClientOptions, ProtocolChoice, RestartPolicy
from accord.client.handlers import AgentCommand, ClientHandlers
from accord.client.remote_agent import PendingAgent
from accord.errors import NeverStarted
from accord.frontend.agent_config.agent_environment import (
    build_environment,
    environment_changes,
    expand_references,
    inherited_environment,
)
from accord.frontend.agent_config.config_values import BadAgentConfig, read_env, read_text, read_texts
from accord.frontend.known_agents import (
    BUILT_IN,
    BUILT_IN_KEYS,
    KnownAgent,
    find_known_agent,
    known_agent_of,
    starts_built_in,
    starts_coding_agent,
)
from accord.policy.rules import PermissionDefault, Rules
from accord.policy.sandbox.command_environment import is_credential
from accord.schema import EnvVariable, HttpHeader, McpServer, McpServerHttp, McpServerSse, McpServerStdio

if TYPE_CHECKING:
    from accord.policy.policy import Policy


_STDIO_KEYS: Final = frozenset(("name", "type", "command", "args", "env"))
_REMOTE_KEYS: Final = frozenset(("name", "type", "url", "headers"))
MCP_KEYS: Final = _STDIO_KEYS | _REMOTE_KEYS
"""The members of an MCP server."""
_TYPE_ALIASES: Final = {"streamable-http": "http", "streamableHttp": "http", "local": "stdio"}


@dataclass(frozen=True, slots=True, kw_only=True)
class McpEntry:
    """An MCP server in a file."""

    name: str
    config_location: str
    """The file and the key, for messages."""
    kind: Literal["stdio", "http", "sse"] = "stdio"
    command: tuple[str, ...] = ()
    url: str = ""
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """The environment variables, or the headers."""

    def resolved(self, environ: Mapping[str, str]) -> McpServer:
        """The MCP server for the agent, with resolved references. Raises UsageError."""
        part = "env" if self.kind == "stdio" else "headers"
        values = {
            name: expand_references(value, environ, f"{self.config_location}.{part}.{name}")
            for name, value in self.values.items()
        }
        if self.kind == "stdio":
            variables = [EnvVariable(name, value) for name, value in values.items()]
            return McpServerStdio(self.name, self.command[0], list(self.command[1:]), variables)
        headers = [HttpHeader(name, value) for name, value in values.items()]
        kind = McpServerHttp if self.kind == "http" else McpServerSse
        return kind(self.name, self.url, headers)


def read_mcp_servers(value: Any, file: str, key: str, folder: str) -> tuple[McpEntry, ...]:
    """Read MCP servers: an object by name, or a list as in the protocol. Raises BadAgentConfig."""
    entries: dict[str, McpEntry] = {}
    if value is None:
        return ()
    if isinstance(value, dict):
        items = [(name, f"{key}.{name}", members) for name, members in cast("dict[str, Any]", value).items()]
    elif isinstance(value, list):
        values = cast("list[Any]", value)
        items = [(_entry_name(members), f"{key}[{number}]", members) for number, members in enumerate(values)]
    else:
        raise BadAgentConfig(file, key, "it must be an object with server names as keys, or a list")
    for name, key_path, members in items:
        if not name or not name.isprintable() or name in entries:
            raise BadAgentConfig(file, key_path, "an MCP server needs a unique, printable name")
        if not isinstance(members, dict):
            raise BadAgentConfig(file, key_path, "it must be an object with `command` or `url`")
        entries[name] = _read_mcp_entry(name, key_path, cast("dict[str, Any]", members), file, folder)
    return tuple(entries.values())


def _read_mcp_entry(name: str, key_path: str, members: dict[str, Any], file: str, folder: str) -> McpEntry:
    kind = members.get("type", "http" if "url" in members else "stdio")
    if isinstance(kind, str):
        kind = _TYPE_ALIASES.get(kind, kind)
    if kind not in ("stdio", "http", "sse"):
        raise BadAgentConfig(file, f"{key_path}.type", f"{kind!r} is not one of stdio, http, sse")
    keys = _STDIO_KEYS if kind == "stdio" else _REMOTE_KEYS
    for key in members:
        if key not in keys:
            raise BadAgentConfig(
                file,
                f"{key_path}.{key}",
                f"unknown key; an MCP server of type {kind} has: {', '.join(sorted(keys))}",
            )
    if kind == "stdio":
        program = read_text(members.get("command"), file, f"{key_path}.command", "the program")
        program = _absolute_program(program, folder)
        command = (program, *read_texts(members.get("args"), file, f"{key_path}.args"))
        values = read_env(members.get("env"), file, f"{key_path}.env")
        return McpEntry(
            name=name, config_location=f"{file}: {key_path}", command=command, values=_string_values(values)
        )
    url = read_text(members.get("url"), file, f"{key_path}.url", "an address")
    if not url.startswith(("http://", "https://")):
        raise BadAgentConfig(
            file, f"{key_path}.url", f"{url!r} is not an address: it must start with http:// or https://"
        )
    values = read_env(members.get("headers"), file, f"{key_path}.headers")
    return McpEntry(
        name=name, config_location=f"{file}: {key_path}", kind=kind, url=url, values=_string_values(values)
    )


def _string_values(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _entry_name(members: Any) -> str:
    name = cast("dict[str, Any]", members).get("name") if isinstance(members, dict) else None
    return name if isinstance(name, str) else ""


Origin: TypeAlias = Literal["built-in", "user", "project", "catalogue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredAgent:
    """An agent with its configuration."""

    name: str
    origin: Origin
    command: tuple[str, ...]
    """The program and its arguments; empty if the catalog has them."""
    config_location: str = ""
    """The file and the key, for messages."""
    folder: str | None = None
    """The base directory for relative paths in its file."""
    description: str = ""
    env: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """As written, with unresolved references; None removes a variable."""
    option_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables of `--env` on the command line, with their values."""
    cwd: str | None = None
    """The working directory of the program; by default the directory of the session."""
    timeout: float | None = None
    """The time limit of an ordinary request, in seconds."""
    startup: float | None = None
    """The time limit from the start of the program to the response to `initialize`, in seconds."""
    cancel: float | None = None
    """The time limit of a canceled turn without any message from the agent, in seconds."""
    max_restarts: int | None = None
    protocol: ProtocolChoice | None = None
    """The protocol version to ask for; 1 by default."""
    permissions: Rules | None = None
    """The user's rules."""
    project_permissions: Rules | None = None
    """The rules of a project's file; they can only make decisions stricter."""
    unattended: PermissionDefault | None = None
    """The permission default for runs without a user, if the file sets it."""
    mcp: tuple[McpEntry, ...] = ()

    @property
    def known(self) -> KnownAgent | None:
        """The entry of the catalog for this agent, by name or by command."""
        if self.command:
            return known_agent_of(self.command) or (
                find_known_agent(self.name) if self.origin == "user" else None
            )
        return find_known_agent(self.name)

    @property
    def uses_client_files(self) -> bool:
        """Whether the client should offer files and terminals.

        Accord's own agent accesses them itself, under its own rules. If it used the client's, the user would
        be asked twice.
        """
        return not starts_coding_agent(self.command) if self.command else self.name != BUILT_IN

    @property
    def keys(self) -> tuple[str, ...]:
        """The credentials in our environment that the agent inherits.

        An agent whose command, variables or directory come from a project's file inherits none: its `env`
        must name them.
        """
        if self.origin == "project" and (self.command or self.env or self.cwd):
            return ()
        if self.is_built_in:
            return BUILT_IN_KEYS
        agent = self.known
        return agent.keys if agent is not None else ()

    @property
    def is_built_in(self) -> bool:
        """Whether it is the coding agent of this package, by name or by command."""
        return self.name == BUILT_IN or starts_built_in(self.command)

    def withheld_variables(self, environ: Mapping[str, str] | None = None) -> list[str]:
        """The names of the credentials in our environment that this agent does not get, likely keys first.

        Variables that its `env` sets or removes are left out, and so are all for the coding agent of this
        package, which reads only keys that it gets.
        """
        if self.is_built_in:
            return []
        environment = os.environ if environ is None else environ
        passed = inherited_environment(environment, self.keys)
        explicit = {*self.env, *self.option_env}
        names = [
            name
            for name, value in environment.items()
            if value and name not in passed and name not in explicit and is_credential(name, value)
        ]
        return sorted(names, key=lambda name: (not name.endswith("API_KEY"), name))

    def start_command(self, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """The command to start. Raises NeverStarted for an agent of the catalog that is not installed."""
        if not self.command and self.name == BUILT_IN:
            return built_in_command()
        if self.command:
            return (_absolute_program(self.command[0], self.folder), *self.command[1:])
        agent = self.known
        assert agent is not None, "only an agent of the catalog has no command"
        if agent.executable((os.environ if environ is None else environ).get("PATH")) is None:
            raise NeverStarted(f"{self.name} is not installed: {agent.install_hint}")
        return agent.command

    def installed(self, environ: Mapping[str, str] | None = None) -> str | None:
        """The path of its program; None if it is not installed."""
        try:
            first = self.start_command(environ)[0]
        except NeverStarted:
            return None
        return shutil.which(first, path=(os.environ if environ is None else environ).get("PATH"))

    def launch(
        self, cwd: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
    ) -> AgentCommand:
        """The command to start the agent for a session in this directory.

        Raises UsageError or NeverStarted.
        """
        environment = dict(os.environ if environ is None else environ)
        command = self.start_command(environment)
        if shutil.which(command[0], path=environment.get("PATH")) is None and " " in command[0]:
            raise NeverStarted(
                f"{self.config_location}.command: program {command[0]!r} not found; "
                "put each argument into `args`"
            )
        agent = self.known
        env: dict[str, str | None] = {**(agent.env if agent is not None else {}), **self.env}
        agent_environment = build_environment(environment, self.keys, env, f"{self.config_location}.env")
        agent_environment.update(self.option_env)
        folder = self.cwd if self.cwd is not None else None if cwd is None else os.path.abspath(cwd)
        return AgentCommand(command, folder, environment_changes(environment, agent_environment))

    def options(self, base: ClientOptions | None = None) -> ClientOptions:
        """The client options with this agent's limits and restarts."""
        base = base or ClientOptions()
        limits = base.limits
        if self.timeout is not None:
            limits = replace(limits, request=self.timeout)
        if self.startup is not None:
            limits = replace(limits, startup=self.startup)
        if self.cancel is not None:
            limits = replace(limits, cancel=self.cancel)
        restart = base.restart or RestartPolicy()
        if self.max_restarts is not None:
            restart = replace(restart, max_restarts=self.max_restarts)
        return replace(
            base,
            limits=limits,
            restart=restart if restart.max_restarts else None,
            protocol=base.protocol if self.protocol is None else self.protocol,
        )

    def mcp_servers(self, environ: Mapping[str, str] | None = None) -> list[McpServer]:
        """The MCP servers for a session, with resolved references. Raises UsageError."""
        environment = os.environ if environ is None else environ
        return [entry.resolved(environment) for entry in self.mcp]

    def policy(self, default: PermissionDefault | None = None) -> "Policy":
        """The policy for this agent. `default` replaces the user's default; the user's rules stay."""
        from accord.policy.policy import Policy

        user = self.permissions
        if default is not None:
            user = msgspec.structs.replace(user or Rules(), default=default)
        return Policy(user, self.project_permissions)

    def connect(
        self,
        cwd: str | os.PathLike[str] | None = None,
        *,
        handlers: ClientHandlers | None = None,
        options: ClientOptions | None = None,
    ) -> PendingAgent:
        """Start the agent for a session in this directory and connect.

        Raises what `accord.connect` raises.
        """
        return PendingAgent(self.launch(cwd), handlers, self.options(options))


def built_in_command() -> tuple[str, ...]:
    """The command of the coding agent: this Python, with -P so that the current directory is not imported."""
    return (sys.executable, "-P", "-m", "accord.cli", "agent")


def built_in() -> ConfiguredAgent:
    """The coding agent in this package."""
    return ConfiguredAgent(
        name=BUILT_IN, origin="built-in", command=(), description="the coding agent of this package"
    )


def from_catalog(agent: KnownAgent) -> ConfiguredAgent:
    """The configuration of a known agent that is in no file."""
    return ConfiguredAgent(name=agent.id, origin="catalogue", command=(), description=agent.name)


def _absolute_program(program: str, folder: str | None) -> str:
    """Resolve `~` and a relative path against `folder`; a bare name is searched on PATH later."""
    program = os.path.expanduser(program)
    if folder is not None and not os.path.isabs(program) and os.path.basename(program) != program:
        return os.path.normpath(os.path.join(folder, program))
    return program
