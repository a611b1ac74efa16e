"""Repairs of prompts, content blocks, tool calls and permission requests.

Imported on first use.
"""

import hashlib
import json
from typing import Any, Final, get_args

from accord.schema.client_requests import StringFormat
from accord.schema.content import ContentBlock, ToolCallContent, ToolCallStatus
from accord.schema.dialects.json_members import (
    DISPLAY_KIND,
    FORMAT_AS_SENT,
    KIND_AS_SENT,
    OPTION_KINDS,
    TOOL_KINDS,
    DialectRows,
    Object,
    fix_spelling,
    is_array,
    is_object,
    official_spelling,
    rename_key,
    rename_snake_keys,
    repair_member_items,
    set_note,
    text_block,
    union_tags,
)

# Content blocks and prompts.

BLOCK_TAGS: Final = union_tags(ContentBlock)
TOOL_CONTENT_TAGS: Final = union_tags(ToolCallContent)

_FORMATS: Final = frozenset(get_args(StringFormat))

# Class names of SDKs used as tags. A ResourceContentBlock is the link, not the embedded resource.
_CLASS_NAMES: Final = {
    "TextContentBlock": "text",
    "TextContent": "text",
    "ImageContentBlock": "image",
    "ImageContent": "image",
    "AudioContentBlock": "audio",
    "AudioContent": "audio",
    "ResourceContentBlock": "resource_link",
    "ResourceLink": "resource_link",
    "EmbeddedResourceContentBlock": "resource",
    "EmbeddedResource": "resource",
}


def repair_prompt(value: Any, rows: DialectRows) -> Any:
    """Convert a string, a list of strings or a single block to a list of blocks (row 1)."""
    if isinstance(value, str):
        rows.add(1)
        return [text_block(value)]
    if is_object(value):
        rows.add(1)
        return [repair_block(value, rows)]
    if not is_array(value):
        return value
    blocks: list[Any] = []
    for item in value:
        if isinstance(item, str):
            rows.add(1)
            blocks.append(text_block(item))
        else:
            blocks.append(repair_block(item, rows) if is_object(item) else item)
    return blocks


def repair_block(value: Object, rows: DialectRows) -> Object:
    """Repair the tag and the members of a content block (rows 55-57, 73)."""
    value = dict(value)
    tag = value.get("type")
    if isinstance(tag, str) and tag not in BLOCK_TAGS:
        if tag == "embedded_resource":
            value["type"] = "resource"
            rows.add(55)
        elif tag in _CLASS_NAMES:
            value["type"] = _CLASS_NAMES[tag]
            rows.add(56)
        elif (official := official_spelling(tag, BLOCK_TAGS)) is not None:
            value["type"] = official
            rows.add(73)
    match value.get("type"):
        case "image" | "audio":
            rename_snake_keys(value, "mimeType", rows=rows)
        case "resource_link":
            rename_snake_keys(value, "mimeType", rows=rows)
            _add_link_name(value, rows)
        case "resource":
            _wrap_resource(value, rows)
        case _:
            pass
    return value


def _add_link_name(link: Object, rows: DialectRows) -> None:
    uri = link.get("uri")
    if "name" not in link and isinstance(uri, str):
        from urllib.parse import unquote

        path = uri.partition("#")[0].partition("?")[0].rstrip("/")
        link["name"] = unquote(path.rsplit("/", 1)[-1]) or uri
        rows.add(57)


def _wrap_resource(value: Object, rows: DialectRows) -> None:
    inner = value.get("resource")
    if is_object(inner):
        value["resource"] = inner = dict(inner)
        rename_snake_keys(inner, "mimeType", rows=rows)
    elif "resource" not in value and "uri" in value and ("text" in value or "blob" in value):
        members = ("uri", "text", "blob", "mimeType", "mime_type")
        value["resource"] = inner = {key: value.pop(key) for key in members if key in value}
        rename_snake_keys(inner, "mimeType", rows=rows)
        rows.add(55)


def repair_tool_content(item: Object, rows: DialectRows) -> Object:
    """Repair an item of a tool call's content; wrap a content block that is not wrapped (row 102)."""
    tag = item.get("type")
    if isinstance(tag, str) and tag not in TOOL_CONTENT_TAGS:
        official = official_spelling(tag, TOOL_CONTENT_TAGS)
        if official is None:
            content = repair_block(item, rows)
            if content.get("type") not in BLOCK_TAGS:
                return item
            rows.add(102)
            return {"type": "content", "content": content}
        item = {**item, "type": official}
        rows.add(73)
    item = dict(item)
    match item.get("type"):
        case "content" if is_object(item.get("content")):
            item["content"] = repair_block(item["content"], rows)
        case "diff":
            rename_snake_keys(item, "oldText", "newText", rows=rows)
        case "terminal":
            rename_snake_keys(item, "terminalId", rows=rows)
        case _:
            pass
    return item


def has_diff(content: Any) -> bool:
    """Whether a tool call's content shows a change to a file."""
    return is_array(content) and any(is_object(item) and item.get("type") == "diff" for item in content)


def repair_form_schema(schema: Object, rows: DialectRows) -> Object:
    """Move unknown string formats of a form to `_meta` (row 115)."""
    properties = schema.get("properties")
    if not is_object(properties):
        return schema
    fields: Object = {}
    for name, field in properties.items():
        if is_object(field) and isinstance(field.get("format"), str) and field["format"] not in _FORMATS:
            field = dict(field)
            set_note(field, FORMAT_AS_SENT, field.pop("format"))
            rows.add(115)
        fields[name] = field
    return {**schema, "properties": fields}


def rename_label_key(obj: Object, official: str, rows: DialectRows) -> None:
    """Rename `label`, an early name of titles and names (row 73)."""
    rename_key(obj, official, "label", row=73, rows=rows)


# Tool calls and permission requests.

_STATUSES: Final = frozenset(get_args(ToolCallStatus))
_OPTION_NAMES: Final = {
    "allow_once": "Allow once",
    "allow_always": "Allow always",
    "reject_once": "Reject once",
    "reject_always": "Reject always",
}


def repair_tool_call(call: Object, rows: DialectRows, *, is_new: bool = False) -> Object:
    """Repair a tool call or a change of one (rows 11-14, 16, 73, 102, 109). `is_new`: it starts a call."""
    call = dict(call)
    rename_label_key(call, "title", rows)
    rename_snake_keys(call, "toolCallId", rows=rows)
    if rename_key(call, "toolCallId", "id", row=11, rows=rows):
        is_new = True
    _repair_name(call, is_new, rows)
    rename_key(call, "rawInput", "raw_input", "input", row=14, rows=rows)
    rename_key(call, "rawInput", "args", row=12, rows=rows)
    rename_key(call, "rawOutput", "raw_output", "output", row=14, rows=rows)
    repair_member_items(call, "content", repair_tool_content, rows)
    _repair_result(call, rows)
    _repair_status(call, rows)
    _repair_kind(call, rows)
    return call


def _repair_name(call: Object, is_new: bool, rows: DialectRows) -> None:
    for key in ("toolName", "tool_name"):
        if isinstance(call.get(key), str) and ("name" not in call or "title" not in call):
            tool = call.pop(key)
            call.setdefault("name", tool)
            call.setdefault("title", tool)
            rows.add(12)
    # A change without a title keeps the old title. Only a new call uses its name as title.
    if is_new and "title" not in call and isinstance(call.get("name"), str):
        call["title"] = call["name"]
        rows.add(11)


def _repair_result(call: Object, rows: DialectRows) -> None:
    if rename_key(call, "rawOutput", "result", row=13, rows=rows) and isinstance(call["rawOutput"], str):
        call.setdefault("content", [_text_content(call["rawOutput"])])
    error = call.get("error")
    if isinstance(error, str) and error:
        del call["error"]
        call["status"] = "failed"
        call.setdefault("content", [_text_content(error)])
        rows.add(13)


def _repair_status(call: Object, rows: DialectRows) -> None:
    fix_spelling(call, "status", _STATUSES, rows)
    if official_spelling(call.get("status"), ("cancelled",)) or call.get("status") == "cancelled":
        call["status"] = "failed"
        rows.add(109)


def _repair_kind(call: Object, rows: DialectRows) -> None:
    kind = call.get("kind")
    if not isinstance(kind, str) or kind in TOOL_KINDS:
        return
    display_kind = official_spelling(kind, TOOL_KINDS)
    row = 73
    if display_kind is None:
        row = 16
        if kind == "file":
            display_kind = "edit" if has_diff(call.get("content")) else "read"
        elif kind == "command":
            display_kind = "execute"
    if display_kind is not None:
        del call["kind"]
        set_note(call, DISPLAY_KIND, display_kind)
        rows.add(row)


def _text_content(text: str) -> Object:
    return {"type": "content", "content": text_block(text)}


def repair_permission_request(params: Object, rows: DialectRows, session: str | None) -> Object:
    """Repair a permission request (rows 22, 23, 73).

    `session` is the id of the session whose turn runs, if there is exactly one.
    """
    params = dict(params)
    rename_snake_keys(params, "sessionId", "toolCall", rows=rows)
    if "toolCall" not in params and ("permissionId" in params or "toolName" in params):
        _nest_tool_call(params, rows, session)
    call = params.get("toolCall")
    if is_object(call):
        call = repair_tool_call(call, rows)
        if "toolCallId" not in call:
            call["toolCallId"] = _generated_id(call)
            rows.add(23)
            if "title" not in call and isinstance(call.get("name"), str):
                call["title"] = call["name"]
        params["toolCall"] = call
    repair_member_items(params, "options", _repair_option, rows)
    return params


def _nest_tool_call(params: Object, rows: DialectRows, session: str | None) -> None:
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
            set_note(option, KIND_AS_SENT, None)
        params["options"] = options
    if "sessionId" not in params and session is not None:
        params["sessionId"] = session
    rows.add(22)


def _repair_option(option: Object, rows: DialectRows) -> Object:
    option = dict(option)
    rename_snake_keys(option, "optionId", rows=rows)
    rename_label_key(option, "name", rows)
    original_kind = option.get("kind")
    fix_spelling(option, "kind", OPTION_KINDS, rows)
    if option.get("kind") != original_kind:
        set_note(option, KIND_AS_SENT, original_kind)
    return option


def _generated_id(call: Object) -> str:
    """Return an id for a call without one. The same call gets the same id."""
    try:
        content: Any = json.dumps(call, sort_keys=True)
    except (ValueError, RecursionError):
        content = repr(sorted(call))
    return "accord-" + hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
