"""The records of a session log, and the events that close an interrupted turn.

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
    ToolCallUpdate,
    Unknown,
    UnknownStateUpdate,
)
from accord.schema.base import Kept, Mismatch
from accord.schema.codec import UNFIT, NotJson, decode, decoder, encode, parse_json
from accord.session import (
    Event,
    Mark,
    PermissionAnswered,
    PermissionAsked,
    ReplayEnded,
    ReplayStarted,
    SessionEvent,
    SessionState,
    ToolCallChanged,
    ToolCallState,
    TurnEnded,
    turn_ended,
)
from accord.session.protocol_v1 import EVENTS

# MERGED store.records: The records of a session log: what is written for an event, and how it is read back.
#
# The log holds events, never the wire types of one protocol version, and of an event only what it said itself: the state of
# a tool call after a change comes back by applying the events. An event that this version does not know is kept as it is.

EVENT: Final = "event"
"""The kind of a record that holds an event of `accord.session`."""

SESSION: Final = "session"
"""The kind of a record by which the store itself notes what the list shows: folder, title, archived."""

_KIND: Final = pattern(r"[a-z][a-z0-9_./-]{0,63}")


class LogRecord(Struct, frozen=True, gc=False):
    """One record. Sequence numbers begin with 1 and have no gaps; `time` is in microseconds since 1970."""

    seq: int
    time: int
    kind: str
    data: bytes
    """The payload, as JSON."""

    @property
    def value(self) -> Any:
        """The payload in plain values."""
        return parse_json(self.data)

    @property
    def event(self) -> Event:
        """The payload as an event; only where the kind is `EVENT`."""
        if self.kind != EVENT:
            raise UsageError(f"record {self.seq} is no event but {self.kind!r}: read its `value`")
        return event_of(self.data)


class RecordGroup(NamedTuple):
    """Records that were committed together and are of one kind: the payloads lie in one JSON array."""

    first: int
    length: int
    time: int
    kind: str
    data: bytes


class _ToolCallChange(SessionEvent, tag="_accord/tool_call_changed"):
    """What of a tool call's change is written."""

    patch: ToolCallUpdate
    announce: bool = False
    mark: Mark = ""


def _object(event: Unknown) -> Unknown:
    if not isinstance(event.raw, dict):
        raise UsageError(f"an event is a JSON object, not {event.raw!r}")
    return event


_CONVERT: Final[dict[type, Callable[[Any], Event | None]]] = {**EVENTS, Notice: lambda notice: None}
_LEAN: Final[dict[type, Callable[[Any], Any]]] = {
    ToolCallChanged: lambda event: _ToolCallChange(event.patch, event.announce, event.mark),
    PermissionAsked: lambda event: structs.replace(event, call=None),
    Unknown: _object,
}
_KNOWN: Final[Any] = Kept[cast(Any, Union)[tuple(kind for kind in get_args(Event) if kind is not Unknown)]]
_ROW: Final = list[_KNOWN]
_RAWS: Final = list[Raw]


def as_event(item: Event | SessionUpdate) -> Event | None:
    """The event to log for what was told; None for a notice, which is of the moment and no part of the history."""
    convert = _CONVERT.get(type(item))
    return cast(Event, item) if convert is None else convert(item)


def payload_of(event: Event) -> bytes:
    """What is written for an event."""
    lean = _LEAN.get(type(event))
    return encode(event if lean is None else lean(event))


def payload_of_value(kind: str, value: Any) -> bytes:
    """What is written for a record of the application's own kind."""
    if kind in (EVENT, SESSION) or _KIND.fullmatch(kind) is None:
        raise UsageError(
            f"{kind!r} cannot name records of your own: lower-case letters, digits and any of _ . / - "
            f"(not {EVENT!r} or {SESSION!r})"
        )
    return encode(value)


def event_of(data: bytes) -> Event:
    """The event of a payload. A known one of a shape that does not fit here is kept as `Unknown`, too."""
    try:
        return decode(_KNOWN, data)
    except Mismatch as mismatch:
        value = _parsed(data)
        if not isinstance(value, dict):
            raise StoreError(f"a record of the session log is no event: {mismatch}") from None
        return Unknown(str(cast(dict[str, Any], value).get("sessionUpdate", "")), value)


def records_in(page: list[RecordGroup], first: int, last: int) -> list[LogRecord]:
    """The records of consecutive runs, from one sequence number to another."""
    raws = iter(raws_in(page))
    return [
        LogRecord(seq, run.time, run.kind, bytes(next(raws)))
        for run in page
        for seq in range(run.first, run.first + run.length)
    ][max(first - page[0].first, 0) : last - page[0].first + 1]


def events_in(page: list[RecordGroup], first: int, last: int) -> list[Event]:
    """The events of consecutive runs, from one sequence number to another. One decoding for all: most runs are short."""
    runs = [run for run in page if run.kind == EVENT]
    if not runs:
        return []
    try:
        events = decoder(_ROW).decode(_joined(runs))
    except UNFIT:
        events = [event_of(bytes(raw)) for raw in raws_in(runs)]
    beyond = runs[-1].first + runs[-1].length - 1 - last
    return events[max(first - runs[0].first, 0) : len(events) - max(beyond, 0)]


def raws_in(runs: list[RecordGroup]) -> list[Raw]:
    """The payloads of runs."""
    raws: list[Raw] = []
    with suppress(MsgspecError, UnicodeDecodeError):
        raws = decoder(_RAWS).decode(_joined(runs))
    if len(raws) != sum([run.length for run in runs]):
        raise StoreError(f"the session log is damaged behind record {runs[0].first - 1}: it cannot be read")
    return raws


def _joined(runs: list[RecordGroup]) -> bytes:
    return runs[0].data if len(runs) == 1 else b"[" + b",".join([run.data[1:-1] for run in runs]) + b"]"


def array_of(payloads: list[bytes] | list[Raw]) -> bytes:
    """The JSON array of some payloads."""
    return b"[" + b",".join([bytes(payload) for payload in payloads]) + b"]"


def _parsed(data: bytes) -> Any:
    try:
        return parse_json(data)
    except NotJson:
        return None


# MERGED store.repairing: What an interrupted turn left open, and the events that close it.
#
# A process that is killed ends no turn and finishes no tool call. Whoever takes the session up again appends these events to its
# log first, so that every reading of the log agrees: the turn is over, and what did not finish says so. The model's own history is
# for the agent to repair.

INTERRUPTED: Final = "interrupted"
"""The raw reason of a turn that was never ended by the agent."""

_TURN: Final = "The turn was interrupted: the agent stopped before it was done."
_CALL: Final = "Interrupted: the agent stopped before this was done, and its result is unknown."
_CANCELLED: Final = "Cancelled before it was done."
_COMPACTION: Final = "Interrupted: the agent stopped before it was done."


class ResumedSession(NamedTuple):
    """A session taken up again."""

    state: SessionState
    """With the closing events applied."""
    closing: list[Event]
    """What to append to the log; empty if nothing was left open."""


def repair(events: Iterable[Event]) -> ResumedSession:
    """The state that the events of a log add up to, and what closes it. Repairing twice adds nothing."""
    state = SessionState()
    for event in events:
        state.apply(event)
    closing = unfinished(state)
    for event in closing:
        state.apply(event)
    return ResumedSession(state, closing)


def unfinished(state: SessionState) -> list[Event]:
    """The events that close what is open in a session nobody works on any more."""
    closing: list[Event] = []
    if state.set_aside is not None:
        # A replay broke off: what was known before it counts again, unless that was nothing.
        before = state.set_aside.events()
        closing += [ReplayStarted(), *before, ReplayEnded()] if before else [ReplayEnded()]
        history = state.set_aside if before else state.history
    else:
        history = state.history
    closing += [PermissionAnswered(permission_id) for permission_id in state.permissions]
    closing += [_closed(call) for call in history.tool_calls.values() if not call.finished]
    closing += [
        CompactionUpdate(compaction_id=one.compaction_id, status="failed", error=_COMPACTION)
        for one in history.compactions.values()
        if one.status == "in_progress"
    ]
    closing += [
        SubagentUpdate(session_id=child.session_id, state=UnknownStateUpdate())
        for child in history.subagents.values()
        if isinstance(child.state, RunningStateUpdate | RequiresActionStateUpdate)
    ]
    if state.turn == "cancelling":
        closing.append(turn_ended("cancelled"))
    elif state.turn == "running":
        closing.append(TurnEnded(raw_reason=INTERRUPTED, error=Error(code=INTERNAL_ERROR, message=_TURN)))
    return closing


def _closed(call: ToolCallState) -> ToolCallChanged:
    note = Content(content=TextContent(text=_CANCELLED if call.cancelled else _CALL))
    return ToolCallChanged(
        ToolCallUpdate(tool_call_id=call.tool_call_id, status="failed", content=[*call.content, note])
    )
