"""One agent that can be launched: its program, its environment, its limits, and what it is allowed to do.

It is described by a file, by the catalogue, or is the one in this package. References to the environment are kept as they
were written, and resolved when it is launched.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from accord.client.catalogue import BUILT_IN, BUILT_IN_KEYS, KnownAgent, known, started_by
from accord.client.connect import Connecting
from accord.client.handlers import ClientHandlers
from accord.client.login import Launch
from accord.client.options import ClientOptions
from accord.client.restart import RestartPolicy
from accord.client.servers.environment import laid_over, whole
from accord.client.servers.mcp import McpEntry
from accord.errors import NeverStarted
from accord.policy.rules import Rules, Word
from accord.schema import McpServer

if TYPE_CHECKING:
    from accord.policy.policy import Policy

Origin: TypeAlias = Literal["built-in", "user", "project", "catalogue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
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
    unattended: Word | None = None
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
    ) -> Launch:
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
        return Launch(command, folder, laid_over(ours, child))

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

    def policy(self, word: Word | None = None) -> "Policy":
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
    ) -> Connecting:
        """Start it for a session in this folder and connect to it. Raises as `accord.connect`, and UsageError."""
        return Connecting(self.launch(cwd), handlers, self.options(options))


def own_command() -> tuple[str, ...]:
    """How the coding agent in this package is started: by our own Python, and never from the folder it stands in (-P)."""
    return (sys.executable, "-P", "-m", "accord.cli", "agent")


def built_in() -> Server:
    """The coding agent in this package."""
    return Server(
        name=BUILT_IN, origin="built-in", command=(), description="the coding agent of this package"
    )


def of_catalogue(agent: KnownAgent) -> Server:
    """A well-known agent that no file speaks of."""
    return Server(name=agent.id, origin="catalogue", command=(), description=agent.name)


def _is_relative_path(program: str) -> bool:
    return not os.path.isabs(program) and Path(program).name != program
