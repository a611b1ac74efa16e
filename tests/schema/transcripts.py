"""Reads `transcripts.txt`: every message, with the type that its method gives to its body."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from accord.schema import Error
from accord.schema.methods import Method, Side, notification, request

SERVED_BY: dict[str, Side] = {"C": "agent", "A": "client", "K": "proxy", "P": "proxy"}
"""The receiver of a message with a direction mark."""

ANSWERED_UNDER = {"C": "A", "A": "C", "K": "P", "P": "K"}


class Message(NamedTuple):
    """One message: the conversation it is part of, its line, its body and the type of that body."""

    conversation: str
    line: str
    method: Method
    body: Any
    type: Any

    @property
    def title(self) -> str:
        return f"{self.method.name}: {self.line[:60]}"


def messages() -> list[Message]:
    """All messages, in order."""
    found: list[Message] = []
    conversation = ""
    asked: dict[tuple[str, Any], Method] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("=="):
            conversation, asked = line[3:], {}
        elif not line.startswith("#"):
            mark, message = line[0], json.loads(line[3:])
            found.append(_message(conversation, line, mark, message, asked))
    return found


def _message(
    conversation: str, line: str, mark: str, message: dict[str, Any], asked: dict[tuple[str, Any], Method]
) -> Message:
    if "method" not in message:
        method = asked.pop((ANSWERED_UNDER[mark], message["id"]))
        body, kind = (message["error"], Error) if "error" in message else (message["result"], method.result)
        return Message(conversation, line, method, body, kind)
    look_up = request if "id" in message else notification
    method = look_up(SERVED_BY[mark], message["method"])
    assert method is not None, line
    if "id" in message:
        asked[mark, message["id"]] = method
    return Message(conversation, line, method, message["params"], method.params)
