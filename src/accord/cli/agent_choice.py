"""Which agent a command uses: by name, by command after `--`, by URL, or the default.

A token for a URL comes from a file, the URL itself (pairing links contain one) or `ACCORD_TOKEN`. It is never
an option value, because other users of the machine can read command lines.

Imported on first use: it loads accord.client.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from accord.client.client_options import ProtocolChoice
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
from accord.frontend.agent_config.project_trust import TrustCallback
from accord.trace.redaction import command_line_text
from accord.wire.remote.address import RemoteLauncher, read_address

TOKEN_VARIABLE: Final = "ACCORD_TOKEN"
_MAX_TOKEN_BYTES: Final = 8 * 1024


def choose_agent(
    name: str | None,
    command: tuple[str, ...],
    cwd: str,
    *,
    trust: bool,
    ask_trust: TrustCallback = ask,
    env: Mapping[str, str] | None = None,
    protocol: ProtocolChoice | None = None,
) -> ConfiguredAgent:
    """Return the agent for work in a folder, with the variables of `--env`.

    `ask_trust` decides about a project's `acp.json`. Raises UsageError.
    """
    agent = _choose(name, command, cwd, once if trust else ask_trust, trust=trust)
    return replace(agent, option_env=env or {}, protocol=protocol or agent.protocol)


def _choose(
    name: str | None, command: tuple[str, ...], cwd: str, ask_trust: TrustCallback, *, trust: bool
) -> ConfiguredAgent:
    if command and name is not None:
        raise UsageError(f"-a {name} and -- {command[0]} both name an agent; use one of them")
    if not command:
        agents = load(cwd, trust=ask_trust)
        if agents.untrusted_file is not None:
            _check_untrusted_file(agents.untrusted_file, name, agents.default.name)
        return agents.default if name is None else agents[name]
    # A command on the command line needs no agent of the project's file, so an untrusted file is ignored.
    agents = load(cwd, trust=once if trust else leave_out)
    files = [file for file in (agents.user, agents.project) if file is not None]
    mcp_servers = {entry.name: entry for file in files for entry in file.mcp}
    return ConfiguredAgent(
        name=command_line_text(command),
        origin="user",
        command=command,
        config_location="the command after `--`",
        folder=os.getcwd(),
        cwd=os.getcwd(),
        mcp=tuple(mcp_servers.values()),
    )


def remote_launcher(
    url: str, token_file: str | None, environ: Mapping[str, str] | None = None
) -> RemoteLauncher:
    """Return how to reach the agent at a URL. Raises UsageError.

    The token comes from the file, else from the URL, else from `ACCORD_TOKEN`.
    """
    address = read_address(url, token=None if token_file is None else _read_token(token_file))
    if not any(name == "Authorization" for name, _ in address.headers):
        token = (os.environ if environ is None else environ).get(TOKEN_VARIABLE, "").strip()
        if token:
            address = read_address(url, token=token)
    return RemoteLauncher(address)


def configured_remote_agent(
    launcher: RemoteLauncher, protocol: ProtocolChoice | None = None
) -> ConfiguredAgent:
    """Return a remote agent as a configured one.

    It gets no MCP servers of this machine: it could not start them, and would see keys.
    """
    return ConfiguredAgent(
        name=str(launcher), origin="user", command=(), config_location="--url", protocol=protocol
    )


def _check_untrusted_file(file: AgentConfigFile, name: str | None, default: str) -> None:
    """Raise NotTrusted if the wanted agent is the one that the untrusted file configures.

    Without this, a user who refuses the file would silently get another agent of the same name.
    """
    file_default = None if file.agent_list.default is None or name is not None else file.agent_list.default[1]
    agent_name = name or file_default or default
    if file_default is not None or file.contains(agent_name):
        raise NotTrusted(
            f"{agent_name!r} comes from an untrusted file ({file.path}); "
            "run `accord agents trust` to allow it, or name another agent"
        )


def _read_token(path: str) -> str:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(_MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read --token-file {path!r} ({error.strerror})") from None
    token = data.decode(errors="replace").strip()
    if not token or len(data) > _MAX_TOKEN_BYTES or len(token.split()) > 1:
        raise UsageError(f"--token-file {path!r} must contain one token and nothing else")
    return token
