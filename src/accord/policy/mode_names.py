"""The names of the modes. Imports nothing else, because `accord agent` checks its arguments with it."""

from typing import Final, Literal, TypeAlias

Mode: TypeAlias = Literal["read-only", "ask", "workspace-write", "full-access", "plan"]
"""A mode of the coding agent."""
MODES: Final[tuple[Mode, ...]] = ("read-only", "ask", "workspace-write", "full-access", "plan")
"""The modes of the coding agent, from the most careful one."""

_WIDTH: Final[dict[Mode, int]] = {"read-only": 0, "plan": 0, "ask": 1, "workspace-write": 2, "full-access": 3}


def narrower(first: Mode, second: Mode) -> Mode:
    """Return the mode that permits less; the first if they permit the same."""
    return second if _WIDTH[second] < _WIDTH[first] else first
