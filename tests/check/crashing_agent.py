"""An agent that falls over at the first method it does not know. Run as a program."""

import json
import sys

ANSWER = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "crashing", "version": "1"}}

for line in sys.stdin:
    message = json.loads(line)
    if message["method"] != "initialize":
        sys.exit(f"what is {message['method']}?")
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": ANSWER}) + "\n")
    sys.stdout.flush()
