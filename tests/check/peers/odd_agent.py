"""Agents that complete the handshake, open sessions, and then misbehave in one way.

Usage: odd_agent.py BEHAVIOR [FILE]. Writes its process id to FILE.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

INFO = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "odd", "version": "1"}}
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "again and again"}}


def put(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(update: dict[str, Any]) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": "s", "update": update}}


def crashes(message: dict[str, Any]) -> None:
    sys.exit(f"what is {message['method']}?")


def floods(message: dict[str, Any]) -> None:
    """Send updates without end, and never the answer."""
    lines = (json.dumps({"jsonrpc": "2.0", **update(CHUNK)}) + "\n") * 100
    while True:
        sys.stdout.write(lines)


def floods_requests(message: dict[str, Any]) -> None:
    """Send requests without end."""
    number = 0
    while True:
        number += 1
        put({"id": f"q{number}", "method": "terminal/create", "params": {"sessionId": "s", "command": "x"}})


def answers_too_long(message: dict[str, Any]) -> None:
    """Send an answer that is too long to be read."""
    sys.stdout.write(
        json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"x": "y" * (65 << 20)}}) + "\n"
    )
    sys.stdout.flush()


def nests_deeply(message: dict[str, Any]) -> None:
    """Send an answer with a hundred thousand levels."""
    deep = "[" * 100_000 + "]" * 100_000
    sys.stdout.write(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},"result":{{"x":{deep}}}}}\n')
    sys.stdout.flush()


def sends_invalid_plans(message: dict[str, Any]) -> None:
    """Send a plan that is not a list in every turn."""
    if message["method"] == "session/prompt":
        put(update({"sessionUpdate": "plan", "entries": 5}))
        put({"id": message["id"], "result": {"stopReason": "end_turn"}})
    else:
        rejects(message)


def rejects(message: dict[str, Any]) -> None:
    put({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})


def hangs(message: dict[str, Any]) -> None:
    """Never answer a prompt, and keep running after the end of the input."""
    if message["method"] != "session/prompt":
        rejects(message)


def reads_chunks(message: dict[str, Any]) -> None:
    """Treat the result of one read as a line."""
    rejects(message)


def chunks() -> Iterator[str]:
    while data := os.read(0, 1 << 20):
        yield data.decode("utf-8", "replace")


BEHAVIORS: dict[str, Callable[[dict[str, Any]], None]] = {
    one.__name__: one
    for one in (
        crashes,
        floods,
        floods_requests,
        answers_too_long,
        nests_deeply,
        sends_invalid_plans,
        rejects,
        hangs,
        reads_chunks,
    )
}


def main(behavior: str, pid_file: str) -> None:
    if pid_file:
        with open(pid_file, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
    opened = 0
    for line in chunks() if behavior == "reads_chunks" else sys.stdin:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict) or "method" not in message or "id" not in message:
            continue
        if message["method"] == "initialize":
            put({"id": message["id"], "result": INFO})
        elif message["method"] == "session/new" and behavior != "crashes":
            opened += 1
            put({"id": message["id"], "result": {"sessionId": f"s{opened}"}})
        else:
            BEHAVIORS[behavior](message)
    while behavior == "hangs":
        os.read(os.pipe()[0], 1)


if __name__ == "__main__":
    main(sys.argv[1], "".join(sys.argv[2:3]))
