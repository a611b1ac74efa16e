"""Which agents a gateway offers, as the gateway wants to know them."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from accord.cli.chosen import chosen_server
from accord.client.servers import Server, Servers, ask, leave_out, load, once
from accord.errors import UsageError
from accord.gateway.hosted import AgentSource
from accord.wire.framing import DEFAULT_LIMIT
from accord.wire.transport import Transport


def offered(names: tuple[str, ...], command: tuple[str, ...], cwd: str, *, trust: bool) -> list[Server]:
    """The agents, the default one first. May ask whether a project's file counts. Raises UsageError."""
    found: list[Server] = []
    if command:
        agent = chosen_server(None, command, cwd, trust=trust)
        found.append(replace(agent, name=Path(command[0]).name))
    if names or not command:
        servers = load(cwd, trust=once if trust else leave_out if command else ask)
        found = [*_named(servers, names), *found]
    taken: set[str] = set()
    for server in found:
        if server.name in taken:
            raise UsageError(f"the agent {server.name!r} was named twice")
        if "/" in server.name or not server.name.isprintable():
            raise UsageError(
                f"{server.place or server.name!r}: an agent's name is part of its address: give it one without /"
            )
        taken.add(server.name)
    return found


def _named(servers: Servers, names: tuple[str, ...]) -> list[Server]:
    if names:
        return [servers[name] for name in names]
    first = servers.default
    return [first, *(server for server in servers.configured if server.name != first.name)]


def source_of(server: Server) -> AgentSource:
    """How the gateway starts it: once for all sessions, in the home folder unless its file names another."""
    home = os.path.expanduser("~")

    async def start(on_stderr: Callable[[str], None]) -> Transport:
        return await server.launch(home).start(on_stderr, DEFAULT_LIMIT)

    known = server.known
    source = AgentSource(
        name=server.name,
        start=start,
        title=known.name if known is not None else "",
        description=server.description,
        mcp_servers=server.mcp_servers,
    )
    return source if server.startup is None else replace(source, startup=server.startup)
