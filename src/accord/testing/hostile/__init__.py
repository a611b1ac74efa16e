"""An agent with bad manners, for testing clients: a program that does one thing that no agent should do.

`hostile_command("dies-in-turn")` is its command line; `behaviors()` are all of them by name. It is written on nothing but the
standard library, so that it can send what no library would.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from accord.errors import UsageError

if TYPE_CHECKING:
    from accord.testing.hostile.hostile_agent import HostileAgent

__all__ = ["behaviors", "hostile_command", "main"]

_HOMES: Final = ("crashes", "bad_output", "bad_answers", "bad_requests", "dialect_agents")
_USAGE: Final = "usage: python -m accord.testing hostile NAME [--once FILE] [--log FILE]"


def behaviors() -> "dict[str, type[HostileAgent]]":
    """Every habit by its name; what it does is the first line of its docstring."""
    found: dict[str, type[HostileAgent]] = {}
    for home in _HOMES:
        module = import_module(f"{__name__}.{home}")
        found |= {kind.habit: kind for kind in module.BEHAVIORS}
    return found


def hostile_command(name: str, *options: str) -> list[str]:
    """The command line of an agent with this habit, for clients that start a process. Raises UsageError."""
    if name not in behaviors():
        raise UsageError(f"there is no habit {name!r}; there are: {', '.join(behaviors())}")
    return [sys.executable, "-m", "accord.testing", "hostile", name, *options]


def main(words: list[str]) -> int:
    """`python -m accord.testing hostile`: without a name, the list of them."""
    if not words or words[0] in ("-h", "--help", "list"):
        width = max(map(len, behaviors()))
        lines = [f"  {name:<{width}}  {summary(kind)}" for name, kind in behaviors().items()]
        sys.stdout.write("\n".join([_USAGE, "", *lines]) + "\n")
        return 0
    name, *rest = words
    if name not in behaviors():
        raise UsageError(f"there is no habit {name!r}; there are: {', '.join(behaviors())}")
    if "--login" in rest:  # what the terminal method of `wants-login` runs
        sys.stdout.write("Signed in.\n")
        return 0
    options = dict(zip(rest[::2], rest[1::2], strict=False))
    if len(rest) % 2 or not options.keys() <= {"--once", "--log"}:
        raise UsageError(f"cannot use {' '.join(rest)!r}; {_USAGE}")
    return behaviors()[name](log=options.get("--log"), once=options.get("--once")).run()


def summary(kind: "type[HostileAgent]") -> str:
    """What a habit does, in one line."""
    return (kind.__doc__ or "").partition("\n")[0]
