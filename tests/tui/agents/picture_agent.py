"""The keeper for the pictures of the guide: it changes a file after the user allowed it.

Prompt: Keep the last line (asks for permission to edit parser.py)
"""

import json
import os
import sys
from typing import Any

import demo_agent  # pyright: ignore[reportMissingImports]
import keeper  # pyright: ignore[reportMissingImports]

BEFORE = """def take(text: str) -> list[str]:
    lines = []
    while (end := text.find("\\n")) >= 0:
        lines.append(text[:end])
        text = text[end + 1 :]
    return lines
"""
AFTER = """def take(text: str) -> list[str]:
    lines = []
    while (end := text.find("\\n")) >= 0:
        lines.append(text[:end].rstrip())
        text = text[end + 1 :]
    return [*lines, text] if text else lines
"""


def serve(message: dict[str, Any]) -> None:
    method, params = message.get("method"), message.get("params") or {}
    if method == "session/prompt" and params["prompt"][0].get("text") == "Keep the last line":
        demo_agent._prompt = message["id"]
        path = os.path.join(os.getcwd(), "parser.py")
        diff = {"type": "diff", "path": path, "oldText": BEFORE, "newText": AFTER}
        demo_agent.ask_permission("edit", kind="edit", title="Edit parser.py", content=[diff])
    elif method is None and demo_agent._waiting.get(message.get("id")) == "edit":
        demo_agent._waiting.clear()
        demo_agent.update("tool_call_update", toolCallId="edit", status="completed")
        demo_agent.say("`take` keeps the text after the last newline now.")
        demo_agent.end()
    else:
        keeper.serve(message)


if __name__ == "__main__":
    keeper.options[0]["options"][1]["options"][1]["name"] = "Huge 4"
    for line in sys.stdin:
        serve(json.loads(line))
