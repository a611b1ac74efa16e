"""Signing in to an agent from the screen, when it says that somebody has to."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from accord.cleaning import clean_line, one_line
from accord.client import Launch, RemoteAgent
from accord.client.signin import what_to_set
from accord.errors import AccordError, AuthRequired
from accord.schema import AuthMethod, AuthMethodTerminal
from accord.schema.dialects import variables

if TYPE_CHECKING:
    from accord.tui.parts.note import Tone


class Chooser(Protocol):
    """Who can be asked how."""

    async def sign_in(
        self, agent: str, why: str, methods: Sequence[AuthMethod], launch: Launch | None
    ) -> AuthMethod | None:
        """One of the methods, or None: not now."""
        ...


async def sign_in(
    agent: RemoteAgent,
    name: str,
    error: AuthRequired,
    chooser: Chooser,
    launch: Launch | None,
    note: "Callable[[str, Tone, str], None]",
) -> bool:
    """Let the user choose a way and go it; whether it is worth while to try again what was refused.

    `name` is what the user calls the agent, `launch` is how the agent was started here. Without one its program cannot be run in this terminal.
    """
    offered = error.methods or agent.auth_methods
    methods = [
        method for method in offered if launch is not None or not isinstance(method, AuthMethodTerminal)
    ]
    if not methods:
        return False
    method = await chooser.sign_in(name, str(error), methods, launch)
    if method is None:
        return False
    names = variables(method)
    if names is not None:
        _explain(names, name, launch, note)
        return False
    called = one_line(clean_line(method.name))
    try:
        if not isinstance(method, AuthMethodTerminal):
            note(f"Signing in by {called!r}: the agent may open a browser.", "quiet", "")
        await agent.sign_in(method)
    except AccordError as failure:
        note(str(failure), "bad", "")
    else:
        note(f"Signed in by {called!r}.", "good", "")
    return True


def _explain(
    names: Sequence[str], agent: str, launch: Launch | None, note: "Callable[[str, Tone, str], None]"
) -> None:
    """A key in the environment: nothing to call, but to set, and to hand on."""
    listed = ", ".join(map(one_line, names))
    if launch is None:
        note(f"{agent} wants {listed} in its environment, on the machine where it runs.", "warn", "")
        return
    lines = list(what_to_set(names, agent, launch))
    if lines:
        note(
            f"{agent} wants {listed} in its environment; then start this client again.",
            "warn",
            "\n".join(lines),
        )
    else:
        note(f"{agent} gets {listed} already, and does not accept what it says.", "warn", "")
