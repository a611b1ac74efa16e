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
from accord.frontend.agent_config.agent_environment import references
from accord.frontend.forms import discard_typed_input
from accord.policy.trust_store import TrustStore
from accord.safe_text import visible

Trusting: TypeAlias = Callable[[AgentConfigFile], bool]
"""Decides whether to use a project's file that is not trusted yet. Can raise NotTrusted."""


class NotTrusted(UsageError):
    """A project's file is not trusted, and there is no user to ask."""


def refuse(file: AgentConfigFile) -> bool:
    """Raise NotTrusted."""
    raise NotTrusted(
        f"{file.path}: you have not agreed to this file, which can start programs: "
        "look at it and run this once in a terminal, or pass --trust"
    )


def once(file: AgentConfigFile) -> bool:
    """Trust the file for this run."""
    return True


def leave_out(file: AgentConfigFile) -> bool:
    """Ignore the file."""
    return False


def ask(file: AgentConfigFile) -> bool:
    """Show what the file would start and ask on the terminal. A yes is stored for exactly this content."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return refuse(file)
    discard_typed_input(sys.stdin.fileno())
    agreed = _confirm(file, sys.stdin, sys.stderr)
    if agreed:
        try:
            agree_to(file)
        except UsageError as error:
            sys.stderr.write(f"It counts this once: {visible(str(error))}\n")
    return agreed


def agree_to(file: AgentConfigFile) -> None:
    """Store that the user trusts this content. Raises UsageError."""
    try:
        TrustStore().trust(file.path, file.content)
    except OSError as error:
        raise UsageError(f"{file.path}: that you agree to it cannot be kept ({error.strerror})") from None


def forget(file: AgentConfigFile) -> None:
    """Remove the stored trust. Raises UsageError."""
    try:
        TrustStore().forget(file.path)
    except OSError as error:
        raise UsageError(
            f"{file.path}: that you agreed to it cannot be taken back ({error.strerror})"
        ) from None


def _confirm(file: AgentConfigFile, stdin: TextIO, stderr: TextIO) -> bool:
    stderr.write(f"{visible(str(file.path))} is new or has changed since you agreed to it.\n")
    for line in what_it_does(file):
        stderr.write(f"  {line}\n")
    stderr.write("Let it count? Only a yes does. [y/N] ")
    stderr.flush()
    answer = stdin.readline()
    if not answer.endswith("\n"):
        stderr.write("\n")
    agreed = answer.strip().casefold() in ("y", "yes")
    if not agreed:
        stderr.write("It does not count.\n")
    return agreed


def what_it_does(file: AgentConfigFile) -> Iterator[str]:
    """What the user must know before trusting the file, one line each, safe to show."""
    for server in file.servers:
        yield from _of_server(server)
    for entry in file.mcp:
        yield f"MCP server {visible(entry.name)} for every agent {_of_mcp(entry)}"
    if file.form.default is not None:
        yield f"The agent that runs by default becomes {visible(file.form.default[1])}"
    if not (file.servers or file.mcp or file.form.default):
        yield "It says nothing."


def _of_server(server: ConfiguredAgent) -> Iterator[str]:
    runs = shlex.join(server.program()) if server.command else "what it is known to run"
    yield f"Agent {visible(server.name)} runs {visible(runs)}"
    if server.cwd is not None:
        yield f"    in {visible(server.cwd)}"
    for name, value in server.env.items():
        yield (
            f"    without {visible(name)}" if value is None else f"    with {visible(name)}={visible(value)}"
        )
    if names := references(value for value in server.env.values() if value is not None):
        yield f"    and so gets your {visible(', '.join(names))}"
    for entry in server.mcp:
        yield f"    MCP server {visible(entry.name)} {_of_mcp(entry)}"


def _of_mcp(entry: McpEntry) -> str:
    what = f"runs {visible(shlex.join(entry.command))}" if entry.command else f"is at {visible(entry.url)}"
    what += "".join(f" with {visible(name)}={visible(value)}" for name, value in entry.values.items())
    names = references(entry.values.values())
    return what + (f" and gets your {visible(', '.join(names))}" if names else "")
