"""Agents that misbehave, for testing clients. Each behavior does one thing that no agent should do.

`hostile_command("dies-in-turn")` returns the command line of one; `behaviors()` has all of them by name.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from accord.errors import UsageError

if TYPE_CHECKING:
    from accord.testing.hostile.hostile_agent import HostileAgent

__all__ = ["behaviors", "hostile_command", "main"]

_MODULES: Final = ("crashes", "bad_output", "bad_answers", "bad_requests", "dialect_agents")
_USAGE: Final = "usage: python -m accord.testing hostile NAME [--once FILE] [--log FILE]"


def behaviors() -> "dict[str, type[HostileAgent]]":
    """All behaviors by name. The first line of a class's docstring says what it does."""
    found: dict[str, type[HostileAgent]] = {}
    for module_name in _MODULES:
        module = import_module(f"{__name__}.{module_name}")
        found |= {kind.name: kind for kind in module.BEHAVIORS}
    return found


def hostile_command(name: str, *options: str) -> list[str]:
    """The command line of an agent with this behavior, for clients that start a process.

    Raises `UsageError` for an unknown name.
    """
    _find(name)
    return [sys.executable, "-m", "accord.testing", "hostile", name, *options]


def main(words: list[str]) -> int:
    """Run `python -m accord.testing hostile`. Without a name it prints the list of behaviors."""
    if not words or words[0] in ("-h", "--help", "list"):
        width = max(map(len, behaviors()))
        lines = [f"  {name:<{width}}  {summary(kind)}" for name, kind in behaviors().items()]
        sys.stdout.write("\n".join([_USAGE, "", *lines]) + "\n")
        return 0
    name, *rest = words
    behavior = _find(name)
    if "--login" in rest:  # the login command of `wants-login`
        sys.stdout.write("Signed in.\n")
        return 0
    options = dict(zip(rest[::2], rest[1::2], strict=False))
    if len(rest) % 2 or not options.keys() <= {"--once", "--log"}:
        raise UsageError(f"cannot use {' '.join(rest)!r}; {_USAGE}")
    return behavior(log=options.get("--log"), once=options.get("--once")).run()


def summary(kind: "type[HostileAgent]") -> str:
    """What a behavior does, in one line."""
    return (kind.__doc__ or "").partition("\n")[0]


def _find(name: str) -> "type[HostileAgent]":
    found = behaviors()
    if name not in found:
        raise UsageError(f"unknown behavior {name!r}; choose one of: {', '.join(found)}")
    return found[name]
