"""An agent that answers with one short line after the other, until the turn is canceled."""

import json
import sys
import threading
from typing import Any

WORDS = [
    "a",
    "long",
    "answer",
    "with",
    "`code`",
    "and",
    "**bold**",
    "words",
    "in",
    "each",
    "line",
    "to",
    "fill",
    "its",
    "whole",
    "width",
]
_lock = threading.Lock()
_canceled = threading.Event()


def send(message: dict[str, Any]) -> None:
    with _lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def stream(id: Any) -> None:
    number = 0
    while not _canceled.wait(0.01):
        number += 1
        words = [WORDS[number * step % len(WORDS)] for step in range(1, 12)]
        text = f"line {number} of {' '.join(words)}\n\n"  # no two lines are alike
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        send({"method": "session/update", "params": {"sessionId": "s1", "update": update}})
    send({"id": id, "result": {"stopReason": "cancelled"}})


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            send({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}})
        elif method == "session/new":
            send({"id": id, "result": {"sessionId": "s1"}})
        elif method == "session/prompt":
            _canceled.clear()
            threading.Thread(target=stream, args=(id,), daemon=True).start()
        elif method == "session/cancel":
            _canceled.set()
        elif id is not None:
            send({"id": id, "error": {"code": -32601, "message": "no"}})
