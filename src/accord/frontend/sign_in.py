"""Instructions for the user when an agent requires sign-in."""

import os
import shlex
from collections.abc import Iterator, Sequence

from accord.client.handlers import AgentCommand
from accord.errors import AuthRequired
from accord.safe_text import clean_line, one_line
from accord.schema import AuthMethod, AuthMethodTerminal
from accord.schema.dialects import variables


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
            text += f" (runs {one_line(shlex.join(command.for_login(method).command))})"
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
        yield f'pass it on in the acp.json entry of {agent}: "env": {{{entry}}}'


def _instruction(method: object, name: str | None, command: AgentCommand) -> str:
    method_id: str = getattr(method, "id", "")
    if name is not None:
        return f"accord agents login {shlex.quote(name)} {shlex.quote(method_id)}"
    if isinstance(method, AuthMethodTerminal):
        login = command.for_login(method)
        variables = [f"{key}={shlex.quote(value)}" for key, value in (method.env or {}).items()]
        return " ".join([*variables, shlex.join(login.command)])
    login = f"accord agents login NAME {shlex.quote(method_id)}"
    return f"add the agent to acp.json (accord agents add NAME -- ...), then run {login}"
