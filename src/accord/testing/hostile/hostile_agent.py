"""What every hostile agent shares: the wire by hand, and a conversation that goes well unless the habit says otherwise."""

import json
import os
import signal
import sys
from typing import Any, ClassVar, NoReturn

Json = dict[str, Any]

YES_NO: list[Json] = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
LAST_WORDS = "hostile: the disk is full"


class StdinClosed(Exception):
    """The client closed our stdin."""


class HostileAgent:
    """A blocking agent on stdin and stdout. A habit overrides the steps in which it misbehaves."""

    habit: ClassVar[str]
    """The name on the command line."""
    capabilities: ClassVar[Json] = {}

    def __init__(self, *, log: str | None = None, once: str | None = None) -> None:
        """`log` is a file for every message heard; with `once` it misbehaves only as long as that file is missing."""
        self.session = ""
        self.cwd = ""
        self.cancelled = False
        self._log = log
        self._once = once
        self._asked = 0
        self._later: list[Json] = []

    def run(self) -> int:
        """Serve until the client hangs up; the exit code."""
        if self._once is not None:
            if os.path.exists(self._once):
                return WellBehaved(log=self._log).run()
            with open(self._once, "x"):
                pass
        self.note({"pid": os.getpid()})
        try:
            self.start()
            while True:
                self.serve(self._later.pop(0) if self._later else self.hear())
        except (StdinClosed, BrokenPipeError):
            return self.end()

    # -- the conversation, step by step -------------------------------------------------------------------------

    def start(self) -> None:
        """Before anything is heard."""

    def initialize(self, asked: Json) -> None:
        """`initialize`."""
        self.reply(asked, {"protocolVersion": 1, "agentCapabilities": self.capabilities})

    def new_session(self, asked: Json) -> None:
        """`session/new`."""
        self.reply(asked, {"sessionId": self.session})

    def prompt(self, asked: Json) -> None:
        """`session/prompt`."""
        self.say("All is well.")
        self.finish(asked)

    def other(self, asked: Json) -> None:
        """Any other request or notification."""
        if "id" in asked:
            self.refuse(asked, -32601, "Method not found")

    def end(self) -> int:
        """The client hung up; the exit code."""
        return 0

    def serve(self, message: Json) -> None:
        """Deal with one message."""
        method = message.get("method")
        params: Json = message.get("params") or {}
        if method == "session/new":
            self.session, self.cwd = f"s{os.getpid()}", str(params.get("cwd"))
            self.new_session(message)
        elif method == "initialize":
            self.initialize(message)
        elif method == "session/prompt":
            self.cancelled = False
            self.prompt(message)
        elif method == "session/cancel":
            self.cancelled = True
        elif method is not None:
            self.other(message)

    # -- the wire -----------------------------------------------------------------------------------------------

    def hear(self) -> Json:
        """The next message of the client."""
        line = sys.stdin.buffer.readline()
        if not line:
            raise StdinClosed
        message = json.loads(line)
        self.note(message)
        return message

    def note(self, message: Json) -> None:
        """Write to the log, if there is one."""
        if self._log is not None:
            with open(self._log, "a") as file:
                file.write(json.dumps(message) + "\n")

    def raw(self, data: bytes) -> None:
        """Put bytes on stdout, as they are."""
        while data:
            data = data[os.write(1, data) :]

    def send(self, message: Any) -> None:
        """Put one line of JSON on stdout."""
        self.raw(json.dumps(message).encode() + b"\n")

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def reply(self, asked: Json, result: Any) -> None:
        """Answer a request."""
        self.send({"jsonrpc": "2.0", "id": asked.get("id"), "result": result})

    def refuse(self, asked: Json, code: int, message: str, **more: Any) -> None:
        """Answer a request with an error."""
        error = {"code": code, "message": message, **more}
        self.send({"jsonrpc": "2.0", "id": asked.get("id"), "error": error})

    def finish(self, asked: Json, reason: str = "end_turn", **more: Any) -> None:
        """Answer a prompt."""
        self.reply(asked, {"stopReason": reason, **more})

    def update(self, kind: str, /, **members: Any) -> None:
        """Send a session update."""
        self.notify(
            "session/update", {"sessionId": self.session, "update": {"sessionUpdate": kind, **members}}
        )

    def say(self, text: str) -> None:
        """Say something."""
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def ask(self, method: str, params: Json, *, id: Any = None) -> Json:
        """Ask the client for something and wait for its answer; what comes before it is kept for later."""
        return self.answer_to(self.begin(method, params, id=id))

    def begin(self, method: str, params: Json, *, id: Any = None) -> Any:
        """Send a request without waiting; its id."""
        self._asked += 1
        id = f"hostile-{self._asked}" if id is None else id
        self.send(
            {"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": self.session, **params}}
        )
        return id

    def answer_to(self, id: Any) -> Json:
        """Wait for the answer to a request."""
        while True:
            message = self.hear()
            if "method" not in message and message.get("id") == id:
                return message
            self._set_aside(message)

    def answers_to(self, ids: list[Any]) -> list[Json]:
        """Wait for the answers to several requests, which come in any order."""
        waiting, answers = set(ids), list[Json]()
        while waiting:
            message = self.hear()
            if "method" not in message and message.get("id") in waiting:
                waiting.discard(message["id"])
                answers.append(message)
            else:
                self._set_aside(message)
        return answers

    def wait_for_cancel(self) -> None:
        """Do nothing until the client cancels the turn."""
        while not self.cancelled:
            self._set_aside(self.hear())

    def outcome(self, answer: Json) -> Json:
        """What was decided about a permission; empty where the client refused to be asked."""
        result: Json = answer.get("result") or {}
        return result.get("outcome") or {}

    def report(self, what: str, answer: Json) -> str:
        """Say what came of a request: `what: ok`, or the code of the refusal. The word is returned, too."""
        came = str(answer["error"]["code"]) if "error" in answer else "ok"
        self.say(f"{what}: {came}\n")
        return came

    def die(self, code: int = 7) -> NoReturn:
        """End on the spot, with last words."""
        sys.stderr.write(LAST_WORDS + "\n")
        sys.stderr.flush()
        os._exit(code)

    def live_forever(self) -> NoReturn:
        """Do nothing any more, and do not end when asked to."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            signal.pause()

    def _set_aside(self, message: Json) -> None:
        if message.get("method") == "session/cancel":
            self.cancelled = True
        elif "method" in message:
            self._later.append(message)


class WellBehaved(HostileAgent):
    """Does nothing wrong: what `--once` leaves when the harm is done."""

    habit = "tame"
    capabilities: ClassVar[Json] = {"loadSession": True, "sessionCapabilities": {"resume": {}}}

    def other(self, asked: Json) -> None:
        """A session is taken up again without a word."""
        if asked.get("method") in ("session/load", "session/resume"):
            self.session = asked["params"]["sessionId"]
            self.reply(asked, {})
        else:
            super().other(asked)
