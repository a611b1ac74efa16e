"""Which agent is meant: one of `acp.json`, of the catalogue, the one of this package, or the command behind `--`."""

import os
import shlex

from accord.cli.running.arguments import Arguments
from accord.client.servers import Server, ask, leave_out, load, once


def find_server(given: Arguments) -> Server:
    """The agent. May ask whether a project's file counts. Raises UsageError."""
    if not given.command:
        servers = load(given.cwd, trust=once if given.trust else ask)
        return servers.default if given.agent is None else servers[given.agent]
    # A command of the user's own needs nothing of a project's file; one that is not trusted is no obstacle.
    servers = load(given.cwd, trust=once if given.trust else leave_out)
    files = [file for file in (servers.user, servers.project) if file is not None]
    everywhere = {entry.name: entry for file in files for entry in file.mcp}
    return Server(
        name=shlex.join(given.command),
        origin="user",
        command=given.command,
        place="the command behind --",
        folder=os.getcwd(),
        cwd=os.getcwd(),
        mcp=tuple(everywhere.values()),
    )
