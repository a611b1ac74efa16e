"""`accord agent` as a process, and a client that speaks ACP with it line by line."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accord.testing.raw_peer import schema_violations
from accord.wire.envelope import id_key

CREDENTIALS = ("_API_KEY", "_BASE_URL", "_MODEL")


class AgentProcess:
    """The running agent. Every line that it prints must be a valid message."""

    def __init__(self, running: subprocess.Popen[str]) -> None:
        assert running.stdin
        assert running.stdout
        self._running = running
        self._stdin = running.stdin
        self._stdout = running.stdout
        self._methods: dict[Any, str] = {}
        self.updates: list[Any] = []
        self.stderr = ""
        """Its stderr without the line about the sandbox, whose time of arrival varies."""

    def request(self, method: str, **params: Any) -> Any:
        """Send a request and wait for its response. Keep updates before it and grant permissions."""
        request_id = self.start_request(method, **params)
        while True:
            message = self.read()
            if message.get("method") == "session/request_permission":
                allow = next(o["optionId"] for o in message["params"]["options"] if o["kind"] == "allow_once")
                outcome = {"outcome": {"outcome": "selected", "optionId": allow}}
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": outcome})
            elif "method" in message:
                self.updates.append(message["params"].get("update"))
            elif message["id"] == request_id:
                return message

    def start_request(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        request_id = len(self._methods)
        self._methods[id_key(request_id)] = method
        self._send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return request_id

    def read(self) -> Any:
        """Return the next message."""
        line = self._stdout.readline()
        assert line, f"the agent ended: {self.end()} {self.stderr}"
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        assert schema_violations(message, "agent", self._methods) == []
        return message

    def initialize(self, **capabilities: Any) -> Any:
        return self.request("initialize", protocolVersion=1, clientCapabilities=capabilities)["result"]

    def new_session(self, cwd: Path) -> Any:
        """Return the response to `session/new`."""
        return self.request("session/new", cwd=str(cwd), mcpServers=[])

    def prompt(self, session: str, text: str) -> Any:
        """Return the response to `session/prompt`."""
        return self.request("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def end(self) -> int:
        """Close stdin and return the exit code."""
        self._stdin.close()
        self._stdout.read()
        assert self._running.stderr
        output = self._running.stderr.read().splitlines(keepends=True)
        self.stderr += "".join(line for line in output if not line.startswith("accord agent: sandbox: "))
        return self._running.wait()

    def _send(self, message: dict[str, Any]) -> None:
        self._stdin.write(json.dumps(message) + "\n")
        self._stdin.flush()


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return this environment with another Accord home and without credentials.

    Its model is `rehearsal`, unless `more` has a key or an empty `ACCORD_MODEL`.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.endswith(CREDENTIALS)}
    model = "" if any(name.endswith("_API_KEY") for name in more) else "rehearsal"
    return {**inherited, "ACCORD_HOME": str(home), "ACCORD_MODEL": model, **more}


@contextmanager
def running_agent(
    *words: str, home: Path, options: Sequence[str] = (), **more: str
) -> Generator[AgentProcess]:
    """Start `accord agent WORDS`. `options` are options of Python itself."""
    command = [sys.executable, *options, "-m", "accord.cli", "agent", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment(home, **more)
    ) as running:
        try:
            yield AgentProcess(running)
        finally:
            running.kill()
