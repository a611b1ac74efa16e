"""The JSON Schema of a tool's arguments, made from their type: inlined and without `null`, as all providers take it."""

from functools import cache
from typing import Any, cast

import msgspec
from msgspec import Struct


@cache
def schema_of(arguments: type[Struct]) -> dict[str, Any]:
    """The schema of one argument type. Shared: not to be changed."""
    (schema,), definitions = msgspec.json.schema_components([arguments])
    return cast(dict[str, Any], _plain(schema, definitions))


def _plain(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_plain(item, definitions) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = cast(dict[str, Any], schema)
    if "$ref" in found:
        return _plain(definitions[found["$ref"].rpartition("/")[2]], definitions)
    branches = [branch for branch in found.get("anyOf", ()) if branch != {"type": "null"}]
    if len(branches) == 1:
        rest = {name: value for name, value in found.items() if name != "anyOf"}
        return _plain({**branches[0], **rest}, definitions)
    if isinstance(found.get("enum"), list) and "type" not in found:
        found = {"type": "string", **found}  # all of ours are
    return {
        name: {member: _plain(inner, definitions) for member, inner in value.items()}
        if name == "properties"
        else _plain(value, definitions)
        for name, value in found.items()
        if name != "title" and (name != "default" or value not in (None, [], False))
    }
