"""What to do when an agent wants the user to sign in first: its methods, and how each is used."""

import shlex
from collections.abc import Iterator

from accord.client.login import Launch
from accord.errors import AuthRequired
from accord.schema import AuthMethodTerminal


def how_to_sign_in(error: AuthRequired, name: str | None, launch: Launch) -> Iterator[str]:
    """A line each. `name` is the agent's in `acp.json`; None for one that was started by its command."""
    if not error.methods:
        yield "it offers no way to sign in over ACP: its own documentation says how, often a key in the environment"
        return
    for method in error.methods:
        description = f" ({method.description})" if method.description else ""
        yield f"sign in by {method.name!r}{description}: {_how(method, name, launch)}"


def _how(method: object, name: str | None, launch: Launch) -> str:
    method_id: str = getattr(method, "id", "")
    if name is not None:
        return f"accord agents login {shlex.quote(name)} {shlex.quote(method_id)}"
    if isinstance(method, AuthMethodTerminal):
        run = launch.for_login(method)
        variables = [f"{key}={shlex.quote(value)}" for key, value in (method.env or {}).items()]
        return " ".join([*variables, shlex.join(run.command)])
    return f"put the agent into acp.json (accord agents add NAME -- ...), then accord agents login NAME {shlex.quote(method_id)}"
