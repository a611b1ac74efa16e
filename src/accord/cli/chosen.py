"""Which agent a command means: the one that is named, the one whose command stands behind `--`, or the default one."""

import os
import shlex
from collections.abc import Sequence

from accord.client.servers import NotTrusted, Server, ServersFile, ask, leave_out, load, once
from accord.client.servers.trusting import Trusting
from accord.errors import UsageError


def split_command(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The words that are for us, and the agent's command behind the first `--`, if there is one. Raises UsageError."""
    found = list(words)
    if "--" not in found:
        return found, ()
    place = found.index("--")
    if not found[place + 1 :]:
        raise UsageError("behind -- belongs the command of an agent")
    return found[:place], tuple(found[place + 1 :])


def chosen_server(
    name: str | None, command: tuple[str, ...], cwd: str, *, trust: bool, asking: Trusting = ask
) -> Server:
    """The agent that is meant, for work in a folder; `asking` is asked about a project's file. Raises UsageError."""
    if command and name is not None:
        raise UsageError(f"-a {name} and -- {command[0]} both name an agent: choose one")
    if not command:
        servers = load(cwd, trust=once if trust else asking)
        if servers.left_out is not None:
            _insist_on_others(servers.left_out, name, servers.default.name)
        return servers.default if name is None else servers[name]
    # A command of the user's own needs nothing of a project's file; one that is not trusted is no obstacle.
    servers = load(cwd, trust=once if trust else leave_out)
    files = [file for file in (servers.user, servers.project) if file is not None]
    everywhere = {entry.name: entry for file in files for entry in file.mcp}
    return Server(
        name=shlex.join(command),
        origin="user",
        command=command,
        place="the command behind --",
        folder=os.getcwd(),
        cwd=os.getcwd(),
        mcp=tuple(everywhere.values()),
    )


def _insist_on_others(refused: ServersFile, name: str | None, default: str) -> None:
    """Who said no to a file shall not get another agent than the one that its folder means by this name."""
    meant = None if refused.form.default is None or name is not None else refused.form.default[1]
    named = name or meant or default
    if meant is not None or refused.speaks_of(named):
        which = "by default" if name is None else "by this name"
        raise NotTrusted(
            f"the agent that runs here {which}, {named!r}, is set up by {refused.path}, which does not count: "
            "agree to it, or name another agent"
        )
