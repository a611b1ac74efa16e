"""Repairs of tool calls and of the permission requests that name them."""

import hashlib
import json
from typing import Any, Final

from accord.schema.dialects.content import has_diff, rename_label, tool_content
from accord.schema.dialects.members import (
    Object,
    Rows,
    each_in,
    is_object,
    mark,
    move,
    spell,
    spelled,
    text_block,
    twins,
)
from accord.schema.dialects.provenance import DISPLAY_KIND, KIND_AS_SENT, OPTION_KINDS, TOOL_KINDS

_STATUSES: Final = frozenset(("pending", "in_progress", "completed", "failed"))
_OPTION_NAMES: Final = {
    "allow_once": "Allow once",
    "allow_always": "Allow always",
    "reject_once": "Reject once",
    "reject_always": "Reject always",
}


def tool_call(call: Object, rows: Rows, *, creates: bool = False) -> Object:
    """A tool call or a patch of one, with its official members (rows 11-14, 16, 73, 102, 109)."""
    call = dict(call)
    rename_label(call, "title", rows)
    twins(call, "toolCallId", rows=rows)
    if move(call, "toolCallId", "id", row=11, rows=rows):
        creates = True
    _name(call, creates, rows)
    move(call, "rawInput", "raw_input", "input", row=14, rows=rows)
    move(call, "rawInput", "args", row=12, rows=rows)
    move(call, "rawOutput", "raw_output", "output", row=14, rows=rows)
    each_in(call, "content", tool_content, rows)
    _outcome(call, rows)
    _status(call, rows)
    _kind(call, rows)
    return call


def _name(call: Object, creates: bool, rows: Rows) -> None:
    for key in ("toolName", "tool_name"):
        if isinstance(call.get(key), str) and ("name" not in call or "title" not in call):
            tool = call.pop(key)
            call.setdefault("name", tool)
            call.setdefault("title", tool)
            rows.add(12)
    # A patch without a title keeps the one it has; only a call that is new to the client takes its name for it.
    if creates and "title" not in call and isinstance(call.get("name"), str):
        call["title"] = call["name"]
        rows.add(11)


def _outcome(call: Object, rows: Rows) -> None:
    if move(call, "rawOutput", "result", row=13, rows=rows) and isinstance(call["rawOutput"], str):
        call.setdefault("content", [_text_content(call["rawOutput"])])
    error = call.get("error")
    if isinstance(error, str) and error:
        del call["error"]
        call["status"] = "failed"
        call.setdefault("content", [_text_content(error)])
        rows.add(13)


def _status(call: Object, rows: Rows) -> None:
    spell(call, "status", _STATUSES, rows)
    if spelled(call.get("status"), ("cancelled",)) or call.get("status") == "cancelled":
        call["status"] = "failed"
        rows.add(109)


def _kind(call: Object, rows: Rows) -> None:
    kind = call.get("kind")
    if not isinstance(kind, str) or kind in TOOL_KINDS:
        return
    shown = spelled(kind, TOOL_KINDS)
    row = 73
    if shown is None:
        row = 16
        if kind == "file":
            shown = "edit" if has_diff(call.get("content")) else "read"
        elif kind == "command":
            shown = "execute"
    if shown is not None:
        del call["kind"]
        mark(call, DISPLAY_KIND, shown)
        rows.add(row)


def _text_content(text: str) -> Object:
    return {"type": "content", "content": text_block(text)}


def permission_request(params: Object, rows: Rows, session: str | None) -> Object:
    """The parameters of a permission request (rows 22, 23, 73). `session` is the one active turn's, if there is one."""
    params = dict(params)
    twins(params, "sessionId", "toolCall", rows=rows)
    if "toolCall" not in params and ("permissionId" in params or "toolName" in params):
        _from_flat(params, rows, session)
    call = params.get("toolCall")
    if is_object(call):
        call = tool_call(call, rows)
        if "toolCallId" not in call:
            call["toolCallId"] = _made_up_id(call)
            rows.add(23)
            if "title" not in call and isinstance(call.get("name"), str):
                call["title"] = call["name"]
        params["toolCall"] = call
    each_in(params, "options", _option, rows)
    return params


def _from_flat(params: Object, rows: Rows, session: str | None) -> None:
    members = ("toolCallId", "toolName", "args", "kind", "title")
    call: Object = {key: params.pop(key) for key in members if key in params}
    if "toolCallId" not in call and isinstance(params.get("permissionId"), str):
        call["toolCallId"] = params["permissionId"]
    params.pop("permissionId", None)
    description = params.pop("description", None)
    if isinstance(description, str) and description:
        call["content"] = [_text_content(description)]
    params["toolCall"] = call
    if "options" not in params:
        options = [{"optionId": kind, "name": name, "kind": kind} for kind, name in _OPTION_NAMES.items()]
        for option in options:
            mark(option, KIND_AS_SENT, None)
        params["options"] = options
    if "sessionId" not in params and session is not None:
        params["sessionId"] = session
    rows.add(22)


def _option(option: Object, rows: Rows) -> Object:
    option = dict(option)
    twins(option, "optionId", rows=rows)
    rename_label(option, "name", rows)
    sent = option.get("kind")
    spell(option, "kind", OPTION_KINDS, rows)
    if option.get("kind") != sent:
        mark(option, KIND_AS_SENT, sent)
    return option


def _made_up_id(call: Object) -> str:
    """An id for a call that came without one: the same call gives the same id."""
    try:
        content: Any = json.dumps(call, sort_keys=True)
    except (ValueError, RecursionError):
        content = repr(sorted(call))
    return "accord-" + hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
