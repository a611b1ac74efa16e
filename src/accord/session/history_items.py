"""The items of a history: messages with their growing content, plans, compactions, subagents."""

from collections.abc import Iterable
from typing import Any, ClassVar, Final, Literal, TypeAlias

from msgspec import Struct

from accord.schema import (
    UNSET,
    CompactionStatus,
    CompactionUpdate,
    ContentBlock,
    IdleStateUpdate,
    PlanEntry,
    PlanFile,
    PlanItems,
    PlanMarkdown,
    RequiresActionStateUpdate,
    RunningStateUpdate,
    SessionMessage,
    StateUpdate,
    SubagentSessionCapabilities,
    SubagentUpdate,
    TextContent,
    Unknown,
)
from accord.schema.content import text_of_blocks


class GrowingContent:
    """The content of a message or a summary. Equal if the merged blocks are equal.

    Appending takes constant time. Adjacent plain text is merged when the blocks are read.
    """

    __slots__ = ("_blocks", "_tail_texts")

    def __init__(self, blocks: Iterable[ContentBlock] = ()) -> None:
        self._blocks: list[ContentBlock] = []
        self._tail_texts: list[str] = []  # plain text after the last block, not merged yet
        for block in blocks:
            self.append(block)

    def append(self, block: ContentBlock) -> None:
        """Add one block. Text with annotations or `_meta` stays a separate block."""
        if type(block) is TextContent and not block.annotations and not block.meta:
            self._tail_texts.append(block.text)
        else:
            self._merge()
            self._blocks.append(block)

    def replace(self, blocks: Iterable[ContentBlock]) -> None:
        """Replace all blocks."""
        self._blocks = []
        self._tail_texts = []
        for block in blocks:
            self.append(block)

    @property
    def blocks(self) -> tuple[ContentBlock, ...]:
        """All blocks, with adjacent plain text as one block."""
        self._merge()
        return tuple(self._blocks)

    @property
    def text(self) -> str:
        """The concatenated text blocks."""
        tail_texts = self._tail_texts
        if len(tail_texts) > 1:
            self._tail_texts = tail_texts = ["".join(tail_texts)]
        tail = tail_texts[0] if tail_texts else ""
        return text_of_blocks(self._blocks) + tail if self._blocks else tail

    def _merge(self) -> None:
        if not self._tail_texts:
            return
        text = "".join(self._tail_texts)
        self._tail_texts = []
        last = self._blocks[-1] if self._blocks else None
        if type(last) is TextContent and not last.annotations and not last.meta:
            self._blocks[-1] = TextContent(text=last.text + text)
        elif text:
            self._blocks.append(TextContent(text=text))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.blocks == other.blocks

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


MessageKind: TypeAlias = Literal["user", "agent", "thought"]
"""Who wrote a message; `thought` is the reasoning of the agent."""


class Message(GrowingContent):
    """One message of the session. It grows while its chunks arrive; `id` is the agent's, if any."""

    __slots__ = ("id", "kind")

    def __init__(self, kind: MessageKind, id: str | None = None, blocks: Iterable[ContentBlock] = ()) -> None:
        super().__init__(blocks)
        self.kind: MessageKind = kind
        self.id: str | None = id

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Message)
            and (self.kind, self.id) == (other.kind, other.id)
            and self.blocks == other.blocks
        )

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Message({self.kind!r}, id={self.id!r}, text={self.text!r})"


class SessionMessageState(GrowingContent):
    """One message between two sessions, as this session sees it. Unstable."""

    __slots__ = (
        "message_id", "meta", "recipient_message_id", "recipient_session_id", "sender_message_id",
        "sender_session_id",
    )  # fmt: skip

    def __init__(self, message_id: str) -> None:
        super().__init__()
        self.message_id: str = message_id
        self.sender_session_id: str | None = None
        self.recipient_session_id: str | None = None
        self.sender_message_id: str | None = None
        self.recipient_message_id: str | None = None
        self.meta: dict[str, Any] | None = None

    def apply(self, patch: SessionMessage) -> None:
        """Apply a patch: omitted keeps, null clears, a value replaces."""
        if patch.sender_session_id is not UNSET:
            self.sender_session_id = patch.sender_session_id
        if patch.recipient_session_id is not UNSET:
            self.recipient_session_id = patch.recipient_session_id
        if patch.sender_message_id is not UNSET:
            self.sender_message_id = patch.sender_message_id
        if patch.recipient_message_id is not UNSET:
            self.recipient_message_id = patch.recipient_message_id
        if patch.meta is not UNSET:
            self.meta = patch.meta
        if patch.content is not UNSET:
            self.replace(patch.content or ())

    def to_update(self) -> SessionMessage:
        """Return one update with the whole state."""
        return SessionMessage(
            message_id=self.message_id,
            sender_session_id=self.sender_session_id,
            recipient_session_id=self.recipient_session_id,
            sender_message_id=self.sender_message_id,
            recipient_message_id=self.recipient_message_id,
            content=list(self.blocks),
            meta=UNSET if self.meta is None else self.meta,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionMessageState) and self.to_update() == other.to_update()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # mutable


V1_PLAN_ID: Final = ""
"""The id of the single plan of version 1, which has no id on the wire."""

PlanBody: TypeAlias = PlanItems | PlanFile | PlanMarkdown
"""The content of a plan: entries, a file or Markdown."""


class PlanState(Struct):
    """One plan; every change replaces the whole body."""

    plan_id: str
    body: PlanBody

    @property
    def entries(self) -> list[PlanEntry]:
        """The steps, if the plan is a list of steps."""
        return self.body.entries if isinstance(self.body, PlanItems) else []

    @property
    def text(self) -> str:
        """The steps one per line, or the Markdown source; "" for a plan in a file."""
        if isinstance(self.body, PlanMarkdown):
            return self.body.content
        return "\n".join([entry.content for entry in self.entries])


IN_PROGRESS: Final = "in_progress"


class CompactionState(GrowingContent):
    """One compaction of the agent's context; the blocks are its summary.

    An unknown status is kept as sent.
    """

    __slots__ = ("compaction_id", "error", "meta", "status")

    def __init__(self, compaction_id: str, status: CompactionStatus = IN_PROGRESS) -> None:
        super().__init__()
        self.compaction_id: str = compaction_id
        self.status: CompactionStatus = status
        self.error: str | None = None
        self.meta: dict[str, Any] | None = None

    def apply(self, patch: CompactionUpdate) -> None:
        """Apply a patch: omitted keeps, null clears, a value replaces."""
        self.status = patch.status
        if patch.summary is not UNSET:
            self.replace(patch.summary or ())
        if patch.error is not UNSET:
            self.error = patch.error
        if patch.meta is not UNSET:
            self.meta = patch.meta

    def to_update(self) -> CompactionUpdate:
        """Return one update with the whole state."""
        return CompactionUpdate(
            compaction_id=self.compaction_id,
            status=self.status,
            summary=list(self.blocks),
            error=UNSET if self.error is None else self.error,
            meta=UNSET if self.meta is None else self.meta,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompactionState) and self.to_update() == other.to_update()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # mutable


_ACTIVITIES: dict[type, str] = {
    RunningStateUpdate: "running",
    IdleStateUpdate: "idle",
    RequiresActionStateUpdate: "requires_action",
}


class SubagentState(Struct):
    """One child session, as its parent reported it. None means not reported, or cleared. Unstable."""

    session_id: str
    title: str | None = None
    description: str | None = None
    capabilities: SubagentSessionCapabilities | None = None
    state: StateUpdate | Unknown | None = None
    cwd: str | None = None
    additional_directories: list[str] | None = None
    meta: dict[str, Any] | None = None

    @property
    def activity(self) -> str:
        """running, idle, requires_action, or the agent's own word; unknown if the agent has not said."""
        if isinstance(self.state, Unknown):
            return self.state.kind
        return _ACTIVITIES.get(type(self.state), "unknown")

    @property
    def may_cancel(self) -> bool:
        """Whether the client may cancel this child. The agent's general capabilities do not matter."""
        return self.capabilities is not None and bool(self.capabilities.cancel)

    def apply(self, patch: SubagentUpdate) -> None:
        """Apply a patch: omitted keeps, null clears, a value replaces."""
        if patch.title is not UNSET:
            self.title = patch.title
        if patch.description is not UNSET:
            self.description = patch.description
        if patch.capabilities is not UNSET:
            self.capabilities = patch.capabilities
        if patch.state is not UNSET:
            self.state = patch.state
        if patch.cwd is not UNSET:
            self.cwd = patch.cwd
        if patch.additional_directories is not UNSET:
            self.additional_directories = patch.additional_directories
        if patch.meta is not UNSET:
            self.meta = patch.meta

    def to_update(self) -> SubagentUpdate:
        """Return one update with the whole state."""
        return SubagentUpdate(
            session_id=self.session_id,
            title=self.title,
            description=self.description,
            capabilities=self.capabilities,
            state=self.state,
            cwd=self.cwd,
            additional_directories=self.additional_directories,
            meta=UNSET if self.meta is None else self.meta,
        )
