"""The catalog of known agents: how to start each, which API keys it needs, and whether it is installed.

The data is in `catalog.json` next to this file. The check whether an agent is installed runs and fetches
nothing.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from accord.frontend.launched_program import LaunchedProgram, launched_program

BUILT_IN: Final = "accord"
"""The name of the coding agent in this package."""
BUILT_IN_KEYS: Final[tuple[str, ...]] = (
    "*_API_KEY", "AWS_BEARER_TOKEN_BEDROCK",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy",
)  # fmt: skip
"""The keys of the built-in agent: it uses every provider that the user configured, by `{NAME}_API_KEY`.

A proxy may have a password in its address.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAgent:
    """One agent of the catalog."""

    id: str
    name: str
    command: tuple[str, ...]
    """The command that starts the installed agent."""
    npx: str | None = None
    """The package for `npx`, which fetches and starts the agent."""
    uvx: str | None = None
    """The package for `uvx`, which fetches and starts the agent."""
    install: str | None = None
    aliases: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    """Other packages and programs of the same agent, such as its former names."""
    modules: tuple[str, ...] = ()
    """The top-level Python modules that start it with `python -m`."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: tuple[str, ...] = ()
    """The environment variables with credentials that this agent may get."""
    parts: tuple[str, ...] = ()
    """Files; at least one must exist if the agent is installed."""
    remark: str = ""

    def executable(self, path: str | None = None) -> str | None:
        """The path of the program, searched on PATH or on `path`; None if the agent is not installed."""
        if self.parts and not any(os.path.exists(os.path.expanduser(part)) for part in self.parts):
            return None
        return shutil.which(self.command[0], path=path)

    @property
    def runner_command(self) -> tuple[str, ...] | None:
        """The command that fetches and starts the agent, if it comes as a package."""
        if self.npx is not None:
            return ("npx", "-y", self.npx, *self.command[1:])
        return None if self.uvx is None else ("uvx", self.uvx, *self.command[1:])

    @property
    def install_hint(self) -> str:
        """How to install the agent, as a text for the user."""
        install = self.install
        if install is None and self.npx is not None:
            install = f"npm install -g {self.npx}"
        if install is None and self.uvx is not None:
            install = f"uv tool install {self.uvx}"
        if install is None:
            return f"install it as its documentation says, so that `{self.command[0]}` is on PATH"
        if self.runner_command is None:
            return f"`{install}`"
        return f"`{install}`, or `accord agents add {self.id}` to let {self.runner_command[0]} fetch it"

    def is_started_by(self, program: LaunchedProgram) -> bool:
        """Whether a program is this agent: by its name, its package or its Python module."""
        if program.module.partition(".")[0] in self.modules:
            return True
        if not program.packages.isdisjoint((self.npx, self.uvx, *self.older)):
            return True
        if self.command[0] not in program.names:
            return not program.names.isdisjoint(self.older)
        # A program can do more than start the agent: `docker` can be anything, `docker agent` is the agent.
        return len(self.command) < 3 or program.arguments[:1] == self.command[1:2]


class _CatalogFile(msgspec.Struct):
    keyGroups: dict[str, list[str]]  # noqa: N815 - as in the file
    agents: list[KnownAgent]


@cache
def catalog() -> tuple[KnownAgent, ...]:
    """All known agents, in the order of the file."""
    # `importlib.resources` would load modules that a run does not need; msgspec cannot run from a zip file.
    content = Path(__file__).with_name("catalog.json").read_bytes()
    data = msgspec.json.decode(content, type=_CatalogFile)
    return tuple(_with_keys(agent, data.keyGroups) for agent in data.agents)


def find_known_agent(name: str) -> KnownAgent | None:
    """The known agent with this id or alias; ignores case."""
    folded = name.casefold()
    return next((agent for agent in catalog() if folded in (agent.id, *agent.aliases)), None)


def canonical_name(name: str) -> str:
    """The id of the known agent with this name or alias, otherwise the name in lower case."""
    agent = find_known_agent(name)
    return name.casefold() if agent is None else agent.id


def known_agent_of(command: Sequence[str]) -> KnownAgent | None:
    """The known agent that this command starts, directly or through an interpreter or a package runner."""
    program = launched_program(command)
    return next((agent for agent in catalog() if agent.is_started_by(program)), None)


def starts_built_in(command: Sequence[str]) -> bool:
    """Whether a command starts the coding agent of this package."""
    program = launched_program(command)
    is_module = program.module in (BUILT_IN, f"{BUILT_IN}.cli")
    return is_module or BUILT_IN in program.names or BUILT_IN in program.packages


def starts_coding_agent(command: Sequence[str]) -> bool:
    """Whether a command is `accord agent`, or its second distribution."""
    program = launched_program(command)
    if f"{BUILT_IN}-agent" in program.names | program.packages:
        return True
    return program.arguments[:1] == ("agent",) and starts_built_in(command)


def _with_keys(agent: KnownAgent, groups: Mapping[str, list[str]]) -> KnownAgent:
    keys: dict[str, None] = {}
    for key in agent.keys:
        keys.update(dict.fromkeys(groups[key[1:]] if key.startswith("@") else (key,)))
    return replace(agent, keys=tuple(keys))
