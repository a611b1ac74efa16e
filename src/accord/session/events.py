"""The events of a session: what handlers, logs and user interfaces speak, whatever protocol version is on the wire.

Where the versions agree on a shape, the wire type is the event. Where they differ, the types of this file stand for
both. Unless its docstring says otherwise, an event may come at any time, also while no turn runs. In every patch, omitted
(`UNSET`) keeps, null (None) clears and a value replaces; a chunk appends.

From the wire, as they are: `UserMessageChunk`, `AgentMessageChunk`, `AgentThoughtChunk`, `AvailableCommandsUpdate`,
`ConfigOptionUpdate`, `SessionInfoUpdate`, `UsageUpdate`, `Notice`, `CompactionUpdate`, `CompactionSummaryChunk`,
`SubagentUpdate`, `SessionMessage`, `SessionMessageChunk`, and `Unknown` for an update this version does not know.
"""

from typing import Any, Final, TypeAlias, cast

from msgspec import UnsetType, field

from accord.errors import INTERNAL_ERROR, RpcError
from accord.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    Content,
    ContentBlock,
    Error,
    Notice,
    PermissionOption,
    Record,
    SessionConfigOption,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    SessionModeState,
    StopReason,
    SubagentUpdate,
    ToolCallUpdate,
    Unknown,
    Usage,
    UsageUpdate,
    UserMessageChunk,
)
from accord.schema.content import text_of_blocks
from accord.session.history_items import MessageKind, PlanBody, PlanState
from accord.session.tool_calls import Mark, ToolCallState, text_of_tool_content


class SessionEvent(Record, tag_field="sessionUpdate", omit_defaults=True):
    """What the types of this file share: their tags lie in the vendor space of the wire types' own discriminator, so
    that a log can hold both kinds side by side.
    """


class SessionOpened(SessionEvent, tag="_accord/session_opened"):
    """The session is there: answered by new, load, resume or fork. Comes first, and again after every re-attachment;
    what the answer leaves out stays as it was.
    """

    session_id: str
    cwd: str | UnsetType = UNSET
    additional_directories: list[str] | UnsetType = UNSET
    modes: SessionModeState | UnsetType | None = UNSET
    config_options: list[SessionConfigOption] | UnsetType | None = UNSET


class ReplayStarted(SessionEvent, tag="_accord/replay_started"):
    """The agent is about to send the history again. What was known of it is set aside, so that nothing shows twice."""


class ReplayEnded(SessionEvent, tag="_accord/replay_ended"):
    """After `ReplayStarted`: the history is complete. If the agent sent none, what was set aside is back."""


class TurnStarted(SessionEvent, tag="_accord/turn_started"):
    """Work begins, with the prompt that asked for it. Never while a turn runs."""

    prompt: list[ContentBlock] = []
    """What the user said; an agent's echo of it is recognised. Empty when the agent reports the message itself."""

    @property
    def text(self) -> str:
        """The text blocks of the prompt."""
        return text_of_blocks(self.prompt)


class TurnCancelling(SessionEvent, tag="_accord/turn_cancelling"):
    """The client asked the agent to stop. Only while a turn runs; updates go on until it has ended."""


class TurnEnded(SessionEvent, tag="_accord/turn_ended"):
    """The turn is over, well or not. Exactly once for every `TurnStarted`, after the last update that preceded the
    agent's answer; some agents send usage or a title later still.
    """

    stop_reason: StopReason | None = None
    """None when the turn failed, or ended for a reason this version does not know."""
    raw_reason: str = ""
    """The reason in the agent's own words."""
    usage: Usage | None = None
    error: Error | None = None
    """Set when the turn failed: the agent's error answer, or how the connection ended."""


class MessageChanged(SessionEvent, tag="_accord/message_changed"):
    """A whole message at once. With an id it creates or replaces that message; without one it is always a new one."""

    kind: MessageKind
    message_id: str | None = None
    content: list[ContentBlock] | UnsetType | None = UNSET

    @property
    def text(self) -> str:
        """The text blocks of the message."""
        return text_of_blocks(self.content or ())


class ToolCallChanged(SessionEvent, tag="_accord/tool_call_changed"):
    """A tool call appeared or changed. Changes come in any order and may come late, after the turn as well."""

    patch: ToolCallUpdate
    """What this change said."""
    announce: bool = False
    """Whether the agent introduces the call; a late introduction takes nothing back."""
    mark: Mark = ""
    """Set when history is read back: what was known of a call that never finished."""
    call: ToolCallState = field(default_factory=lambda: ToolCallState(""))
    """The call right after this change; blank until the session's state has taken it in."""
    new: bool = False
    """Whether the state saw the call for the first time."""

    @property
    def text(self) -> str:
        """The text blocks of the call's whole output so far."""
        return text_of_tool_content(self.call.content or self.patch.content or ())


class PlanChanged(SessionEvent, tag="_accord/plan_changed"):
    """A plan appeared, was replaced whole, or was removed (`plan` is None). The single plan of version 1 has the id ""."""

    plan_id: str
    plan: PlanBody | None

    @property
    def text(self) -> str:
        """The steps one per line, or the Markdown source; "" for a removed plan or a plan in a file."""
        return "" if self.plan is None else PlanState(self.plan_id, self.plan).text


class ModeChanged(SessionEvent, tag="_accord/mode_changed"):
    """The session works in another mode, because the client asked or the agent decided."""

    mode_id: str


class PermissionAsked(SessionEvent, tag="_accord/permission_asked"):
    """The agent waits for a decision. The tool call may be new to the client; several may be waiting at once."""

    permission_id: str
    """Names this question within the session; minted by the side that reports it."""
    options: list[PermissionOption]
    tool_call: ToolCallUpdate | None = None
    call: ToolCallState | None = None
    """The tool call with what the question said about it, once the state has taken it in."""


class PermissionAnswered(SessionEvent, tag="_accord/permission_answered"):
    """The decision went out. Exactly once for every `PermissionAsked`."""

    permission_id: str
    option: PermissionOption | None = None
    """The option that was chosen; None when the question was dismissed or the turn cancelled."""


MessageChunk: TypeAlias = UserMessageChunk | AgentMessageChunk | AgentThoughtChunk

Event: TypeAlias = (
    MessageChunk
    | MessageChanged
    | ToolCallChanged
    | PlanChanged
    | ModeChanged
    | ConfigOptionUpdate
    | AvailableCommandsUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | SubagentUpdate
    | SessionMessage
    | SessionMessageChunk
    | PermissionAsked
    | PermissionAnswered
    | SessionOpened
    | ReplayStarted
    | ReplayEnded
    | TurnStarted
    | TurnCancelling
    | TurnEnded
    | Unknown
)
"""Everything that can happen in a session."""

_STOP_REASONS: Final[dict[str, StopReason]] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "max_turn_requests": "max_turn_requests",
    "refusal": "refusal",
    "cancelled": "cancelled",
}


def turn_ended(reason: str, usage: Usage | None = None) -> TurnEnded:
    """The end of a turn for this reason; an unknown one still ends it."""
    return TurnEnded(_STOP_REASONS.get(reason), reason, usage)


def turn_failed(error: BaseException) -> TurnEnded:
    """The end of a turn whose prompt was not answered, or answered with an error."""
    if isinstance(error, RpcError):
        data = error.data if error.has_data else UNSET
        return TurnEnded(error=Error(code=error.code, message=error.message, data=data))
    return TurnEnded(error=Error(code=INTERNAL_ERROR, message=str(error) or type(error).__name__))


def text_of(item: Any) -> str:
    """Return the text of a content block, tool content, an event, or a list of these; "" where there is none.

    Images, links and embedded files have no text.
    """
    if isinstance(item, list | tuple):
        return "".join([text_of(one) for one in cast(list[Any], item)])
    if isinstance(item, Content):
        item = item.content
    text = getattr(item, "text", "")
    return text if isinstance(text, str) else ""
