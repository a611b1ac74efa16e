"""Session updates: everything an agent tells about a session, in the order it happens."""

from typing import Annotated, TypeAlias

from .base import UNSET, Object
from .commands import AvailableCommandsUpdate
from .config import ConfigOptionUpdate, CurrentModeUpdate
from .content import ContentBlock
from .ids import CompactionId, MessageId, SessionId
from .marks import Double, Items, Kept, Known, NonEmpty, Opt, Uint64
from .plans import Plan, PlanRemoved, PlanUpdate
from .subagents import SessionMessage, SessionMessageChunk, SubagentUpdate
from .tools import ToolCall, ToolCallChange


class ContentChunk(Object):
    """A piece of a message. Pieces with the same message id belong together."""

    content: ContentBlock
    message_id: Opt[MessageId | None] = UNSET


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    """A piece of what the user said. Comes mainly while a session is loaded."""


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """A piece of the agent's answer. Comes during a turn or a replay."""


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """A piece of the agent's reasoning. Comes during a turn or a replay."""


class SessionInfoUpdate(Object, tag_field="sessionUpdate", tag="session_info_update"):
    """The session's title or time changed: absent keeps, null clears. Any time."""

    title: Opt[str | None] = UNSET
    updated_at: Opt[str | None] = UNSET


class Cost(Object):
    """What a session has cost so far. The currency is an ISO 4217 code, or another unit such as credits."""

    amount: Double
    currency: str


class UsageUpdate(Object, tag_field="sessionUpdate", tag="usage_update"):
    """How full the context window is, in tokens. Any time, also between turns."""

    used: Uint64
    size: Uint64
    cost: Opt[Cost | None] = UNSET


NoticeSeverity: TypeAlias = Annotated[str, Known("info", "warning", "error")]


class Notice(Object, tag_field="sessionUpdate", tag="notice"):
    """Advice of the moment; not part of the history. Any time, to clients that show notices."""

    severity: NoticeSeverity
    title: NonEmpty
    description: Opt[str | None] = UNSET


CompactionStatus: TypeAlias = Annotated[str, Known("in_progress", "completed", "failed", "cancelled")]


class CompactionUpdate(Object, tag_field="sessionUpdate", tag="compaction_update"):
    """The agent compacts its context: absent keeps, null clears. Any time, to clients that show compaction."""

    compaction_id: CompactionId
    status: CompactionStatus
    summary: Opt[Items[ContentBlock] | None] = UNSET
    error: Opt[str | None] = UNSET


class CompactionSummaryChunk(Object, tag_field="sessionUpdate", tag="compaction_summary_chunk"):
    """One more block of a compaction's summary. With an id not seen before, it begins the compaction."""

    compaction_id: CompactionId
    content: ContentBlock


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallChange
    | Plan
    | PlanUpdate
    | PlanRemoved
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | SubagentUpdate
    | SessionMessage
    | SessionMessageChunk
)


class SessionNotification(Object):
    """One update of one session. An update this version does not know is kept as `Unknown`."""

    session_id: SessionId
    update: Kept[SessionUpdate]
