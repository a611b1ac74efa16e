"""Keeps the conversation on the screen in step with the session: everything shown is read from the session's own state."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from accord.client import ClientEvent, ClientSession, TerminalPrinted
from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionSummaryChunk,
    CompactionUpdate,
    Notice,
    SubagentUpdate,
    UserMessageChunk,
)
from accord.session import (
    CompactionState,
    Entry,
    History,
    Message,
    MessageChanged,
    PermissionAnswered,
    PlanState,
    SubagentState,
    ToolCallChanged,
    ToolCallState,
)
from accord.tui.parts.diff_part import DiffPart
from accord.tui.parts.markdown_part import Tone, leave_alone
from accord.tui.transcript.transcript_items import (
    AnswerItem,
    CallItem,
    CompactionItem,
    PromptItem,
    ThoughtItem,
)
from accord.tui.transcript.transcript_layout import Item, ItemContext, NoteItem

if TYPE_CHECKING:
    from accord.clock import Clock
    from accord.tui.transcript.transcript_view import TranscriptView

_SCREENFUL: Final = 60
"""Entries that are shown at once when a session is opened; the ones before them follow."""
_PORTION: Final = 100
"""Entries that follow at a time."""
_CHUNKS = {AgentMessageChunk: "agent", AgentThoughtChunk: "thought", UserMessageChunk: "user"}


class TranscriptFollower:
    """Follows one session."""

    def __init__(self, session: ClientSession, view: "TranscriptView", clock: "Clock") -> None:
        self._session = session
        self._view = view
        self._history: History | None = None
        self._first = 0  # entry of the timeline that has its place
        self._shown = 0  # entries up to which all behind it have theirs
        self._items: dict[int, Item] = {}  # by the identity of the entry
        self._thought: ThoughtItem | None = None
        self._comparing: set[asyncio.Future[Any]] = set()
        self._around = ItemContext(session.state.cwd, session.terminals, clock, later=self._later)
        self.whole()
        self._around.live = True

    def whole(self) -> None:
        """Show the session from its beginning."""
        self._history = self._session.state.history
        self._thought = None
        self._items.clear()
        self._shown = self._first = max(len(self._session.state.timeline) - _SCREENFUL, 0)
        live, self._around.live = self._around.live, False
        self._view.show([], self._older if self._first else None)
        self._grow()
        self._around.live = live

    def _older(self) -> list[Item]:
        """The entries in front of the first that has its place, some at a time."""
        items: dict[int, Item] = {}
        live, self._around.live = self._around.live, False
        while self._first and not items:
            stop, self._first = self._first, max(self._first - _PORTION, 0)
            for entry in self._session.state.timeline[self._first : stop]:
                item = self._item(entry)
                if item is not None:
                    items[id(entry)] = item
        self._around.live = live
        self._items.update(items)
        if not self._first:
            leave_alone()
        return list(items.values())

    def take(self, event: ClientEvent) -> None:
        """Something happened; the state knows it already."""
        history = self._session.state.history
        if history is not self._history:
            if not self._session.replaying:
                self.whole()
            return
        self._grow()
        kind = _CHUNKS.get(type(event))  # pyright: ignore[reportArgumentType]
        if kind is not None:
            self._touch(self._last_message(kind, getattr(event, "message_id", None) or None))
        elif isinstance(event, ToolCallChanged):
            self._touch(self._session.state.tool_calls.get(event.call.tool_call_id))
        elif isinstance(event, TerminalPrinted):
            self._touch_terminal(event.terminal_id)
        elif isinstance(event, MessageChanged):
            self._touch(self._last_message(event.kind, event.message_id))
        elif isinstance(event, CompactionUpdate | CompactionSummaryChunk):
            self._touch(history.compactions.get(event.compaction_id))
        elif isinstance(event, PermissionAnswered):
            for item in self._calls():
                item.waited()
        elif isinstance(event, Notice):
            self._notice(event)
        elif isinstance(event, SubagentUpdate):
            self._touch(history.subagents.get(event.session_id))

    def tick(self) -> None:
        """Time has passed: calls that run tell for how long."""
        for item in self._calls():
            if item.going_on:
                self._view.changed(item)

    def turn_ended(self) -> None:
        """Nothing of the turn goes on."""
        self._grow()
        self._end_thought()
        for item in self._calls():
            if item.going_on:
                self._view.changed(item)

    def _calls(self) -> list[CallItem]:
        """The calls of the latest turn."""
        latest = self._session.state.history.latest_turn
        found = [self._items.get(id(entry)) for entry in latest if isinstance(entry, ToolCallState)]
        return [item for item in found if isinstance(item, CallItem)]

    def _grow(self) -> None:
        timeline = self._session.state.timeline
        if len(timeline) <= self._shown:
            return
        fresh: list[Item] = []
        for entry in timeline[self._shown :]:
            item = self._item(entry)
            if item is not None:
                self._end_thought()
                self._items[id(entry)] = item
                fresh.append(item)
                if isinstance(item, ThoughtItem):
                    self._thought = item
        self._shown = len(timeline)
        if fresh:
            self._view.add(*fresh)
        if not self._around.live:
            self._end_thought()

    def _end_thought(self) -> None:
        if self._thought is not None:
            self._thought.over()
            self._view.redrawn(self._thought.parts[0])
            self._thought = None

    def _item(self, entry: Entry) -> Item | None:
        match entry:
            case Message(kind="user"):
                return PromptItem(entry)
            case Message(kind="thought"):
                return ThoughtItem(entry, self._around)
            case Message():
                return AnswerItem(entry)
            case ToolCallState():
                return CallItem(entry, self._around)
            case CompactionState():
                return CompactionItem(entry)
            case SubagentState():
                return NoteItem(f"A helper works on: {entry.title or entry.session_id}")
            case PlanState():
                return None  # the plan has a place of its own
            case _:
                return NoteItem(entry.text) if entry.text.strip() else None

    def _last_message(self, kind: str, message_id: str | None) -> Message | None:
        for entry in reversed(self._session.state.timeline):
            if (
                isinstance(entry, Message)
                and entry.kind == kind
                and (message_id is None or entry.id == message_id)
            ):
                return entry
        return None

    def _touch(self, entry: Entry | None) -> None:
        item = None if entry is None else self._items.get(id(entry))
        if item is not None:
            self._view.changed(item)

    def _touch_terminal(self, terminal_id: str) -> None:
        for item in self._calls():
            if terminal_id in item.call.terminal_ids:
                self._view.changed(item)

    def _notice(self, notice: Notice) -> None:
        tones: dict[str, Tone] = {"warning": "warn", "error": "bad"}
        self._view.add(NoteItem(notice.title, tones.get(notice.severity, "quiet"), notice.description or ""))

    def _later(self, part: DiffPart) -> None:
        future = asyncio.get_running_loop().run_in_executor(None, part.compare)
        self._comparing.add(future)

        def done(_: Any) -> None:
            self._comparing.discard(future)
            self._view.redrawn(part)

        future.add_done_callback(done)
