"""Items for messages, thoughts, tool calls and compactions.

Imported on first use.
"""

import os
from typing import Any, Final

from accord.frontend.display_text import outcome, seconds, short, words_of
from accord.safe_text import clean_text, one_line
from accord.schema import Diff, Terminal, TextContent
from accord.session import CompactionState, Message, ToolCallState
from accord.session.history_items import GrowingContent
from accord.tui.parts.diff_part import DiffPart
from accord.tui.parts.markdown_part import NotePart
from accord.tui.parts.message_parts import DrawnThought, PromptPart, StreamingMessage
from accord.tui.parts.part import DrawnPart
from accord.tui.parts.tool_parts import CallPart, OutputPart
from accord.tui.theme import shown
from accord.tui.transcript.transcript_layout import Item, ItemContext

# MERGED tui.transcript.messages: Messages in the conversation: what the user said, what the agent says, what it thinks, and what was summed up.


def said(body: GrowingContent) -> str:
    """All of it in words; pictures and files are named."""
    blocks = body.blocks
    if all(type(block) is TextContent for block in blocks):
        return body.text
    return "\n".join([words_of(block) for block in blocks])


class MessageItem(Item):
    """A message that is one part, which can be folded."""

    def __init__(self, message: Message, part: PromptPart | DrawnThought) -> None:
        super().__init__()
        self._message = message
        self._part = part
        self.parts = [part]
        self.refresh()

    def refresh(self) -> bool:
        text = said(self._message)
        if text == self._part.text:
            return False
        self._part.text = text
        self._part.forget()
        return True

    def toggle(self) -> bool:
        self._part.folded = not self._part.folded
        self._part.forget()
        return True

    @property
    def text(self) -> str:
        return self._part.text


class PromptItem(MessageItem):
    """What the user said."""

    def __init__(self, message: Message) -> None:
        super().__init__(message, PromptPart(""))


class AnswerItem(Item):
    """What the agent says: it grows at its end."""

    def __init__(self, message: Message) -> None:
        super().__init__()
        self._message = message
        self._prose = StreamingMessage()
        self._said = ""
        self.refresh()

    def refresh(self) -> bool:
        self._said = said(self._message)
        changed = self._prose.show(self._said)
        self.parts = self._prose.parts
        return changed

    @property
    def text(self) -> str:
        return self._said


class ThoughtItem(MessageItem):
    """What the agent thinks: one line until somebody wants to read it."""

    def __init__(self, message: Message, around: ItemContext) -> None:
        self._thought = DrawnThought()
        self._thought.going_on = around.live
        self._around = around
        self._began = around.clock.now()
        super().__init__(message, self._thought)

    def over(self) -> None:
        """Something else has begun."""
        thought = self._thought
        if thought.going_on:
            thought.going_on = False
            thought.took = seconds(self._around.clock.now() - self._began)
            thought.forget()


class CompactionItem(Item):
    """The agent shortened its context."""

    def __init__(self, compaction: CompactionState) -> None:
        super().__init__()
        self._compaction = compaction
        self._part = NotePart("")
        self._folded = True
        self.parts = [self._part]
        self.refresh()

    def refresh(self) -> bool:
        compaction = self._compaction
        words = {"in_progress": "Shortening the context…", "completed": "The context was shortened"}
        text = words.get(compaction.status, f"Shortening the context: {compaction.status}")
        if compaction.error:
            text += f": {compaction.error}"
        details = "" if self._folded else said(compaction)
        if (text, details) == (self._part.text, self._part.details):
            return False
        self._part.text, self._part.details = text, details
        self._part.tone = "warn" if compaction.error else "quiet"
        self._part.forget()
        return True

    def toggle(self) -> bool:
        self._folded = not self._folded
        return self.refresh()

    @property
    def text(self) -> str:
        return said(self._compaction)


# MERGED tui.transcript.calls: Tool calls in the conversation: a headline, and below it what they change, print and give.

_LONGEST_TITLE: Final = 400
_LOCATIONS: Final = 3
_LOUD: Final = frozenset(("execute",))
"""Kinds whose output is worth showing unasked."""


class CallItem(Item):
    """One tool call."""

    def __init__(self, call: ToolCallState, around: ItemContext) -> None:
        super().__init__()
        self.call = call
        self.folded = True
        self._around = around
        self._head = CallPart()
        self._began = around.clock.now() if around.live else None
        self._took: float | None = None
        self._seen: Any = None
        self._diffs: dict[tuple[str, int, int], DiffPart] = {}
        self._outputs: list[OutputPart] = []
        self.refresh()

    @property
    def going_on(self) -> bool:
        return self._began is not None and self._took is None

    def waited(self) -> None:
        """It waited for an answer until now: that is not its own time."""
        if self.going_on:
            self._began = self._around.clock.now()

    def refresh(self) -> bool:
        call = self.call
        changed = self._refresh_head()
        seen = (
            self.folded,
            call.status,
            id(call.content),
            len(call.content),
            [len(view.text) if view else -1 for view in map(self._view, call.terminal_ids)],
            id(call.raw_output),
        )
        if seen != self._seen:
            self._seen = seen
            self.parts = [self._head, *self._details()]
            changed = True
        return changed

    def toggle(self) -> bool:
        self.folded = not self.folded
        for diff in self._diffs.values():
            diff.folded = self.folded
            diff.forget()
        return self.refresh()

    @property
    def text(self) -> str:
        lines = [self._head.title]
        lines += [part.text for part in self.parts if isinstance(part, OutputPart)]
        lines += [part.after for part in self.parts if isinstance(part, DiffPart)]
        return "\n".join(lines)

    def _refresh_head(self) -> bool:
        call, head = self.call, self._head
        if self.going_on and not call.open and self._began is not None:
            self._took = self._around.clock.now() - self._began
        took = self._took if self._took is not None else None
        if self.going_on and self._began is not None and call.status == "in_progress":
            took = self._around.clock.now() - self._began
        before = (head.how, head.kind, head.title, head.where, head.took, head.more)
        head.how = outcome(call)
        head.kind = call.display_kind
        head.title = one_line(clean_text(call.label), _LONGEST_TITLE)
        head.where = self._where(head.title)
        head.took = "" if took is None or took < 0.05 else seconds(took)
        head.more = ("▸" if self.folded else "▾") if call.content or self._raw() else ""
        if before == (head.how, head.kind, head.title, head.where, head.took, head.more):
            return False
        head.forget()
        return True

    def _details(self) -> list[DrawnPart]:
        call = self.call
        parts: list[DrawnPart] = []
        self._outputs = []
        for item in call.content:
            if isinstance(item, Diff):
                parts.append(self._diff(item))
            elif isinstance(item, Terminal):
                parts.append(self._terminal(item.terminal_id))
            elif self._tells():
                parts.append(self._output(words_of(item.content)))
        if not self.folded and (raw := self._raw()):
            parts.append(self._output(raw))
        return parts

    def _tells(self) -> bool:
        """Whether its text is shown: what a command printed and why something failed always is, the rest when asked for."""
        return not self.folded or self.call.status == "failed" or self.call.kind in _LOUD

    def _diff(self, diff: Diff) -> DiffPart:
        before = diff.old_text if isinstance(diff.old_text, str) else None
        key = (diff.path, hash(before), hash(diff.new_text))
        part = self._diffs.get(key)
        if part is None:
            path = short(diff.path, self._around.cwd)
            part = DiffPart(path, before, diff.new_text, later=self._around.later, folded=self.folded)
            self._diffs[key] = part
        return part

    def _terminal(self, terminal_id: str) -> OutputPart:
        view = self._view(terminal_id)
        if view is None:
            return self._output("(a terminal that is not here)")
        part = self._output(view.text)
        status = view.exit_status
        if status is not None and (status.exit_code or status.signal):
            part.ended = one_line(
                f"signal {status.signal}" if status.signal else f"exit code {status.exit_code}"
            )
        return part

    def _output(self, text: str) -> OutputPart:
        part = OutputPart(text)
        part.folded = self.folded
        self._outputs.append(part)
        return part

    def _view(self, terminal_id: str) -> Any:
        views = self._around.terminals
        return None if views is None else views.get(terminal_id)

    def _raw(self) -> str:
        """What it was called with, and what it gave where nothing else tells."""
        call = self.call
        parts = [] if not call.raw_input else [f"input {shown(call.raw_input)}"]
        if call.raw_output and not call.content:
            parts.append(f"output {shown(call.raw_output)}")
        return "\n".join(parts)

    def _where(self, title: str) -> str:
        names: list[str] = []
        for location in self.call.locations[:_LOCATIONS]:
            name = one_line(clean_text(short(location.path, self._around.cwd)))
            if location.line:
                name += f":{location.line}"
            if name not in title and name not in names and os.path.basename(location.path) not in title:
                names.append(name)
        more = len(self.call.locations) - _LOCATIONS
        if names and more > 0:
            names.append(f"+{more}")
        return " ".join(names)
