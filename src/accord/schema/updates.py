"""All variants of `session/update`: message chunks, plans, usage, compaction, subagents.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from accord.schema.base import (
    UNSET,
    CompactionId,
    Double,
    Error,
    Items,
    Kept,
    KnownValues,
    Lenient,
    MessageId,
    NonEmpty,
    Object,
    Open,
    Opt,
    PlanId,
    SessionId,
    Strict,
    Uint64,
    unstable,
)
from accord.schema.content import ContentBlock, ToolCall, ToolCallChange, Usage, text_of_blocks
from accord.schema.session_requests import AvailableCommandsUpdate, ConfigOptionUpdate, CurrentModeUpdate

# The message types of this module, which `accord.schema` exports.
__all__ = [
    "AgentMessageChunk", "AgentThoughtChunk", "CompactionStatus", "CompactionSummaryChunk",
    "CompactionUpdate", "ContentChunk", "Cost", "IdleStateUpdate", "Notice", "NoticeSeverity", "Plan",
    "PlanEntry", "PlanEntryPriority", "PlanEntryStatus", "PlanFile", "PlanItems", "PlanMarkdown",
    "PlanRemoved", "PlanUpdate", "PlanUpdateContent", "RequiresActionStateUpdate", "RunningStateUpdate",
    "SessionCancelCapabilities", "SessionInfoUpdate", "SessionMessage", "SessionMessageChunk",
    "SessionNotification", "SessionUpdate", "StateUpdate", "SubagentSessionCapabilities", "SubagentUpdate",
    "UnknownStateUpdate", "UsageUpdate", "UserMessageChunk",
]  # fmt: skip


# Plans.

PlanEntryPriority: TypeAlias = Literal["high", "medium", "low"]
"""How important an entry of a plan is."""
PlanEntryStatus: TypeAlias = Literal["pending", "in_progress", "completed"]
"""The progress of an entry of a plan."""


class PlanEntry(Object):
    """One step. Entries have no ids; the position in the list identifies them."""

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class Plan(Object, tag_field="sessionUpdate", tag="plan"):
    """The whole plan. Replaces the previous one. May come any number of times in a turn."""

    entries: Lenient[Items[PlanEntry]]


@unstable
class PlanItems(Object, tag_field="type", tag="items"):
    """Unstable. A plan as a list of steps."""

    plan_id: PlanId
    entries: Lenient[Items[PlanEntry]]


@unstable
class PlanFile(Object, tag_field="type", tag="file"):
    """Unstable. A plan kept in a file."""

    plan_id: PlanId
    uri: str


@unstable
class PlanMarkdown(Object, tag_field="type", tag="markdown"):
    """Unstable. A plan as Markdown text."""

    plan_id: PlanId
    content: str


PlanUpdateContent: TypeAlias = PlanItems | PlanFile | PlanMarkdown
"""The content of a plan: entries, a file or Markdown."""


@unstable
class PlanUpdate(Object, tag_field="sessionUpdate", tag="plan_update"):
    """Unstable. Creates or replaces one of several plans. Only for clients with the `plan` capability."""

    plan: PlanUpdateContent


@unstable
class PlanRemoved(Object, tag_field="sessionUpdate", tag="plan_removed"):
    """Unstable. A plan was removed. Comes after a `PlanUpdate` with that id."""

    plan_id: PlanId


# Unstable: child sessions and messages between sessions. Only for clients with the `subagents` capability.


@unstable
class SessionCancelCapabilities(Object):
    """Unstable. The child may be canceled."""


@unstable
class SubagentSessionCapabilities(Object):
    """Unstable. What the client may do with a child session."""

    cancel: Opt[SessionCancelCapabilities | None] = UNSET


@unstable
class RunningStateUpdate(Object, tag_field="state", tag="running"):
    """Unstable. The child is running."""


@unstable
class IdleStateUpdate(Object, tag_field="state", tag="idle"):
    """Unstable. The child is idle and may be used again. `error` comes with the stop reason `error`."""

    stop_reason: Opt[
        Annotated[
            str, KnownValues("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")
        ]
        | None
    ] = UNSET
    usage: Opt[Usage | None] = UNSET
    error: Opt[Error | None] = UNSET


@unstable
class RequiresActionStateUpdate(Object, tag_field="state", tag="requires_action"):
    """Unstable. The child waits for an action of the user or of another session."""


@unstable
class UnknownStateUpdate(Object, tag_field="state", tag="unknown"):
    """Unstable. The child can no longer be observed. This cancels and resolves nothing."""


StateUpdate: TypeAlias = Open[
    RunningStateUpdate | IdleStateUpdate | RequiresActionStateUpdate | UnknownStateUpdate
]
"""The state of a child session."""


@unstable
class SubagentUpdate(Object, tag_field="sessionUpdate", tag="subagent_update"):
    """Unstable. Announces a child session, later changes it: absent keeps, null clears.

    Sent in the parent session, the first time before any update of the child.
    """

    session_id: SessionId
    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET
    capabilities: Opt[SubagentSessionCapabilities | None] = UNSET
    state: Opt[StateUpdate | None] = UNSET
    cwd: Strict[str | None] = UNSET
    additional_directories: Strict[list[str] | None] = UNSET


@unstable
class SessionMessage(Object, tag_field="sessionUpdate", tag="session_message"):
    """Unstable. A message between sessions, created or changed. Any time after both were announced."""

    message_id: MessageId
    sender_session_id: Opt[SessionId | None] = UNSET
    recipient_session_id: Opt[SessionId | None] = UNSET
    sender_message_id: Opt[MessageId | None] = UNSET
    recipient_message_id: Opt[MessageId | None] = UNSET
    content: Opt[Items[ContentBlock] | None] = UNSET

    @property
    def text(self) -> str:
        """The text blocks of the new content."""
        return text_of_blocks(self.content or ())


@unstable
class SessionMessageChunk(Object, tag_field="sessionUpdate", tag="session_message_chunk"):
    """Unstable. Another block of such a message. May come before the message itself."""

    message_id: MessageId
    content: ContentBlock

    @property
    def text(self) -> str:
        """The block's text; "" for a block that is not text."""
        return text_of_blocks((self.content,))


# Updates of one session, in order.


class ContentChunk(Object):
    """A part of a message. Parts with the same message id belong together."""

    content: ContentBlock
    message_id: Opt[MessageId | None] = UNSET

    @property
    def text(self) -> str:
        """The block's text; "" for a block that is not text."""
        return text_of_blocks((self.content,))


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    """A part of a user message. Sent mainly while a session is loaded."""


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """A part of the agent's answer. Sent during a turn or a replay."""


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """A part of the agent's reasoning. Sent during a turn or a replay."""


class SessionInfoUpdate(Object, tag_field="sessionUpdate", tag="session_info_update"):
    """The session's title or time changed: absent keeps, null clears. Any time."""

    title: Opt[str | None] = UNSET
    updated_at: Opt[str | None] = UNSET


class Cost(Object):
    """The cost of a session so far. The currency is an ISO 4217 code, or another unit such as credits."""

    amount: Double
    currency: str


class UsageUpdate(Object, tag_field="sessionUpdate", tag="usage_update"):
    """The use of the context window, in tokens. Any time, also between turns."""

    used: Uint64
    size: Uint64
    cost: Opt[Cost | None] = UNSET


NoticeSeverity: TypeAlias = Annotated[str, KnownValues("info", "warning", "error")]
"""How serious a notice is."""


class Notice(Object, tag_field="sessionUpdate", tag="notice"):
    """A temporary notice, not part of the history. Any time, for clients that show notices."""

    severity: NoticeSeverity
    title: NonEmpty
    description: Opt[str | None] = UNSET

    @property
    def text(self) -> str:
        """The title, and the description on the next line."""
        return f"{self.title}\n{self.description}" if self.description else self.title


CompactionStatus: TypeAlias = Annotated[str, KnownValues("in_progress", "completed", "failed", "cancelled")]
"""The progress of a compaction."""


class CompactionUpdate(Object, tag_field="sessionUpdate", tag="compaction_update"):
    """The agent compacts its context: absent keeps, null clears.

    Any time, for clients that show compaction.
    """

    compaction_id: CompactionId
    status: CompactionStatus
    summary: Opt[Items[ContentBlock] | None] = UNSET
    error: Opt[str | None] = UNSET

    @property
    def text(self) -> str:
        """The text blocks of the summary."""
        return text_of_blocks(self.summary or ())


class CompactionSummaryChunk(Object, tag_field="sessionUpdate", tag="compaction_summary_chunk"):
    """Another block of a compaction's summary. With a new id, it starts the compaction."""

    compaction_id: CompactionId
    content: ContentBlock

    @property
    def text(self) -> str:
        """The block's text; "" for a block that is not text."""
        return text_of_blocks((self.content,))


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
"""What the agent reports about a session."""


class SessionNotification(Object):
    """One update of one session. An unknown update is kept as `Unknown`."""

    session_id: SessionId
    update: Kept[SessionUpdate]
