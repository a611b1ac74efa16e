"""`/init`: have the model write `AGENTS.md`, or make it better."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.coder.commands.command import Ask, BuiltIn, asked_with

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench


async def run(text: str, turn: Turn, bench: "Workbench") -> Ask:
    """Ask for it, with what the user wants to be in it."""
    task = Path(__file__).with_name("init.md").read_text("utf-8").strip()
    wish = f"\n\nThe user wants in particular:\n\n{text}" if text else ""
    return await asked_with(task + wish, turn, bench)


INIT: Final = BuiltIn("init", "Write AGENTS.md for this project, or improve it", "what should be in it", run)
