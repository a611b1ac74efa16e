"""An agent for the browser tests: `python misbehaving_agent.py NAME`.

The first word of a prompt names the action, see `ACTIONS`. An action may return the text of the response.
`broken` exits at once with an error, `locked` requires a sign-in, `forgetful` cannot load sessions. All
other names start normally.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

Json = dict[str, Any]

RIGHT_TO_LEFT_OVERRIDE = "\u202e"
EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>'
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


class MisbehavingAgent:
    """Speaks ACP on stdio without the library, so that it can send what the library would not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.signed_in = name != "locked"
        self.folders: dict[str, str] = {}
        self._responses: dict[int, Queue[Json]] = {}
        self._last_id = 0
        self._lock = threading.Lock()

    def run(self) -> None:
        """Read messages until stdin ends. Each request gets a thread, because prompts wait for responses."""
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                self._responses.pop(message["id"]).put(message)
            elif "id" in message:
                threading.Thread(target=self._respond, args=(message,), daemon=True).start()

    def update(self, session: str, kind: str, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **fields}
        self._send({"method": "session/update", "params": {"sessionId": session, "update": update}})

    def say(self, session: str, text: str) -> None:
        self.update(session, "agent_message_chunk", content={"type": "text", "text": text})

    def request(self, method: str, params: Json) -> Json:
        with self._lock:
            self._last_id += 1
            request_id = self._last_id
            response = self._responses[request_id] = Queue[Json]()
        self._send({"id": request_id, "method": method, "params": params})
        return response.get()

    def request_permission(self, session: str, call: Json, options: list[Json]) -> str:
        """Return the id of the chosen option."""
        response = self.request(
            "session/request_permission", {"sessionId": session, "toolCall": call, "options": options}
        )
        return response["result"]["outcome"].get("optionId", "nothing")

    def _send(self, message: Json) -> None:
        with self._lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def _respond(self, message: Json) -> None:
        params: Json = message.get("params") or {}
        try:
            self._send({"id": message["id"], "result": self._result(message["method"], params)})
        except PermissionError:
            self._send({"id": message["id"], "error": {"code": -32000, "message": "Sign in first"}})
        except LookupError as error:
            self._send({"id": message["id"], "error": {"code": -32601, "message": str(error)}})

    def _result(self, method: str, params: Json) -> Json:
        match method:
            case "initialize":
                methods = [{"id": "web", "name": "Sign in with a browser"}] if self.name == "locked" else []
                capabilities: Json = {"loadSession": True, "sessionCapabilities": {"list": {}, "delete": {}}}
                if self.name == "forgetful":
                    capabilities = {}
                return {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": methods}
            case "authenticate":
                self.signed_in = True
            case "session/new":
                if not self.signed_in:
                    raise PermissionError
                session = f"{self.name}-{len(self.folders) + 1}-{os.getpid()}"
                self.folders[session] = params["cwd"]
                return {"sessionId": session}
            case "session/load":
                self.folders[params["sessionId"]] = params["cwd"]
            case "session/prompt":
                if not self.signed_in:
                    raise PermissionError
                words = params["prompt"][0]["text"].split()
                text = ACTIONS.get(words[0], _repeat)(self, params["sessionId"], words)
                return {"stopReason": "end_turn"} | ({"content": text} if text else {})
            case "session/list":
                return {"sessions": []}
            case "session/delete":
                return {}
            case _:
                raise LookupError(f"unknown method {method}")
        return {}


def _repeat(agent: MisbehavingAgent, session: str, words: list[str]) -> None:
    agent.say(session, f"You said: {' '.join(words)}")


def _stream(agent: MisbehavingAgent, session: str, _words: list[str]) -> None:
    """Send 2000 updates. After half of them, wait for a write to the pipe `gate` in the session's folder."""
    for number in range(2000):
        if number == 1000:
            with open(os.path.join(agent.folders[session], "gate"), encoding="utf-8") as gate:
                gate.read()
        end = "\n\n" if number % 10 == 9 else ""
        agent.say(session, f"Word {number} of a *stream* with `code`. {end}")


def _request_two_permissions(agent: MisbehavingAgent, session: str, _words: list[str]) -> None:
    """Send two permission requests at once, then say how they were answered."""
    answers: dict[str, str] = {}

    def request(name: str) -> None:
        call = {"toolCallId": f"{name}-{agent.name}", "title": name, "rawInput": {"command": name}}
        answers[name] = agent.request_permission(session, call, OPTIONS)

    threads = [threading.Thread(target=request, args=(name,)) for name in ("harmless", "dangerous")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    agent.say(session, f"harmless: {answers['harmless']}, dangerous: {answers['dangerous']}")


def _send_evil(agent: MisbehavingAgent, session: str, _words: list[str]) -> None:
    """Put markup, dangerous addresses and reversed text into every field, then request a permission."""
    rlo = RIGHT_TO_LEFT_OVERRIDE
    agent.update(session, "session_info_update", title=f"{EVIL} {rlo}eltit")
    command = {"name": f"x{rlo}y", "description": EVIL, "input": {"hint": EVIL}}
    agent.update(session, "available_commands_update", availableCommands=[command])
    step = {"content": EVIL + "w" * 500, "priority": "high", "status": "in_progress"}
    agent.update(session, "plan", entries=[step])
    text: Json = {"type": "text", "text": f"{EVIL} [x](javascript:hacked=3) ![y](https://evil.example/y.png)"}
    link = {"type": "resource_link", "uri": "javascript:hacked=4", "name": EVIL}
    images = [
        {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+"},
        {"type": "image", "mimeType": "image/png", "data": '" onerror="hacked=5'},
    ]
    agent.update(
        session,
        "tool_call",
        toolCallId="e",
        title=f"{EVIL} {rlo}x",
        status="completed",
        content=[{"type": "content", "content": block} for block in (text, link, *images)],
        locations=[{"path": f"/x/{EVIL}", "line": 3}],
    )
    agent.update(session, "notice", severity="error", title=EVIL, description=EVIL)
    agent.say(session, f"{text['text']} [z](//evil.example) `{rlo}edoc`\n\n~~~{EVIL}\nx{rlo}y\n~~~\n")
    diff = {
        "type": "diff",
        "path": f"/tmp/{rlo}cod.sh",
        "oldText": f"a\n{EVIL}",
        "newText": f"b{rlo}c\n{EVIL}",
    }
    options = [
        {"optionId": "reversed", "name": f"Reject{rlo}wollA", "kind": "allow_once"},
        {"optionId": "long", "name": EVIL + "o" * 300, "kind": "reject_once"},
    ]
    call = {"toolCallId": "q", "title": f"{EVIL} {rlo}txt.exe", "content": [diff]}
    agent.request_permission(session, call, options)
    agent.say(session, "Done with evil.")


def _crash(agent: MisbehavingAgent, session: str, _words: list[str]) -> None:
    agent.say(session, "Crashing.")
    sys.stderr.write("the model host is not reachable <b>\n")
    sys.stderr.flush()
    os._exit(3)


def _sign_out(agent: MisbehavingAgent, session: str, _words: list[str]) -> None:
    agent.signed_in = False
    agent.say(session, "Signed out.")


def _answer_in_response(_agent: MisbehavingAgent, _session: str, _words: list[str]) -> str:
    return "This text is only in the response."


ACTIONS: dict[str, Callable[[MisbehavingAgent, str, list[str]], str | None]] = {
    "response": _answer_in_response,
    "stream": _stream,
    "two": _request_two_permissions,
    "evil": _send_evil,
    "crash": _crash,
    "forget": _sign_out,
}

if __name__ == "__main__":
    if sys.argv[1] == "broken":
        sys.exit("cannot find the module left-pad")
    MisbehavingAgent(sys.argv[1]).run()
