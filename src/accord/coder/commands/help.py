"""`/help`: the commands there are, and the files that could be some but are not used."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.coder.commands.command import BuiltIn, Command, Reply

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench


async def run(text: str, turn: Turn, bench: "Workbench") -> Reply:
    """List the commands; one that is named is told alone."""
    commands = bench.commands
    if wanted := text.removeprefix("/"):
        found = commands.find(wanted)
        return Reply(_line(found) if found else f"There is no command `/{wanted[:60]}`; `/help` lists them.")
    lines: list[str] = []
    for head, listed in commands.groups():
        lines += [f"{head}:", "", *_lines(listed), ""]
    if commands.problems:
        lines += ["Not used:", "", *(f"- {problem}" for problem in commands.problems), ""]
    lines.append("Anything else that begins with a slash is an ordinary prompt.")
    return Reply("\n".join(lines))


def _lines(listed: Iterable[Command]) -> list[str]:
    return [f"- {_line(command)}" for command in listed]


def _line(command: Command) -> str:
    hint = command.hint or ""
    if hint and hint[0] not in "[<":
        hint = f"[{hint}]"
    return f"`{f'/{command.name} {hint}'.strip()}`: {command.description}"


HELP: Final = BuiltIn("help", "Show the commands", None, run)
