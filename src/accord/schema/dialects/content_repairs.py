"""Repairs of prompts, content blocks, tool calls and permission requests.

Imported on first use.
"""

import hashlib
import json
from typing import Any, Final

from accord.schema.dialects.json_members import (
    DISPLAY_KIND,
    FORMAT_AS_SENT,
    KIND_AS_SENT,
    OPTION_KINDS,
    TOOL_KINDS,
    DialectRows,
    Object,
    each_in,
    is_array,
    is_object,
    mark,
    move,
    spell,
    spelled,
    text_block,
    twins,
)

# Content blocks and prompts.

BLOCK_TAGS: Final = frozenset(("text", "image", "audio", "resource_link", "resource"))
TOOL_CONTENT_TAGS: Final = frozenset(("content", "diff", "terminal"))

_FORMATS: Final = frozenset(("email", "uri", "date", "date-time"))

# Class names of SDKs used as tags. The trap: a ResourceContentBlock is the link, not the embedded resource.
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


def prompt(value: Any, rows: DialectRows) -> Any:
    """The blocks of a prompt that came as a string, as strings, or as a single block (row 1)."""
    if isinstance(value, str):
        rows.add(1)
        return [text_block(value)]
    if is_object(value):
        rows.add(1)
        return [block(value, rows)]
    if not is_array(value):
        return value
    blocks: list[Any] = []
    for item in value:
        if isinstance(item, str):
            rows.add(1)
            blocks.append(text_block(item))
        else:
            blocks.append(block(item, rows) if is_object(item) else item)
    return blocks


def block(value: Object, rows: DialectRows) -> Object:
    """A content block with its official tag and members (rows 55-57, 73)."""
    value = dict(value)
    tag = value.get("type")
    if isinstance(tag, str) and tag not in BLOCK_TAGS:
        if tag == "embedded_resource":
            value["type"] = "resource"
            rows.add(55)
        elif tag in _CLASS_NAMES:
            value["type"] = _CLASS_NAMES[tag]
            rows.add(56)
        elif (word := spelled(tag, BLOCK_TAGS)) is not None:
            value["type"] = word
            rows.add(73)
    match value.get("type"):
        case "image" | "audio":
            twins(value, "mimeType", rows=rows)
        case "resource_link":
            twins(value, "mimeType", rows=rows)
            _name_link(value, rows)
        case "resource":
            _wrap_resource(value, rows)
        case _:
            pass
    return value


def _name_link(link: Object, rows: DialectRows) -> None:
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
        twins(inner, "mimeType", rows=rows)
    elif "resource" not in value and "uri" in value and ("text" in value or "blob" in value):
        members = ("uri", "text", "blob", "mimeType", "mime_type")
        value["resource"] = inner = {key: value.pop(key) for key in members if key in value}
        twins(inner, "mimeType", rows=rows)
        rows.add(55)


def tool_content(item: Object, rows: DialectRows) -> Object:
    """An item of a tool call's content; a bare content block is wrapped (row 102)."""
    tag = item.get("type")
    if isinstance(tag, str) and tag not in TOOL_CONTENT_TAGS:
        word = spelled(tag, TOOL_CONTENT_TAGS)
        if word is None:
            bare = block(item, rows)
            if bare.get("type") not in BLOCK_TAGS:
                return item
            rows.add(102)
            return {"type": "content", "content": bare}
        item = {**item, "type": word}
        rows.add(73)
    item = dict(item)
    match item.get("type"):
        case "content" if is_object(item.get("content")):
            item["content"] = block(item["content"], rows)
        case "diff":
            twins(item, "oldText", "newText", rows=rows)
        case "terminal":
            twins(item, "terminalId", rows=rows)
        case _:
            pass
    return item


def has_diff(content: Any) -> bool:
    """Whether a tool call's content shows a change to a file."""
    return is_array(content) and any(is_object(item) and item.get("type") == "diff" for item in content)


def form_schema(schema: Object, rows: DialectRows) -> Object:
    """A form whose string fields name formats outside the four: the name is kept as a note (row 115)."""
    properties = schema.get("properties")
    if not is_object(properties):
        return schema
    fields: Object = {}
    for name, field in properties.items():
        if is_object(field) and isinstance(field.get("format"), str) and field["format"] not in _FORMATS:
            field = dict(field)
            mark(field, FORMAT_AS_SENT, field.pop("format"))
            rows.add(115)
        fields[name] = field
    return {**schema, "properties": fields}


def rename_label(obj: Object, official: str, rows: DialectRows) -> None:
    """`label` was the early name of titles and names (row 73)."""
    move(obj, official, "label", row=73, rows=rows)


# Tool calls and permission requests.

_STATUSES: Final = frozenset(("pending", "in_progress", "completed", "failed"))
_OPTION_NAMES: Final = {
    "allow_once": "Allow once",
    "allow_always": "Allow always",
    "reject_once": "Reject once",
    "reject_always": "Reject always",
}


def tool_call(call: Object, rows: DialectRows, *, creates: bool = False) -> Object:
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


def _name(call: Object, creates: bool, rows: DialectRows) -> None:
    for key in ("toolName", "tool_name"):
        if isinstance(call.get(key), str) and ("name" not in call or "title" not in call):
            tool = call.pop(key)
            call.setdefault("name", tool)
            call.setdefault("title", tool)
            rows.add(12)
    # A patch without a title keeps the one it has; only a call that is new to the client takes its name for
    # it.
    if creates and "title" not in call and isinstance(call.get("name"), str):
        call["title"] = call["name"]
        rows.add(11)


def _outcome(call: Object, rows: DialectRows) -> None:
    if move(call, "rawOutput", "result", row=13, rows=rows) and isinstance(call["rawOutput"], str):
        call.setdefault("content", [_text_content(call["rawOutput"])])
    error = call.get("error")
    if isinstance(error, str) and error:
        del call["error"]
        call["status"] = "failed"
        call.setdefault("content", [_text_content(error)])
        rows.add(13)


def _status(call: Object, rows: DialectRows) -> None:
    spell(call, "status", _STATUSES, rows)
    if spelled(call.get("status"), ("cancelled",)) or call.get("status") == "cancelled":
        call["status"] = "failed"
        rows.add(109)


def _kind(call: Object, rows: DialectRows) -> None:
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


def permission_request(params: Object, rows: DialectRows, session: str | None) -> Object:
    """The parameters of a permission request (rows 22, 23, 73).

    `session` is the one active turn's, if there is one.
    """
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


def _from_flat(params: Object, rows: DialectRows, session: str | None) -> None:
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


def _option(option: Object, rows: DialectRows) -> Object:
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
