"""A raw agent that answers a prompt with the requested number of updates, as fast as it can write."""

import json
import sys

CHUNK = {"type": "text", "text": "x" * 100}

for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        result = {"protocolVersion": 1}
    elif method == "session/new":
        result = {"sessionId": "s1"}
    elif method == "session/prompt":
        count = int(message["params"]["prompt"][0]["text"])
        update = {"sessionId": "s1", "update": {"sessionUpdate": "agent_thought_chunk", "content": CHUNK}}
        out = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": update}) + "\n"
        for _ in range(count):
            sys.stdout.write(out)
        result = {"stopReason": "end_turn"}
    else:
        continue
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\n")
    sys.stdout.flush()
