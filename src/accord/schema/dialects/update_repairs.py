"""Repairs of `session/update`: its envelope, its tag, and the body of each variant."""

from collections.abc import Callable
from typing import Any, Final

from accord.schema.dialects.content_repairs import block, tool_call
from accord.schema.dialects.json_members import (
    DialectRows,
    Object,
    each_in,
    is_array,
    is_object,
    move,
    spell,
    spelled,
    text_block,
    twins,
)
from accord.schema.dialects.session_repairs import config_option

CHUNK_TAGS: Final = frozenset(
    (
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "compaction_summary_chunk",
        "session_message_chunk",
    )
)
TAGS: Final = CHUNK_TAGS | {
    "tool_call",
    "tool_call_update",
    "plan",
    "plan_update",
    "plan_removed",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
    "notice",
    "compaction_update",
    "subagent_update",
    "session_message",
}

# Class names of SDKs and early official tags whose snake_case form is not the tag itself.
_OTHER_TAGS: Final = {
    "tool_call_start": "tool_call",
    "tool_call_progress": "tool_call_update",
    "agent_plan_update": "plan",
    "user_message": "user_message_chunk",
    "agent_message": "agent_message_chunk",
    "agent_thought": "agent_thought_chunk",
}
_PRIORITIES: Final = frozenset(("high", "medium", "low"))
_ENTRY_STATUSES: Final = frozenset(("pending", "in_progress", "completed"))


def session_update(params: Object, rows: DialectRows) -> list[Object]:
    """The parameters in official shape; several where one chunk carried several blocks (row 9)."""
    params = dict(params)
    twins(params, "sessionId", rows=rows)
    if "update" not in params:
        _nest(params, rows)
    update = params.get("update")
    if not is_object(update):
        return [params]
    update = dict(update)
    _tag(update, rows)
    tag = update.get("sessionUpdate")
    if not isinstance(tag, str) or tag not in TAGS:
        return [params | {"update": update}]
    if tag in CHUNK_TAGS:
        return [params | {"update": chunk} for chunk in _chunks(update, rows)]
    twins(update, *_KEYS.get(tag, ()), rows=rows)
    body = _BODIES.get(tag)
    return [params | {"update": body(update, rows) if body else update}]


def _known(tag: Any) -> str | None:
    """The official tag meant by this one."""
    if not isinstance(tag, str):
        return None
    if tag in TAGS:
        return tag
    word = spelled(tag, TAGS)
    if word is None:
        other = spelled(tag, _OTHER_TAGS) or tag
        word = _OTHER_TAGS.get(other)
    return word


def _nest(params: Object, rows: DialectRows) -> None:
    if any(key in params for key in ("sessionUpdate", "session_update")) or any(
        _known(params.get(key)) for key in ("type", "kind")
    ):
        inner = {key: params.pop(key) for key in list(params) if key not in ("sessionId", "_meta")}
        params["update"] = inner
        rows.add(6)


def _tag(update: Object, rows: DialectRows) -> None:
    twins(update, "sessionUpdate", rows=rows)
    for key, row in (("type", 7), ("kind", 73)):
        if "sessionUpdate" not in update and _known(update.get(key)):
            move(update, "sessionUpdate", key, row=row, rows=rows)
    tag = update.get("sessionUpdate")
    word = _known(tag)
    if word is not None and word != tag:
        update["sessionUpdate"] = word
        rows.add(8)


def _chunks(update: Object, rows: DialectRows) -> list[Object]:
    twins(update, "messageId", "compactionId", rows=rows)
    if "content" not in update and isinstance(update.get("text"), str):
        update["content"] = text_block(update.pop("text"))
        rows.add(9)
    content = update.get("content")
    if isinstance(content, str):
        rows.add(9)
        return [update | {"content": text_block(content)}]
    if is_object(content):
        return [update | {"content": block(content, rows)}]
    if not is_array(content) or not content:
        return [update]
    rows.add(9)
    return [
        update
        | {
            "content": text_block(item)
            if isinstance(item, str)
            else block(item, rows)
            if is_object(item)
            else item
        }
        for item in content
    ]


def _created(update: Object, rows: DialectRows) -> Object:
    return tool_call(update, rows, creates=True)


def _plan(update: Object, rows: DialectRows) -> Object:
    each_in(update, "entries", _entry, rows)
    return update


def _entry(entry: Object, rows: DialectRows) -> Object:
    entry = dict(entry)
    spell(entry, "priority", _PRIORITIES, rows)
    spell(entry, "status", _ENTRY_STATUSES, rows)
    return entry


def _plan_update(update: Object, rows: DialectRows) -> Object:
    plan = update.get("plan")
    return update | {"plan": _plan(_plan_removed(dict(plan), rows), rows)} if is_object(plan) else update


def _plan_removed(update: Object, rows: DialectRows) -> Object:
    twins(update, "planId", rows=rows)
    move(update, "planId", "id", row=74, rows=rows)
    return update


def _mode(update: Object, rows: DialectRows) -> Object:
    move(update, "currentModeId", "modeId", "mode_id", row=101, rows=rows)
    return update


def _config(update: Object, rows: DialectRows) -> Object:
    each_in(update, "configOptions", config_option, rows)
    return update


def _compaction(update: Object, rows: DialectRows) -> Object:
    each_in(update, "summary", block, rows)
    return update


def _message(update: Object, rows: DialectRows) -> Object:
    each_in(update, "content", block, rows)
    return update


_BODIES: Final[dict[str, Callable[[Object, DialectRows], Object]]] = {
    "tool_call": _created,
    "tool_call_update": tool_call,
    "plan": _plan,
    "plan_update": _plan_update,
    "plan_removed": _plan_removed,
    "current_mode_update": _mode,
    "config_option_update": _config,
    "compaction_update": _compaction,
    "session_message": _message,
}

# Keys with a snake_case twin. A child's `additionalDirectories` is not among them: leniency never adds a
# root.
_KEYS: Final = {
    "available_commands_update": ("availableCommands",),
    "current_mode_update": ("currentModeId",),
    "config_option_update": ("configOptions",),
    "session_info_update": ("updatedAt",),
    "compaction_update": ("compactionId",),
    "subagent_update": ("sessionId",),
    "session_message": (
        "messageId",
        "senderSessionId",
        "recipientSessionId",
        "senderMessageId",
        "recipientMessageId",
    ),
}
