"""The demo agent without history and session list: it only resumes. It runs commands in terminals of the
client.

Prompt: run LINE (a shell line, as a tool call with a live terminal)
"""

import json
import sys
from typing import Any

import demo_agent  # pyright: ignore[reportMissingImports]

_asked: dict[Any, str] = {}
_terminal = ""


def ask(method: str, **params: Any) -> None:
    number = f"w{len(_asked)}"
    _asked[number] = method
    demo_agent.send({"id": number, "method": method, "params": {"sessionId": "s1", **params}})


def answered(method: str, result: dict[str, Any]) -> None:
    global _terminal
    if method == "terminal/create":
        _terminal = result["terminalId"]
        content = [{"type": "terminal", "terminalId": _terminal}]
        demo_agent.update(
            "tool_call",
            toolCallId="run",
            title="Run it",
            kind="execute",
            status="in_progress",
            content=content,
        )
        ask("terminal/wait_for_exit", terminalId=_terminal)
    elif method == "terminal/wait_for_exit":
        status = "completed" if result["exitCode"] == 0 else "failed"
        demo_agent.update("tool_call_update", toolCallId="run", status=status)
        ask("terminal/release", terminalId=_terminal)
    else:
        demo_agent.end()


def serve(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None and id in _asked:
        answered(_asked[id], message.get("result") or {})
    elif method == "initialize":
        offered = {"sessionCapabilities": {"resume": {}}}
        demo_agent.send(
            {"id": id, "result": {"protocolVersion": 1, "agentCapabilities": offered, "authMethods": []}}
        )
    elif method == "session/resume":
        demo_agent.send({"id": id, "result": {}})
    elif method == "session/prompt" and (text := params["prompt"][0]["text"]).startswith("run "):
        demo_agent._prompt = id
        ask("terminal/create", command="/bin/sh", args=["-c", text.removeprefix("run ")])
    else:
        demo_agent.serve(message)


if __name__ == "__main__":
    for line in sys.stdin:
        serve(json.loads(line))
