"""Version 1 of the protocol and the events of a session: the one place that knows how they differ.

In version 1 null means "unchanged" in a tool call's patch, a call is introduced by a message of its own, the plan has no
id, and modes are apart from config options.
"""

from collections.abc import Callable
from typing import Any, cast

from msgspec import structs

from accord.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    CurrentModeUpdate,
    ForkSessionResponse,
    LoadSessionResponse,
    NewSessionResponse,
    Plan,
    PlanItems,
    PlanRemoved,
    PlanUpdate,
    PromptResponse,
    RequestPermissionRequest,
    ResumeSessionResponse,
    SessionUpdate,
    ToolCall,
    ToolCallChange,
    ToolCallUpdate,
    Unknown,
    UserMessageChunk,
)
from accord.session.events import (
    Event,
    MessageChanged,
    ModeChanged,
    PermissionAsked,
    PlanChanged,
    SessionEvent,
    SessionOpened,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
    turn_ended,
)
from accord.session.history_items import THE_PLAN, MessageKind


def event_of(update: SessionUpdate | Unknown) -> Event:
    """The event that an update stands for; most updates are events already."""
    convert = EVENTS.get(type(update))
    return cast(Event, update) if convert is None else convert(update)


def opened(
    session_id: str,
    answer: NewSessionResponse | LoadSessionResponse | ResumeSessionResponse | ForkSessionResponse,
) -> SessionOpened:
    """The event for the answer to new, load, resume or fork."""
    return SessionOpened(session_id, modes=answer.modes, config_options=answer.config_options)


def permission_asked(permission_id: str, request: RequestPermissionRequest) -> PermissionAsked:
    """The event for a permission request."""
    return PermissionAsked(permission_id, request.options, _patch(request.tool_call))


def prompt_answered(answer: PromptResponse) -> TurnEnded:
    """The event for the answer to a prompt."""
    reason = answer.stop_reason
    if isinstance(reason, Unknown):
        return turn_ended(reason.kind, answer.usage or None)
    return TurnEnded(reason, _reason_as_sent(answer) or reason, answer.usage or None)


def _reason_as_sent(answer: PromptResponse) -> str | None:
    if not answer.meta:
        return None
    from accord.schema.dialects.json_members import (
        stop_reason_as_sent,  # on first use: correct agents never need it
    )

    return stop_reason_as_sent(answer)


def updates_of(event: Event) -> list[SessionUpdate | Unknown]:
    """The updates that tell another peer of an event, live or as history; none for what updates cannot say."""
    if isinstance(event, ToolCallChanged):
        return [_tool_call_out(event)]
    if isinstance(event, PlanChanged):
        return [_plan_out(event)]
    if isinstance(event, ModeChanged):
        return [CurrentModeUpdate(current_mode_id=event.mode_id)]
    if isinstance(event, MessageChanged):
        chunk = _CHUNKS[event.kind]
        return [chunk(content=block, message_id=event.message_id or UNSET) for block in event.content or ()]
    if isinstance(event, TurnStarted):
        return [UserMessageChunk(content=block) for block in event.prompt]
    return [] if isinstance(event, SessionEvent) else [event]


def _announced(update: ToolCall) -> ToolCallChanged:
    # An empty list is what many agents write for "nothing yet": an announcement never empties a call.
    patch = ToolCallUpdate(
        tool_call_id=update.tool_call_id,
        title=update.title,
        kind=update.kind,
        status=update.status,
        name=update.name or UNSET,
        content=update.content or UNSET,
        locations=update.locations or UNSET,
        raw_input=_some(update.raw_input),
        raw_output=_some(update.raw_output),
        meta=update.meta or UNSET,
    )
    return ToolCallChanged(patch, announce=True)


def _patched(update: ToolCallChange) -> ToolCallChanged:
    return ToolCallChanged(_patch(update))


def _patch(update: ToolCallUpdate) -> ToolCallUpdate:
    """The same patch where null, which changes nothing in version 1, is left out; so is an empty title or name, since
    version 1 clears neither.
    """
    return ToolCallUpdate(
        tool_call_id=update.tool_call_id,
        title=update.title or UNSET,
        kind=_some(update.kind),
        status=_some(update.status),
        name=update.name or UNSET,
        content=_some(update.content),
        locations=_some(update.locations),
        raw_input=_some(update.raw_input),
        raw_output=_some(update.raw_output),
        meta=_some(update.meta),
    )


def _some(value: Any) -> Any:
    return UNSET if value is None else value


def _the_plan(update: Plan) -> PlanChanged:
    return PlanChanged(THE_PLAN, PlanItems(plan_id=THE_PLAN, entries=update.entries, meta=update.meta))


def _plan(update: PlanUpdate) -> PlanChanged:
    return PlanChanged(update.plan.plan_id, update.plan)


def _plan_removed(update: PlanRemoved) -> PlanChanged:
    return PlanChanged(update.plan_id, None)


def _mode(update: CurrentModeUpdate) -> ModeChanged:
    return ModeChanged(update.current_mode_id)


EVENTS: dict[type, Callable[[Any], Event]] = {
    ToolCall: _announced,
    ToolCallChange: _patched,
    Plan: _the_plan,
    PlanUpdate: _plan,
    PlanRemoved: _plan_removed,
    CurrentModeUpdate: _mode,
}
"""How to convert the updates that are not events themselves."""

_CHUNKS: dict[MessageKind, type[UserMessageChunk] | type[AgentMessageChunk] | type[AgentThoughtChunk]] = {
    "user": UserMessageChunk,
    "agent": AgentMessageChunk,
    "thought": AgentThoughtChunk,
}


def _tool_call_out(event: ToolCallChanged) -> ToolCall | ToolCallChange:
    known = bool(event.call.tool_call_id) and not event.new
    # What an announcement of a known call changed depends on what came before it: tell what came out of it.
    patch = event.call.whole() if known and event.announce else event.patch
    # Null would say "unchanged" here: a list is emptied by an empty one, and a scalar cannot be cleared at all.
    change = ToolCallChange(
        tool_call_id=patch.tool_call_id,
        title=patch.title or UNSET,
        kind=patch.kind or UNSET,
        status=patch.status or UNSET,
        name=patch.name or UNSET,
        content=[] if patch.content is None else patch.content,
        locations=[] if patch.locations is None else patch.locations,
        raw_input=_some(patch.raw_input),
        raw_output=_some(patch.raw_output),
        meta=patch.meta or UNSET,
    )
    if known or not (event.announce or event.new):
        return change
    members = structs.asdict(change)
    members["title"] = patch.title or event.call.label or patch.tool_call_id
    return ToolCall(**members)


def _plan_out(event: PlanChanged) -> Plan | PlanUpdate | PlanRemoved:
    plan = event.plan
    if event.plan_id != THE_PLAN:
        return PlanRemoved(plan_id=event.plan_id) if plan is None else PlanUpdate(plan=plan)
    return Plan(entries=plan.entries if isinstance(plan, PlanItems) else [])
