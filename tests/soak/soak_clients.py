"""The clients of a soak run. They speak ACP by hand, remember what they were told, and act at a given moment.

A moment is a number of received messages. What the other side does at that moment is left to chance.
"""

import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from tests.soak.soak_world import Acknowledged, Lost, SoakWorld, require
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from accord.gateway.access.access_tokens import TokenStore
from accord.schema.codec import decode
from accord.schema.updates import SessionNotification
from accord.store.records import as_event, event_payload

Message = dict[str, Any]


class Gone(Exception):
    """The other side has ended."""


class SoakClient:
    """What both clients share: requests, permission answers and the memory of what was received."""

    def __init__(self, world: SoakWorld) -> None:
        self.world = world
        self.received = 0
        self.remember: Callable[[Acknowledged, Message], None] = remember_update
        self.store = world.agent_store
        self._requests = 0
        self._moment: tuple[int, Callable[[], object]] | None = None
        self._replaying = False
        self.replayed: list[Any] = []

    def act_after(self, messages: int, action: Callable[[], object]) -> None:
        """Run an action once, when this many more messages were received."""
        self._moment = (self.received + messages, action)

    def call(self, method: str, **params: Any) -> Any:
        """Send a request and return its result. Raises Gone if the other side ends first."""
        self._requests += 1
        number = self._requests
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            if self._moment is not None and self.received >= self._moment[0]:
                action = self._moment[1]
                self._moment = None
                action()
            message = self._receive()
            self.received += 1
            if message.get("method") == "session/update":
                self._update(message)
            elif message.get("method") == "session/request_permission":
                options = message["params"]["options"]
                allow = next(option["optionId"] for option in options if option["kind"] == "allow_once")
                outcome = {"outcome": {"outcome": "selected", "optionId": allow}}
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": outcome})
            elif "method" not in message and message["id"] == number:
                if "error" in message:
                    raise Refused(message["error"])
                return message["result"]

    def initialize(self) -> None:
        self.call("initialize", protocolVersion=1, clientCapabilities={})

    def new_session(self, **more: Any) -> str:
        """Open a session and return its id."""
        opened = self.call("session/new", **{"cwd": str(self.world.project), "mcpServers": [], **more})
        self.world.told(self.store, opened["sessionId"])
        return opened["sessionId"]

    def load(self, session: str) -> None:
        """Load a session. The replay must have no open tool call."""
        self._replaying, self.replayed = True, []
        self.call("session/load", sessionId=session, cwd=str(self.world.project), mcpServers=[])
        self._replaying = False
        for update in self.replayed:
            closed = update.get("status") in ("completed", "failed", None)
            require(update["sessionUpdate"] != "tool_call" or closed, f"open after loading: {update}")

    def prompt(self, session: str, text: str) -> str:
        """Run a turn and return its stop reason."""
        result = self.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
        self.world.told(self.store, session).turns += 1
        return result["stopReason"]

    def _update(self, message: Message) -> None:
        if self._replaying:
            self.replayed.append(message["params"]["update"])
        else:
            self.remember(self.world.told(self.store, message["params"]["sessionId"]), message)

    def _send(self, message: Message) -> None:
        raise NotImplementedError

    def _receive(self) -> Message:
        raise NotImplementedError


class Refused(Exception):
    """The other side answered with an error."""


def remember_update(told: Acknowledged, message: Message) -> None:
    """Remember an update as the agent's log has it."""
    event = as_event(decode(SessionNotification, json.dumps(message["params"]).encode()).update)
    if event is not None:
        told.updates.append(event_payload(event))


def remember_text(told: Acknowledged, message: Message) -> None:
    """Remember the text of an update: the gateway's log has its own form of the rest."""
    update = message["params"]["update"]
    if update["sessionUpdate"] == "agent_message_chunk":
        told.texts.append(update["content"]["text"])


class AgentClient(SoakClient):
    """A client of an own `accord agent` process."""

    def __init__(self, world: SoakWorld, **more: str) -> None:
        super().__init__(world)
        self.process = world.start("agent", **more)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout

    def close(self, *allowed: int) -> None:
        """Close the agent's input, read what it still sends and wait for its end."""
        with suppress(BrokenPipeError):
            self._stdin.close()
        self.read_rest()
        self.world.wait(self.process, allowed or (0,))

    def call_without_answer(self, session: str, text: str) -> None:
        """Send a prompt whose answer cannot arrive."""
        prompt = [{"type": "text", "text": text}]
        params = {"sessionId": session, "prompt": prompt}
        self._send({"jsonrpc": "2.0", "id": "last", "method": "session/prompt", "params": params})

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)

    def read_rest(self) -> None:
        """Read what the agent wrote before its end."""
        with suppress(Gone, ValueError):
            while True:
                message = self._receive()
                if message.get("method") == "session/update":
                    self._update(message)

    def _send(self, message: Message) -> None:
        with suppress(BrokenPipeError):  # it is dead, and its last message was read only now
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()

    def _receive(self) -> Message:
        line = self._stdout.readline()
        if not line.endswith(b"\n"):
            raise Gone
        return json.loads(line)


class Gateway:
    """A running `accord serve`."""

    def __init__(self, world: SoakWorld, **more: str) -> None:
        self.process = world.start("serve", "--port", "0", "--no-qr", **more)
        assert self.process.stdout is not None
        output = ""
        for line in self.process.stdout:
            output += line.decode()
            if line.startswith(b"Press Ctrl-C"):
                break
        else:
            raise Lost(f"the gateway did not start: {output}{world.stderr()}")
        port = re.search(r"listening on http://\S+?:(\d+)", output)
        if port is None:
            raise Lost(f"the gateway names no address: {output}")
        self.url = f"ws://127.0.0.1:{port[1]}/acp"
        self.token = TokenStore(world.home / "data" / "gateway" / "tokens").new("soak")[1]


class GatewayClient(SoakClient):
    """A client of a gateway, by WebSocket."""

    def __init__(self, world: SoakWorld, gateway: Gateway, store: Path) -> None:
        super().__init__(world)
        self.remember, self.store = remember_text, store
        self._socket: ClientConnection = connect(
            gateway.url,
            additional_headers={"Authorization": f"Bearer {gateway.token}"},
            max_size=None,
            proxy=None,
            open_timeout=PATIENCE,
        )

    def close(self) -> None:
        self._socket.close()

    def _send(self, message: Message) -> None:
        with suppress(ConnectionClosed):
            self._socket.send(json.dumps(message))

    def _receive(self) -> Message:
        try:
            return json.loads(self._socket.recv(PATIENCE))
        except ConnectionClosed:
            raise Gone from None
        except TimeoutError:
            raise Lost("the gateway sends nothing") from None


class RunClient:
    """An `accord run --format json` process, read line by line."""

    def __init__(self, world: SoakWorld, *words: str, **more: str) -> None:
        self.world = world
        self.process = world.start("run", "--format", "json", "--permissions", "all", *words, **more)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.session: str | None = None
        self.last: Message = {}

    def read(self, lines: int | None = None) -> None:
        """Read this many lines, or all. Remember the texts that a user would have seen."""
        assert self.process.stdout is not None
        count = 0
        while count != lines:
            line = self.process.stdout.readline()
            if not line.endswith(b"\n"):
                return
            count += 1
            self.last = event = json.loads(line)
            if event["type"] == "opened":
                self.session = str(event["session"])
            if event["type"] == "agent_message_chunk" and self.session is not None:
                told = self.world.told(self.world.agent_store, self.session)
                told.texts.append(event["content"]["text"])


def kill(pid: int) -> None:
    """Kill a process if it still exists."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
