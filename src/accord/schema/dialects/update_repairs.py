"""Repairs of `session/update`: its envelope, its tag, and the body of each variant."""

from collections.abc import Callable
from typing import Any, Final, get_args

from accord.schema.dialects.content_repairs import repair_block, repair_tool_call
from accord.schema.dialects.json_members import (
    DialectRows,
    Object,
    fix_spelling,
    is_array,
    is_object,
    official_spelling,
    rename_key,
    rename_snake_keys,
    repair_member_items,
    text_block,
    union_tags,
)
from accord.schema.dialects.session_repairs import repair_config_option
from accord.schema.updates import PlanEntryPriority, PlanEntryStatus, SessionUpdate

UPDATE_TAGS: Final = union_tags(SessionUpdate)
CHUNK_TAGS: Final = frozenset(tag for tag in UPDATE_TAGS if tag.endswith("_chunk"))

# Class names of SDKs and early official tags whose snake_case form is not the tag itself.
_OTHER_TAGS: Final = {
    "tool_call_start": "tool_call",
    "tool_call_progress": "tool_call_update",
    "agent_plan_update": "plan",
    "user_message": "user_message_chunk",
    "agent_message": "agent_message_chunk",
    "agent_thought": "agent_thought_chunk",
}
_PRIORITIES: Final = frozenset(get_args(PlanEntryPriority))
_ENTRY_STATUSES: Final = frozenset(get_args(PlanEntryStatus))


def repair_session_update(params: Object, rows: DialectRows) -> list[Object]:
    """Convert the parameters to the official form. A chunk with several blocks becomes several (row 9)."""
    params = dict(params)
    rename_snake_keys(params, "sessionId", rows=rows)
    if "update" not in params:
        _nest_update(params, rows)
    update = params.get("update")
    if not is_object(update):
        return [params]
    update = dict(update)
    _repair_tag(update, rows)
    tag = update.get("sessionUpdate")
    if not isinstance(tag, str) or tag not in UPDATE_TAGS:
        return [params | {"update": update}]
    if tag in CHUNK_TAGS:
        return [params | {"update": chunk} for chunk in _repair_chunks(update, rows)]
    rename_snake_keys(update, *_CAMEL_KEYS.get(tag, ()), rows=rows)
    repair = _BODY_REPAIRS.get(tag)
    return [params | {"update": repair(update, rows) if repair else update}]


def _official_tag(tag: Any) -> str | None:
    """Return the official tag for another spelling; None if there is none."""
    if not isinstance(tag, str):
        return None
    if tag in UPDATE_TAGS:
        return tag
    official = official_spelling(tag, UPDATE_TAGS)
    if official is None:
        other = official_spelling(tag, _OTHER_TAGS) or tag
        official = _OTHER_TAGS.get(other)
    return official


def _nest_update(params: Object, rows: DialectRows) -> None:
    if any(key in params for key in ("sessionUpdate", "session_update")) or any(
        _official_tag(params.get(key)) for key in ("type", "kind")
    ):
        inner = {key: params.pop(key) for key in list(params) if key not in ("sessionId", "_meta")}
        params["update"] = inner
        rows.add(6)


def _repair_tag(update: Object, rows: DialectRows) -> None:
    rename_snake_keys(update, "sessionUpdate", rows=rows)
    for key, row in (("type", 7), ("kind", 73)):
        if "sessionUpdate" not in update and _official_tag(update.get(key)):
            rename_key(update, "sessionUpdate", key, row=row, rows=rows)
    tag = update.get("sessionUpdate")
    official = _official_tag(tag)
    if official is not None and official != tag:
        update["sessionUpdate"] = official
        rows.add(8)


def _repair_chunks(update: Object, rows: DialectRows) -> list[Object]:
    rename_snake_keys(update, "messageId", "compactionId", rows=rows)
    if "content" not in update and isinstance(update.get("text"), str):
        update["content"] = text_block(update.pop("text"))
        rows.add(9)
    content = update.get("content")
    if isinstance(content, str):
        rows.add(9)
        return [update | {"content": text_block(content)}]
    if is_object(content):
        return [update | {"content": repair_block(content, rows)}]
    if not is_array(content) or not content:
        return [update]
    rows.add(9)
    return [
        update
        | {
            "content": text_block(item)
            if isinstance(item, str)
            else repair_block(item, rows)
            if is_object(item)
            else item
        }
        for item in content
    ]


def _repair_new_tool_call(update: Object, rows: DialectRows) -> Object:
    return repair_tool_call(update, rows, is_new=True)


def _repair_plan(update: Object, rows: DialectRows) -> Object:
    repair_member_items(update, "entries", _repair_entry, rows)
    return update


def _repair_entry(entry: Object, rows: DialectRows) -> Object:
    entry = dict(entry)
    fix_spelling(entry, "priority", _PRIORITIES, rows)
    fix_spelling(entry, "status", _ENTRY_STATUSES, rows)
    return entry


def _repair_plan_update(update: Object, rows: DialectRows) -> Object:
    plan = update.get("plan")
    return (
        update | {"plan": _repair_plan(_repair_plan_removed(dict(plan), rows), rows)}
        if is_object(plan)
        else update
    )


def _repair_plan_removed(update: Object, rows: DialectRows) -> Object:
    rename_snake_keys(update, "planId", rows=rows)
    rename_key(update, "planId", "id", row=74, rows=rows)
    return update


def _repair_mode_update(update: Object, rows: DialectRows) -> Object:
    rename_key(update, "currentModeId", "modeId", "mode_id", row=101, rows=rows)
    return update


def _repair_config_update(update: Object, rows: DialectRows) -> Object:
    repair_member_items(update, "configOptions", repair_config_option, rows)
    return update


def _repair_compaction(update: Object, rows: DialectRows) -> Object:
    repair_member_items(update, "summary", repair_block, rows)
    return update


def _repair_message(update: Object, rows: DialectRows) -> Object:
    repair_member_items(update, "content", repair_block, rows)
    return update


_BODY_REPAIRS: Final[dict[str, Callable[[Object, DialectRows], Object]]] = {
    "tool_call": _repair_new_tool_call,
    "tool_call_update": repair_tool_call,
    "plan": _repair_plan,
    "plan_update": _repair_plan_update,
    "plan_removed": _repair_plan_removed,
    "current_mode_update": _repair_mode_update,
    "config_option_update": _repair_config_update,
    "compaction_update": _repair_compaction,
    "session_message": _repair_message,
}

# Keys that are also accepted in snake_case. `additionalDirectories` of a child session is not one of them: a
# repair never adds a directory.
_CAMEL_KEYS: Final = {
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
