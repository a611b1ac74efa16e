"""Agents that shake hands, open sessions, and then do one odd thing. Run as a program: odd_agent.py MANNER [NOTE]."""

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
    """Updates without an end, and never the answer."""
    lines = (json.dumps({"jsonrpc": "2.0", **update(CHUNK)}) + "\n") * 100
    while True:
        sys.stdout.write(lines)


def gushes(message: dict[str, Any]) -> None:
    """Requests without an end."""
    number = 0
    while True:
        number += 1
        put({"id": f"q{number}", "method": "terminal/create", "params": {"sessionId": "s", "command": "x"}})


def bloats(message: dict[str, Any]) -> None:
    """An answer that is too long to be read."""
    sys.stdout.write(
        json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"x": "y" * (65 << 20)}}) + "\n"
    )
    sys.stdout.flush()


def digs(message: dict[str, Any]) -> None:
    """An answer of a hundred thousand levels."""
    deep = "[" * 100_000 + "]" * 100_000
    sys.stdout.write(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},"result":{{"x":{deep}}}}}\n')
    sys.stdout.flush()


def misfits(message: dict[str, Any]) -> None:
    """A plan that is no list, in every turn."""
    if message["method"] == "session/prompt":
        put(update({"sessionUpdate": "plan", "entries": 5}))
        put({"id": message["id"], "result": {"stopReason": "end_turn"}})
    else:
        refuses(message)


def refuses(message: dict[str, Any]) -> None:
    put({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})


def hangs(message: dict[str, Any]) -> None:
    """Turns are never answered, and neither the end of the input nor anything else ends it; it notes who it is."""
    if message["method"] != "session/prompt":
        refuses(message)


def tears(message: dict[str, Any]) -> None:
    """It takes what one read brings for a line."""
    refuses(message)


def chunks() -> Iterator[str]:
    while data := os.read(0, 1 << 20):
        yield data.decode("utf-8", "replace")


MANNERS: dict[str, Callable[[dict[str, Any]], None]] = {
    one.__name__: one for one in (crashes, floods, gushes, bloats, digs, misfits, refuses, hangs, tears)
}


def main(manner: str, note: str) -> None:
    if note:
        with open(note, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
    opened = 0
    for line in chunks() if manner == "tears" else sys.stdin:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict) or "method" not in message or "id" not in message:
            continue
        if message["method"] == "initialize":
            put({"id": message["id"], "result": INFO})
        elif message["method"] == "session/new" and manner != "crashes":
            opened += 1
            put({"id": message["id"], "result": {"sessionId": f"s{opened}"}})
        else:
            MANNERS[manner](message)
    while manner == "hangs":
        os.read(os.pipe()[0], 1)


if __name__ == "__main__":
    main(sys.argv[1], "".join(sys.argv[2:3]))
