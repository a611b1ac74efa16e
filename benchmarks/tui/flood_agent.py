"""An agent that sends N updates in one turn, and loads a session of N messages.

It uses no library, because it must be faster than the client.
"""

import json
import sys
from typing import Any

WORDS = [
    "The",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "`the",
    "lazy",
    "dog`",
    "and",
    "**runs**",
    "far",
    "away",
    "from",
    "here.",
    "",
]


def send(message: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", **message}) + "\n"


def update(kind: str, /, **members: Any) -> str:
    return send(
        {
            "method": "session/update",
            "params": {"sessionId": "s", "update": {"sessionUpdate": kind, **members}},
        }
    )


def said(kind: str, text: str) -> str:
    return update(kind, content={"type": "text", "text": text})


def flood(count: int) -> str:
    out: list[str] = []
    for number in range(count):
        if number % 50 == 49:
            call = f"call-{number}"
            out.append(
                update(
                    "tool_call", toolCallId=call, title=f"step {number}", kind="read", status="in_progress"
                )
            )
            out.append(update("tool_call_update", toolCallId=call, status="completed"))
        elif number % 40 == 39:
            out.append(said("agent_message_chunk", "\n\n```python\ndef f(x):\n    return x + 1\n```\n\n"))
        else:
            out.append(
                said("agent_message_chunk", WORDS[number % len(WORDS)] + (" " if number % 17 else "\n\n"))
            )
    return "".join(out)


def history(count: int) -> str:
    out: list[str] = []
    for number in range(count // 2):
        out.append(said("user_message_chunk", f"Question {number}: what about line {number}?"))
        out.append(
            said(
                "agent_message_chunk",
                f"## Answer {number}\n\n"
                + " ".join(WORDS * 4)
                + "\n\n- one\n- two\n\n```python\nx = 1\n```\n",
            )
        )
    return "".join(out)


def main() -> None:
    count = int(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        method, answer = message.get("method"), {"id": message.get("id"), "result": {}}
        if method == "initialize":
            answer["result"] = {
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": True},
                "authMethods": [],
            }
        elif method == "session/new":
            answer["result"] = {"sessionId": "s"}
        elif method == "session/load":
            sys.stdout.write(history(count))
        elif method == "session/prompt":
            prompt = message["params"]["prompt"][0]["text"].split()
            if prompt[0] == "wait":
                continue  # the turn never ends
            if prompt[0] == "messages":
                sys.stdout.write(history(int(prompt[1])) + said("agent_message_chunk", "\n\nLAST-MESSAGE!\n"))
            else:
                sys.stdout.write(flood(count) + said("agent_message_chunk", "\n\nEND-OF-ANSWER\n"))
            answer["result"] = {"stopReason": "end_turn"}
        elif "id" not in message:
            continue
        sys.stdout.write(send(answer))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
