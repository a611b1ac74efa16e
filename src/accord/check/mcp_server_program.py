"""A minimal MCP server on stdio with one tool. It adds a line to the file LOG for each `initialize`.

Usage: `python -m accord.check.mcp_server_program LOG`.
"""

import json
import sys
from typing import Any, Final, cast

TOOL_RESULT: Final = "the tool of the check was used"


def mcp_result(method: str, params: Any) -> dict[str, Any] | None:
    """The result of one request; None for an unknown method."""
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
            return {"content": [{"type": "text", "text": TOOL_RESULT}]}
        case "ping":
            return {}
        case _:
            return None


def main(log: str) -> None:
    """Serve until stdin ends."""
    for line in sys.stdin:
        try:
            message: Any = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict) or "id" not in message or "method" not in message:
            continue
        message = cast(dict[str, Any], message)
        result = mcp_result(message["method"], message.get("params"))
        if message["method"] == "initialize":
            with open(log, "a", encoding="utf-8") as file:
                file.write("initialize\n")
        if result is None:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
        else:
            answer = {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
