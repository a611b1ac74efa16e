"""An agent that stores sessions, written in plain JSON lines: three in one folder, one in another, two per
page.

`KEEPER_WITHOUT` names what it does not support (list, load, fork, delete; servers: loading without MCP
servers). `KEEPER_EXTENSION` is an extension that it announces. `KEEPER_CALLS` is a file for the
calls it receives. `KEEPER_LOGIN` is a file that exists once the user has signed in; until then sessions are
refused.
"""

import json
import os
import sys
from typing import Any

WITHOUT = os.environ.get("KEEPER_WITHOUT", "").split(",")
LOGIN = os.environ.get("KEEPER_LOGIN")
NASTY = "\x1b[31mred\x1b[0m \u202eback\u202c"


def sessions() -> list[dict[str, Any]]:
    here = os.environ["KEEPER_FOLDER"]
    return [
        {"sessionId": "aaa-1", "cwd": here, "title": f"First {NASTY}", "updatedAt": "2026-08-01T10:00:00Z"},
        {"sessionId": "aaa-2", "cwd": here, "updatedAt": "yesterday \x1b[2J"},
        {"sessionId": "bbb-3", "cwd": here, "title": "Third", "additionalDirectories": ["/lib"]},
        {"sessionId": "ccc-4", "cwd": "/elsewhere", "title": "Fourth"},
    ]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(session: str, kind: str, /, **members: Any) -> None:
    note = {"sessionId": session, "update": {"sessionUpdate": kind, **members}}
    send({"method": "session/update", "params": note})


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def replay(session: str) -> None:
    update(session, "user_message_chunk", content=text("Make it *better*"))
    update(session, "agent_thought_chunk", content=text("Hm </details> `x`"))
    update(session, "plan", entries=[
        {"content": "Look", "priority": "high", "status": "completed"},
        {"content": "Edit <b>", "priority": "high", "status": "in_progress"},
    ])  # fmt: skip
    update(
        session, "tool_call", toolCallId="c1", title=f"Edit a.py {NASTY}", kind="edit", status="completed",
        content=[{"type": "diff", "path": "/w/a.py", "oldText": "one\ntwo\n", "newText": "one\n2\n"}],
    )  # fmt: skip
    update(
        session, "tool_call", toolCallId="c2", title="pytest", kind="execute", status="failed",
        content=[{"type": "content", "content": text("```\n1 failed\n```")}],
    )  # fmt: skip
    update(session, "tool_call", toolCallId="c3", title="Search", rawInput={"q": "x"})
    update(session, "agent_message_chunk", content=text(f"# Done\n\n**All** of it. {NASTY}"))


def answer(method: str, params: dict[str, Any], id: Any) -> Any:
    session = str(params.get("sessionId"))
    known = [one["sessionId"] for one in sessions()]
    if LOGIN and not os.path.exists(LOGIN) and method.startswith("session/"):
        return send({"id": id, "error": {"code": -32000, "message": "Authentication required"}})
    if method == "initialize":
        offered = {
            name: {} for name in ("list", "fork", "delete", "additionalDirectories") if name not in WITHOUT
        }
        capabilities = {"loadSession": "load" not in WITHOUT, "sessionCapabilities": offered}
        result: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": capabilities}
        if extension := os.environ.get("KEEPER_EXTENSION"):
            result["_meta"] = {extension: {"supported": True}}
        return send({"id": id, "result": result})
    if method.startswith("_session/") and "KEEPER_EXTENSION" in os.environ:
        return send({"id": id, "result": {}})
    if method == "session/list":
        start = int(params.get("cursor") or 0)
        page: dict[str, Any] = {"sessions": sessions()[start : start + 2]}
        if start + 2 < len(sessions()):
            page["nextCursor"] = str(start + 2)
        return send({"id": id, "result": page})
    if method == "session/new":
        return send({"id": id, "result": {"sessionId": "new-5"}})
    if method == "session/prompt":
        update(session, "agent_message_chunk", content=text("Heard."))
        return send({"id": id, "result": {"stopReason": "end_turn"}})
    if session not in known and method in ("session/load", "session/fork", "session/delete"):
        return send({"id": id, "error": {"code": -32002, "message": "Session not found"}})
    if method == "session/load" and "servers" in WITHOUT and not params.get("mcpServers"):
        return send({"id": id, "error": {"code": -32602, "message": "the session needs its MCP servers"}})
    if method == "session/load":
        if "replay" not in WITHOUT:
            replay(session)
        return send({"id": id, "result": {}})
    if method == "session/fork":
        return send({"id": id, "result": {"sessionId": f"{session}-fork"}})
    if method == "session/delete":
        return send({"id": id, "result": {}})
    return send({"id": id, "error": {"code": -32601, "message": "Method not found"}})


for line in sys.stdin:
    message = json.loads(line)
    if calls := os.environ.get("KEEPER_CALLS"):
        with open(calls, "a") as file:
            file.write(json.dumps({"method": message.get("method"), "params": message.get("params")}) + "\n")
    if "id" in message and "method" in message:
        answer(message["method"], message.get("params") or {}, message["id"])
