"""A minimal MCP server: answers `initialize` with a name from its environment until stdin ends."""

import json
import os
import sys

for line in sys.stdin:
    request = json.loads(line)
    info = {"name": os.environ["SERVER_NAME"], "version": "1", "title": " ".join(sys.argv[1:])}
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": {"serverInfo": info}}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
