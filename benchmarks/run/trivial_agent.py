"""An agent that answers at once, on the standard library alone: what is measured is the client."""

import json
import sys
from typing import Any


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    call = json.loads(line)
    result: dict[str, Any] = {}
    match call.get("method"):
        case "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {}}
        case "session/new":
            result = {"sessionId": "session-1"}
        case "session/prompt":
            chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Done."}}
            params = {"sessionId": call["params"]["sessionId"], "update": chunk}
            send({"method": "session/update", "params": params})
            result = {"stopReason": "end_turn"}
        case _:
            pass
    if "id" in call:
        send({"id": call["id"], "result": result})
