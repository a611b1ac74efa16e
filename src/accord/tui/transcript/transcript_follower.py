"""Updates the transcript after events; reads everything from the state of the session.

Imported on first use: it loads accord.client.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from accord.client import ClientEvent, ClientSession, TerminalPrinted
from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionSummaryChunk,
    CompactionUpdate,
    Notice,
    SessionInfoUpdate,
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
    TerminalChanged,
    ToolCallChanged,
    ToolCallState,
)
from accord.session.rewind import rewind_marker
from accord.tui.parts.diff_part import DiffPart
from accord.tui.parts.note_part import Tone
from accord.tui.transcript.transcript_items import (
    AnswerItem,
    CallItem,
    CompactionItem,
    PromptItem,
    SubagentItem,
    ThoughtItem,
)
from accord.tui.transcript.transcript_layout import Item, ItemContext, NoteItem
from accord.tui.warm_up import exempt_from_gc

if TYPE_CHECKING:
    from accord.clock import Clock
    from accord.tui.transcript.transcript_view import TranscriptView

_FIRST_ENTRIES: Final = 60
"""Entries that are shown immediately when a session opens; older ones follow."""
_BATCH: Final = 100
"""Older entries that are added at a time."""
_CHUNK_KINDS: Final = {AgentMessageChunk: "agent", AgentThoughtChunk: "thought", UserMessageChunk: "user"}


class TranscriptFollower:
    """Follows one session and keeps its items in the transcript."""

    def __init__(self, session: ClientSession, view: "TranscriptView", clock: "Clock") -> None:
        self._session = session
        self._view = view
        self._history: History | None = None
        self._first_index = 0  # index of the first entry with an item
        self._processed = 0  # number of entries that were processed
        self._items: dict[int, Item] = {}  # by the id() of the entry
        self._thought: ThoughtItem | None = None
        self._comparisons: set[asyncio.Future[Any]] = set()
        self._context = ItemContext(
            session.state.cwd, session.terminals, clock, compare_later=self._compare_later
        )
        self.rebuild()
        self._context.live = True

    def rebuild(self) -> None:
        """Show the session again, its latest entries first."""
        self._history = self._session.state.history
        self._thought = None
        self._items.clear()
        self._processed = self._first_index = max(len(self._session.state.timeline) - _FIRST_ENTRIES, 0)
        live, self._context.live = self._context.live, False
        self._view.show([], self._older_items if self._first_index else None)
        self._add_new_entries()
        self._context.live = live

    def _last_notes(self) -> list[Item]:
        """Return the notes below the last entry."""
        items = self._view.items
        first = len(items)
        while first and isinstance(items[first - 1], NoteItem):
            first -= 1
        return list(items[first:])

    def _older_items(self) -> list[Item]:
        """Return items for the next batch of older entries."""
        items: dict[int, Item] = {}
        live, self._context.live = self._context.live, False
        while self._first_index and not items:
            stop, self._first_index = self._first_index, max(self._first_index - _BATCH, 0)
            for entry in self._session.state.timeline[self._first_index : stop]:
                item = self._item(entry)
                if item is not None:
                    items[id(entry)] = item
        self._context.live = live
        self._items.update(items)
        if not self._first_index:
            exempt_from_gc()
        return list(items.values())

    def apply(self, event: ClientEvent) -> None:
        """Update the items after an event. The state has already applied it."""
        history = self._session.state.history
        if history is not self._history:
            if not self._session.replaying:
                notes = self._last_notes()
                self.rebuild()
                self._view.add(*notes)
            return
        if isinstance(event, SessionInfoUpdate) and rewind_marker(event.meta) is not None:
            self.rebuild()
            return
        self._add_new_entries()
        kind = _CHUNK_KINDS.get(type(event))  # pyright: ignore[reportArgumentType]
        if kind is not None:
            self._refresh(self._last_message(kind, getattr(event, "message_id", None) or None))
        elif isinstance(event, ToolCallChanged):
            self._refresh(self._session.state.tool_calls.get(event.call.tool_call_id))
        elif isinstance(event, TerminalPrinted | TerminalChanged):
            self._refresh_terminal(event.terminal_id)
        elif isinstance(event, MessageChanged):
            self._refresh(self._last_message(event.kind, event.message_id))
        elif isinstance(event, CompactionUpdate | CompactionSummaryChunk):
            self._refresh(history.compactions.get(event.compaction_id))
        elif isinstance(event, PermissionAnswered):
            for item in self._calls():
                item.restart_timer()
        elif isinstance(event, Notice):
            self._add_notice(event)
        elif isinstance(event, SubagentUpdate):
            self._refresh(history.subagents.get(event.session_id))

    def tick(self) -> None:
        """Update the durations of running tool calls."""
        for item in self._calls():
            if item.active:
                self._view.changed(item)

    def turn_ended(self) -> None:
        """Stop all timers of the turn."""
        self._add_new_entries()
        self._end_thought()
        for item in self._calls():
            if item.active:
                self._view.changed(item)

    def _calls(self) -> list[CallItem]:
        """Return the tool calls of the latest turn."""
        latest = self._session.state.history.latest_turn
        found = [self._items.get(id(entry)) for entry in latest if isinstance(entry, ToolCallState)]
        return [item for item in found if isinstance(item, CallItem)]

    def _add_new_entries(self) -> None:
        timeline = self._session.state.timeline
        if len(timeline) <= self._processed:
            return
        new_items: list[Item] = []
        for entry in timeline[self._processed :]:
            item = self._item(entry)
            if item is not None:
                self._end_thought()
                self._items[id(entry)] = item
                new_items.append(item)
                if isinstance(item, ThoughtItem):
                    self._thought = item
        self._processed = len(timeline)
        if new_items:
            self._view.add(*new_items)
        if not self._context.live:
            self._end_thought()

    def _end_thought(self) -> None:
        if self._thought is not None:
            self._thought.end()
            self._view.redraw(self._thought.parts[0])
            self._thought = None

    def _item(self, entry: Entry) -> Item | None:
        match entry:
            case Message(kind="user"):
                return PromptItem(entry)
            case Message(kind="thought"):
                return ThoughtItem(entry, self._context)
            case Message():
                return AnswerItem(entry)
            case ToolCallState():
                return CallItem(entry, self._context)
            case CompactionState():
                return CompactionItem(entry)
            case SubagentState():
                return SubagentItem(entry)
            case PlanState():
                return None  # shown in the plan panel
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

    def _refresh(self, entry: Entry | None) -> None:
        item = None if entry is None else self._items.get(id(entry))
        if item is not None:
            self._view.changed(item)

    def _refresh_terminal(self, terminal_id: str) -> None:
        for call in reversed(self._session.state.tool_calls.values()):  # a command may outlast its turn
            if terminal_id in call.terminal_ids:
                self._refresh(call)
                return

    def _add_notice(self, notice: Notice) -> None:
        tones: dict[str, Tone] = {"warning": "warn", "error": "bad"}
        self._view.add(NoteItem(notice.title, tones.get(notice.severity, "quiet"), notice.description or ""))

    def _compare_later(self, part: DiffPart) -> None:
        future = asyncio.get_running_loop().run_in_executor(None, part.compare)
        self._comparisons.add(future)

        def on_done(_: Any) -> None:
            self._comparisons.discard(future)
            self._view.redraw(part)

        future.add_done_callback(on_done)
