"""An agent that plays what it is told to, line by line: `python -m tests.web.actor NAME`. It knows no good manners.

`broken` ends before it says anything, `locked` wants a sign-in; all others do at each prompt what its first word says.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

Json = dict[str, Any]

RLO = "\u202e"
EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>'
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


class Actor:
    """One process: its sessions' folders, what it waits for, and whether somebody signed in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.signed_in = name != "locked"
        self.folders: dict[str, str] = {}
        self._answers: dict[int, Queue[Json]] = {}
        self._asked = 0
        self._lock = threading.Lock()

    def run(self) -> None:
        """Until stdin ends. Each request has a thread of its own, because prompts wait for answers."""
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                self._answers.pop(message["id"]).put(message)
            elif "id" in message:
                threading.Thread(target=self._serve, args=(message,), daemon=True).start()

    def update(self, session: str, kind: str, **facts: Any) -> None:
        update = {"sessionUpdate": kind, **facts}
        self._send({"method": "session/update", "params": {"sessionId": session, "update": update}})

    def say(self, session: str, text: str) -> None:
        self.update(session, "agent_message_chunk", content={"type": "text", "text": text})

    def ask(self, method: str, params: Json) -> Json:
        with self._lock:
            self._asked += 1
            asked = self._asked
            answer = self._answers[asked] = Queue[Json]()
        self._send({"id": asked, "method": method, "params": params})
        return answer.get()

    def permission(self, session: str, call: Json, options: list[Json]) -> str:
        answer = self.ask(
            "session/request_permission", {"sessionId": session, "toolCall": call, "options": options}
        )
        return answer["result"]["outcome"].get("optionId", "nothing")

    def _send(self, message: Json) -> None:
        with self._lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def _serve(self, message: Json) -> None:
        params: Json = message.get("params") or {}
        try:
            self._send({"id": message["id"], "result": self._answer(message["method"], params)})
        except PermissionError:
            self._send({"id": message["id"], "error": {"code": -32000, "message": "Sign in first"}})
        except LookupError as error:
            self._send({"id": message["id"], "error": {"code": -32601, "message": str(error)}})

    def _answer(self, method: str, params: Json) -> Json:
        match method:
            case "initialize":
                ways = [{"id": "web", "name": "Sign in with a browser"}] if self.name == "locked" else []
                able: Json = {"loadSession": True, "sessionCapabilities": {"list": {}, "delete": {}}}
                return {"protocolVersion": 1, "agentCapabilities": able, "authMethods": ways}
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
                word, *rest = params["prompt"][0]["text"].split()
                PLAYS.get(word, _repeat)(self, params["sessionId"], [word, *rest])
                return {"stopReason": "end_turn"}
            case "session/list":
                return {"sessions": []}
            case "session/delete":
                return {}
            case _:
                raise LookupError(f"no {method} here")
        return {}


def _repeat(actor: Actor, session: str, words: list[str]) -> None:
    actor.say(session, f"You said: {' '.join(words)}")


def _stream(actor: Actor, session: str, _words: list[str]) -> None:
    """Two thousand updates, half of them once somebody has written into the pipe `gate` in the session's folder."""
    for number in range(2000):
        if number == 1000:
            with open(os.path.join(actor.folders[session], "gate"), encoding="utf-8") as gate:
                gate.read()
        actor.say(
            session, f"Word {number} of a *stream* with `code`. " + ("\n\n" if number % 10 == 9 else "")
        )


def _two(actor: Actor, session: str, _words: list[str]) -> None:
    """Two questions at once; what was answered is said in the end."""
    answers: dict[str, str] = {}

    def one(name: str) -> None:
        call = {"toolCallId": f"{name}-{actor.name}", "title": name, "rawInput": {"command": name}}
        answers[name] = actor.permission(session, call, OPTIONS)

    threads = [threading.Thread(target=one, args=(name,)) for name in ("harmless", "dangerous")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    actor.say(session, f"harmless: {answers['harmless']}, dangerous: {answers['dangerous']}")


def _evil(actor: Actor, session: str, _words: list[str]) -> None:
    """Markup, addresses and turned-around text in everything that an agent may name; then a question of that kind."""
    actor.update(session, "session_info_update", title=f"{EVIL} {RLO}eltit")
    actor.update(
        session,
        "available_commands_update",
        availableCommands=[{"name": f"x{RLO}y", "description": EVIL, "input": {"hint": EVIL}}],
    )
    actor.update(
        session, "plan", entries=[{"content": EVIL + "w" * 500, "priority": "high", "status": "in_progress"}]
    )
    text: Json = {"type": "text", "text": f"{EVIL} [x](javascript:hacked=3) ![y](https://evil.example/y.png)"}
    link = {"type": "resource_link", "uri": "javascript:hacked=4", "name": EVIL}
    pictures = [
        {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+"},
        {"type": "image", "mimeType": "image/png", "data": '" onerror="hacked=5'},
    ]
    content = [{"type": "content", "content": block} for block in (text, link, *pictures)]
    places = [{"path": f"/x/{EVIL}", "line": 3}]
    actor.update(
        session,
        "tool_call",
        toolCallId="e",
        title=f"{EVIL} {RLO}x",
        status="completed",
        content=content,
        locations=places,
    )
    actor.update(session, "notice", severity="error", title=EVIL, description=EVIL)
    actor.say(session, f"{text['text']} [z](//evil.example) `{RLO}edoc`\n\n~~~{EVIL}\nx{RLO}y\n~~~\n")
    diff = {
        "type": "diff",
        "path": f"/tmp/{RLO}cod.sh",
        "oldText": f"a\n{EVIL}",
        "newText": f"b{RLO}c\n{EVIL}",
    }
    options = [
        {"optionId": "turned", "name": f"Reject{RLO}wollA", "kind": "allow_once"},
        {"optionId": "long", "name": EVIL + "o" * 300, "kind": "reject_once"},
    ]
    actor.permission(
        session, {"toolCallId": "q", "title": f"{EVIL} {RLO}txt.exe", "content": [diff]}, options
    )
    actor.say(session, "Done with evil.")


def _die(actor: Actor, session: str, _words: list[str]) -> None:
    actor.say(session, "Farewell.")
    sys.stderr.write("the model host is not reachable <b>\n")
    sys.stderr.flush()
    os._exit(3)


def _forget(actor: Actor, session: str, _words: list[str]) -> None:
    actor.signed_in = False
    actor.say(session, "Forgotten who you are.")


PLAYS: dict[str, Callable[[Actor, str, list[str]], None]] = {
    "stream": _stream,
    "two": _two,
    "evil": _evil,
    "die": _die,
    "forget": _forget,
}

if __name__ == "__main__":
    if sys.argv[1] == "broken":
        sys.exit("cannot find the module left-pad")
    Actor(sys.argv[1]).run()
