"""The part of the agent in one connection, spoken by hand: it sends what a scene wants, keeps every line, and waits for
nothing without a bound.
"""

import asyncio
import json
from collections.abc import Callable
from itertools import count
from typing import Any, cast

from accord.check.agent.lines import Line, Message, Side, key, line_of
from accord.check.agent.talk import ABSENT, Answer, Over
from accord.check.bounds import Bounds
from accord.check.client.desk import Death, Desk
from accord.check.client.wire import Wire
from accord.check.ledger import Ledger, Rule
from accord.clock import Clock, within
from accord.trace.exchange import at
from accord.wire.transport import End, Frame


class Part:
    """One agent that the client started. Requests of the client are served by the desk as they come."""

    def __init__(
        self, name: str, wire: Wire, desk: Desk, ledger: Ledger, bounds: Bounds, clock: Clock
    ) -> None:
        self.name = name
        self.wire = wire
        self.desk = desk
        self.ledger = ledger
        self.bounds = bounds
        self.clock = clock
        self.lines: list[Line] = []
        self.end: End | None = None
        self.dead = False
        """Whether it died on our own stage: nothing is owed to it any more."""
        self._asked: set[str] = set()
        self._ids = count(1)
        self._news: asyncio.Future[None] | None = None
        wire.start(self)

    # -- what arrives

    def frames(self, frames: list[Frame]) -> None:
        """What the client wrote."""
        for frame in frames:
            line = self._note("client", frame if isinstance(frame, bytes) else frame.head)
            if line.is_request and not self.dead:
                self._serve(line)
        self._tell()

    def _serve(self, line: Line) -> None:
        try:
            reply = self.desk.serve(line)
        except Death as death:
            self.die(death.code)
            return
        if reply is not None:
            self.reply(line, reply)

    def ended(self, end: End) -> None:
        """The client let go of us. An agent goes with its input."""
        self.end = end
        if not self.desk.stays:
            self.wire.die(0)
        self._tell()

    def _note(self, sender: Side, data: bytes) -> Line:
        line = line_of(self.name, len(self.lines) + 1, sender, data)
        self.lines.append(line)
        return line

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # -- what is sent

    def send(self, message: Message | str | bytes) -> Line:
        """Send anything, as a line."""
        if isinstance(message, dict):
            message = json.dumps(message, ensure_ascii=False)
        data = message.encode("utf-8", "surrogatepass") if isinstance(message, str) else message
        line = self._note("agent", data)
        if line.is_request:
            self._asked.add(key(line.id))
        self.wire.write(data + b"\n")
        return line

    def reply(self, request: Line, reply: Message) -> Line:
        """Answer a request of the client; what the desk wants to be sent around it goes around it."""
        for message in self.desk.before.pop(request.method, []):
            self.send({"jsonrpc": "2.0", **message})
        line = self.send({"jsonrpc": "2.0", "id": request.id, **reply})
        for message in self.desk.after.pop(request.method, []):
            self.send({"jsonrpc": "2.0", **message})
        return line

    def notify(self, method: str, params: Any = ABSENT) -> Line:
        """Send a notification."""
        more = {} if params is ABSENT else {"params": params}
        return self.send({"jsonrpc": "2.0", "method": method, **more})

    def ask(self, method: str, params: Any = ABSENT, *, id: Any = None) -> Line:
        """Send a request; `answer` waits for what comes of it."""
        more = {} if params is ABSENT else {"params": params}
        number = f"a-{next(self._ids)}" if id is None else id
        return self.send({"jsonrpc": "2.0", "id": number, "method": method, **more})

    def update(self, kind: str, session: str | None = None, /, **members: Any) -> Line:
        """Send a session update."""
        return self.notify(
            "session/update",
            {
                "sessionId": self.desk.session if session is None else session,
                "update": {"sessionUpdate": kind, **members},
            },
        )

    def say(self, text: str, **more: Any) -> Line:
        """Say something to the user."""
        return self.update("agent_message_chunk", content={"type": "text", "text": text}, **more)

    def die(self, code: int | None = None) -> None:
        """End at once."""
        self.dead = True
        self.wire.die(code)

    # -- waiting

    async def until(
        self, wanted: Callable[[Line], bool], *, since: int = 0, bound: float | None = None
    ) -> Line | None:
        """The first line since then that fits, or that comes in time; None when none does."""
        deadline = self.clock.now() + (self.bounds.answer if bound is None else bound)
        place = since
        while True:
            while place < len(self.lines):
                line = self.lines[place]
                place += 1
                if wanted(line):
                    return line
            left = deadline - self.clock.now()
            if self.end is not None or left <= 0:
                return None
            self._news = asyncio.get_running_loop().create_future()
            await within(self.clock, left, self._news)

    async def hears(self, *methods: str, since: int = 0, bound: float | None = None) -> Line | None:
        """The client's next call of one of these methods."""
        return await self.until(
            lambda line: line.sender == "client" and line.method in methods, since=since, bound=bound
        )

    async def left(self, bound: float | None = None) -> bool:
        """Whether the client lets go of this agent in time."""
        await self.until(lambda _: False, since=len(self.lines), bound=bound)
        return self.end is not None

    async def answer(self, asked: Line, *, owes: Rule = 12, bound: float | None = None) -> Answer:
        """The answer. Where none comes, the rule that the client owes it by is noted as broken, and the scene is over."""
        wanted = key(asked.id)

        def fits(line: Line) -> bool:
            if line.sender != "client" or not line.is_answer:
                return False
            return key(line.id) == wanted or (line.id is not None and key(line.id) not in self._asked)

        line = await self.until(fits, since=asked.number, bound=bound)
        if line is None:
            raise self.silent(asked, owes, bound)
        if key(line.id) != wanted:
            raise Over(f"the answer to {asked.id!r} came under the id {line.id!r}")  # noted by the watch
        return Answer(asked, line)

    def silent(self, asked: Line, owes: Rule, bound: float | None = None) -> Over:
        """What to raise when an answer is owed and does not come."""
        seconds = self.bounds.answer if bound is None else bound
        if self.end is not None:
            why = (
                f"the client let go of the agent ({self.end.reason}) without answering {asked.method or 'it'}"
            )
        else:
            why = f"{asked.method or 'the line'} was not answered within {seconds:g} seconds"
        self.ledger.broken(owes, why, (asked.shown,))
        return Over(why)

    async def call(self, method: str, params: Any = ABSENT, *, owes: Rule = 12, id: Any = None) -> Answer:
        """A request and its answer."""
        return await self.answer(self.ask(method, params, id=id), owes=owes)

    async def barrier(self, *, owes: Rule = 12) -> Answer:
        """A request that does nothing: its answer shows that everything before it was taken in."""
        return await self.call("_check/barrier", {}, owes=owes)

    # -- the usual phrases

    async def prompted(self, *, owes: Rule | None = None, since: int = 0) -> Line:
        """The client's prompt. Where none comes the scene is over, by this rule if one is named."""
        found = await self.hears("session/prompt", since=since)
        if found is None:
            why = f"no prompt came{'' if self.end is None else f': {self.end.reason}'}"
            if owes is not None:
                self.ledger.broken(owes, why, [line.shown for line in self.lines[-4:]])
            raise Over(why)
        return found

    def stop(self, prompt: Line, reason: Any = "end_turn", **more: Any) -> Line:
        """End the turn."""
        return self.reply(prompt, {"result": {"stopReason": reason, **more}})

    @property
    def offered(self) -> Any:
        """The client's capabilities as it sent them."""
        asked = next(
            (line for line in self.lines if line.sender == "client" and line.method == "initialize"), None
        )
        return None if asked is None else at(asked.params, "clientCapabilities")

    @property
    def initialized(self) -> Message:
        """What `initialize` was answered with here."""
        asked = next(
            (line for line in self.lines if line.sender == "client" and line.method == "initialize"), None
        )
        answers = [
            line
            for line in self.lines
            if asked is not None and line.sender == "agent" and line.is_answer and line.id == asked.id
        ]
        found = at(answers[0].message, "result") if answers else None
        return cast(Message, found) if isinstance(found, dict) else {}

    def has(self, path: str) -> bool:
        """Whether the client advertises a capability."""
        found = at(self.offered, *path.split("."))
        return found is True or isinstance(found, dict)

    def calls(self, *methods: str) -> list[Line]:
        """The client's calls of these methods so far."""
        return [line for line in self.lines if line.sender == "client" and line.method in methods]
