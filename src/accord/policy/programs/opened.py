"""What comes out of a command that starts others."""

from dataclasses import dataclass, field

from ..shell.words import Command


@dataclass(slots=True)
class Opened:
    """A wrapper, looked into."""

    commands: list[Command] = field(default_factory=list[Command])
    """What it starts."""
    lines: list[str] = field(default_factory=list[str])
    """What it hands to a shell."""
    doubts: list[str] = field(default_factory=list[str])
    """What it may start besides."""
    itself: bool = False
    """Whether it also does something of its own, which must be allowed as well."""
