"""Repairs of content: prompt bodies, content blocks, and what tool calls carry."""

from typing import Any, Final

from accord.schema.dialects.members import (
    Object,
    Rows,
    is_array,
    is_object,
    mark,
    move,
    spelled,
    text_block,
    twins,
)
from accord.schema.dialects.provenance import FORMAT_AS_SENT

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


def prompt(value: Any, rows: Rows) -> Any:
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


def block(value: Object, rows: Rows) -> Object:
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


def _name_link(link: Object, rows: Rows) -> None:
    uri = link.get("uri")
    if "name" not in link and isinstance(uri, str):
        from urllib.parse import unquote

        path = uri.partition("#")[0].partition("?")[0].rstrip("/")
        link["name"] = unquote(path.rsplit("/", 1)[-1]) or uri
        rows.add(57)


def _wrap_resource(value: Object, rows: Rows) -> None:
    inner = value.get("resource")
    if is_object(inner):
        value["resource"] = inner = dict(inner)
        twins(inner, "mimeType", rows=rows)
    elif "resource" not in value and "uri" in value and ("text" in value or "blob" in value):
        members = ("uri", "text", "blob", "mimeType", "mime_type")
        value["resource"] = inner = {key: value.pop(key) for key in members if key in value}
        twins(inner, "mimeType", rows=rows)
        rows.add(55)


def tool_content(item: Object, rows: Rows) -> Object:
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


def form_schema(schema: Object, rows: Rows) -> Object:
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


def rename_label(obj: Object, official: str, rows: Rows) -> None:
    """`label` was the early name of titles and names (row 73)."""
    move(obj, official, "label", row=73, rows=rows)
