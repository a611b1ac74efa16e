"""An agent with bad manners, for testing clients: a program that does one thing that no agent should do.

`hostile_command("dies-in-turn")` is its command line; `habits()` are all of them by name. It is written on nothing but the
standard library, so that it can send what no library would.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from accord.errors import UsageError

if TYPE_CHECKING:
    from accord.testing.hostile.agent import HostileAgent

__all__ = ["habits", "hostile_command", "main"]

_HOMES: Final = ("deaths", "silence", "floods", "noise", "answers", "asking", "reaching", "dialects", "wild")
_USAGE: Final = "usage: python -m accord.testing hostile NAME [--once FILE] [--log FILE]"


def habits() -> "dict[str, type[HostileAgent]]":
    """Every habit by its name; what it does is the first line of its docstring."""
    found: dict[str, type[HostileAgent]] = {}
    for home in _HOMES:
        module = import_module(f"{__name__}.{home}")
        found |= {kind.habit: kind for kind in module.HABITS}
    return found


def hostile_command(name: str, *options: str) -> list[str]:
    """The command line of an agent with this habit, for clients that start a process. Raises UsageError."""
    if name not in habits():
        raise UsageError(f"there is no habit {name!r}; there are: {', '.join(habits())}")
    return [sys.executable, "-m", "accord.testing", "hostile", name, *options]


def main(words: list[str]) -> int:
    """`python -m accord.testing hostile`: without a name, the list of them."""
    if not words or words[0] in ("-h", "--help", "list"):
        width = max(map(len, habits()))
        lines = [f"  {name:<{width}}  {summary(kind)}" for name, kind in habits().items()]
        sys.stdout.write("\n".join([_USAGE, "", *lines]) + "\n")
        return 0
    name, *rest = words
    if name not in habits():
        raise UsageError(f"there is no habit {name!r}; there are: {', '.join(habits())}")
    if "--login" in rest:  # what the terminal method of `wants-login` runs
        sys.stdout.write("Signed in.\n")
        return 0
    options = dict(zip(rest[::2], rest[1::2], strict=False))
    if len(rest) % 2 or not options.keys() <= {"--once", "--log"}:
        raise UsageError(f"cannot use {' '.join(rest)!r}; {_USAGE}")
    return habits()[name](log=options.get("--log"), once=options.get("--once")).run()


def summary(kind: "type[HostileAgent]") -> str:
    """What a habit does, in one line."""
    return (kind.__doc__ or "").partition("\n")[0]
