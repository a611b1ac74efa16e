"""A minimal agent that streams updates. A prompt is a job as JSON: `{"count": n, "every": seconds}`."""

import json
import sys
import threading
import time
from typing import Any

OUT = sys.stdout.buffer
LOCK = threading.Lock()
CAPABILITIES = {"sessionCapabilities": {"resume": {}}}
UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":'
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%-40d"}}}}\n'
)


def send(*lines: bytes) -> None:
    with LOCK:
        OUT.writelines(lines)
        OUT.flush()


def answer(id: Any, result: Any) -> None:
    send(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n")


def stream(id: Any, session: bytes, job: dict[str, Any]) -> None:
    count, every = job["count"], job.get("every")
    if every is None:
        for first in range(0, count, 100):
            send(*(UPDATE % (session, number) for number in range(first, min(first + 100, count))))
    else:
        due = time.monotonic()
        for _ in range(count):
            send(UPDATE % (session, time.monotonic_ns()))
            due += every
            time.sleep(max(due - time.monotonic(), 0))
    answer(id, {"stopReason": "end_turn"})


def main() -> None:
    sessions = 0
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method is None or id is None:
            continue
        if method == "initialize":
            answer(id, {"protocolVersion": 1, "agentCapabilities": CAPABILITIES})
        elif method == "session/new":
            sessions += 1
            answer(id, {"sessionId": f"bench-{sessions}"})
        elif method == "session/prompt":
            params = message["params"]
            job = json.loads(params["prompt"][0]["text"])
            threading.Thread(target=stream, args=(id, params["sessionId"].encode(), job), daemon=True).start()
        else:
            answer(id, {})


if __name__ == "__main__":
    main()
