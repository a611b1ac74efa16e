"""The history of a session: what was said and done, in the order of first sight, and the same by id.

Messages are told apart by their id: equal ids are one message, also when others come in between. Chunks without an id go
on with the message before them, until one of another kind, a tool call, a compaction or the edge of a turn comes between.
"""

from copy import copy
from typing import TypeAlias

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
from accord.session.tool_calls import Mark, ToolCallState

Entry: TypeAlias = Message | ToolCallState | PlanState | CompactionState | SubagentState | SessionMessageState

_KINDS: dict[type, MessageKind] = {
    UserMessageChunk: "user",
    AgentMessageChunk: "agent",
    AgentThoughtChunk: "thought",
}


class History:
    """The timeline and its entries by id. The entries are live: they go on changing."""

    __slots__ = (
        "_by_id",
        "_current",
        "_echo",
        "_turn",
        "compactions",
        "plans",
        "session_messages",
        "subagents",
        "timeline",
        "tool_calls",
    )

    def __init__(self) -> None:
        self.timeline: list[Entry] = []
        self.tool_calls: dict[str, ToolCallState] = {}
        self.plans: dict[str, PlanState] = {}
        self.compactions: dict[str, CompactionState] = {}
        self.subagents: dict[str, SubagentState] = {}
        self.session_messages: dict[str, SessionMessageState] = {}
        self._by_id: dict[tuple[MessageKind, str], Message] = {}  # each kind has its own ids
        self._current: Message | None = None  # the message that a chunk without an id belongs to
        self._echo: _Echo | None = None
        self._turn = 0  # where in the timeline the latest turn began

    @property
    def messages(self) -> list[Message]:
        """The messages and thoughts, in order."""
        return [entry for entry in self.timeline if isinstance(entry, Message)]

    @property
    def latest_turn(self) -> list[Entry]:
        """What came into being since the latest turn began."""
        return self.timeline[self._turn :]

    @property
    def terminals(self) -> dict[str, str]:
        """The terminals that tool calls show, each with the id of the first call that does."""
        found: dict[str, str] = {}
        for call in self.tool_calls.values():
            for terminal_id in call.terminal_ids:
                found.setdefault(terminal_id, call.tool_call_id)
        return found

    def begin_turn(self, prompt: list[ContentBlock]) -> None:
        """A turn begins; the prompt, if given, is the user's message."""
        self._current = None
        self._turn = len(self.timeline)
        if prompt:
            message = Message("user", None, prompt)
            self.timeline.append(message)
            self._echo = _Echo(message)

    def end_turn(self, mark: Mark) -> None:
        """No more is expected: calls still open get the mark."""
        self._current = None
        self._echo = None
        self.mark_open(mark)

    def mark_open(self, mark: Mark) -> None:
        """Mark every tool call that is still open."""
        for call in self.tool_calls.values():
            call.give_up(mark)

    def chunk(self, chunk: MessageChunk) -> None:
        """A piece of a message."""
        kind = _KINDS[type(chunk)]
        message_id = chunk.message_id
        message = self._current
        if message is None or message.kind != kind or (message_id and message_id != message.id):
            message = self._message(kind, message_id or None)
            self._current = message
        message.append(chunk.content)

    def user_chunk(self, chunk: UserMessageChunk) -> None:
        """A piece of a user message: usually history, sometimes the agent's echo of the running prompt."""
        echo = self._echo
        if echo is None:
            self.chunk(chunk)
        elif echo.hear(chunk):
            if chunk.message_id and echo.complete and echo.message.id is None:
                echo.message.id = chunk.message_id
                self._by_id["user", chunk.message_id] = echo.message
        else:
            self._echo = None
            for missed in echo.mistaken():
                self.chunk(missed)
            self.chunk(chunk)

    def message(self, change: MessageChanged) -> None:
        """A whole message."""
        message = self._message(change.kind, change.message_id)
        if change.content is not UNSET:
            message.replace(change.content or ())
        self._current = None

    def tool_call(self, event: ToolCallChanged) -> ToolCallChanged:
        """A change of a tool call; gives back the event with the call as it stands now."""
        call, new = self.patch_call(event.patch, announce=event.announce)
        if event.mark:
            call.give_up(event.mark)
        return ToolCallChanged(event.patch, event.announce, event.mark, copy(call), new)

    def patch_call(self, patch: ToolCallUpdate, *, announce: bool = False) -> tuple[ToolCallState, bool]:
        """Apply a patch, creating the call on first sight; says whether it was."""
        call = self.tool_calls.get(patch.tool_call_id)
        new = call is None
        if call is None:
            call = ToolCallState(patch.tool_call_id, announced=announce)
            self.tool_calls[call.tool_call_id] = call
            self.timeline.append(call)
            self._current = None
            call.apply(patch)
        elif announce:
            call.announce(patch)
        else:
            call.apply(patch)
        return call, new

    def plan(self, event: PlanChanged) -> None:
        """A plan in full, or gone."""
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
        """A compaction's news; the first of them fixes its place."""
        compaction = self.compactions.get(update.compaction_id)
        if compaction is None:
            compaction = self.compactions[update.compaction_id] = CompactionState(update.compaction_id)
            self.timeline.append(compaction)
            self._current = None
        if isinstance(update, CompactionUpdate):
            compaction.apply(update)
        else:
            compaction.append(update.content)

    def subagent(self, update: SubagentUpdate) -> None:
        """A child session is announced or patched."""
        child = self.subagents.get(update.session_id)
        if child is None:
            child = self.subagents[update.session_id] = SubagentState(update.session_id)
            self.timeline.append(child)
        child.apply(update)

    def session_message(self, update: SessionMessage | SessionMessageChunk) -> None:
        """A message between sessions: a patch or a piece, in any order."""
        message = self.session_messages.get(update.message_id)
        if message is None:
            message = self.session_messages[update.message_id] = SessionMessageState(update.message_id)
            self.timeline.append(message)
        if isinstance(update, SessionMessage):
            message.apply(update)
        else:
            message.append(update.content)

    def events(self) -> list[Event]:
        """The history as few events: taken in by an empty history, they give this one again."""
        return [_event_of(entry) for entry in self.timeline]

    def _message(self, kind: MessageKind, message_id: str | None) -> Message:
        if message_id is None:
            message = Message(kind)
        else:
            known = self._by_id.get((kind, message_id))
            if known is not None:
                return known
            message = self._by_id[kind, message_id] = Message(kind, message_id)
        self.timeline.append(message)
        return message

    def _remove(self, entry: Entry) -> None:
        place = next(index for index, other in enumerate(self.timeline) if other is entry)
        del self.timeline[place]
        if place < self._turn:
            self._turn -= 1


class _Echo:
    """Hears whether the agent repeats the prompt of the running turn, which is already in the history."""

    __slots__ = ("_at", "_blocks", "_chunks", "_text", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._text = message.text
        self._at = 0
        self._blocks: list[ContentBlock] = list(message.blocks)
        self._chunks: list[UserMessageChunk] = []

    @property
    def complete(self) -> bool:
        """Whether all the text of the prompt was repeated."""
        return self._at == len(self._text)

    def hear(self, chunk: UserMessageChunk) -> bool:
        """Whether this chunk goes on repeating the prompt."""
        block = chunk.content
        if type(block) is TextContent:
            if not self._text.startswith(block.text, self._at):
                return False
            self._at += len(block.text)
        elif block in self._blocks:
            self._blocks.remove(block)
        else:
            return False
        self._chunks.append(chunk)
        return True

    def mistaken(self) -> list[UserMessageChunk]:
        """The chunks taken for an echo that was none after all; a prompt repeated in full was one."""
        return [] if self.complete else self._chunks


def _event_of(entry: Entry) -> Event:
    if isinstance(entry, Message):
        return MessageChanged(entry.kind, entry.id, list(entry.blocks))
    if isinstance(entry, ToolCallState):
        return ToolCallChanged(entry.whole(), entry.announced, entry.mark, copy(entry), new=True)
    if isinstance(entry, PlanState):
        return PlanChanged(entry.plan_id, entry.body)
    return entry.whole()
