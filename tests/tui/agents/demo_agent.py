"""An agent in plain JSON lines that does what the prompt says. It uses no library, so it starts quickly and
can send any message.

Prompts: say TEXT | think TEXT | wait | die | ask | ask-many | ask-long | edit | form | url | question | plan
| commands | tool | evil | fail | title TEXT | run LINE | write FILE
"""

import json
import os
import sys
from typing import Any

OPTIONS = [
    {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
HISTORY = os.environ.get("DEMO_HISTORY", "")
EVIL = "\x1b]0;owned\x07\x1b[2Jcalm\u202etxet\x1b[31m red\x9b1A end"
SESSION = "s1"
_waiting: dict[Any, str] = {}
_ids = iter(range(1000, 10_000))
_prompt: Any = None


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(kind: str, /, **members: Any) -> None:
    send(
        {
            "method": "session/update",
            "params": {"sessionId": SESSION, "update": {"sessionUpdate": kind, **members}},
        }
    )


def say(text: str, kind: str = "agent_message_chunk") -> None:
    update(kind, content={"type": "text", "text": text})


def ask(method: str, what: str, **params: Any) -> None:
    number = next(_ids)
    _waiting[number] = what
    send({"id": number, "method": method, "params": {"sessionId": SESSION, **params}})


def ask_permission(call: str, options: list[dict[str, str]] = OPTIONS, **more: Any) -> None:
    tool = {
        "toolCallId": call,
        "title": f"run the tests of {call}",
        "kind": "execute",
        "status": "pending",
        **more,
    }
    update("tool_call", **tool)
    ask("session/request_permission", call, toolCall=tool, options=options)


def end(reason: str = "end_turn") -> None:
    global _prompt
    if _prompt is not None:
        send({"id": _prompt, "result": {"stopReason": reason}})
        _prompt = None


def play(text: str) -> None:
    word, _, rest = text.partition(" ")
    match word:
        case "wait":
            say("waiting")
            return
        case "die":
            sys.stderr.write("the disk is full\n")
            sys.stderr.flush()
            os._exit(7)
        case "ask":
            ask_permission("one", rawInput={"command": "pytest -q"})
            return
        case "ask-many":
            ask_permission("one", rawInput={"command": "pytest -q"})
            ask_permission("two", rawInput={"command": "make"})
            return
        case "ask-scopes":
            scopes = ("once", "session", "project", "user")
            kinds = ["allow_once", *["allow_always"] * 3]
            offered = [
                {"optionId": scope, "name": f"Allow {scope}", "kind": kind}
                for scope, kind in zip(scopes, kinds, strict=True)
            ]
            ask_permission("one", offered, rawInput={"command": "make"})
            return
        case "ask-long":
            names = [
                f"Allow all that begins with npm run, {'wherever it runs, ' * 6}end {n}"
                for n in range(int(rest))
            ]
            offered = [
                {"optionId": f"o{n}", "name": name, "kind": "allow_once"} for n, name in enumerate(names)
            ]
            ask_permission("long", offered, rawInput={"command": "npm run"})
            return
        case "edit":
            diff = {
                "type": "diff",
                "path": "/p/app.py",
                "oldText": "def a():\n    return 1\n",
                "newText": "def a():\n    return 2\n",
            }
            ask_permission("edit", kind="edit", title="Edit app.py", content=[diff])
            return
        case "form":
            schema = {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "title": "Name", "minLength": 3},
                    "count": {"type": "integer", "title": "Count", "minimum": 1},
                    "colour": {
                        "type": "string",
                        "title": "Colour",
                        "enum": ["red", "blue"],
                        "default": "red",
                    },
                    "sure": {"type": "boolean", "title": "Sure"},
                },
                "required": ["name"],
            }
            ask("elicitation/create", "form", mode="form", message="Tell me more", requestedSchema=schema)
            return
        case "url":
            ask(
                "elicitation/create",
                "url",
                mode="url",
                elicitationId="e1",
                message="Sign in",
                url="https://example.com/login?x=1",
            )
            return
        case "question":
            ask("_agentao.cn/ask_user", "question", question="Which colour?", options=["red", "blue"])
            return
        case "run":
            say(f"process {os.getpid()}")
            ask("terminal/create", "run", command="sh", args=["-c", rest])
            return
        case "write":
            ask("fs/write_text_file", "write", path=rest, content="written\n")
            return
        case "plan":
            steps = [("look", "completed"), ("change", "in_progress"), ("test", "pending")]
            if rest == "done":
                steps = [(content, "completed") for content, _ in steps]
            update(
                "plan",
                entries=[
                    {"content": content, "status": status, "priority": "medium"} for content, status in steps
                ],
            )
        case "children":
            update("subagent_update", sessionId="c1", title="Look at the tests", description="All of them",
                   state={"state": rest or "requires_action"})  # fmt: skip
        case "commands":
            commands = [
                {"name": "compact", "description": "Shorten the context", "input": {"hint": "what to keep"}},
                {"name": "review", "description": "Review a change"},
            ]
            update("available_commands_update", availableCommands=commands)
        case "tool":
            content = [{"type": "content", "content": {"type": "text", "text": "secret file text"}}]
            places = [{"path": "/p/src/app.py", "line": 3}]
            update(
                "tool_call",
                toolCallId="t",
                title="Read it",
                kind="read",
                status="completed",
                content=content,
                locations=places,
            )
        case "change":
            # Changes two lines of a file, as an agent with tools of its own.
            with open(rest) as file:
                before = file.read()
            after = before.replace("return 1", "return 2").replace("line 20", "line twenty")
            with open(rest, "w") as file:
                file.write(after)
            diff = {"type": "diff", "path": rest, "oldText": before, "newText": after}
            update("tool_call", toolCallId="c", title="Change it", kind="edit", status="completed",
                   content=[diff])  # fmt: skip
        case "evil":
            say(EVIL)
            update("tool_call", toolCallId="e", title=EVIL, kind="execute", status="failed",
                   content=[{"type": "content", "content": {"type": "text", "text": EVIL}}])  # fmt: skip
        case "think":
            say(rest, "agent_thought_chunk")
            say("thought it over")
        case "fail":
            global _prompt
            send({"id": _prompt, "error": {"code": -32603, "message": "the model is not reachable"}})
            _prompt = None
            return
        case "title":
            update("session_info_update", title=rest)
            update("usage_update", used=50_000, size=100_000, cost={"amount": 0.25, "currency": "USD"})
        case _:
            say(rest if word == "say" else f"heard {text}")
    end()


def serve(message: dict[str, Any]) -> None:
    global _prompt
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        what = _waiting.pop(id, "")
        say(f"{what}: {json.dumps(message.get('result', message.get('error')), sort_keys=True)}\n\n")
        if not _waiting:
            end()
    elif method == "initialize":
        offered = {"loadSession": True, "promptCapabilities": {"image": True, "embeddedContext": True}}
        meta = {"_meta": {"steering": {"supported": True}}} if "DEMO_STEERING" in os.environ else {}
        if "DEMO_REWIND" in os.environ:
            meta = {"_meta": {"rewind": {"supported": True}}}
        result = {"protocolVersion": 1, "agentCapabilities": offered, "authMethods": [], **meta}
        send({"id": id, "result": result})
    elif method == "session/new":
        send({"id": id, "result": {"sessionId": SESSION}})
    elif method == "session/load":
        for line in HISTORY.split("|") if HISTORY else ["before"]:
            say(line, "user_message_chunk")
            say(f"heard {line}")
        send({"id": id, "result": {}})
    elif method == "session/prompt":
        _prompt = id
        blocks = params["prompt"]
        extra = [block["type"] for block in blocks[1:]]
        if extra:
            say(f"with {' '.join(extra)}: ")
        play(blocks[0].get("text", ""))
    elif method == "_session/steering":
        text = params["prompt"][0]["text"]
        send({"id": id, "result": {"outcome": "promptRequired" if text == "late" else "injected"}})
        if text == "late":
            end()
        else:
            say(f"steered by {text}. ")
    elif method == "_session/rewind_points":
        points = [{"messageId": "m1", "title": "first", "at": "", "files": 1}]
        send({"id": id, "result": {"points": points, "redo": None}})
    elif method == "_session/rewind":
        redo = params.get("redo")
        if not params.get("dryRun"):
            marker = {"restored": True} if redo else {"messageId": "m1", "messages": 2, "text": "first"}
            update = {"sessionUpdate": "session_info_update", "_meta": {"rewind": marker}}
            send({"method": "session/update", "params": {"sessionId": SESSION, "update": update}})
        result: dict[str, Any] = {
            "canRewind": True,
            "filesChanged": ["/p/a"],
            "insertions": 1,
            "deletions": 2,
        }
        if not redo:
            result["prompt"] = [{"type": "text", "text": "first"}]
            result["skipped"] = [{"path": "/p/b", "reason": "another program changed it since"}]
        send({"id": id, "result": {**result, "title": "first"}})
    elif method == "session/cancel":
        _waiting.clear()
        end("cancelled")
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "no"}})


if __name__ == "__main__":
    for line in sys.stdin:
        serve(json.loads(line))
