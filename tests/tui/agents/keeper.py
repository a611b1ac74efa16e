"""The demo agent with model groups, a mode, a switch, and sessions that can be listed, forked and deleted.

`KEEPER_FILE` holds its sessions in the format of `session/list`. A value that begins with `refuse` cannot be
set.
"""

import copy
import json
import os
import sys
from pathlib import Path
from typing import Any

import demo_agent  # pyright: ignore[reportMissingImports]

FILE = Path(os.environ["KEEPER_FILE"]) if "KEEPER_FILE" in os.environ else None
EVIL = "ev\x1b]0;owned\x07il"
OPTIONS: list[dict[str, Any]] = [
    {
        "id": "model",
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": "small",
        "options": [
            {"group": "fast", "name": "Fast ones", "options": [
                {"value": "tiny", "name": "Tiny 1"},
                {"value": "small", "name": "Small 2", "description": "quick and cheap"}]},
            {"group": "able", "name": "Able ones", "options": [
                {"value": "large", "name": "Large 3"}, {"value": "refuse-huge", "name": f"Huge 4 {EVIL}"}]},
        ],
    },
    {
        "id": "mode",
        "name": "Mode",
        "category": "mode",
        "type": "select",
        "currentValue": "ask",
        "options": [{"value": "ask", "name": "Ask first"}, {"value": "code", "name": "Just code"}],
    },
    {"id": "web", "name": "Use the web", "description": "Look things up", "type": "boolean",
     "currentValue": False},
    {
        "id": "effort",
        "name": "Effort",
        "category": "thought_level",
        "type": "select",
        "currentValue": "low",
        "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}],
    },
]  # fmt: skip
options = copy.deepcopy(OPTIONS)
ANSWER = """say The loop ends at the last newline, so it drops the text after it. \
I would change `take`:

```python
def take(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line]
```

- keeps the text after the last newline
- skips **empty** lines
"""
ANSWERS = {
    "Why does the parser lose the last line?": [
        "think The loop ends one too early, it seems.",
        "title Fix the parser",
        "plan",
        "tool",
        ANSWER,
    ],
    "Write the guide": ["title Write the guide", "say It is written."],
}
"""Prompts that a user could send, and the commands that the demo agent runs for them."""


def sessions() -> list[dict[str, Any]]:
    return json.loads(FILE.read_text()) if FILE is not None and FILE.exists() else []


def save(found: list[dict[str, Any]]) -> None:
    if FILE is not None:
        FILE.write_text(json.dumps(found))


def serve(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    match method:
        case "initialize":
            offered = {
                "loadSession": True,
                "sessionCapabilities": {"list": {}, "fork": {}, "delete": {}},
                "promptCapabilities": {"image": True, "embeddedContext": True},
            }
            info = {"name": "keeper", "version": "1", "title": "Keeper"}
            result = {
                "protocolVersion": 1,
                "agentCapabilities": offered,
                "authMethods": [],
                "agentInfo": info,
            }
            demo_agent.send({"id": id, "result": result})
        case "session/new":
            demo_agent.SESSION = f"k{os.getpid()}{'' if demo_agent.SESSION == 's1' else '9'}"
            demo_agent.send({"id": id, "result": {"sessionId": demo_agent.SESSION, "configOptions": options}})
        case "session/load":
            demo_agent.SESSION = params["sessionId"]
            demo_agent.say(f"before in {demo_agent.SESSION}", "user_message_chunk")
            demo_agent.say("and the answer")
            demo_agent.send({"id": id, "result": {"configOptions": options}})
        case "session/list":
            demo_agent.send({"id": id, "result": {"sessions": sessions()}})
        case "session/fork":
            fork = {"sessionId": f"{params['sessionId']}-fork", "cwd": params["cwd"], "title": "a fork"}
            save([*sessions(), fork])
            demo_agent.send({"id": id, "result": {"sessionId": fork["sessionId"], "configOptions": options}})
        case "session/delete":
            if params["sessionId"].startswith("refuse"):
                demo_agent.send({"id": id, "error": {"code": -32603, "message": "it is under a lock"}})
                return
            save([one for one in sessions() if one["sessionId"] != params["sessionId"]])
            demo_agent.send({"id": id, "result": {}})
        case "session/prompt" if (text := params["prompt"][0].get("text", "")) in ANSWERS:
            *parts, last = ANSWERS[text]
            for part in parts:
                demo_agent.play(part)
            demo_agent._prompt = id
            demo_agent.play(last)
        case "session/set_config_option":
            if str(params["value"]).startswith("refuse"):
                error = {"code": -32603, "message": f"your plan does not have it {EVIL}\nsecond line"}
                demo_agent.send({"id": id, "error": error})
                return
            for option in options:
                if option["id"] == params["configId"]:
                    option["currentValue"] = params["value"]
            demo_agent.send({"id": id, "result": {"configOptions": options}})
        case _:
            demo_agent.serve(message)


if __name__ == "__main__":
    for line in sys.stdin:
        serve(json.loads(line))
