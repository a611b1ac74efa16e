"""The names of the modes. Imports nothing else, because `accord agent` checks its arguments with it."""

from typing import Final, Literal, TypeAlias

Mode: TypeAlias = Literal["read-only", "ask", "workspace-write", "full-access", "plan"]
"""A mode of the coding agent."""
MODES: Final[tuple[Mode, ...]] = ("read-only", "ask", "workspace-write", "full-access", "plan")
"""The modes of the coding agent, from the most careful one."""
