"""The clients of a cluster check. They speak ACP by hand, do random things, and write down what they see."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from itertools import count
from random import Random
from typing import Any, Final

from tests.cluster_check.check_world import CheckWorld
from tests.cluster_check.history import Entry, History
from tests.cluster_check.marks import marks_in, shown_marks
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

ANSWER_SECONDS: Final = 90.0
"""A call that has no answer after this time is a violation: its connection works."""
_MOST_SESSIONS: Final = 8
_CONNECT_SECONDS: Final = 10.0
_OPERATIONS: Final = {
    "prompt": 24,
    "load": 8,
    "new": 3,
    "resume": 2,
    "fork": 1,
    "close": 2,
    "delete": 1,
    "reconnect": 3,
}


class Disconnected(Exception):
    """The connection ended before the answer, or cannot be used."""


class NoAnswer(Exception):
    """The connection works, and the call has no answer."""


class CheckedConnection:
    """One connection of a client to one node, with what it sees."""

    def __init__(self, socket: ClientConnection, history: History, random: Random) -> None:
        self.attached: set[str] = set()
        """The sessions that are open in this connection."""
        self._socket = socket
        self._history = history
        self._random = random
        self._numbers = count(1)
        self._calls: dict[int, asyncio.Future[Entry]] = {}
        self._withdrawn: set[Any] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, method: str, **params: Any) -> Entry:
        """Send a request and return the message that answers it. Raises Disconnected, NoAnswer."""
        number = next(self._numbers)
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        session = params.get("sessionId")
        marks = marks_in(json.dumps(params.get("prompt", [])))
        self._history.write("called", id=number, method=method, session=session, marks=marks)
        try:
            await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            async with asyncio.timeout(ANSWER_SECONDS):
                message = await asyncio.shield(answer)
        except ConnectionClosed:
            raise Disconnected from None
        except TimeoutError:
            self._history.write("unanswered", id=number, method=method, session=session)
            raise NoAnswer from None
        if "result" in message:
            opened = message["result"].get("sessionId", session) if session is None else session
            if method in ("session/new", "session/load", "session/resume"):
                self.attached.add(opened)
            elif method == "session/fork":
                self.attached.add(message["result"]["sessionId"])
            elif method in ("session/close", "session/delete"):
                self.attached.discard(session)
        return message

    async def send(self, message: Entry) -> None:
        await self._socket.send(json.dumps(message))

    async def read(self) -> None:
        """Read until the connection ends."""
        code, reason = 0, ""
        try:
            async for text in self._socket:
                self._on_message(json.loads(text))
        except ConnectionClosed as closed:
            code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
        finally:
            self._history.write("closed", code=code, reason=reason)
            for future in self._calls.values():
                if not future.done():
                    future.set_exception(Disconnected())
                    future.exception()
            for task in tuple(self._tasks):
                task.cancel()

    def _on_message(self, message: Entry) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method == "session/update":
            update = params["update"]
            if marks := shown_marks(update["sessionUpdate"], update):
                self._history.write("saw", session=params["sessionId"], marks=marks)
            elif update["sessionUpdate"] == "notice":
                self._history.write("noticed", session=params["sessionId"], title=update.get("title"))
        elif method == "session/request_permission":
            title = params["toolCall"].get("title")
            self._history.write("asked", session=params["sessionId"], title=title)
            self._start(self._decide(message["id"], title))
        elif method == "$/cancel_request":
            self._withdrawn.add(params.get("requestId"))
        elif method is None:
            error = message.get("error")
            result = message.get("result") or {}
            brief = {"sessionId": result.get("sessionId"), "stopReason": result.get("stopReason")}
            self._history.write(
                "answered",
                id=message["id"],
                result=None if error else {name: value for name, value in brief.items() if value},
                error=None if error is None else error.get("message"),
            )
            if (future := self._calls.pop(message["id"], None)) is not None and not future.done():
                future.set_result(message)

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, id: Any, title: str) -> None:
        """Answer a permission request after a moment; sometimes also one that was withdrawn."""
        await asyncio.sleep(self._random.choice([0, 0, 0.3, 1.5]) * self._random.random())
        if id in self._withdrawn and self._random.random() < 0.8:
            return
        option = self._random.choice(["yes", "yes", "no"])
        self._history.write("decided", title=title, option=option)
        outcome = {"outcome": {"outcome": "selected", "optionId": option}}
        with suppress(ConnectionClosed):
            await self.send({"jsonrpc": "2.0", "id": id, "result": outcome})


@asynccontextmanager
async def connected(
    world: CheckWorld, node: str, history: History, random: Random
) -> AsyncGenerator[CheckedConnection]:
    """Connect to a node for the block. Raises OSError, InvalidHandshake and TimeoutError."""
    url = f"ws://127.0.0.1:{world.nodes[node].port}/acp"
    async with connect(
        url,
        additional_headers={"Authorization": f"Bearer {world.token}"},
        max_size=None,
        proxy=None,
        open_timeout=_CONNECT_SECONDS,
        ping_interval=None,
        close_timeout=1,
    ) as socket:
        history.write("connected", node=node)
        connection = CheckedConnection(socket, history, random)
        reading = asyncio.ensure_future(connection.read())
        try:
            answer = await connection.call("initialize", protocolVersion=1, clientCapabilities={})
            if "error" in answer:
                raise Disconnected(answer["error"].get("message"))
            yield connection
        finally:
            await socket.close()
            await reading


class CheckedClient:
    """One client, which connects to one node after the other until the run ends."""

    def __init__(self, name: str, world: CheckWorld, sessions: set[str], seed: str) -> None:
        self._name = name
        self._world = world
        self._sessions = sessions
        """Known to all clients."""
        self._random = Random(f"{seed}-{name}")
        self._history = History(world.folder, f"client-{name}")
        self._prompts = count(1)
        self._asked: set[str] = set()

    async def run(self, end: asyncio.Event) -> None:
        """Work until the end."""
        node = self._random.choice(list(self._world.nodes))
        while not end.is_set():
            try:
                async with connected(self._world, node, self._history, self._random) as connection:
                    await self._work(connection, end)
            except (OSError, InvalidHandshake, TimeoutError, Disconnected, NoAnswer, ConnectionClosed):
                await asyncio.sleep(0.3)
            node = self._random.choice(list(self._world.nodes))
        self._history.close()

    async def _work(self, connection: CheckedConnection, end: asyncio.Event) -> None:
        while not end.is_set():
            name = self._random.choices(list(_OPERATIONS), list(_OPERATIONS.values()))[0]
            if name == "reconnect":
                return
            await self._operate(connection, name)
            await asyncio.sleep(self._random.random() * 0.8)

    async def _operate(self, connection: CheckedConnection, name: str) -> None:
        random, folder = self._random, {"cwd": str(self._world.project), "mcpServers": []}
        attached = sorted(connection.attached)
        others = sorted(self._sessions - connection.attached)
        if name == "new" or (name == "prompt" and not attached and not others):
            if len(self._sessions) < _MOST_SESSIONS:
                self._learn(await connection.call("session/new", **folder))
        elif name in ("load", "resume") or (name == "prompt" and not attached):
            if others:
                method = "session/resume" if name == "resume" else "session/load"
                await connection.call(method, sessionId=random.choice(others), **folder)
        elif not attached:
            return
        elif name == "prompt":
            await self._prompt(connection, random.choice(attached))
        elif name == "fork" and len(self._sessions) < _MOST_SESSIONS:
            self._learn(await connection.call("session/fork", sessionId=random.choice(attached), **folder))
        elif name == "close":
            await connection.call("session/close", sessionId=random.choice(attached))
        elif name == "delete" and len(self._sessions) > _MOST_SESSIONS // 2:
            session = random.choice(attached)
            self._sessions.discard(session)
            await connection.call("session/delete", sessionId=session)

    def _learn(self, message: Entry) -> None:
        if "result" in message:
            self._sessions.add(message["result"]["sessionId"])

    async def _prompt(self, connection: CheckedConnection, session: str) -> None:
        random = self._random
        mark = f"{self._name}.{next(self._prompts)}"
        chunks, asks = random.randrange(1, 20), random.choice([0, 0, 1, 1, 2])
        text = f"{mark}? {chunks} {asks} {random.choice([0, 0.01, 0.05, 0.2])}"
        prompt = [{"type": "text", "text": text}]
        turn = asyncio.ensure_future(connection.call("session/prompt", sessionId=session, prompt=prompt))
        if random.random() < 0.1:
            await asyncio.sleep(random.random())
            with suppress(ConnectionClosed):
                cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
                await connection.send(cancel)
        await turn


async def open_everywhere(world: CheckWorld, sessions: set[str], seed: str) -> None:
    """After everything is healed: each session opens at each node, and goes on at one, or says why not."""
    random = Random(f"{seed}-last")
    for node in world.nodes:
        history = History(world.folder, f"client-last{node}")
        prompted = count(1)
        try:
            async with connected(world, node, history, random) as connection:
                listed = await connection.call("session/list", cwd=str(world.project))
                found = [info["sessionId"] for info in listed.get("result", {}).get("sessions", [])]
                history.write("listed", sessions=found)
                for session in sorted(sessions | set(found)):
                    folder = {"cwd": str(world.project), "mcpServers": []}
                    loaded = await connection.call("session/load", sessionId=session, **folder)
                    if "result" in loaded and random.random() < 0.4:
                        text = f"last{node}.{next(prompted)}? 3 0 0"
                        prompt = [{"type": "text", "text": text}]
                        await connection.call("session/prompt", sessionId=session, prompt=prompt)
        except (OSError, InvalidHandshake, TimeoutError, Disconnected, NoAnswer, ConnectionClosed) as error:
            history.write("failed", node=node, error=f"{type(error).__name__} {error}")
        history.close()
