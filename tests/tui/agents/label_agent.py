"""An agent in plain JSON lines that sends one text, from `LABEL_TEXT`, in every place that clients show.

Prompts: show | ask | form | url | question | fail. With `LABEL_SIGN_IN`, the user has to sign in first.
"""

import json
import os
import sys
from typing import Any

TEXT: str = json.loads(os.environ["LABEL_TEXT"])
SESSION = "s1"
CALL = {
    "toolCallId": "call",
    "title": TEXT,
    "kind": "execute",
    "status": "pending",
    "locations": [{"path": f"/p/{TEXT}", "line": 1}],
    "rawInput": {TEXT: TEXT},
    "content": [
        {"type": "content", "content": {"type": "text", "text": TEXT}},
        {"type": "diff", "path": f"/p/{TEXT}", "oldText": "a\n", "newText": f"{TEXT}\n"},
    ],
}
SCHEMA = {
    "type": "object",
    "title": TEXT,
    "description": TEXT,
    "properties": {
        TEXT: {"type": "string", "description": TEXT, "default": TEXT, "pattern": "a^"},
        "one": {
            "type": "string",
            "title": TEXT,
            "oneOf": [{"const": TEXT, "title": TEXT}, {"const": "b", "title": TEXT}],
            "default": "not offered",
        },
        "other": {"type": "string", "title": TEXT, "enum": [TEXT, TEXT, "b"], "default": TEXT},
        "many": {
            "type": "array",
            "title": TEXT,
            "items": {"type": "string", "enum": [TEXT, TEXT, "b"]},
            "default": [TEXT],
        },
        "sure": {"type": "boolean", "title": TEXT, "description": TEXT},
        "count": {"type": "integer", "title": TEXT, "minimum": 1},
    },
}
_asked: dict[int, Any] = {}
_signed_in = "LABEL_SIGN_IN" not in os.environ


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(kind: str, /, **members: Any) -> None:
    send(
        method="session/update",
        params={"sessionId": SESSION, "update": {"sessionUpdate": kind, **members}},
    )


def ask(prompt: Any, method: str, **params: Any) -> None:
    _asked[prompt] = method
    send(id=f"ask-{prompt}", method=method, params={"sessionId": SESSION, **params})


def show_everything() -> None:
    block = {"type": "text", "text": TEXT}
    update("agent_message_chunk", content=block, messageId="m1")
    update("agent_thought_chunk", content=block, messageId="m2")
    update("tool_call", **CALL)
    update("tool_call_update", toolCallId="call", status="failed", rawOutput={TEXT: TEXT})
    update("plan", entries=[{"content": TEXT, "status": "in_progress", "priority": "high"}])
    update("notice", severity="warning", title=TEXT, description=TEXT)
    update("session_info_update", title=TEXT)
    update("usage_update", used=1, size=2, cost={"amount": 1.5, "currency": TEXT})
    update(
        "available_commands_update",
        availableCommands=[
            {"name": "go", "description": TEXT, "input": {"hint": TEXT}},
            {"name": TEXT, "description": TEXT},
        ],
    )


def prompt(id: Any, text: str) -> None:
    match text:
        case "ask":
            kinds = ("allow_once", "allow_always", "reject_once")
            options = [{"optionId": kind, "name": TEXT, "kind": kind} for kind in kinds]
            ask(id, "session/request_permission", toolCall=CALL, options=options)
        case "form":
            ask(id, "elicitation/create", mode="form", message=TEXT, requestedSchema=SCHEMA)
        case "url":
            url = "https://example.com/[/b]"
            ask(id, "elicitation/create", mode="url", elicitationId=str(id), message=TEXT, url=url)
        case "question":
            ask(id, "_agentao.cn/ask_user", question=TEXT, options=[TEXT, "b"])
        case "fail":
            send(id=id, error={"code": -32603, "message": TEXT, "data": {TEXT: TEXT}})
        case _:
            show_everything()
            send(id=id, result={"stopReason": "end_turn"})


def opened() -> dict[str, Any]:
    choices = [{"value": "a", "name": TEXT, "description": TEXT}, {"value": "b", "name": TEXT}]
    return {
        "modes": {
            "currentModeId": "a",
            "availableModes": [{"id": mode, "name": TEXT, "description": TEXT} for mode in "ab"],
        },
        "configOptions": [
            {
                "id": category,
                "name": TEXT,
                "description": TEXT,
                "category": category,
                "type": "select",
                "currentValue": "a",
                "options": [{"group": "g", "name": TEXT, "options": choices}],
            }
            for category in ("model", "mode", "thought_level")
        ],
    }


def serve(message: dict[str, Any]) -> None:
    global _signed_in
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        asked = int(str(id).removeprefix("ask-"))
        update("agent_message_chunk", content={"type": "text", "text": f"answered {_asked.pop(asked)}"})
        send(id=asked, result={"stopReason": "end_turn"})
    elif method == "initialize":
        send(
            id=id,
            result={
                "protocolVersion": 1,
                "agentInfo": {"name": TEXT, "title": TEXT, "version": TEXT},
                "agentCapabilities": {
                    "loadSession": True,
                    "sessionCapabilities": {"list": {}, "delete": {}},
                },
                "authMethods": [{"id": "a", "name": TEXT, "description": TEXT}],
            },
        )
    elif method == "authenticate":
        _signed_in = True
        send(id=id, result={})
    elif method == "session/new" and not _signed_in:
        send(id=id, error={"code": -32000, "message": TEXT})
    elif method == "session/new":
        send(id=id, result={"sessionId": SESSION, **opened()})
    elif method == "session/list":
        listed = {"sessionId": "old", "cwd": f"/{TEXT}", "title": TEXT, "updatedAt": "2026-03-01T10:00:00Z"}
        send(id=id, result={"sessions": [listed]})
    elif method == "session/prompt":
        prompt(id, params["prompt"][0].get("text", ""))
    elif id is not None:
        send(id=id, error={"code": -32601, "message": TEXT})


if __name__ == "__main__":
    for line in sys.stdin:
        serve(json.loads(line))
