"""What is told about one agent that can be launched: for people and for programs, with nothing secret in it."""

import os
import shlex
from collections.abc import Iterable
from typing import Any, Final

from accord.cleaning import visible
from accord.client.servers import Server, Servers
from accord.client.servers.environment import references
from accord.errors import NeverStarted

_RUNNERS: Final = ("npx", "uvx")
FROM: Final = {"built-in": "built in", "user": "yours", "project": "project", "catalogue": "known"}
"""Where an agent comes from, in words."""


def facts(server: Server, servers: Servers) -> Iterable[tuple[str, str]]:
    """Everything about it, a label and a text each; the texts are not cleaned yet."""
    state, command = state_of(server)
    waits = servers.left_out is not None and server in servers.left_out.servers
    yield "name", server.name + (" (default)" if server.name == servers.default.name else "")
    yield (
        "from",
        (server.place or FROM[server.origin]) + (" (not trusted: it does not count)" if waits else ""),
    )
    if server.description:
        yield "description", server.description
    yield "command", command
    yield "state", state if (where := server.installed()) is None else f"{state}: {where}"
    agent = server.known
    if agent is not None and where is None and not server.command:
        yield "to get it", agent.how_to_get
    if agent is not None and agent.remark:
        yield "remark", agent.remark
    if server.cwd is not None:
        yield "cwd", server.cwd
    for name, value in server.env.items():
        yield "env", f"{name} is left out" if value is None else f"{name}={_hidden(name, value)}"
    if server.keys:
        yield "your keys", ", ".join(sorted(_keys_here(server))) or f"none is set of {', '.join(server.keys)}"
    for label, seconds in (("timeout", server.timeout), ("start-up", server.startup)):
        if seconds is not None:
            yield label, f"{seconds:g} s"
    if server.max_restarts is not None:
        yield "restarts", str(server.max_restarts)
    for label, rules in (("permissions", server.permissions), ("of project", server.project_permissions)):
        if rules is not None:
            yield from _rules(label, rules)
    if server.unattended is not None:
        yield "unattended", server.unattended
    for entry in server.mcp:
        yield "MCP server", f"{entry.name}: {shlex.join(entry.command) if entry.command else entry.url}"


def _rules(label: str, rules: Any) -> Iterable[tuple[str, str]]:
    yield label, rules.word or "ask"
    for effect in ("allow", "ask", "deny"):
        for _, rule in rules.rules(effect):
            yield label, f"{effect} {rule}"


def state_of(server: Server) -> tuple[str, str]:
    """Whether it is here, and its command."""
    command = command_of(server)
    if server.installed() is None:
        return "missing", command
    runner = server.command[0] if server.command and server.command[0] in _RUNNERS else None
    return "ready" if server.origin == "built-in" else f"by {runner}" if runner else "installed", command


def command_of(server: Server) -> str:
    """How it is started, also where it is not installed; safe to show."""
    if server.origin == "built-in":
        return "accord agent"
    try:
        return visible(shlex.join(server.program()))
    except NeverStarted:
        agent = server.known
        return shlex.join(agent.command) if agent is not None else ""


def as_json(server: Server, servers: Servers) -> dict[str, Any]:
    """For programs."""
    agent = server.known
    try:
        command = list(server.program())
    except NeverStarted:
        command = list(agent.command) if agent is not None else []
    place = server.installed()
    facts: dict[str, Any] = {
        "name": server.name,
        "from": server.origin,
        "default": server.name == servers.default.name,
        "installed": place,
        "command": command,
        "description": server.description,
    }
    if place is None and agent is not None and not server.command:
        facts["howToGet"] = agent.how_to_get
    if server.place:
        facts["place"] = server.place
    return facts


def _hidden(name: str, value: str) -> str:
    from accord.policy.sandbox.environment import is_credential

    return "***" if is_credential(name, value) and not references([value]) else value


def _keys_here(server: Server) -> set[str]:
    from accord.client.servers.environment import inherited
    from accord.policy.sandbox.environment import without_credentials

    return set(inherited(os.environ, server.keys)) - set(without_credentials(os.environ))
