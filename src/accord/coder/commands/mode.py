"""`/mode`: which modes there are, or another one. `/plan`: plan mode, and what is to be planned."""

from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.coder.commands.command import Ask, BuiltIn, Reply, asked_with
from accord.coder.tools.tool import one_line
from accord.policy.request import DESCRIPTIONS, MODES, Mode

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench


async def run(text: str, turn: Turn, bench: "Workbench") -> Reply:
    """List the modes, or change to the one that is named."""
    current = bench.conversation.mode
    if not text:
        return Reply(_listed(current))
    plain = "-".join(text.casefold().replace("_", " ").replace("-", " ").split())
    mode = _mode(plain)
    if mode is None:
        return Reply(f"There is no mode `{one_line(text, 60)}`; the modes are {', '.join(MODES)}.")
    if mode == current:
        return Reply(f"The mode is `{mode}` already.")
    await _change(mode, turn, bench)
    return Reply(f"The mode is `{mode}` now. {DESCRIPTIONS[mode]}")


async def plan(text: str, turn: Turn, bench: "Workbench") -> Reply | Ask:
    """Change to plan mode, then ask for a plan."""
    changed = bench.conversation.mode != "plan"
    if changed:
        await _change("plan", turn, bench)
    if text:
        return await asked_with(text, turn, bench)
    now = "now" if changed else "already"
    return Reply(f"The mode is `plan` {now}. {DESCRIPTIONS['plan']} Say what is to be planned.")


async def _change(mode: Mode, turn: Turn, bench: "Workbench") -> None:
    bench.conversation.mode_chosen(mode)  # before the change: it remembers the mode that was
    await turn.set_mode(mode)


def _mode(name: str) -> Mode | None:
    for mode in MODES:
        if mode == name:
            return mode
    return None


def _listed(current: Mode) -> str:
    lines = ["Modes (the current one is marked):", ""]
    lines += [
        f"- `{mode}`{' **(current)**' if mode == current else ''}: {DESCRIPTIONS[mode]}" for mode in MODES
    ]
    return "\n".join([*lines, "", "Choose one with `/mode name`."])


MODE: Final = BuiltIn("mode", "Show the modes, or change to another one", "name", run)
PLAN: Final = BuiltIn("plan", "Change to plan mode, and say what is to be planned", "what to plan", plan)
