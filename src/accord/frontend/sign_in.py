"""What the user can do when a turn fails: how to sign in, and which variables the agent did not get."""

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from accord.client.handlers import AgentCommand
from accord.errors import (
    AccordError,
    AuthRequired,
    BadAnswer,
    ConnectionClosed,
    LimitReached,
    NeverStarted,
    RequestCancelled,
    RpcError,
    UsageError,
)
from accord.frontend.agent_config import ConfiguredAgent
from accord.safe_text import clean_line, one_line
from accord.schema import AuthMethod, AuthMethodTerminal
from accord.schema.dialects import variables
from accord.trace.redaction import command_line_text

_MAX_NAMES: Final = 8
_OWN_ERROR: Final = "accord agent: "
_USAGE_EXIT: Final = 2


def failure_hints(
    error: AccordError, agent: ConfiguredAgent | None, cwd: str, *, named: bool
) -> Iterator[str]:
    """Lines that tell the user what to do about a failed start or turn; none for many errors.

    `agent` is None for a remote agent. `named` says whether it has a name in `acp.json`.
    """
    if agent is not None and agent.is_built_in:
        return  # its errors say what to do
    if isinstance(error, AuthRequired):
        name = agent.name if agent is not None and named else None
        yield from sign_in_instructions(error, name, None if agent is None else agent.launch(cwd))
    if agent is None and "(HTTP 401)" in str(error):
        yield "the token of --url comes from --token-file, ACCORD_TOKEN or a link of `accord serve token new`"
    if agent is None or isinstance(error, NeverStarted | RequestCancelled):
        return
    if isinstance(error, RpcError | ConnectionClosed | LimitReached | BadAnswer):
        yield from withheld_hints(agent, named=named)


def clear_error(error: AccordError, agent: ConfiguredAgent | None) -> AccordError:
    """The error to show. The coding agent of this package refuses a broken configuration before it starts:
    then its own message is the error.
    """
    if agent is None or not agent.is_built_in or not isinstance(error, ConnectionClosed):
        return error
    own_lines = [line for line in error.stderr.splitlines() if line.startswith(_OWN_ERROR)]
    if error.exit_code != _USAGE_EXIT or not own_lines:
        return error
    return UsageError(own_lines[-1].removeprefix(_OWN_ERROR))


def withheld_hints(agent: ConfiguredAgent, *, named: bool, served: bool = False) -> Iterator[str]:
    """One line with the names of the credentials that the agent did not get, and how to pass them.

    `served`: it runs in a gateway, which has no `--env`.
    """
    names = agent.withheld_variables()
    if not names:
        return
    listed = ", ".join(map(one_line, names[:_MAX_NAMES]))
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    first = one_line(names[0])
    entry = f'write "env": {{"{first}": "${{{first}}}"}} into its acp.json entry'
    advice = f"add --env NAME (for example --env {first})" + (f", or {entry}" if named else "")
    if served:
        advice = f"{entry} (`accord agents add NAME --env {first} -- COMMAND` makes one)"
    yield (
        f"not passed to the agent, because they look like credentials: {listed}{more}; "
        f"if it needs one, {advice}"
    )


def sign_in_instructions(
    error: AuthRequired, name: str | None, command: AgentCommand | None
) -> Iterator[str]:
    """One line for each sign-in method. `name` is the agent's name in `acp.json`, or None.

    `command` is None for a remote agent.
    """
    if command is None:
        for method in error.methods:
            yield f"sign in with {method.name!r} on the machine where the agent runs"
        return
    if not error.methods:
        yield "the agent has no sign-in over ACP; see its documentation (often an API key in the environment)"
        return
    for method in error.methods:
        description = f" ({method.description})" if method.description else ""
        yield f"sign in with {method.name!r}{description}: {_instruction(method, name, command)}"


def describe_method(method: AuthMethod, command: AgentCommand | None) -> str:
    """A sign-in method on one line: its name and what it does.

    `command` is None for an agent that was not started on this machine.
    """
    text = one_line(clean_line(method.name))
    if method.description:
        text += f", {one_line(clean_line(method.description))}"
    if isinstance(method, AuthMethodTerminal):
        if command is not None:
            text += f" (runs {one_line(command_line_text(command.for_login(method).command))})"
    elif names := variables(method):
        text += f" (set {', '.join(map(one_line, names))})"
    return text


def missing_variables(names: Sequence[str], agent: str, command: AgentCommand) -> Iterator[str]:
    """Instructions for the variables that the agent needs and does not get, one line each."""
    environment = {**os.environ, **(command.env or {})}
    missing = [name for name in names if not environment.get(name)]
    for name in map(one_line, missing):
        if os.environ.get(name):
            yield f"{name} is set, but it is not passed to {agent}"
        else:
            yield f"set {name} in your environment"
    if missing:
        entry = ", ".join(f'"{one_line(name)}": "${{{one_line(name)}}}"' for name in missing)
        options = " ".join(f"--env {one_line(name)}" for name in missing)
        yield f'pass it on with {options}, or in the acp.json entry of {agent}: "env": {{{entry}}}'


def _instruction(method: object, name: str | None, command: AgentCommand) -> str:
    method_id: str = getattr(method, "id", "")
    if name is not None:
        return f"accord agents login {shlex.quote(name)} {shlex.quote(method_id)}"
    if isinstance(method, AuthMethodTerminal):
        login = command.for_login(method)
        variables = [f"{key}={shlex.quote(value)}" for key, value in (method.env or {}).items()]
        return " ".join([*variables, command_line_text(login.command)])
    login = f"accord agents login NAME {shlex.quote(method_id)}"
    return f"add the agent to acp.json (accord agents add NAME -- ...), then run {login}"
