"""An agent that refuses sessions until the user has signed in. It uses no library.

SIGN_IN_METHODS names its methods: agent, terminal, variable. With FAIL_FIRST set, the first attempt fails.
Started with `login` it is the program that signs in: it asks for a word.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

STATE = Path(os.environ["SIGN_IN_FILE"])
METHODS = {
    "agent": {"id": "own", "name": "By browser", "description": "opens a page"},
    "terminal": {"id": "tty", "name": "In the terminal", "type": "terminal", "args": ["login"]},
    "variable": {"id": "key", "name": "API key", "type": "env_var", "vars": [{"name": "DEMO_API_KEY"}]},
}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def log_in() -> int:
    sys.stdout.write("the word, please: ")
    sys.stdout.flush()
    if sys.stdin.readline().strip() != "sesame":
        sys.stdout.write("that is not the word\n")
        return 3
    STATE.write_text("open")
    return 0


def serve(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    refused = {"id": id, "error": {"code": -32000, "message": "Sign in first"}}
    if method == "initialize":
        offered = [METHODS[name] for name in os.environ["SIGN_IN_METHODS"].split()]
        send(
            {
                "id": id,
                "result": {
                    "protocolVersion": 1,
                    "agentCapabilities": {"loadSession": True},
                    "authMethods": offered,
                },
            }
        )
    elif method == "authenticate":
        sys.stderr.write("open https://example.com/device and type ABCD\n")
        sys.stderr.flush()
        tries = STATE.with_suffix(".tries")
        if os.environ.get("FAIL_FIRST") and not tries.exists():
            tries.touch()
            send({"id": id, "error": {"code": -32603, "message": "the browser was closed"}})
            return
        STATE.write_text(params["methodId"])
        send({"id": id, "result": {}})
    elif method in ("session/new", "session/load"):
        send({"id": id, "result": {"sessionId": "s1"}} if STATE.exists() else refused)
    elif method == "session/prompt":
        if not STATE.exists():
            send(refused)
            return
        text = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": f"welcome, {params['prompt'][0]['text']}"},
        }
        send({"method": "session/update", "params": {"sessionId": "s1", "update": text}})
        send({"id": id, "result": {"stopReason": "end_turn"}})
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "no"}})


if __name__ == "__main__":
    if "login" in sys.argv:
        sys.exit(log_in())
    for line in sys.stdin:
        serve(json.loads(line))
