"""Well-known agents: how each is launched, which keys it is known to want, and whether it is installed here.

The agents stand in `catalogue.json` beside this file. Nothing is run or fetched to find out whether one is installed.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Final

import msgspec

BUILT_IN: Final = "accord"
"""The name of the coding agent in this package."""
BUILT_IN_KEYS: Final = ("*_API_KEY",)
"""It speaks with any provider of models that the user configured, whose key is `{NAME}_API_KEY`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAgent:
    """One agent of the catalogue."""

    id: str
    name: str
    command: tuple[str, ...]
    """How it is started where it is installed."""
    npx: str | None = None
    """The package by which Node's runner can fetch and start it."""
    uvx: str | None = None
    """The package by which Python's runner can fetch and start it."""
    install: str | None = None
    aliases: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    """Packages and programs of earlier days that are the same agent."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: tuple[str, ...] = ()
    """Credentials of the user's environment that are this agent's business."""
    parts: tuple[str, ...] = ()
    """Files of which one must be there beside the program."""
    remark: str = ""

    def found(self, path: str | None = None) -> str | None:
        """The program's place on this machine, or on this search path; None if it is not installed."""
        if self.parts and not any(os.path.exists(os.path.expanduser(part)) for part in self.parts):
            return None
        return shutil.which(self.command[0], path=path)

    @property
    def by_runner(self) -> tuple[str, ...] | None:
        """The command that fetches and starts it, for those that come as a package."""
        if self.npx is not None:
            return ("npx", "-y", self.npx, *self.command[1:])
        return None if self.uvx is None else ("uvx", self.uvx, *self.command[1:])

    @property
    def how_to_get(self) -> str:
        """In words, how to install it or to do without."""
        install = self.install
        if install is None and self.npx is not None:
            install = f"npm install -g {self.npx}"
        if install is None and self.uvx is not None:
            install = f"uv tool install {self.uvx}"
        if install is None:
            return f"get it from its makers, so that `{self.command[0]}` is on PATH"
        if self.by_runner is None:
            return f"`{install}`"
        return f"`{install}`, or `accord agents add {self.id}` to have {self.by_runner[0]} fetch it"

    def is_started_by(self, command: Sequence[str]) -> bool:
        """Whether a command a user wrote starts this agent: by its program, or by its package through a runner."""
        program = PurePath(command[0]).name
        if program in ("npx", "uvx"):
            words = [word for word in command[1:] if word not in ("-y", "--yes")]
            return bool(words) and _without_version(words[0]) in (self.npx, self.uvx, *self.older)
        if program != self.command[0]:
            return program in self.older
        # One program can be more than the agent: `docker` is anything, `docker agent` is this one.
        return len(self.command) < 3 or tuple(command[1:2]) == self.command[1:2]


class _File(msgspec.Struct):
    keyGroups: dict[str, list[str]]  # noqa: N815 - as in the file
    agents: list[KnownAgent]


@cache
def catalogue() -> tuple[KnownAgent, ...]:
    """All well-known agents, in the order of the file."""
    data = msgspec.json.decode(files("accord.frontend").joinpath("catalogue.json").read_bytes(), type=_File)
    return tuple(_with_keys(agent, data.keyGroups) for agent in data.agents)


def known(name: str) -> KnownAgent | None:
    """The agent of that id or one of its other names, in any case."""
    wanted = name.casefold()
    return next((agent for agent in catalogue() if wanted in (agent.id, *agent.aliases)), None)


def identity(name: str) -> str:
    """What a name stands for: the id of a well-known agent for each of its names, else the name itself, in one case."""
    agent = known(name)
    return name.casefold() if agent is None else agent.id


def started_by(command: Sequence[str]) -> KnownAgent | None:
    """The agent that this command starts, if it is a well-known one."""
    return next((agent for agent in catalogue() if agent.is_started_by(command)), None)


def _with_keys(agent: KnownAgent, groups: Mapping[str, list[str]]) -> KnownAgent:
    keys: dict[str, None] = {}
    for key in agent.keys:
        keys.update(dict.fromkeys(groups[key[1:]] if key.startswith("@") else (key,)))
    return replace(agent, keys=tuple(keys))


def _without_version(package: str) -> str:
    name = package.split("==")[0]
    return name[:1] + name[1:].split("@")[0]
