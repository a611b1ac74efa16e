"""`/tools`: what the model can use, what each use needs, and what confines commands. Only what is really in force."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.coder.commands.command import BuiltIn, Reply
from accord.coder.tools.tool import Tool, one_line
from accord.policy.request import DESCRIPTIONS

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench

SHOWN: Final = 100
_HEADS: Final = {
    "read-only": "Only looking",
    "write": "Changing files",
    "execute": "Running something",
    "external": "From MCP servers",
}


async def run(text: str, turn: Turn, bench: "Workbench") -> Reply:
    """List the tools and what is in force."""
    await bench.confinement.ready()
    tools = bench.tools()
    mode = bench.conversation.mode
    lines = [f"Mode `{mode}`: {DESCRIPTIONS[mode]}", ""]
    for category, head in _HEADS.items():
        if listed := [tool for tool in tools.values() if tool.category == category]:
            lines.append(f"- {head}: {_names(listed)}")
    lines += ["", "What confines commands:", ""]
    lines += [f"- {one_line(line, 500)}" for line in bench.confinement.lines()]
    if rules := _rules(bench):
        lines += ["", rules]
    if bench.project is not None and (unused := bench.project.lines()):
        lines += ["", "Not used:", "", *(f"- {one_line(line, 500)}" for line in unused)]
    return Reply("\n".join(lines))


def _names(tools: Iterable[Tool]) -> str:
    names = [f"`{tool.name}`" for tool in tools]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _rules(bench: "Workbench") -> str:
    user, project = bench.gate.policy.user, bench.gate.policy.project
    parts = [
        f"{len(rules)} {word}"
        for rules, word in ((user.allow, "allow"), (user.ask, "ask"), (user.deny, "deny"))
        if rules
    ]
    if not parts and project is None:
        return ""
    yours = f"Your rules in force: {', '.join(parts)}." if parts else "You have set no rules."
    return (
        yours if project is None else f"{yours} The project's rules are in force as well; they only tighten."
    )


TOOLS: Final = BuiltIn("tools", "Show the tools, and what confines commands", None, run)
