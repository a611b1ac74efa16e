"""The scenes for clients, in the order they are played, and the rules that no scene can put to the test."""

from functools import cache
from importlib import import_module
from typing import Final

from accord.check.client.scene import Scene

_MODULES: Final = (
    "faults",  # some take a while: they begin first, so that the others are played meanwhile
    *("meeting", "login", "envelopes", "updates", "permissions", "files", "terminals", "commands"),
    *("questions", "cancelling", "returning", "choosing", "carrying", "children", "dialects"),
)
_SCREEN: Final = "only its screen shows it"

UNTRIED: Final[dict[int, str]] = {
    78: "whether a login can be made is not to be seen from here",
    135: "what it remembers of a list does not cross this wire",
    171: "needs a client that is prompted again right after it was stopped",
    240: "needs an editor with an unsaved buffer",
    272: "needs a person who dismisses a form",
    273: "needs a person who fills in a form",
    315: "needs a client that is opened again",
    340: "needs a person who opens an archived session",
    345: "needs a client that asks for the status of sessions",
    350: "needs a person who gives a session a title",
    356: "needs a client that sends a system prompt",
    379: "needs a person who stops a sub-agent",
    **dict.fromkeys(
        (
            *(108, 149, 150, 166, 184, 185, 186, 191, 192, 204, 211, 223, 228, 231, 279, 286, 294, 311, 317),
            *(319, 321, 377, 380, 382),
        ),
        _SCREEN,
    ),
}
"""Rules that are not tried, and why not."""


@cache
def scenes() -> tuple[Scene, ...]:
    """All of them."""
    found: list[Scene] = []
    for name in _MODULES:
        found += import_module(f"accord.check.client.scenes.{name}").SCENES
    return tuple(found)
