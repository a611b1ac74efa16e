"""Which agent a command uses: by name, by command after `--`, by URL, or the default.

Imported on first use: it loads accord.client.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from accord.errors import UsageError
from accord.frontend.agent_config import (
    AgentConfigFile,
    ConfiguredAgent,
    NotTrusted,
    ask,
    leave_out,
    load,
    once,
)
from accord.frontend.agent_config.project_trust import Trusting
from accord.wire.remote.address import RemoteLauncher, read_address

# MERGED cli.chosen: Which agent a command means: the one that is named, the one whose command stands behind `--`, or the default one.


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
) -> ConfiguredAgent:
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
    return ConfiguredAgent(
        name=shlex.join(command),
        origin="user",
        command=command,
        place="the command behind --",
        folder=os.getcwd(),
        cwd=os.getcwd(),
        mcp=tuple(everywhere.values()),
    )


def _insist_on_others(refused: AgentConfigFile, name: str | None, default: str) -> None:
    """Who said no to a file shall not get another agent than the one that its folder means by this name."""
    meant = None if refused.form.default is None or name is not None else refused.form.default[1]
    named = name or meant or default
    if meant is not None or refused.speaks_of(named):
        which = "by default" if name is None else "by this name"
        raise NotTrusted(
            f"the agent that runs here {which}, {named!r}, is set up by {refused.path}, which does not count: "
            "agree to it, or name another agent"
        )


# MERGED cli.remote: An agent at an address, as the commands name it: `--url URL`, with a token from a file or from the environment.
#
# A token never stands on the command line by itself, where every user of the machine could read it. One in the address (a
# pairing link has it) works, and is shown nowhere.

TOKEN: Final = "ACCORD_TOKEN"
_LONGEST: Final = 8 * 1024


def read_dial(url: str, token_file: str | None, environ: Mapping[str, str] | None = None) -> RemoteLauncher:
    """How the agent is reached. The file's token comes first, then the address's, then `ACCORD_TOKEN`. Raises UsageError."""
    address = read_address(url, token=None if token_file is None else _token_in(token_file))
    if not any(name == "Authorization" for name, _ in address.headers):
        token = (os.environ if environ is None else environ).get(TOKEN, "").strip()
        if token:
            address = read_address(url, token=token)
    return RemoteLauncher(address)


def server_at(dial: RemoteLauncher) -> ConfiguredAgent:
    """The agent there. It gets no MCP servers of this machine: their commands are here, and their keys would go there."""
    return ConfiguredAgent(name=str(dial), origin="user", command=(), place="--url")


def _token_in(path: str) -> str:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise UsageError(f"--token-file {path!r} cannot be read: {error.strerror}") from None
    token = data.decode(errors="replace").strip()
    if not token or len(data) > _LONGEST or len(token.split()) > 1:
        raise UsageError(f"--token-file {path!r} does not hold one token and nothing else")
    return token
