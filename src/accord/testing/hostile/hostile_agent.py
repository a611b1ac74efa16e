"""The base class of all hostile agents: a correct agent on stdio that uses only the standard library.

It writes raw JSON lines, so that it can send what no library would. A behavior overrides single steps.
"""

import json
import os
import signal
import sys
import time
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

Json: TypeAlias = dict[str, Any]

PERMISSION_OPTIONS: Final[list[Json]] = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
STDERR_MESSAGE: Final = "hostile: the disk is full"


class StdinClosed(Exception):
    """The client closed the agent's stdin."""


class HostileAgent:
    """A blocking agent on stdin and stdout. Subclasses override the steps in which they misbehave."""

    name: ClassVar[str]
    """The name on the command line."""
    capabilities: ClassVar[Json] = {}

    def __init__(self, *, log: str | None = None, once: str | None = None) -> None:
        """`log`: a file for received messages. `once`: a file to create; if it exists, behave well."""
        self.session: str = ""
        self.cwd: str = ""
        self.cancelled: bool = False
        self._log_file = log
        self._once_file = once
        self._request_count = 0
        self._postponed: list[Json] = []

    def run(self) -> int:
        """Serve until the client closes stdin; returns the exit code."""
        if self._once_file is not None:
            if os.path.exists(self._once_file):
                return WellBehaved(log=self._log_file).run()
            with open(self._once_file, "x"):
                pass
        self.log({"pid": os.getpid()})
        try:
            self.start()
            while True:
                self.serve(self._postponed.pop(0) if self._postponed else self.receive())
        except (StdinClosed, BrokenPipeError):
            return self.end()

    # -- steps that behaviors override

    def start(self) -> None:
        """Runs before the first message is read."""

    def initialize(self, request: Json) -> None:
        """Answer `initialize`."""
        self.reply(request, {"protocolVersion": 1, "agentCapabilities": self.capabilities})

    def new_session(self, request: Json) -> None:
        """Answer `session/new`."""
        self.reply(request, {"sessionId": self.session})

    def prompt(self, request: Json) -> None:
        """Answer `session/prompt`."""
        self.say("All is well.")
        self.finish(request)

    def other(self, request: Json) -> None:
        """Answer any other request or notification."""
        if "id" in request:
            self.refuse(request, -32601, "Method not found")

    def end(self) -> int:
        """Runs when the client has closed stdin; returns the exit code."""
        return 0

    def serve(self, message: Json) -> None:
        """Handle one message."""
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

    # -- messages

    def receive(self) -> Json:
        """Read the next message of the client."""
        line = sys.stdin.buffer.readline()
        if not line:
            raise StdinClosed
        message = json.loads(line)
        self.log(message)
        return message

    def log(self, message: Json) -> None:
        """Write a line to the log file, if there is one."""
        if self._log_file is not None:
            with open(self._log_file, "a") as file:
                file.write(json.dumps(message) + "\n")

    def write(self, data: bytes) -> None:
        """Write bytes to stdout, unchanged."""
        while data:
            data = data[os.write(1, data) :]

    def send(self, message: Any) -> None:
        """Write one line of JSON to stdout."""
        self.write(json.dumps(message).encode() + b"\n")

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def reply(self, request: Json, result: Any) -> None:
        """Answer a request."""
        self.send({"jsonrpc": "2.0", "id": request.get("id"), "result": result})

    def refuse(self, request: Json, code: int, message: str, **more: Any) -> None:
        """Answer a request with an error."""
        error = {"code": code, "message": message, **more}
        self.send({"jsonrpc": "2.0", "id": request.get("id"), "error": error})

    def finish(self, request: Json, reason: str = "end_turn", **more: Any) -> None:
        """Answer a prompt."""
        self.reply(request, {"stopReason": reason, **more})

    def update(self, kind: str, /, **members: Any) -> None:
        """Send a session update."""
        self.notify(
            "session/update", {"sessionId": self.session, "update": {"sessionUpdate": kind, **members}}
        )

    def say(self, text: str) -> None:
        """Send a text chunk."""
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def ask(self, method: str, params: Json, *, id: Any = None) -> Json:
        """Send a request and wait for its answer. Other requests that arrive before it are served later."""
        return self.answer_to(self.send_request(method, params, id=id))

    def send_request(self, method: str, params: Json, *, id: Any = None) -> Any:
        """Send a request without waiting; returns its id."""
        self._request_count += 1
        id = f"hostile-{self._request_count}" if id is None else id
        self.send(
            {"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": self.session, **params}}
        )
        return id

    def answer_to(self, id: Any) -> Json:
        """Wait for the answer to a request."""
        while True:
            message = self.receive()
            if "method" not in message and message.get("id") == id:
                return message
            self._postpone(message)

    def answers_to(self, ids: list[Any]) -> list[Json]:
        """Wait for the answers to several requests, in any order."""
        waiting, answers = set(ids), list[Json]()
        while waiting:
            message = self.receive()
            if "method" not in message and message.get("id") in waiting:
                waiting.discard(message["id"])
                answers.append(message)
            else:
                self._postpone(message)
        return answers

    def wait_for_cancel(self) -> None:
        """Wait until the client cancels the turn."""
        while not self.cancelled:
            self._postpone(self.receive())

    def outcome(self, answer: Json) -> Json:
        """The outcome of a permission request; empty if the client answered with an error."""
        result: Json = answer.get("result") or {}
        return result.get("outcome") or {}

    def report(self, what: str, answer: Json) -> str:
        """Send `what: ok`, or `what: CODE` for an error, as text; returns `ok` or the code."""
        outcome = str(answer["error"]["code"]) if "error" in answer else "ok"
        self.say(f"{what}: {outcome}\n")
        return outcome

    def die(self, code: int = 7) -> NoReturn:
        """Exit at once, with a line on stderr."""
        sys.stderr.write(STDERR_MESSAGE + "\n")
        sys.stderr.flush()
        os._exit(code)

    def hang(self) -> NoReturn:
        """Block forever and ignore SIGTERM and SIGINT."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            time.sleep(3600)

    def _postpone(self, message: Json) -> None:
        if message.get("method") == "session/cancel":
            self.cancelled = True
        elif "method" in message:
            self._postponed.append(message)


class WellBehaved(HostileAgent):
    """A correct agent; runs instead of the behavior when the file of `--once` exists."""

    name = "well-behaved"
    capabilities: ClassVar[Json] = {"loadSession": True, "sessionCapabilities": {"resume": {}}}

    def other(self, request: Json) -> None:
        if request.get("method") in ("session/load", "session/resume"):
            self.session: str = request["params"]["sessionId"]
            self.reply(request, {})
        else:
            super().other(request)
