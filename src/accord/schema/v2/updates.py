"""All variants of `session/update` of ACP version 2. Imported on first use."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from accord.schema.base import (
    UNSET,
    Int32,
    Items,
    KnownValues,
    MessageId,
    Object,
    Open,
    Opt,
    Record,
    SessionId,
    TerminalId,
    ToolCallId,
    Uint16,
    Unstable,
    unstable,
)
from accord.schema.content import Usage
from accord.schema.session_requests import SessionStatus
from accord.schema.updates import (
    CompactionSummaryChunk,
    CompactionUpdate,
    Notice,
    PlanFile,
    PlanMarkdown,
    PlanRemoved,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    SubagentUpdate,
    UsageUpdate,
)
from accord.schema.v2.content import (
    AbsolutePath,
    ContentBlockV2,
    TerminalCapabilities,
    TerminalExitStatusV2,
    TerminalOutput,
    TerminalSize,
    ToolCallContentV2,
    ToolCallUpdateV2,
)
from accord.schema.v2.session_requests import AvailableCommandsUpdateV2, ConfigOptionUpdateV2

# The message types of this module, which `accord.schema.v2` exports.
__all__ = [
    "AgentMessage", "AgentMessageChunkV2", "AgentThought", "AgentThoughtChunkV2", "BackgroundSubagent",
    "BackgroundTerminal", "BackgroundToolCall", "BackgroundWork", "ContentChunkV2", "ErrorCodeV2",
    "ErrorData", "ErrorV2", "IdleStateUpdateV2", "PlanEntryPriorityV2", "PlanEntryStatusV2", "PlanEntryV2",
    "PlanIdV2", "PlanItemsV2", "PlanUpdateContentV2", "PlanUpdateV2", "RequiresActionStateUpdateV2",
    "RunningStateUpdateV2", "SessionNotFoundErrorData", "SessionStateUpdate", "SessionStatusResponseV2",
    "SessionUpdateV2", "StateUpdateV2", "TerminalOutputChunk", "TerminalUpdate", "ToolCallChangeV2",
    "ToolCallContentChunk", "UnknownStateUpdateV2", "UnsupportedProtocolVersionErrorData",
    "UpdateSessionNotification", "UserMessage", "UserMessageChunkV2",
]  # fmt: skip


# Errors.

ErrorCodeV2: TypeAlias = Annotated[
    Int32, KnownValues(-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002, -32022)
]
"""Any 32-bit number; the named ones are the constants of `accord.errors`."""


class UnsupportedProtocolVersionErrorData(Object):
    """What comes with -32022: the requested version, and those that the agent supports."""

    requested: Uint16
    supported: list[Uint16]


class SessionNotFoundErrorData(Object):
    """What comes with -32002 for a session."""

    session_id: SessionId


ErrorData: TypeAlias = Any
"""The data of an error: one of the two forms above, or any other value."""


class ErrorV2(Record):
    """An error: a code, one short sentence, and optional data."""

    code: ErrorCodeV2
    message: str
    data: Opt[ErrorData] = UNSET


# Messages.


class ContentChunkV2(Object):
    """A block that is appended to the message with this id."""

    content: ContentBlockV2
    message_id: MessageId


class UserMessageChunkV2(ContentChunkV2, tag_field="sessionUpdate", tag="user_message_chunk", kw_only=True):
    """A part of a user message."""


class AgentMessageChunkV2(ContentChunkV2, tag_field="sessionUpdate", tag="agent_message_chunk", kw_only=True):
    """A part of the agent's answer."""


class AgentThoughtChunkV2(ContentChunkV2, tag_field="sessionUpdate", tag="agent_thought_chunk", kw_only=True):
    """A part of the agent's reasoning."""


class UserMessage(Object, tag_field="sessionUpdate", tag="user_message"):
    """A user message was created or changed: absent keeps the content, null clears it."""

    message_id: MessageId
    content: Opt[Items[ContentBlockV2] | None] = UNSET


class AgentMessage(Object, tag_field="sessionUpdate", tag="agent_message"):
    """A message of the agent was created or changed."""

    message_id: MessageId
    content: Opt[Items[ContentBlockV2] | None] = UNSET


class AgentThought(Object, tag_field="sessionUpdate", tag="agent_thought"):
    """A piece of reasoning was created or changed."""

    message_id: MessageId
    content: Opt[Items[ContentBlockV2] | None] = UNSET


# Tool calls and terminals.


class ToolCallChangeV2(ToolCallUpdateV2, tag_field="sessionUpdate", tag="tool_call_update"):
    """A tool call appeared or changed."""


class ToolCallContentChunk(Object, tag_field="sessionUpdate", tag="tool_call_content_chunk"):
    """More content of a tool call."""

    tool_call_id: ToolCallId
    content: ToolCallContentV2


class TerminalUpdate(Object, tag_field="sessionUpdate", tag="terminal_update"):
    """A terminal of the agent appeared or changed: absent keeps, null clears, a value replaces."""

    terminal_id: TerminalId
    command: Opt[str | None] = UNSET
    cwd: Opt[AbsolutePath | None] = UNSET
    output: Opt[TerminalOutput | None] = UNSET
    exit_status: Opt[TerminalExitStatusV2 | None] = UNSET
    size: Opt[TerminalSize | None] = UNSET
    capabilities: Opt[TerminalCapabilities | None] = UNSET


class TerminalOutputChunk(Object, tag_field="sessionUpdate", tag="terminal_output_chunk"):
    """More bytes of a terminal, base64 encoded. A character may be split between two chunks."""

    terminal_id: TerminalId
    data: str


# Plans.

PlanIdV2: TypeAlias = str

PlanEntryPriorityV2: TypeAlias = Annotated[str, KnownValues("high", "medium", "low")]
"""How important an entry of a plan is."""
PlanEntryStatusV2: TypeAlias = Annotated[str, KnownValues("pending", "in_progress", "completed", "cancelled")]
"""The progress of an entry of a plan."""


class PlanEntryV2(Object):
    """One step. Entries have no ids; the position in the list identifies them."""

    content: str
    priority: PlanEntryPriorityV2
    status: PlanEntryStatusV2


class PlanItemsV2(Object, tag_field="type", tag="items"):
    """A plan as a list of steps."""

    plan_id: PlanIdV2
    entries: Items[PlanEntryV2]


PlanUpdateContentV2: TypeAlias = Open[PlanItemsV2 | PlanFile | PlanMarkdown]
"""The content of a plan. Files and Markdown are unstable."""


class PlanUpdateV2(Object, tag_field="sessionUpdate", tag="plan_update"):
    """A plan was created or replaced as a whole."""

    plan: PlanUpdateContentV2


# The state of a session.


class BackgroundTerminal(Object, tag_field="type", tag="terminal"):
    """A command that runs in the background."""

    terminal_id: TerminalId


class BackgroundToolCall(Object, tag_field="type", tag="tool_call"):
    """A tool call that runs in the background."""

    tool_call_id: ToolCallId


@unstable
class BackgroundSubagent(Object, tag_field="type", tag="subagent"):
    """Unstable. A child session that runs in the background."""

    session_id: SessionId


BackgroundWork: TypeAlias = Open[BackgroundTerminal | BackgroundToolCall | BackgroundSubagent]
"""Something that goes on while the session is idle."""

_StopReason: TypeAlias = Annotated[
    str, KnownValues("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")
]


class RunningStateUpdateV2(Object, tag_field="state", tag="running"):
    """The agent works."""

    background: Opt[list[BackgroundWork] | None] = UNSET


class IdleStateUpdateV2(Object, tag_field="state", tag="idle"):
    """The agent does nothing in the foreground. `error` comes with the stop reason `error`."""

    stop_reason: Opt[_StopReason | None] = UNSET
    error: Opt[ErrorV2 | None] = UNSET
    usage: Unstable[Opt[Usage | None]] = UNSET
    background: Opt[list[BackgroundWork] | None] = UNSET


class RequiresActionStateUpdateV2(Object, tag_field="state", tag="requires_action"):
    """The whole foreground waits for the user."""

    background: Opt[list[BackgroundWork] | None] = UNSET


@unstable
class UnknownStateUpdateV2(Object, tag_field="state", tag="unknown"):
    """Unstable. The state can no longer be observed."""

    background: Opt[list[BackgroundWork] | None] = UNSET


StateUpdateV2: TypeAlias = Open[
    RunningStateUpdateV2 | IdleStateUpdateV2 | RequiresActionStateUpdateV2 | UnknownStateUpdateV2
]
"""What a session does at present."""


@unstable
class SessionStatusResponseV2(Object):
    """Unstable. Whether the agent holds the session in memory, and what it does."""

    status: SessionStatus
    state: Opt[StateUpdateV2 | None] = UNSET


class SessionStateUpdate(Object, tag_field="sessionUpdate", tag="state_update"):
    """The state of the session changed. The members of all states in one object."""

    state: Annotated[str, KnownValues("running", "idle", "requires_action", "unknown")]
    stop_reason: Opt[_StopReason | None] = UNSET
    error: Opt[ErrorV2 | None] = UNSET
    usage: Unstable[Opt[Usage | None]] = UNSET
    background: Opt[list[BackgroundWork] | None] = UNSET


SessionUpdateV2: TypeAlias = Open[
    UserMessageChunkV2
    | UserMessage
    | AgentMessageChunkV2
    | AgentMessage
    | AgentThoughtChunkV2
    | AgentThought
    | SessionStateUpdate
    | ToolCallChangeV2
    | ToolCallContentChunk
    | TerminalUpdate
    | TerminalOutputChunk
    | PlanUpdateV2
    | PlanRemoved
    | AvailableCommandsUpdateV2
    | ConfigOptionUpdateV2
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | SubagentUpdate
    | SessionMessage
    | SessionMessageChunk
]
"""What the agent reports about a session."""


class UpdateSessionNotification(Object):
    """One update of one session. An unknown update is kept as `Unknown`."""

    session_id: SessionId
    update: SessionUpdateV2
