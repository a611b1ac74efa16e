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
    ContentBlock,
    TerminalCapabilities,
    TerminalExitStatus,
    TerminalOutput,
    TerminalSize,
    ToolCallContent,
    ToolCallUpdate,
)
from accord.schema.v2.session_requests import AvailableCommandsUpdate, ConfigOptionUpdate

# The message types of this module, which `accord.schema.v2` exports.
__all__ = [
    "AgentMessage", "AgentMessageChunk", "AgentThought", "AgentThoughtChunk", "BackgroundSubagent",
    "BackgroundTerminal", "BackgroundToolCall", "BackgroundWork", "ContentChunk", "Error", "ErrorCode",
    "ErrorData", "IdleStateUpdate", "PlanEntry", "PlanEntryPriority", "PlanEntryStatus", "PlanId",
    "PlanItems", "PlanUpdate", "PlanUpdateContent", "RequiresActionStateUpdate", "RunningStateUpdate",
    "SessionNotFoundErrorData", "SessionStateUpdate", "SessionStatusResponse", "SessionUpdate",
    "StateUpdate", "TerminalOutputChunk", "TerminalUpdate", "ToolCallChange", "ToolCallContentChunk",
    "UnknownStateUpdate", "UnsupportedProtocolVersionErrorData", "UpdateSessionNotification",
    "UserMessage", "UserMessageChunk",
]  # fmt: skip


# Errors.

ErrorCode: TypeAlias = Annotated[
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


class Error(Record):
    """An error: a code, one short sentence, and optional data."""

    code: ErrorCode
    message: str
    data: Opt[ErrorData] = UNSET


# Messages.


class ContentChunk(Object):
    """A block that is appended to the message with this id."""

    content: ContentBlock
    message_id: MessageId


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk", kw_only=True):
    """A part of a user message."""


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk", kw_only=True):
    """A part of the agent's answer."""


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk", kw_only=True):
    """A part of the agent's reasoning."""


class UserMessage(Object, tag_field="sessionUpdate", tag="user_message"):
    """A user message was created or changed: absent keeps the content, null clears it."""

    message_id: MessageId
    content: Opt[Items[ContentBlock] | None] = UNSET


class AgentMessage(Object, tag_field="sessionUpdate", tag="agent_message"):
    """A message of the agent was created or changed."""

    message_id: MessageId
    content: Opt[Items[ContentBlock] | None] = UNSET


class AgentThought(Object, tag_field="sessionUpdate", tag="agent_thought"):
    """A piece of reasoning was created or changed."""

    message_id: MessageId
    content: Opt[Items[ContentBlock] | None] = UNSET


# Tool calls and terminals.


class ToolCallChange(ToolCallUpdate, tag_field="sessionUpdate", tag="tool_call_update"):
    """A tool call appeared or changed."""


class ToolCallContentChunk(Object, tag_field="sessionUpdate", tag="tool_call_content_chunk"):
    """More content of a tool call."""

    tool_call_id: ToolCallId
    content: ToolCallContent


class TerminalUpdate(Object, tag_field="sessionUpdate", tag="terminal_update"):
    """A terminal of the agent appeared or changed: absent keeps, null clears, a value replaces."""

    terminal_id: TerminalId
    command: Opt[str | None] = UNSET
    cwd: Opt[AbsolutePath | None] = UNSET
    output: Opt[TerminalOutput | None] = UNSET
    exit_status: Opt[TerminalExitStatus | None] = UNSET
    size: Opt[TerminalSize | None] = UNSET
    capabilities: Opt[TerminalCapabilities | None] = UNSET


class TerminalOutputChunk(Object, tag_field="sessionUpdate", tag="terminal_output_chunk"):
    """More bytes of a terminal, base64 encoded. A character may be split between two chunks."""

    terminal_id: TerminalId
    data: str


# Plans.

PlanId: TypeAlias = str

PlanEntryPriority: TypeAlias = Annotated[str, KnownValues("high", "medium", "low")]
"""How important an entry of a plan is."""
PlanEntryStatus: TypeAlias = Annotated[str, KnownValues("pending", "in_progress", "completed", "cancelled")]
"""The progress of an entry of a plan."""


class PlanEntry(Object):
    """One step. Entries have no ids; the position in the list identifies them."""

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class PlanItems(Object, tag_field="type", tag="items"):
    """A plan as a list of steps."""

    plan_id: PlanId
    entries: Items[PlanEntry]


PlanUpdateContent: TypeAlias = Open[PlanItems | PlanFile | PlanMarkdown]
"""The content of a plan. Files and Markdown are unstable."""


class PlanUpdate(Object, tag_field="sessionUpdate", tag="plan_update"):
    """A plan was created or replaced as a whole."""

    plan: PlanUpdateContent


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


class RunningStateUpdate(Object, tag_field="state", tag="running"):
    """The agent works."""

    background: Opt[list[BackgroundWork] | None] = UNSET


class IdleStateUpdate(Object, tag_field="state", tag="idle"):
    """The agent does nothing in the foreground. `error` comes with the stop reason `error`."""

    stop_reason: Opt[_StopReason | None] = UNSET
    error: Opt[Error | None] = UNSET
    usage: Unstable[Opt[Usage | None]] = UNSET
    background: Opt[list[BackgroundWork] | None] = UNSET


class RequiresActionStateUpdate(Object, tag_field="state", tag="requires_action"):
    """The whole foreground waits for the user."""

    background: Opt[list[BackgroundWork] | None] = UNSET


@unstable
class UnknownStateUpdate(Object, tag_field="state", tag="unknown"):
    """Unstable. The state can no longer be observed."""

    background: Opt[list[BackgroundWork] | None] = UNSET


StateUpdate: TypeAlias = Open[
    RunningStateUpdate | IdleStateUpdate | RequiresActionStateUpdate | UnknownStateUpdate
]
"""What a session does at present."""


@unstable
class SessionStatusResponse(Object):
    """Unstable. Whether the agent holds the session in memory, and what it does."""

    status: SessionStatus
    state: Opt[StateUpdate | None] = UNSET


class SessionStateUpdate(Object, tag_field="sessionUpdate", tag="state_update"):
    """The state of the session changed. The members of all states in one object."""

    state: Annotated[str, KnownValues("running", "idle", "requires_action", "unknown")]
    stop_reason: Opt[_StopReason | None] = UNSET
    error: Opt[Error | None] = UNSET
    usage: Unstable[Opt[Usage | None]] = UNSET
    background: Opt[list[BackgroundWork] | None] = UNSET


SessionUpdate: TypeAlias = Open[
    UserMessageChunk
    | UserMessage
    | AgentMessageChunk
    | AgentMessage
    | AgentThoughtChunk
    | AgentThought
    | SessionStateUpdate
    | ToolCallChange
    | ToolCallContentChunk
    | TerminalUpdate
    | TerminalOutputChunk
    | PlanUpdate
    | PlanRemoved
    | AvailableCommandsUpdate
    | ConfigOptionUpdate
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
    update: SessionUpdate
