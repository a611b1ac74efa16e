"""What to do when an agent wants the user to sign in first: its methods, and how each is used."""

import os
import shlex
from collections.abc import Iterator, Sequence

from accord.client.handlers import AgentCommand
from accord.errors import AuthRequired
from accord.safe_text import clean_line, one_line
from accord.schema import AuthMethod, AuthMethodTerminal
from accord.schema.dialects import variables


def how_to_sign_in(error: AuthRequired, name: str | None, launch: AgentCommand) -> Iterator[str]:
    """A line each. `name` is the agent's in `acp.json`; None for one that was started by its command."""
    if not error.methods:
        yield "it offers no way to sign in over ACP: its own documentation says how, often a key in the environment"
        return
    for method in error.methods:
        description = f" ({method.description})" if method.description else ""
        yield f"sign in by {method.name!r}{description}: {_how(method, name, launch)}"


def described(method: AuthMethod, launch: AgentCommand | None) -> str:
    """A way to sign in, on one line: what it is called, and what it does. `launch` is None for an agent that was not started here."""
    text = one_line(clean_line(method.name))
    if method.description:
        text += f", {one_line(clean_line(method.description))}"
    if isinstance(method, AuthMethodTerminal):
        text += "" if launch is None else f" (runs {one_line(shlex.join(launch.for_login(method).command))})"
    elif names := variables(method):
        text += f" (set {', '.join(map(one_line, names))})"
    return text


def what_to_set(names: Sequence[str], agent: str, launch: AgentCommand) -> Iterator[str]:
    """A line each on what is missing of the variables that an agent wants; none where it gets them all."""
    child = {**os.environ, **(launch.env or {})}
    missing = [name for name in names if not child.get(name)]
    for name in map(one_line, missing):
        if os.environ.get(name):
            yield f"{name} is set here, but {agent} does not get it"
        else:
            yield f"set {name} in your environment"
    if missing:
        entry = ", ".join(f'"{one_line(name)}": "${{{one_line(name)}}}"' for name in missing)
        yield f'and hand it on in acp.json, in the entry of {agent}: "env": {{{entry}}}'


def _how(method: object, name: str | None, launch: AgentCommand) -> str:
    method_id: str = getattr(method, "id", "")
    if name is not None:
        return f"accord agents login {shlex.quote(name)} {shlex.quote(method_id)}"
    if isinstance(method, AuthMethodTerminal):
        run = launch.for_login(method)
        variables = [f"{key}={shlex.quote(value)}" for key, value in (method.env or {}).items()]
        return " ".join([*variables, shlex.join(run.command)])
    return f"put the agent into acp.json (accord agents add NAME -- ...), then accord agents login NAME {shlex.quote(method_id)}"
