"""Converts between protocol version 1 and the events of a session: the only place that knows how they
differ.

In version 1, null means "unchanged" in a patch of a tool call, a call is introduced by a separate message,
the plan has no id, and modes are separate from config options.
"""

from collections.abc import Callable
from typing import Any, cast

from msgspec import UnsetType, structs

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
from accord.session.history_items import V1_PLAN_ID, MessageKind


def event_of(update: SessionUpdate | Unknown) -> Event:
    """Return the event of an update; most updates are events themselves."""
    convert = EVENTS.get(type(update))
    return cast(Event, update) if convert is None else convert(update)


def session_opened_event(
    session_id: str,
    answer: NewSessionResponse | LoadSessionResponse | ResumeSessionResponse | ForkSessionResponse,
) -> SessionOpened:
    """Return the event for the answer to new, load, resume or fork."""
    return SessionOpened(
        session_id, modes=answer.modes, config_options=answer.config_options, node=node_in(answer.meta)
    )


def node_in(meta: dict[str, Any] | UnsetType | None) -> str | UnsetType:
    """The node of a cluster that has the session, in the `_meta` of an answer or update of a gateway."""
    node: Any = accord_meta(meta).get("node")
    return node if isinstance(node, str) else UNSET


def accord_meta(meta: dict[str, Any] | UnsetType | None) -> dict[str, Any]:
    """Accord's own members of a `_meta`."""
    members = meta.get("accord") if meta else None
    return cast("dict[str, Any]", members) if isinstance(members, dict) else {}


def permission_event(permission_id: str, request: RequestPermissionRequest) -> PermissionAsked:
    """Return the event for a permission request."""
    return PermissionAsked(permission_id, request.options, _without_nulls(request.tool_call))


def turn_ended_event(answer: PromptResponse) -> TurnEnded:
    """Return the event for the answer to a prompt."""
    reason = answer.stop_reason
    if isinstance(reason, Unknown):
        return turn_ended(reason.kind, answer.usage or None)
    return TurnEnded(reason, _original_reason(answer) or reason, answer.usage or None)


def _original_reason(answer: PromptResponse) -> str | None:
    if not answer.meta:
        return None
    from accord.schema.dialects.json_members import (
        stop_reason_as_sent,  # on first use: correct agents never need it
    )

    return stop_reason_as_sent(answer)


def updates_of(event: Event) -> list[SessionUpdate | Unknown]:
    """Return the updates that report an event to a peer; empty if updates cannot express it."""
    if isinstance(event, ToolCallChanged):
        return [_tool_call_update(event)]
    if isinstance(event, PlanChanged):
        return [_plan_update(event)]
    if isinstance(event, ModeChanged):
        return [CurrentModeUpdate(current_mode_id=event.mode_id)]
    if isinstance(event, MessageChanged):
        if event.replaces:
            return []
        chunk = _CHUNKS[event.kind]
        return [chunk(content=block, message_id=event.message_id or UNSET) for block in event.content or ()]
    if isinstance(event, TurnStarted):
        return [
            UserMessageChunk(content=block, message_id=event.message_id or UNSET) for block in event.prompt
        ]
    return [] if isinstance(event, SessionEvent) else [event]


def _announcement_event(update: ToolCall) -> ToolCallChanged:
    # Many agents send an empty list for "nothing yet": an announcement never clears a call.
    patch = ToolCallUpdate(
        tool_call_id=update.tool_call_id,
        title=update.title,
        kind=update.kind,
        status=update.status,
        name=update.name or UNSET,
        content=update.content or UNSET,
        locations=update.locations or UNSET,
        raw_input=_none_to_unset(update.raw_input),
        raw_output=_none_to_unset(update.raw_output),
        meta=update.meta or UNSET,
    )
    return ToolCallChanged(patch, announce=True)


def _change_event(update: ToolCallChange) -> ToolCallChanged:
    return ToolCallChanged(_without_nulls(update))


def _without_nulls(update: ToolCallUpdate) -> ToolCallUpdate:
    """Return the patch without nulls, which change nothing in version 1.

    Empty titles and names are removed too, because version 1 cannot clear them.
    """
    return ToolCallUpdate(
        tool_call_id=update.tool_call_id,
        title=update.title or UNSET,
        kind=_none_to_unset(update.kind),
        status=_none_to_unset(update.status),
        name=update.name or UNSET,
        content=_none_to_unset(update.content),
        locations=_none_to_unset(update.locations),
        raw_input=_none_to_unset(update.raw_input),
        raw_output=_none_to_unset(update.raw_output),
        meta=_none_to_unset(update.meta),
    )


def _none_to_unset(value: Any) -> Any:
    return UNSET if value is None else value


def _v1_plan_event(update: Plan) -> PlanChanged:
    return PlanChanged(V1_PLAN_ID, PlanItems(plan_id=V1_PLAN_ID, entries=update.entries, meta=update.meta))


def _plan_event(update: PlanUpdate) -> PlanChanged:
    return PlanChanged(update.plan.plan_id, update.plan)


def _plan_removed_event(update: PlanRemoved) -> PlanChanged:
    return PlanChanged(update.plan_id, None)


def _mode_event(update: CurrentModeUpdate) -> ModeChanged:
    return ModeChanged(update.current_mode_id)


EVENTS: dict[type, Callable[[Any], Event]] = {
    ToolCall: _announcement_event,
    ToolCallChange: _change_event,
    Plan: _v1_plan_event,
    PlanUpdate: _plan_event,
    PlanRemoved: _plan_removed_event,
    CurrentModeUpdate: _mode_event,
}
"""Converters for the updates that are not events themselves."""

_CHUNKS: dict[MessageKind, type[UserMessageChunk] | type[AgentMessageChunk] | type[AgentThoughtChunk]] = {
    "user": UserMessageChunk,
    "agent": AgentMessageChunk,
    "thought": AgentThoughtChunk,
}


def _tool_call_update(event: ToolCallChanged) -> ToolCall | ToolCallChange:
    known = bool(event.call.tool_call_id) and not event.new
    # The effect of announcing a known call depends on its earlier state: send the result.
    patch = event.call.to_update() if known and event.announce else event.patch
    if event.append:  # lists can only be replaced here
        content = event.call.content if known else [*(patch.content or ()), *event.append]
        patch = structs.replace(patch, content=content)
    if event.mark == "cancelled" and patch.status != "completed":
        patch = structs.replace(patch, status="failed")
    # Null means "unchanged" here: an empty list clears a list, and a scalar cannot be cleared.
    change = ToolCallChange(
        tool_call_id=patch.tool_call_id,
        title=patch.title or UNSET,
        kind=patch.kind or UNSET,
        status=patch.status or UNSET,
        name=patch.name or UNSET,
        content=[] if patch.content is None else patch.content,
        locations=[] if patch.locations is None else patch.locations,
        raw_input=_none_to_unset(patch.raw_input),
        raw_output=_none_to_unset(patch.raw_output),
        meta=patch.meta or UNSET,
    )
    if known or not (event.announce or event.new):
        return change
    members = structs.asdict(change)
    members["title"] = patch.title or event.call.label or patch.tool_call_id
    return ToolCall(**members)


def _plan_update(event: PlanChanged) -> Plan | PlanUpdate | PlanRemoved:
    plan = event.plan
    if event.plan_id != V1_PLAN_ID:
        return PlanRemoved(plan_id=event.plan_id) if plan is None else PlanUpdate(plan=plan)
    return Plan(entries=plan.entries if isinstance(plan, PlanItems) else [])
