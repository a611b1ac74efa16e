"""An agent that lets nobody in before they have signed in. No library.

DOOR names its ways in: agent, terminal, variable. With AGAIN set it forgets who was there after the first prompt.
Started with `login` it is the program that signs in: it asks for a word.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

KEY = Path(os.environ["DOOR_KEY"])
METHODS = {
    "agent": {"id": "own", "name": "By browser", "description": "opens a page"},
    "terminal": {"id": "tty", "name": "In the terminal", "type": "terminal", "args": ["login"]},
    "variable": {"id": "key", "name": "API key", "type": "env_var", "vars": [{"name": "DOOR_API_KEY"}]},
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
    KEY.write_text("open")
    return 0


def serve(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    refused = {"id": id, "error": {"code": -32000, "message": "Sign in first"}}
    if method == "initialize":
        ways = [METHODS[name] for name in os.environ["DOOR"].split()]
        send(
            {
                "id": id,
                "result": {
                    "protocolVersion": 1,
                    "agentCapabilities": {"loadSession": True},
                    "authMethods": ways,
                },
            }
        )
    elif method == "authenticate":
        sys.stderr.write("open https://example.com/device and type ABCD\n")
        sys.stderr.flush()
        tries = KEY.with_suffix(".tries")
        if os.environ.get("SHY") and not tries.exists():
            tries.touch()
            send({"id": id, "error": {"code": -32603, "message": "the browser was closed"}})
            return
        KEY.write_text(params["methodId"])
        send({"id": id, "result": {}})
    elif method in ("session/new", "session/load"):
        send({"id": id, "result": {"sessionId": "s1"}} if KEY.exists() else refused)
    elif method == "session/prompt":
        if not KEY.exists():
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
