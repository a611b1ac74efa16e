"""A raw agent for tests with real processes: plain JSON lines, no library. Its argument selects its behavior.

If SCRIPTED_LOG names a file, each start appends its arguments to it as one JSON line.
"""

import json
import os
import signal
import sys
from typing import Any

PHASE = sys.argv[1] if len(sys.argv) > 1 else ""
CAPABILITIES = json.loads(os.environ.get("SCRIPTED_CAPABILITIES", "{}"))


def log() -> None:
    path = os.environ.get("SCRIPTED_LOG")
    if path:
        with open(path, "a") as file:
            file.write(json.dumps({"argv": sys.argv[1:], "env": os.environ.get("LOGIN_TOKEN")}) + "\n")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(session: str, kind: str, **members: Any) -> None:
    send(
        {
            "method": "session/update",
            "params": {"sessionId": session, "update": {"sessionUpdate": kind, **members}},
        }
    )


def say(session: str, text: str) -> None:
    update(session, "agent_message_chunk", content={"type": "text", "text": text})


def die(phase: str) -> None:
    """Exit here if the test asked for it: `exit:<phase>` or `kill:<phase>`."""
    if f"exit:{phase}" == PHASE:
        sys.stderr.write("the disk is full\n")
        sys.stderr.flush()
        os._exit(7)
    if f"kill:{phase}" == PHASE:
        sys.stderr.write("about to be killed\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def serve(message: dict[str, Any], history: list[str]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    session = params.get("sessionId", "s1")
    if method == "initialize":
        die("initialize")
        auth = [
            {
                "type": "terminal",
                "id": "tty",
                "name": "Terminal",
                "args": ["--login"],
                "env": {"LOGIN_TOKEN": "x"},
            }
        ]
        send(
            {
                "id": id,
                "result": {"protocolVersion": 1, "agentCapabilities": CAPABILITIES, "authMethods": auth},
            }
        )
        die("idle")
    elif method == "session/new":
        die("new")
        send({"id": id, "result": {"sessionId": f"s{os.getpid()}"}})
        die("between")
    elif method == "session/prompt":
        text = params["prompt"][0]["text"]
        say(session, f"heard {text}; ")
        if PHASE == "big":
            say(session, "x" * 10_000)
        die("turn")
        if text == "permission":
            call = {"toolCallId": "c1", "title": "Do it"}
            options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
            send({"id": "p1", "method": "session/request_permission",
                  "params": {"sessionId": session, "toolCall": call, "options": options}})  # fmt: skip
            die("permission")
            return
        if text == "die":
            os._exit(3)
        say(session, "done")
        history.append(text)
        send({"id": id, "result": {"stopReason": "end_turn"}})
    elif method == "session/load":
        for number in range(2):
            update(session, "user_message_chunk", content={"type": "text", "text": f"question {number}"})
            say(session, f"answer {number}")
        send({"id": id, "result": {}})
    elif method == "session/close":
        die("close")
        send({"id": id, "result": {}})
    elif id is not None and method is not None:
        send({"id": id, "result": {}})


def main() -> None:
    log()
    if "--login" in sys.argv:
        sys.exit(int(os.environ.get("LOGIN_EXIT", "0")))
    die("start")
    history: list[str] = []
    record = os.environ.get("SCRIPTED_STDIN")
    for line in sys.stdin.buffer:
        if record:
            with open(record, "ab") as file:
                file.write(line)
        serve(json.loads(line), history)
    if PHASE == "ignore-eof":
        signal.pause()


main()
