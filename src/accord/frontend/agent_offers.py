"""The agents that a user can choose from: what each needs, and how to install it.

Imported on first use: it searches for programs.
"""

import os
import shlex
import shutil
from dataclasses import dataclass
from typing import Any, Literal

from accord.errors import UsageError
from accord.frontend.agent_config import ConfiguredAgent, leave_out, load
from accord.frontend.agent_config.acp_file import add as add_entry
from accord.frontend.agent_config.acp_file import user_file
from accord.frontend.known_agents import KnownAgent

OfferGroup = Literal["configured", "untrusted", "installed", "missing"]


@dataclass(frozen=True, slots=True)
class InstallWay:
    """One way to get an agent that is not installed."""

    title: str
    command: tuple[str, ...] = ()
    """The command that installs it; empty if the agent is only added to the user's `acp.json`."""
    entry: tuple[str, ...] = ()
    """The command that starts the agent, for `acp.json`; empty if the catalog has it."""


@dataclass(frozen=True, slots=True)
class AgentOffer:
    """One agent to choose."""

    name: str
    title: str
    group: OfferGroup
    needs: str
    """What it needs before it can answer, in a few words."""
    default: bool = False
    installs: tuple[InstallWay, ...] = ()


def agent_offers(cwd: str) -> list[AgentOffer]:
    """All agents of a folder: configured, installed, then those that can be installed. Blocking.

    Raises UsageError for a broken `acp.json`.
    """
    agents = load(cwd, trust=leave_out)
    default = agents.default.name
    offers = [_offer(agent, "configured", default) for agent in agents.configured]
    if agents.untrusted_file is not None:
        offers += [_offer(agent, "untrusted", default) for agent in agents.untrusted_file.agents]
    known = [(agent, agent.installed() is not None) for agent in agents.known_only]
    offers += [_offer(agent, "installed", default) for agent, installed in known if installed]
    offers += [_offer(agent, "missing", default) for agent, installed in known if not installed]
    return offers


def add_agent(name: str, way: InstallWay) -> None:
    """Write the agent into the user's `acp.json`, if it needs an entry. Raises UsageError."""
    if way.entry:
        entry: dict[str, Any] = {"command": way.entry[0], "args": list(way.entry[1:])}
        add_entry(user_file(), "user", name, entry)


def _offer(agent: ConfiguredAgent, group: OfferGroup, default: str) -> AgentOffer:
    known = agent.known
    title = agent.description or (known.name if known is not None else "")
    if agent.is_built_in:
        return AgentOffer(agent.name, "Accord", group, "a model key, or a local model", agent.name == default)
    needs = "" if known is None else _needs(known)
    installed = group == "installed" or agent.installed() is not None
    if not installed:
        needs = "not installed" + (f" · {needs}" if needs else "")
    installs = () if installed or known is None or agent.command else install_ways(known)
    return AgentOffer(agent.name, title, group, needs, agent.name == default, installs)


def _needs(known: KnownAgent) -> str:
    present = [key for key in known.keys if os.environ.get(key)]
    if present:
        return f"uses {present[0]}"
    if known.keys:
        return f"its sign-in or {known.keys[0]}"
    return "its sign-in"


def install_ways(known: KnownAgent) -> tuple[InstallWay, ...]:
    """How an agent can be installed from here, with the programs of this machine."""
    ways: list[InstallWay] = []
    command = tuple(shlex.split(known.install)) if known.install else ()
    if not command and known.npx is not None:
        command = ("npm", "install", "-g", known.npx)
    if not command and known.uvx is not None:
        command = ("uv", "tool", "install", known.uvx)
    if command and shutil.which(command[0]) is not None:
        ways.append(InstallWay(f"Run {shlex.join(command)}", command))
    runner = known.runner_command
    if runner is not None and shutil.which(runner[0]) is not None:
        ways.append(InstallWay(f"Fetch it at each start: {shlex.join(runner)}", entry=runner))
    return tuple(ways)


def missing_tool(known: KnownAgent) -> str:
    """Why an agent cannot be installed from here, and what to do."""
    if known.npx is not None and shutil.which("npm") is None:
        return f"{known.name} comes as an npm package; install Node, then choose it again"
    if known.uvx is not None and shutil.which("uv") is None:
        return f"{known.name} comes as a Python package; install uv, then choose it again"
    return f"{known.name}: {known.install_hint}"


def require_success(command: tuple[str, ...], code: int) -> None:
    """Raise UsageError if an installation failed."""
    if code:
        raise UsageError(
            f"{shlex.join(command)} ended with exit code {code}; nothing was changed in acp.json"
        )
