"""The scenes, in the order they are played, and the rules that no scene can put to the test."""

from functools import cache
from importlib import import_module
from typing import Final

from accord.check.agent.scene import Scene

_MODULES: Final = (
    *("framing", "handshake", "login", "opening", "roots", "servers", "returning", "listing", "ending"),
    *("turns", "cancelling", "tools", "permissions", "consent", "settings", "questions"),
    *("forks", "gated", "archive", "titles", "providers", "faults"),
)

UNTRIED: Final[dict[int, str]] = {
    54: "only the agent knows that it gave up by itself",
    89: "a login needs a person at a terminal",
    266: "needs a login that the agent wants to make in the middle of a turn",
    354: "what the model is told does not cross this wire",
    366: "needs an agent that reads a reply with two members",
}
"""Rules that are not tried, and why not."""


@cache
def scenes() -> tuple[Scene, ...]:
    """All of them."""
    found: list[Scene] = []
    for name in _MODULES:
        found += import_module(f"accord.check.agent.scenes.{name}").SCENES
    return tuple(found)
