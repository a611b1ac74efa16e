"""The transcript items of messages, thoughts, tool calls and compactions.

Imported on first use.
"""

from typing import Any, Final

from accord.frontend.display_text import block_text, duration_text, location_text, short_path, tool_status
from accord.safe_text import clean_text, one_line
from accord.schema import Diff, Terminal, TextContent
from accord.session import CompactionState, Message, SubagentState, ToolCallState
from accord.session.history_items import GrowingContent
from accord.tui.parts.diff_part import DiffPart
from accord.tui.parts.message_parts import FoldableThought, PromptPart, StreamingMessage
from accord.tui.parts.note_part import NotePart
from accord.tui.parts.part import DrawnPart, json_value_text
from accord.tui.parts.tool_parts import CallPart, OutputPart
from accord.tui.transcript.transcript_layout import Item, ItemContext


def content_text(body: GrowingContent) -> str:
    """Return the text of a message; images and files appear by their names."""
    blocks = body.blocks
    if all(type(block) is TextContent for block in blocks):
        return body.text
    return "\n".join([block_text(block) for block in blocks])


class MessageItem(Item):
    """A message with one part that can be folded."""

    def __init__(self, message: Message, part: PromptPart | FoldableThought) -> None:
        super().__init__()
        self._message = message
        self._part = part
        self.parts: list[DrawnPart] = [part]
        self.refresh()

    def refresh(self) -> bool:
        text = content_text(self._message)
        if text == self._part.text:
            return False
        self._part.text = text
        self._part.invalidate()
        return True

    def toggle(self) -> bool:
        self._part.folded = not self._part.folded
        self._part.invalidate()
        return True

    @property
    def text(self) -> str:
        return self._part.text


class PromptItem(MessageItem):
    """A prompt of the user."""

    def __init__(self, message: Message) -> None:
        super().__init__(message, PromptPart(""))


class AnswerItem(Item):
    """A message of the agent, which grows at its end."""

    def __init__(self, message: Message) -> None:
        super().__init__()
        self._message = message
        self._streaming = StreamingMessage()
        self._text = ""
        self.refresh()

    def refresh(self) -> bool:
        self._text = content_text(self._message)
        changed = self._streaming.show(self._text)
        self.parts: list[DrawnPart] = self._streaming.parts
        return changed

    @property
    def text(self) -> str:
        return self._text


class ThoughtItem(MessageItem):
    """A thought of the agent."""

    def __init__(self, message: Message, context: ItemContext) -> None:
        self._thought = FoldableThought()
        self._thought.active = context.live
        self._context = context
        self._started_at = context.clock.now()
        super().__init__(message, self._thought)

    def end(self) -> None:
        """Mark the thought as ended."""
        thought = self._thought
        if thought.active:
            thought.active = False
            thought.duration = duration_text(self._context.clock.now() - self._started_at)
            thought.invalidate()


_CHILD_ACTIVITY: Final = {
    "running": "working",
    "requires_action": "waits for an answer",
    "idle": "done",
    "unknown": "",
}


class SubagentItem(Item):
    """A child session: its title, what it does, and its description if it is unfolded."""

    def __init__(self, child: SubagentState) -> None:
        super().__init__()
        self._child = child
        self._part = NotePart("")
        self._folded = True
        self.parts: list[DrawnPart] = [self._part]
        self.refresh()

    def refresh(self) -> bool:
        child = self._child
        activity = _CHILD_ACTIVITY.get(child.activity, one_line(clean_text(child.activity), 40))
        title = one_line(clean_text(child.title or child.session_id), _MAX_TITLE)
        text = f"↳ Sub-agent: {title}" + (f" · {activity}" if activity else "")
        details = "" if self._folded else clean_text(child.description or "")
        if (text, details) == (self._part.text, self._part.details):
            return False
        self._part.text, self._part.details = text, details
        self._part.tone = "warn" if child.activity == "requires_action" else "quiet"
        self._part.invalidate()
        return True

    def toggle(self) -> bool:
        self._folded = not self._folded
        return self.refresh()

    @property
    def text(self) -> str:
        return self._part.text


class CompactionItem(Item):
    """A compaction of the context."""

    def __init__(self, compaction: CompactionState) -> None:
        super().__init__()
        self._compaction = compaction
        self._part = NotePart("")
        self._folded = True
        self.parts: list[DrawnPart] = [self._part]
        self.refresh()

    def refresh(self) -> bool:
        compaction = self._compaction
        labels = {"in_progress": "Compacting the context…", "completed": "The context was compacted"}
        text = labels.get(compaction.status, f"Compaction of the context: {compaction.status}")
        if compaction.error:
            text += f": {compaction.error}"
        details = "" if self._folded else content_text(compaction)
        if (text, details) == (self._part.text, self._part.details):
            return False
        self._part.text, self._part.details = text, details
        self._part.tone = "warn" if compaction.error else "quiet"
        self._part.invalidate()
        return True

    def toggle(self) -> bool:
        self._folded = not self._folded
        return self.refresh()

    @property
    def text(self) -> str:
        return content_text(self._compaction)


_MAX_TITLE: Final = 400
_MAX_LOCATIONS: Final = 3
_OUTPUT_KINDS: Final = frozenset(("execute",))
"""Tool kinds whose output is shown even if folded."""


class CallItem(Item):
    """A tool call: a headline, then diffs, output and details."""

    def __init__(self, call: ToolCallState, context: ItemContext) -> None:
        super().__init__()
        self.call = call
        self.folded: bool = True
        self._context = context
        self._head = CallPart()
        self._started_at = context.clock.now() if context.live else None
        self._duration: float | None = None
        self._last_state: Any = None
        self._diffs: dict[tuple[str, int, int], DiffPart] = {}
        self.refresh()

    @property
    def active(self) -> bool:
        return self._started_at is not None and self._duration is None

    def restart_timer(self) -> None:
        """Do not count the time that the call waited for permission."""
        if self.active:
            self._started_at = self._context.clock.now()

    def refresh(self) -> bool:
        call = self.call
        changed = self._refresh_head()
        state = (
            self.folded,
            call.status,
            id(call.content),
            len(call.content),
            [
                (len(view.text), view.exit_status) if view else None
                for view in map(self._terminal_view, call.terminal_ids)
            ],
            id(call.raw_output),
        )
        if state != self._last_state:
            self._last_state = state
            self.parts: list[DrawnPart] = [self._head, *self._details()]
            changed = True
        return changed

    def toggle(self) -> bool:
        self.folded = not self.folded
        for diff in self._diffs.values():
            diff.folded = self.folded
            diff.invalidate()
        return self.refresh()

    @property
    def text(self) -> str:
        lines = [self._head.title]
        lines += [part.text for part in self.parts if isinstance(part, OutputPart)]
        lines += [part.after for part in self.parts if isinstance(part, DiffPart)]
        return "\n".join(lines)

    def _refresh_head(self) -> bool:
        call, head = self.call, self._head
        if self.active and not call.open and self._started_at is not None:
            self._duration = self._context.clock.now() - self._started_at
        duration = self._duration if self._duration is not None else None
        if self.active and self._started_at is not None and call.status == "in_progress":
            duration = self._context.clock.now() - self._started_at
        before = (head.status, head.kind, head.title, head.locations, head.duration, head.fold_mark)
        head.status = tool_status(call)
        head.kind = call.display_kind
        head.title = one_line(clean_text(call.label), _MAX_TITLE)
        head.locations = location_text(call, self._context.cwd, head.title, max_locations=_MAX_LOCATIONS)
        head.duration = "" if duration is None or duration < 0.05 else duration_text(duration)
        head.fold_mark = ("▸" if self.folded else "▾") if call.content or self._raw_text() else ""
        if before == (head.status, head.kind, head.title, head.locations, head.duration, head.fold_mark):
            return False
        head.invalidate()
        return True

    def _details(self) -> list[DrawnPart]:
        call = self.call
        parts: list[DrawnPart] = []
        for item in call.content:
            if isinstance(item, Diff):
                parts.append(self._diff(item))
            elif isinstance(item, Terminal):
                parts.append(self._terminal(item.terminal_id))
            elif self._shows_text():
                parts.append(self._output(block_text(item.content)))
        if not self.folded and (raw_text := self._raw_text()):
            parts.append(self._output(raw_text))
        return parts

    def _shows_text(self) -> bool:
        """Whether to show text content: always for commands and failures, otherwise if unfolded."""
        return not self.folded or self.call.status == "failed" or self.call.kind in _OUTPUT_KINDS

    def _diff(self, diff: Diff) -> DiffPart:
        before = diff.old_text if isinstance(diff.old_text, str) else None
        key = (diff.path, hash(before), hash(diff.new_text))
        part = self._diffs.get(key)
        if part is None:
            path = short_path(diff.path, self._context.cwd)
            part = DiffPart(
                path, before, diff.new_text, compare_later=self._context.compare_later, folded=self.folded
            )
            self._diffs[key] = part
        return part

    def _terminal(self, terminal_id: str) -> OutputPart:
        view = self._terminal_view(terminal_id)
        if view is None:
            return self._output("(unknown terminal)")
        part = self._output(view.text)
        status = view.exit_status
        if status is not None and (status.exit_code or status.signal):
            part.exit_text = one_line(
                f"signal {status.signal}" if status.signal else f"exit code {status.exit_code}"
            )
        return part

    def _output(self, text: str) -> OutputPart:
        part = OutputPart(text)
        part.folded = self.folded
        return part

    def _terminal_view(self, terminal_id: str) -> Any:
        views = self._context.terminals
        return None if views is None else views.get(terminal_id)

    def _raw_text(self) -> str:
        """Return the raw input, and the raw output if there is no content."""
        call = self.call
        parts = [] if not call.raw_input else [f"input {json_value_text(call.raw_input)}"]
        if call.raw_output and not call.content:
            parts.append(f"output {json_value_text(call.raw_output)}")
        return "\n".join(parts)
