"""An agent without rewind, in plain JSON lines: changes files itself, and remembers what it heard.

Prompts: write NAME TEXT | remove NAME | ask NAME TEXT (asks for permission first) | heard | anything else
"""

import json
import os
import sys
from typing import Any

sessions: dict[str, list[str]] = {}
_waiting: dict[Any, tuple[Any, str, str, str]] = {}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def finish(id: Any, session: str, text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send({"method": "session/update", "params": {"sessionId": session, "update": update}})
    send({"id": id, "result": {"stopReason": "end_turn"}})


def write(name: str, text: str) -> None:
    with open(name, "w") as file:
        file.write(text + "\n")


def prompt(id: Any, session: str, blocks: list[dict[str, Any]]) -> None:
    texts = [block.get("text", block.get("resource", {}).get("text", "")) for block in blocks]
    sessions[session].append(" | ".join(texts))
    word, _, rest = texts[0].partition(" ")
    name, _, text = rest.partition(" ")
    if word == "write":
        write(name, text)
    elif word == "remove":
        os.remove(name)
    elif word == "ask":
        number = f"ask-{id}"
        _waiting[number] = (id, session, name, text)
        diff = {"type": "diff", "path": os.path.abspath(name), "oldText": None, "newText": text}
        call = {"toolCallId": number, "title": f"Write {name}", "kind": "edit", "content": [diff]}
        options = [{"optionId": "yes", "name": "Allow", "kind": "allow_once"}]
        params = {"sessionId": session, "toolCall": call, "options": options}
        send({"id": number, "method": "session/request_permission", "params": params})
        return
    elif word == "heard":
        finish(id, session, f"{session} heard: {sessions[session]}")
        return
    finish(id, session, f"did {texts[0]}")


def serve(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        prompt_id, session, name, text = _waiting.pop(id)
        write(name, text)
        finish(prompt_id, session, f"wrote {name}")
    elif method == "initialize":
        embedded = "WITHOUT_RESOURCES" not in os.environ
        offered = {"promptCapabilities": {"embeddedContext": embedded}}
        send({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": offered, "authMethods": []}})
    elif method == "session/new":
        session = f"plain-{len(sessions) + 1}"
        sessions[session] = []
        os.chdir(params["cwd"])
        send({"id": id, "result": {"sessionId": session}})
    elif method == "session/prompt":
        prompt(id, params["sessionId"], params["prompt"])
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "no"}})


if __name__ == "__main__":
    for line in sys.stdin:
        serve(json.loads(line))
