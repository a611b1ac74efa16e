"""A permission request in words: what the agent wants to do, so that somebody can decide about it."""

import difflib
import shlex
from collections.abc import Iterator
from itertools import islice
from typing import Final

from accord.cleaning import one_line
from accord.cli.running.person import Question
from accord.client import PermissionRequest
from accord.client.judging import command_in
from accord.policy.request import Decision
from accord.schema import Content, Diff, TextContent

_LINES: Final = 40
_LONGEST_LINE: Final = 400
_LARGEST_DIFF: Final = 200_000


def describe(question: Question, asked: PermissionRequest, decision: Decision) -> None:
    """Say who asks, for what, and why the rules did not decide it."""
    call = asked.call
    kind = f" [{call.display_kind}]" if call.display_kind != "other" else ""
    question.say(f"\n{asked.session.life.name} asks: {one_line(call.label)}{kind}")
    for line in _details(asked):
        question.say(_short(line), "  ")
    if decision.rule not in ("default ask", "default reads"):
        question.say(f"({decision.reason})", "  ")


def _details(asked: PermissionRequest) -> Iterator[str]:
    command = command_in(asked)
    command = shlex.join(command) if isinstance(command, tuple) else command
    if command is not None and command not in asked.call.label:
        yield from _some(f"$ {command}".split("\n"))
    for item in asked.call.content:
        if isinstance(item, Diff):
            yield f"{'change' if isinstance(item.old_text, str) else 'new file'} {item.path}"
            yield from _some(_changed(item))
        elif isinstance(item, Content) and isinstance(item.content, TextContent):
            yield from _some(item.content.text.split("\n"))
    named = {item.path for item in asked.call.content if isinstance(item, Diff)}
    for location in asked.call.locations:
        if location.path not in named and location.path not in asked.call.label:
            yield location.path


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
