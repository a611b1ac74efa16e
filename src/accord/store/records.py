"""The records of a session log, and the events that close an interrupted turn.

The log holds events, never the wire types of one protocol version. A record holds only what the event itself
says: the state of a tool call results from applying all events. Events that this version does not know are
kept unchanged.

Imported on first use.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from re import compile as pattern
from typing import Any, Final, NamedTuple, Union, cast, get_args

from msgspec import MsgspecError, Raw, Struct, structs

from accord.errors import INTERNAL_ERROR, StoreError, UsageError
from accord.schema import (
    CompactionUpdate,
    Content,
    Error,
    Notice,
    RequiresActionStateUpdate,
    RunningStateUpdate,
    SessionUpdate,
    SubagentUpdate,
    TextContent,
    ToolCallContent,
    ToolCallUpdate,
    Unknown,
    UnknownStateUpdate,
    UnsetType,
)
from accord.schema.base import UNSET, Kept, Mismatch
from accord.schema.codec import DECODE_ERRORS, NotJson, decode, decoder, encode, parse_json
from accord.session import (
    Event,
    Mark,
    PermissionAnswered,
    PermissionAsked,
    ReplayEnded,
    ReplayStarted,
    SessionEvent,
    SessionState,
    StateChanged,
    TerminalChanged,
    TerminalExit,
    ToolCallChanged,
    ToolCallState,
    TurnEnded,
    turn_ended,
)
from accord.session.protocol_v1 import EVENTS

EVENT: Final = "event"
"""The kind of a record that holds an event of `accord.session`."""

SESSION: Final = "session"
"""The kind of a record that holds the folder, title or archived state of a session, for the session list."""

_KIND: Final = pattern(r"[a-z][a-z0-9_./-]{0,63}")


class LogRecord(Struct, frozen=True, gc=False):
    """One record. Sequence numbers start at 1 and have no gaps; `time` is in microseconds since 1970."""

    seq: int
    time: int
    kind: str
    data: bytes
    """The payload, as JSON."""

    @property
    def value(self) -> Any:
        """The payload as plain values."""
        return parse_json(self.data)

    @property
    def event(self) -> Event:
        """The payload as an event. Raises UsageError unless the kind is `EVENT`."""
        if self.kind != EVENT:
            raise UsageError(f"record {self.seq} is not an event but {self.kind!r}; read its `value`")
        return decode_event(self.data)


class RecordGroup(NamedTuple):
    """Records of one kind that were committed together. `data` is the JSON array of their payloads."""

    first: int
    length: int
    time: int
    kind: str
    data: bytes


class _ToolCallChange(SessionEvent, tag="_accord/tool_call_changed"):
    """The stored part of a `ToolCallChanged`."""

    patch: ToolCallUpdate
    announce: bool = False
    mark: Mark = ""
    append: list[ToolCallContent] = []
    cancellable: bool | UnsetType = UNSET


def _require_object(event: Unknown) -> Unknown:
    if not isinstance(event.raw, dict):
        raise UsageError(f"an event is a JSON object, not {event.raw!r}")
    return event


_TO_EVENT: Final[dict[type, Callable[[Any], Event | None]]] = {
    **EVENTS,
    Notice: lambda notice: None,
    StateChanged: lambda state: None,
}
_STORED_FORMS: Final[dict[type, Callable[[Any], Any]]] = {
    ToolCallChanged: lambda event: _ToolCallChange(
        event.patch, event.announce, event.mark, event.append, event.cancellable
    ),
    PermissionAsked: lambda event: structs.replace(event, call=None),
    Unknown: _require_object,
}
_KNOWN_EVENT: Final[Any] = Kept[
    cast(Any, Union)[tuple(kind for kind in get_args(Event) if kind is not Unknown)]
]
_EVENT_LIST: Final = list[_KNOWN_EVENT]
_PAYLOADS: Final = list[Raw]


def is_logged_unchanged(kind: type) -> bool:
    """Whether items of this type are events, and their payload is the item itself."""
    return kind not in _TO_EVENT and kind not in _STORED_FORMS


def as_event(item: Event | SessionUpdate) -> Event | None:
    """The event to log for an update; None for a notice, which is not part of the history."""
    convert = _TO_EVENT.get(type(item))
    return cast(Event, item) if convert is None else convert(item)


def event_payload(event: Event) -> bytes:
    stored_form = _STORED_FORMS.get(type(event))
    return encode(event if stored_form is None else stored_form(event))


def value_payload(kind: str, value: Any) -> bytes:
    """The payload of a record of an application's own kind."""
    if kind in (EVENT, SESSION) or _KIND.fullmatch(kind) is None:
        raise UsageError(
            f"{kind!r} cannot name records of your own: lower-case letters, digits and any of _ . / - "
            f"(not {EVENT!r} or {SESSION!r})"
        )
    return encode(value)


def decode_event(data: bytes) -> Event:
    """The event of a payload. A known event whose members do not fit becomes an `Unknown`."""
    try:
        return decode(_KNOWN_EVENT, data)
    except Mismatch as mismatch:
        value = _parse_or_none(data)
        if not isinstance(value, dict):
            raise StoreError(f"a record of the session log is not an event: {mismatch}") from None
        return Unknown(str(cast(dict[str, Any], value).get("sessionUpdate", "")), value)


def records_in(page: list[RecordGroup], first: int, last: int) -> list[LogRecord]:
    """The records of consecutive groups, from one sequence number to another."""
    payloads = iter(payloads_in(page))
    return [
        LogRecord(seq, group.time, group.kind, bytes(next(payloads)))
        for group in page
        for seq in range(group.first, group.first + group.length)
    ][max(first - page[0].first, 0) : last - page[0].first + 1]


def events_in(page: list[RecordGroup], first: int, last: int) -> list[Event]:
    """The events of consecutive groups, from one sequence number to another, in one decoding: most groups are
    short."""
    groups = [group for group in page if group.kind == EVENT]
    if not groups:
        return []
    try:
        events = decoder(_EVENT_LIST).decode(_joined_array(groups))
    except DECODE_ERRORS:
        events = [decode_event(bytes(payload)) for payload in payloads_in(groups)]
    beyond = groups[-1].first + groups[-1].length - 1 - last
    return events[max(first - groups[0].first, 0) : len(events) - max(beyond, 0)]


def payloads_in(groups: list[RecordGroup]) -> list[Raw]:
    payloads: list[Raw] = []
    with suppress(MsgspecError, UnicodeDecodeError):
        payloads = decoder(_PAYLOADS).decode(_joined_array(groups))
    if len(payloads) != sum([group.length for group in groups]):
        raise StoreError(f"the session log is damaged after record {groups[0].first - 1} and cannot be read")
    return payloads


def _joined_array(groups: list[RecordGroup]) -> bytes:
    return (
        groups[0].data
        if len(groups) == 1
        else b"[" + b",".join([group.data[1:-1] for group in groups]) + b"]"
    )


def json_array(payloads: list[bytes] | list[Raw]) -> bytes:
    """The JSON array of some payloads."""
    return b"[" + b",".join(payloads) + b"]"


def _parse_or_none(data: bytes) -> Any:
    try:
        return parse_json(data)
    except NotJson:
        return None


INTERRUPTED: Final = "interrupted"
"""The raw stop reason of a turn that the agent never ended."""

_TURN_INTERRUPTED: Final = "The turn was interrupted: the agent stopped before it was done."
_CALL_INTERRUPTED: Final = "Interrupted: the agent stopped before this was done, and its result is unknown."
_CALL_CANCELLED: Final = "Cancelled before it was done."
_COMPACTION_INTERRUPTED: Final = "Interrupted: the agent stopped before it was done."


class ResumedSession(NamedTuple):
    """The state of a session that is opened again, and the events that close its interrupted turn."""

    state: SessionState
    """With the closing events applied."""
    closing: list[Event]
    """The events to append to the log; empty if nothing was left open."""


def repair(events: Iterable[Event]) -> ResumedSession:
    """The state of a session that is opened again.

    A killed process ends no turn and finishes no tool call. The next process that opens the session appends
    the closing events to the log first, so that all readers agree that the turn is over. Repairing twice adds
    nothing. The agent itself repairs the model history.
    """
    state = SessionState()
    for event in events:
        state.apply(event)
    closing = unfinished(state)
    for event in closing:
        state.apply(event)
    return ResumedSession(state, closing)


def unfinished(state: SessionState) -> list[Event]:
    """The events that close everything still open in a session without a running turn."""
    closing: list[Event] = []
    if state.history_before_replay is not None:
        # A replay was interrupted: the history before it is valid again, unless it was empty.
        before = state.history_before_replay.events()
        closing += [ReplayStarted(), *before, ReplayEnded()] if before else [ReplayEnded()]
        history = state.history_before_replay if before else state.history
    else:
        history = state.history
    closing += [PermissionAnswered(permission_id) for permission_id in state.permissions]
    closing += [_failed_call(call) for call in history.tool_calls.values() if not call.finished]
    closing += [
        CompactionUpdate(
            compaction_id=compaction.compaction_id, status="failed", error=_COMPACTION_INTERRUPTED
        )
        for compaction in history.compactions.values()
        if compaction.status == "in_progress"
    ]
    closing += [
        SubagentUpdate(session_id=child.session_id, state=UnknownStateUpdate())
        for child in history.subagents.values()
        if isinstance(child.state, RunningStateUpdate | RequiresActionStateUpdate)
    ]
    closing += [
        TerminalChanged(terminal.terminal_id, exit=TerminalExit(), cancellable=False)
        for terminal in state.terminals.values()
        if terminal.exit is None
    ]
    if state.turn == "cancelling":
        closing.append(turn_ended("cancelled"))
    elif state.turn == "running":
        closing.append(
            TurnEnded(raw_reason=INTERRUPTED, error=Error(code=INTERNAL_ERROR, message=_TURN_INTERRUPTED))
        )
    return closing


def _failed_call(call: ToolCallState) -> ToolCallChanged:
    explanation = Content(content=TextContent(text=_CALL_CANCELLED if call.cancelled else _CALL_INTERRUPTED))
    return ToolCallChanged(
        ToolCallUpdate(tool_call_id=call.tool_call_id, status="failed", content=[*call.content, explanation]),
        cancellable=False if call.cancellable else UNSET,
    )
