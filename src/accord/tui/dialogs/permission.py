"""May the agent do this? Every option it offers, and what it is about in full: the command, the change, the files."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from accord.cleaning import one_line, visible
from accord.client import PermissionRequest
from accord.client.judging import judged
from accord.policy.request import Decision, Request
from accord.schema import Content, Diff, PermissionOption, TextContent
from accord.tui.dialogs.choosing import ChoosingDialog
from accord.tui.parts.diff import DiffPart
from accord.tui.parts.judged import JudgedPart
from accord.tui.parts.part import Part
from accord.tui.parts.toolcall import KINDS
from accord.tui.transcript.item import Item
from accord.tui.words import shown


class AboutItem(Item):
    """What a question is about."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self.parts = list(parts)


class OptionDialog(ChoosingDialog):
    """A question whose answers are permission options."""

    def __init__(self, title: str, parts: Sequence[Part], options: Sequence[PermissionOption]) -> None:
        names = [option.name or option.option_id for option in options]
        super().__init__(title, [AboutItem(parts)], names, [option.kind for option in options])
        self.offered = list(options)

    def choose(self, index: int) -> None:
        self.settle(self.offered[index])


class PermissionDialog(OptionDialog):
    """About a tool call."""

    def __init__(self, asked: PermissionRequest, request: Request, decision: Decision) -> None:
        kind = KINDS.get(asked.call.display_kind, "")
        title = (
            f"{one_line(asked.session.life.name, 40)} asks to {kind}"
            if kind
            else f"{asked.session.life.name} asks"
        )
        super().__init__(title, list(_parts(asked, request, decision)), asked.options)
        if not asked.options:
            self.border_title = self._title = f"{title}: it offers no answer, Esc stops the turn"


class AccessDialog(OptionDialog):
    """About what the agent does through this client."""

    def __init__(
        self,
        agent: str,
        what: str,
        extras: Sequence[str],
        decision: Decision,
        options: Sequence[PermissionOption],
    ) -> None:
        parts = [
            JudgedPart(what, strong=True),
            *(JudgedPart(line) for line in extras),
            JudgedPart(f"({decision.reason})"),
        ]
        super().__init__(f"{one_line(agent, 40)} asks", parts, options)


def _parts(asked: PermissionRequest, request: Request, decision: Decision) -> Iterator[Part]:
    yield JudgedPart(asked.call.label, strong=True)
    for line in judged(asked, request):
        yield JudgedPart(line, code=line.startswith("$ "))
    for item in asked.call.content:
        if isinstance(item, Diff):
            before = _spelled_out(item.old_text) if isinstance(item.old_text, str) else None
            yield DiffPart(visible(item.path), before, _spelled_out(item.new_text), folded=False)
        elif isinstance(item, Content) and isinstance(item.content, TextContent):
            yield JudgedPart(item.content.text, quoted=True)
    raw = asked.call.raw_input
    if isinstance(raw, dict) and not (request.command or request.paths or request.url):
        given = cast("dict[str, Any]", raw)
        yield JudgedPart("\n".join(f"{name}: {shown(value)}" for name, value in given.items()), quoted=True)
    if decision.rule not in ("default ask", "default reads"):
        yield JudgedPart(f"({decision.reason})")


def _spelled_out(text: str) -> str:
    """Nothing in it hides, and it has the lines it had."""
    return "\n".join(visible(line.expandtabs(4)) for line in text.split("\n"))
