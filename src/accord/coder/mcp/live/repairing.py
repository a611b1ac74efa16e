"""Lists of tools as servers send them, before the package reads them: one bad entry must not cost all the others."""

import logging
from typing import Any, Final, cast

import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_LOG: Final = logging.getLogger("accord.coder.mcp")
_OBJECT: Final = {"type": "object"}


def repaired(item: SessionMessage | Exception) -> SessionMessage | Exception:
    """The message; in a list of tools, entries that can be understood are made whole and the others are left out."""
    if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCResponse):
        result = item.message.result
        tools = result.get("tools")
        if isinstance(tools, list):
            result["tools"] = [tool for entry in cast(list[Any], tools) if (tool := _tool(entry)) is not None]
    return item


def _tool(entry: Any) -> dict[str, Any] | None:
    tool = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
    if not isinstance(tool.get("name"), str):
        _LOG.warning("a tool without a name was left out of a list")
        return None
    schema = tool.get("inputSchema")
    whole = {
        **tool,
        "inputSchema": {**cast(dict[str, Any], schema), **_OBJECT} if isinstance(schema, dict) else _OBJECT,
    }
    # Results are passed on whether or not they fit what was promised: the work is done, and its result is what counts.
    whole.pop("outputSchema", None)
    try:
        types.Tool.model_validate(whole, by_name=False)
    except ValidationError:
        kept = {"name": tool["name"], "inputSchema": whole["inputSchema"]}
        described = tool.get("description")
        return {**kept, "description": described} if isinstance(described, str) else kept
    return whole
