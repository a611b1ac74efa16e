"""The events of a session, independent of the protocol version: used by handlers, logs and user interfaces.

Where the protocol versions agree, the wire type is the event. Where they differ, a type of this file stands
for both. Unless its docstring says otherwise, an event may occur at any time, even while no turn runs. In
every patch, omitted (`UNSET`) keeps, null (None) clears and a value replaces; a chunk appends.

Wire types that are events: `UserMessageChunk`, `AgentMessageChunk`, `AgentThoughtChunk`,
`AvailableCommandsUpdate`, `ConfigOptionUpdate`, `SessionInfoUpdate`, `UsageUpdate`, `Notice`,
`CompactionUpdate`, `CompactionSummaryChunk`, `SubagentUpdate`, `SessionMessage`, `SessionMessageChunk`, and
`Unknown` for an update that this version does not know.

Every event that carries text has `.text`, which is "" if there is none.
"""

from typing import Any, Final, TypeAlias, Union, cast, get_args

from msgspec import UnsetType, defstruct, field

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
    ToolCallContent,
    ToolCallUpdate,
    Unknown,
    Usage,
    UsageUpdate,
    UserMessageChunk,
)
from accord.schema.content import text_of_blocks
from accord.session.history_items import MessageKind, PlanBody, PlanState
from accord.session.terminal_state import BackgroundItem, TerminalExit
from accord.session.tool_calls import Mark, ToolCallState, text_of_tool_content


class SessionEvent(Record, tag_field="sessionUpdate", omit_defaults=True):
    """Base of the types of this file.

    Their tags are in the vendor space of the wire types' discriminator, so that a log can hold both.
    """


class SessionOpened(SessionEvent, tag="_accord/session_opened"):
    """The session was opened by new, load, resume or fork.

    The first event, and repeated after every reattachment. Members that the answer omits keep their value.
    """

    session_id: str
    cwd: str | UnsetType = UNSET
    """The working folder."""
    additional_directories: list[str] | UnsetType = UNSET
    """More folders that the session may use."""
    modes: SessionModeState | UnsetType | None = UNSET
    """The modes to choose from, and the current one."""
    config_options: list[SessionConfigOption] | UnsetType | None = UNSET
    """The settings of the session, such as the model."""
    node: str | UnsetType = UNSET
    """The node of a cluster that has the session."""


class ReplayStarted(SessionEvent, tag="_accord/replay_started"):
    """The agent is about to replay the history.

    The known history is kept aside, so that nothing shows twice.
    """


class ReplayEnded(SessionEvent, tag="_accord/replay_ended"):
    """The replay that `ReplayStarted` began is complete.

    If the agent sent nothing, the known history is restored.
    """


class TurnStarted(SessionEvent, tag="_accord/turn_started"):
    """A turn begins, with its prompt. Never while another turn runs.

    In a running turn, one without a prompt tells the id of the message with which it began.
    """

    prompt: list[ContentBlock] = []
    """The user's message; an agent's echo of it is recognized. Empty if the agent reports the message
    itself.
    """
    message_id: str | None = None
    """The id of the user's message, if the agent gave it one."""

    @property
    def text(self) -> str:
        """The text blocks of the prompt."""
        return text_of_blocks(self.prompt)


class TurnCancelling(SessionEvent, tag="_accord/turn_cancelling"):
    """The client asked the agent to stop. Only while a turn runs; updates continue until it ends."""


class TurnEnded(SessionEvent, tag="_accord/turn_ended"):
    """The turn ended, successfully or not.

    Exactly once for every `TurnStarted`, after the last update that preceded the agent's answer. Some
    agents send usage or a title even later. If the agent returned its text in the prompt result, that text
    comes before this event, as an `AgentMessageChunk`.
    """

    stop_reason: StopReason | None = None
    """The protocol's reason, for decisions; None if the turn failed, or for a reason that is not known."""
    raw_reason: str = ""
    """The reason as the agent sent it, to show or log. If the agent sends "tool_use", `stop_reason` is
    "end_turn"; if it sends "out_of_credits", `stop_reason` is None. Empty if the turn failed.
    """
    usage: Usage | None = None
    """The tokens that the agent counted, if it reports them."""
    error: Error | None = None
    """Set if the turn failed: the agent's error response, or how the connection ended."""


class MessageChanged(SessionEvent, tag="_accord/message_changed"):
    """A whole message. With an id it creates or replaces that message; without one it is a new message."""

    kind: MessageKind
    """Whose message it is."""
    message_id: str | None = None
    content: list[ContentBlock] | UnsetType | None = UNSET
    """The blocks of the whole message."""
    replaces: bool = False
    """Whether the agent replaces a message that it has sent before. Only version 2 can say that."""

    @property
    def text(self) -> str:
        """The text blocks of the message."""
        return text_of_blocks(self.content or ())


class ToolCallChanged(SessionEvent, tag="_accord/tool_call_changed"):
    """A tool call appeared or changed. Changes come in any order, even after the turn."""

    patch: ToolCallUpdate
    """What this change contained."""
    announce: bool = False
    """Whether the agent introduces the call. A late introduction overwrites nothing."""
    mark: Mark = ""
    """Set when a history is read back: how a call that never finished was marked."""
    call: ToolCallState = field(default_factory=lambda: ToolCallState(""))
    """The call right after this change; blank until `SessionState.apply` has processed it."""
    new: bool = False
    """Whether the state saw the call for the first time."""
    append: list[ToolCallContent] = []
    """Content that is added to the call's output, after the patch."""
    cancellable: bool | UnsetType = UNSET
    """Whether the agent stops this call alone on request (`tool_call/cancel`), if it said so."""

    @property
    def text(self) -> str:
        """The text blocks of the call's whole output so far."""
        return text_of_tool_content(self.call.content or self.patch.content or ())


class TerminalChanged(SessionEvent, tag="_accord/terminal_changed"):
    """A terminal of the agent appeared, printed or ended. Only version 2 has such terminals."""

    terminal_id: str
    command: str | UnsetType | None = UNSET
    cwd: str | UnsetType | None = UNSET
    output: str | UnsetType | None = UNSET
    """All output so far, base64 encoded."""
    append: str = ""
    """More output, base64 encoded. A character may be split between two events."""
    exit: TerminalExit | UnsetType | None = UNSET
    """How the command ended."""
    cancellable: bool | UnsetType = UNSET
    """Whether the agent stops the command on request (`terminal/cancel`), if it said so."""


class StateChanged(SessionEvent, tag="_accord/state_changed"):
    """The agent said what the session does. Only version 2 does; a turn has events of its own."""

    state: str
    """"running", "idle", "requires_action", or another word of the agent, which counts as busy."""
    background: list[BackgroundItem] | UnsetType = UNSET
    """What goes on while the session is idle, if the agent reports that."""
    stop_reason: str = ""
    """Why the work ended, if the agent says that. Only for "idle"."""
    error: Error | None = None
    """Set for the stop reason "error"."""
    usage: Usage | None = None
    """The tokens that the agent counted, if it reports them at the end of work."""


class PlanChanged(SessionEvent, tag="_accord/plan_changed"):
    """A plan was created, replaced or removed (`plan` is None).

    The single plan of version 1 has the id "".
    """

    plan_id: str
    plan: PlanBody | None
    """The whole plan, not a change to it."""

    @property
    def text(self) -> str:
        """The steps one per line, or the Markdown source; "" for a removed plan or a plan in a file."""
        return "" if self.plan is None else PlanState(self.plan_id, self.plan).text


class ModeChanged(SessionEvent, tag="_accord/mode_changed"):
    """The session changed its mode, on request of the client or by itself."""

    mode_id: str
    """The new mode, one of `SessionState.modes`."""


class PermissionAsked(SessionEvent, tag="_accord/permission_asked"):
    """The agent requests permission.

    The tool call may be new to the client. Several requests may be open at once.
    """

    permission_id: str
    """Identifies the request within the session; assigned by the side that reports it."""
    options: list[PermissionOption]
    """The answers that the agent offers."""
    tool_call: ToolCallUpdate | None = None
    """What the request said about the tool call."""
    call: ToolCallState | None = None
    """The tool call, updated by the request, once `SessionState.apply` has processed it."""


class PermissionAnswered(SessionEvent, tag="_accord/permission_answered"):
    """The decision was sent. Exactly once for every `PermissionAsked`."""

    permission_id: str
    """That of the `PermissionAsked`."""
    option: PermissionOption | None = None
    """The chosen option; None if the request was dismissed or the turn canceled."""


MessageChunk: TypeAlias = UserMessageChunk | AgentMessageChunk | AgentThoughtChunk
"""A part of a message of the user or the agent."""

Event: TypeAlias = (
    MessageChunk
    | MessageChanged
    | ToolCallChanged
    | TerminalChanged
    | StateChanged
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
"""Every event of a session."""

OWN_TAGS: Final = "_accord/"
"""How the tags of the types of this file begin."""


def own_event(update: Unknown) -> Event:
    """Return the event that another part of this program sent in place of an update."""
    from accord.schema.codec import convert

    return convert(_OwnEvent, {"event": update.raw}).event


_OwnEvent: Final[type[Any]] = defstruct(
    "_OwnEvent",
    [("event", cast(Any, Union)[tuple(kind for kind in get_args(Event) if issubclass(kind, SessionEvent))])],
)
_STOP_REASONS: Final[dict[str, StopReason]] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "max_turn_requests": "max_turn_requests",
    "refusal": "refusal",
    "cancelled": "cancelled",
}


def turn_ended(reason: str, usage: Usage | None = None) -> TurnEnded:
    """Return the end of a turn for this reason, which may be unknown."""
    return TurnEnded(_STOP_REASONS.get(reason), reason, usage)


def turn_failed(error: BaseException) -> TurnEnded:
    """Return the end of a turn whose prompt got an error or no answer."""
    if isinstance(error, RpcError):
        data = error.data if error.has_data else UNSET
        return TurnEnded(error=Error(code=error.code, message=error.message, data=data))
    return TurnEnded(error=Error(code=INTERNAL_ERROR, message=str(error) or type(error).__name__))


def text_of(item: Any) -> str:
    """Return the `.text` of a content block, tool content, an event, or a list of these; "" if there is none.

    Images, links and blocks with an embedded file have none.
    """
    if isinstance(item, list | tuple):
        return "".join([text_of(part) for part in cast(list[Any], item)])
    if isinstance(item, Content):
        item = item.content
    text = getattr(item, "text", "")
    return text if isinstance(text, str) else ""
