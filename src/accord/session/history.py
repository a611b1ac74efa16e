"""The history of a session: messages, tool calls and plans in order of first appearance, and by id.

Messages are distinguished by id: chunks with equal ids form one message, even with others in between.
Chunks without an id continue the previous message until a chunk of another kind, a tool call, a compaction
or a turn boundary.
"""

from collections.abc import Iterator
from copy import copy
from typing import Any, TypeAlias

from accord.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionSummaryChunk,
    CompactionUpdate,
    ContentBlock,
    SessionMessage,
    SessionMessageChunk,
    SubagentUpdate,
    TextContent,
    ToolCallUpdate,
    UserMessageChunk,
)
from accord.session.events import Event, MessageChanged, MessageChunk, PlanChanged, ToolCallChanged
from accord.session.history_items import (
    CompactionState,
    Message,
    MessageKind,
    PlanState,
    SessionMessageState,
    SubagentState,
)
from accord.session.rewind import RewindMarker, hidden_from
from accord.session.tool_calls import Mark, ToolCallState

Entry: TypeAlias = Message | ToolCallState | PlanState | CompactionState | SubagentState | SessionMessageState
"""One entry of the timeline of a session."""

_KINDS: dict[type, MessageKind] = {
    UserMessageChunk: "user",
    AgentMessageChunk: "agent",
    AgentThoughtChunk: "thought",
}


class History:
    """The timeline, and its entries by id. The entries are live: they keep changing."""

    __slots__ = (
        "_by_id", "_echo", "_hidden", "_open_message", "_turn_start", "compactions", "plans",
        "session_messages", "subagents", "timeline", "tool_calls",
    )  # fmt: skip

    def __init__(self) -> None:
        self.timeline: list[Entry] = []
        self.tool_calls: dict[str, ToolCallState] = {}
        self.plans: dict[str, PlanState] = {}
        self.compactions: dict[str, CompactionState] = {}
        self.subagents: dict[str, SubagentState] = {}
        self.session_messages: dict[str, SessionMessageState] = {}
        self._by_id: dict[tuple[MessageKind, str], Message] = {}  # ids are unique per kind
        self._open_message: Message | None = None  # a chunk without an id continues it
        self._echo: _PromptEcho | None = None
        self._turn_start = 0  # index in the timeline
        self._hidden: list[tuple[int, list[Entry]]] = []  # what rewinds took out, and where it was

    @property
    def messages(self) -> list[Message]:
        """The messages and thoughts, in order."""
        return [entry for entry in self.timeline if isinstance(entry, Message)]

    @property
    def latest_turn(self) -> list[Entry]:
        """The entries since the latest turn began."""
        return self.timeline[self._turn_start :]

    @property
    def terminals(self) -> dict[str, str]:
        """The ids of the terminals that tool calls show, each with the id of the first such call."""
        terminals: dict[str, str] = {}
        for call in self.tool_calls.values():
            for terminal_id in call.terminal_ids:
                terminals.setdefault(terminal_id, call.tool_call_id)
        return terminals

    def begin_turn(self, prompt: list[ContentBlock], message_id: str | None = None) -> None:
        """Start a turn; a prompt becomes a user message."""
        self._open_message = None
        self._turn_start = len(self.timeline)
        if prompt:
            message = Message("user", message_id, prompt)
            self.timeline.append(message)
            if message_id is not None:
                self._by_id["user", message_id] = message
            self._echo = _PromptEcho(message)

    def name_prompt(self, message_id: str) -> None:
        """Set the id of the message with which the turn began, which had none."""
        prompt = next((entry for entry in self.latest_turn if isinstance(entry, Message)), None)
        if prompt is not None and prompt.kind == "user" and prompt.id is None:
            prompt.id = message_id
            self._by_id["user", message_id] = prompt

    def end_turn(self, mark: Mark) -> None:
        """End the turn and mark the tool calls that are still open."""
        self._open_message = None
        self._echo = None
        self.mark_open(mark)

    def mark_open(self, mark: Mark) -> None:
        """Mark every tool call that is still open."""
        for call in self.tool_calls.values():
            call.set_mark(mark)

    def rewind(self, marker: RewindMarker) -> bool:
        """Hide the messages after a point, or show those again that were hidden last.

        Returns whether anything changed.
        """
        self._open_message = self._echo = None
        if marker.restored:
            if not self._hidden:
                return False
            index, entries = self._hidden.pop()
            self.timeline[index:index] = entries
            for entry in entries:
                self._index(entry)
            return True
        prompts = [
            (index, entry)
            for index, entry in enumerate(self.timeline)
            if isinstance(entry, Message) and entry.kind == "user"
        ]
        position = hidden_from([(entry.id, entry.text) for _, entry in prompts], marker)
        if position is None:
            return False
        index = prompts[position][0]
        entries, self.timeline[index:] = self.timeline[index:], []
        self._hidden.append((index, entries))
        for entry in entries:
            self._index(entry, remove=True)
        self._turn_start = min(self._turn_start, index)
        return True

    def _index(self, entry: Entry, *, remove: bool = False) -> None:
        """Add an entry to those that can be found by id, or remove it."""
        table: dict[Any, Any]
        key: Any
        if isinstance(entry, Message):
            table, key = self._by_id, (entry.kind, entry.id)
        elif isinstance(entry, ToolCallState):
            table, key = self.tool_calls, entry.tool_call_id
        elif isinstance(entry, PlanState):
            table, key = self.plans, entry.plan_id
        elif isinstance(entry, CompactionState):
            table, key = self.compactions, entry.compaction_id
        elif isinstance(entry, SubagentState):
            table, key = self.subagents, entry.session_id
        else:
            table, key = self.session_messages, entry.message_id
        if remove:
            table.pop(key, None)
        elif not isinstance(entry, Message) or entry.id is not None:
            table[key] = entry

    def chunk(self, chunk: MessageChunk) -> None:
        """Add a chunk of a message."""
        kind = _KINDS[type(chunk)]
        message_id = chunk.message_id
        message = self._open_message
        if message is None or message.kind != kind or (message_id and message_id != message.id):
            message = self._message(kind, message_id or None)
            self._open_message = message
        message.append(chunk.content)

    def user_chunk(self, chunk: UserMessageChunk) -> None:
        """Add a chunk of a user message: usually history, sometimes the agent's echo of the prompt."""
        echo = self._echo
        if echo is None:
            self.chunk(chunk)
        elif echo.matches(chunk):
            if chunk.message_id and echo.complete and echo.message.id is None:
                echo.message.id = chunk.message_id
                self._by_id["user", chunk.message_id] = echo.message
        else:
            self._echo = None
            for earlier in echo.unmatched_chunks():
                self.chunk(earlier)
            self.chunk(chunk)

    def message(self, change: MessageChanged) -> None:
        """Add or replace a whole message."""
        message = self._message(change.kind, change.message_id)
        if change.content is not UNSET:
            message.replace(change.content or ())
        self._open_message = None

    def tool_call(self, event: ToolCallChanged) -> ToolCallChanged:
        """Apply a change of a tool call. Return the event with the resulting call."""
        call, new = self.patch_call(event.patch, announce=event.announce)
        if event.append:
            call.content = [*call.content, *event.append]
        if event.cancellable is not UNSET:
            call.cancellable = event.cancellable
        if event.mark:
            call.set_mark(event.mark)
        return ToolCallChanged(
            event.patch, event.announce, event.mark, copy(call), new, event.append, event.cancellable
        )

    def patch_call(self, patch: ToolCallUpdate, *, announce: bool = False) -> tuple[ToolCallState, bool]:
        """Apply a patch. Return the call and whether it is new."""
        call = self.tool_calls.get(patch.tool_call_id)
        new = call is None
        if call is None:
            call = ToolCallState(patch.tool_call_id, announced=announce)
            self.tool_calls[call.tool_call_id] = call
            self.timeline.append(call)
            self._open_message = None
            call.apply(patch)
        elif announce:
            call.announce(patch)
        else:
            call.apply(patch)
        return call, new

    def plan(self, event: PlanChanged) -> None:
        """Create, replace or remove a plan."""
        plan_id, body = event.plan_id, event.plan
        plan = self.plans.get(plan_id)
        if body is None:
            if plan is not None:
                del self.plans[plan_id]
                self._remove(plan)
        elif plan is None:
            plan = self.plans[plan_id] = PlanState(plan_id, body)
            self.timeline.append(plan)
        else:
            plan.body = body

    def compaction(self, update: CompactionUpdate | CompactionSummaryChunk) -> None:
        """Apply an update of a compaction."""
        compaction = self.compactions.get(update.compaction_id)
        if compaction is None:
            compaction = self.compactions[update.compaction_id] = CompactionState(update.compaction_id)
            self.timeline.append(compaction)
            self._open_message = None
        if isinstance(update, CompactionUpdate):
            compaction.apply(update)
        else:
            compaction.append(update.content)

    def subagent(self, update: SubagentUpdate) -> None:
        """Add or patch a child session."""
        child = self.subagents.get(update.session_id)
        if child is None:
            child = self.subagents[update.session_id] = SubagentState(update.session_id)
            self.timeline.append(child)
        child.apply(update)

    def session_message(self, update: SessionMessage | SessionMessageChunk) -> None:
        """Add or extend a message between sessions."""
        message = self.session_messages.get(update.message_id)
        if message is None:
            message = self.session_messages[update.message_id] = SessionMessageState(update.message_id)
            self.timeline.append(message)
        if isinstance(update, SessionMessage):
            message.apply(update)
        else:
            message.append(update.content)

    def events(self) -> list[Event]:
        """Return the history as few events, from which an empty history can be rebuilt."""
        return list(self.iter_events())

    def iter_events(self) -> Iterator[Event]:
        """Yield what `events` returns, one by one; nothing may be applied meanwhile."""
        return map(_entry_event, self.timeline)

    def _message(self, kind: MessageKind, message_id: str | None) -> Message:
        if message_id is None:
            message = Message(kind)
        else:
            existing = self._by_id.get((kind, message_id))
            if existing is not None:
                return existing
            message = self._by_id[kind, message_id] = Message(kind, message_id)
        self.timeline.append(message)
        return message

    def _remove(self, entry: Entry) -> None:
        index = next(index for index, other in enumerate(self.timeline) if other is entry)
        del self.timeline[index]
        if index < self._turn_start:
            self._turn_start -= 1


class _PromptEcho:
    """Detects whether the agent repeats the prompt of the running turn, which is already in the history."""

    __slots__ = ("_blocks", "_chunks", "_matched", "_text", "message")

    def __init__(self, message: Message) -> None:
        self.message: Message = message
        self._text = message.text
        self._matched = 0
        self._blocks: list[ContentBlock] = list(message.blocks)
        self._chunks: list[UserMessageChunk] = []

    @property
    def complete(self) -> bool:
        """Whether the whole text of the prompt was repeated."""
        return self._matched == len(self._text)

    def matches(self, chunk: UserMessageChunk) -> bool:
        """Whether this chunk continues the echo."""
        block = chunk.content
        if type(block) is TextContent:
            if not self._text.startswith(block.text, self._matched):
                return False
            self._matched += len(block.text)
        elif block in self._blocks:
            self._blocks.remove(block)
        else:
            return False
        self._chunks.append(chunk)
        return True

    def unmatched_chunks(self) -> list[UserMessageChunk]:
        """The chunks of an incomplete echo; they are ordinary messages after all."""
        return [] if self.complete else self._chunks


def _entry_event(entry: Entry) -> Event:
    if isinstance(entry, Message):
        return MessageChanged(entry.kind, entry.id, list(entry.blocks))
    if isinstance(entry, ToolCallState):
        return ToolCallChanged(
            entry.to_update(),
            entry.announced,
            entry.mark,
            copy(entry),
            new=True,
            cancellable=entry.cancellable or UNSET,
        )
    if isinstance(entry, PlanState):
        return PlanChanged(entry.plan_id, entry.body)
    return entry.to_update()
