"""A minimal agent that streams updates. A prompt is a job as JSON: `{"count": n, "every": seconds}`.

`stream_agent.py 2` speaks version 2 of the protocol, without the member `every`.
"""

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
UPDATE_V2 = UPDATE.replace(b'"}}}}\n', b'"},"messageId":"m"}}}\n')
STATE_V2 = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":'
    b'{"sessionUpdate":"state_update","state":"%s"}}}\n'
)
VERSION = 2 if sys.argv[1:] == ["2"] else 1


def send(*lines: bytes) -> None:
    with LOCK:
        OUT.writelines(lines)
        OUT.flush()


def answer(id: Any, result: Any) -> None:
    send(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n")


def stream(id: Any, session: bytes, job: dict[str, Any]) -> None:
    count, every = job["count"], job.get("every")
    if VERSION == 2:
        answer(id, {"messageId": f"prompt-{id}"})
        send(STATE_V2 % (session, b"running"))
        for first in range(0, count, 100):
            send(*(UPDATE_V2 % (session, number) for number in range(first, min(first + 100, count))))
        send(STATE_V2 % (session, b"idle"))
        return
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
            if VERSION == 2:
                info = {"name": "stream", "version": "1"}
                answer(id, {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}})
            else:
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
