"""A permission request in words: what the agent wants to do, so that somebody can decide about it."""

import difflib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from accord.cleaning import one_line
from accord.client import PermissionRequest
from accord.client.judging import judged
from accord.policy.request import Decision, Request
from accord.schema import Content, Diff, PermissionOption, TextContent

if TYPE_CHECKING:
    from accord.cli.running.person import Question

_LINES: Final = 40
_LONGEST_LINE: Final = 400
_LARGEST_DIFF: Final = 200_000


def describe(question: "Question", asked: PermissionRequest, request: Request, decision: Decision) -> None:
    """Say who asks, for what, and why the rules did not decide it. What the rules judge is shown whole, whatever the title says."""
    call = asked.call
    kind = f" [{call.display_kind}]" if call.display_kind != "other" else ""
    question.say(f"\n{asked.session.life.name} asks: {one_line(call.label)}{kind}")
    for line in judged(asked, request):
        question.say(line, "  ")
    for line in _shown(asked, request):
        question.say(_short(line), "  | ")  # the agent's words: nothing in them can pass for an option
    if decision.rule not in ("default ask", "default reads"):
        question.say(f"({decision.reason})", "  ")


def _shown(asked: PermissionRequest, request: Request) -> Iterator[str]:
    for item in asked.call.content:
        if isinstance(item, Diff):
            yield f"{'change' if isinstance(item.old_text, str) else 'new file'} {item.path}"
            yield from _some(_changed(item))
        elif isinstance(item, Content) and isinstance(item.content, TextContent):
            yield from _some(item.content.text.split("\n"))
    raw = asked.call.raw_input
    if isinstance(raw, dict) and not (request.command or request.paths or request.url):
        given = cast("dict[str, Any]", raw)
        yield from _some([f"{name}: {one_line(str(value))}" for name, value in given.items()])


def _changed(diff: Diff) -> list[str]:
    old = diff.old_text if isinstance(diff.old_text, str) else ""
    if len(old) + len(diff.new_text) > _LARGEST_DIFF:
        return [f"{len(diff.new_text)} characters, too many to compare here"]
    lines = difflib.unified_diff(old.splitlines(), diff.new_text.splitlines(), lineterm="", n=2)
    return [line for line in islice(lines, 2, None) if not line.startswith("@@")]


def _some(lines: list[str]) -> Iterator[str]:
    yield from lines[:_LINES]
    if len(lines) > _LINES:
        yield f"... and {len(lines) - _LINES} lines more"


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


async def choose(question: "Question", options: Sequence[PermissionOption]) -> PermissionOption | None:
    """Let the person choose by number; nothing is chosen by Enter alone. None: went away."""
    for number, option in enumerate(options, 1):
        question.say(f"  {number}  {one_line(option.name or option.option_id)}")
    if not options:
        question.say("  The agent offers nothing to choose: it is refused.")
        return None
    while True:
        typed = await question.line(
            f"Choose 1-{len(options)}: " if len(options) > 1 else "Type 1, or Ctrl-D: "
        )
        if typed is None:
            return None
        if typed.isdecimal() and 1 <= int(typed) <= len(options):
            return options[int(typed) - 1]
