"""Trust in a project's `acp.json`, which can start programs with the user's rights.

`ask` asks on a terminal and stores a yes; without a terminal it refuses. `once` is `--trust`, for this run
only.
"""

import shlex
import sys
from collections.abc import Callable, Iterator
from typing import TextIO, TypeAlias

from accord.errors import UsageError
from accord.frontend.agent_config.acp_file import AgentConfigFile
from accord.frontend.agent_config.agent_entry import ConfiguredAgent, McpEntry
from accord.frontend.agent_config.agent_environment import referenced_variables
from accord.frontend.forms import discard_typed_input
from accord.policy.trust_store import TrustStore
from accord.safe_text import visible

TrustCallback: TypeAlias = Callable[[AgentConfigFile], bool]
"""Decides whether to use a project's file that is not trusted yet. Can raise NotTrusted."""


class NotTrusted(UsageError):
    """A project's file is not trusted, and the user cannot be asked."""


def refuse(file: AgentConfigFile) -> bool:
    """Raise NotTrusted."""
    raise NotTrusted(
        f"{file.path} is not trusted, and it can start programs; "
        "check it and run `accord agents trust`, or pass --trust"
    )


def once(file: AgentConfigFile) -> bool:
    """Trust the file for this run."""
    return True


def leave_out(file: AgentConfigFile) -> bool:
    """Ignore the file."""
    return False


def ask(file: AgentConfigFile) -> bool:
    """Show what the file does and ask on the terminal. A yes is stored for exactly this content."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return refuse(file)
    discard_typed_input(sys.stdin.fileno())
    trusted = _confirm(file, sys.stdin, sys.stderr)
    if trusted:
        try:
            trust_file(file)
        except UsageError as error:
            sys.stderr.write(f"Trusted for this run only: {visible(str(error))}\n")
    return trusted


def trust_file(file: AgentConfigFile) -> None:
    """Store that the user trusts this content. Raises UsageError."""
    try:
        TrustStore().trust(file.path, file.content)
    except OSError as error:
        raise UsageError(f"{file.path}: cannot store that you trust it ({error.strerror})") from None


def forget(file: AgentConfigFile) -> None:
    """Remove the stored trust. Raises UsageError."""
    try:
        TrustStore().forget(file.path)
    except OSError as error:
        raise UsageError(f"{file.path}: cannot remove your trust ({error.strerror})") from None


def _confirm(file: AgentConfigFile, stdin: TextIO, stderr: TextIO) -> bool:
    stderr.write(f"{visible(str(file.path))} is new or has changed since you trusted it.\n")
    for line in describe_effects(file):
        stderr.write(f"  {line}\n")
    stderr.write("Trust this folder's acp.json? [y/N] ")
    stderr.flush()
    answer = stdin.readline()
    if not answer.endswith("\n"):
        stderr.write("\n")
    trusted = answer.strip().casefold() in ("y", "yes")
    if not trusted:
        stderr.write("Not trusted; acp.json is ignored.\n")
    return trusted


def describe_effects(file: AgentConfigFile) -> Iterator[str]:
    """What the file does if the user trusts it, one line each, safe to show."""
    for agent in file.agents:
        yield from _describe_agent(agent)
    for entry in file.mcp:
        yield f"MCP server {visible(entry.name)} for every agent {_describe_mcp(entry)}"
    if file.agent_list.default is not None:
        yield f"The agent that runs by default becomes {visible(file.agent_list.default[1])}"
    if not (file.agents or file.mcp or file.agent_list.default):
        yield "The file is empty."


def _describe_agent(agent: ConfiguredAgent) -> Iterator[str]:
    command = shlex.join(agent.start_command()) if agent.command else "its default command"
    yield f"Agent {visible(agent.name)} runs {visible(command)}"
    if agent.cwd is not None:
        yield f"    in {visible(agent.cwd)}"
    for name, value in agent.env.items():
        yield (
            f"    without {visible(name)}" if value is None else f"    with {visible(name)}={visible(value)}"
        )
    if variables := referenced_variables(value for value in agent.env.values() if value is not None):
        yield f"    and so gets your {visible(', '.join(variables))}"
    for entry in agent.mcp:
        yield f"    MCP server {visible(entry.name)} {_describe_mcp(entry)}"


def _describe_mcp(entry: McpEntry) -> str:
    text = f"runs {visible(shlex.join(entry.command))}" if entry.command else f"is at {visible(entry.url)}"
    text += "".join(f" with {visible(name)}={visible(value)}" for name, value in entry.values.items())
    variables = referenced_variables(entry.values.values())
    return text + (f" and gets your {visible(', '.join(variables))}" if variables else "")
