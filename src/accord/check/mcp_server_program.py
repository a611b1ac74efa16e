"""A tiny MCP server, for agents to attach: one tool, and a mark in a file for every `initialize` it gets.

`python -m accord.check.mcp_server_program MARK` serves on stdio.
"""

import json
import sys
from typing import Any, Final, cast

PAGE: Final = "the tool of the check was used"


def mcp_result(method: str, params: Any) -> dict[str, Any] | None:
    """The result of one request; None for a method it does not have."""
    match method:
        case "initialize":
            version = (
                cast(dict[str, Any], params).get("protocolVersion") if isinstance(params, dict) else None
            )
            return {
                "protocolVersion": version or "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "check", "version": "1"},
            }
        case "tools/list":
            schema: dict[str, Any] = {"type": "object", "properties": {}}
            tool: dict[str, Any] = {
                "name": "check",
                "description": "Does nothing, for a check.",
                "inputSchema": schema,
            }
            return {"tools": [tool]}
        case "tools/call":
            return {"content": [{"type": "text", "text": PAGE}]}
        case "ping":
            return {}
        case _:
            return None


def main(mark: str) -> None:
    """Serve until the input ends."""
    for line in sys.stdin:
        try:
            message: Any = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict) or "id" not in message or "method" not in message:
            continue
        message = cast(dict[str, Any], message)
        found = mcp_result(message["method"], message.get("params"))
        if message["method"] == "initialize":
            with open(mark, "a", encoding="utf-8") as file:
                file.write("initialize\n")
        if found is None:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
        else:
            answer = {"result": found}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
