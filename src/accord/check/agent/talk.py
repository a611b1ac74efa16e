"""One conversation with the agent: a client spoken by hand, which sends what a scene wants, keeps every line, and waits
for nothing without a bound.
"""

import asyncio
import json
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple, cast

from accord.check.agent.desk import Desk
from accord.check.agent.launch import Launched
from accord.check.agent.lines import Line, Message, Side, key, line_of
from accord.check.bounds import Bounds
from accord.check.ledger import Ledger, Rule
from accord.check.verdict import Evidence
from accord.clock import Clock, within
from accord.trace.exchange import at
from accord.wire.transport import End, Frame

ABSENT: Any = object()
"""For params that are left out."""


class Over(Exception):
    """The conversation cannot go on. What the agent owed is noted already, or nobody's fault."""


class Answer(NamedTuple):
    """The answer to one request, with the request."""

    asked: Line
    line: Line

    @property
    def ok(self) -> bool:
        """A result, and no error."""
        message = self.line.message or {}
        return "result" in message and "error" not in message

    @property
    def result(self) -> Any:
        """The result; None where there is none."""
        return (self.line.message or {}).get("result")

    @property
    def code(self) -> Any:
        """The error code; None where there is none."""
        return at(self.line.message, "error", "code")

    @property
    def says(self) -> str:
        """In a few words."""
        if self.ok:
            return f"result {json.dumps(self.result)[:80]}"
        return f"error {self.code}: {str(at(self.line.message, 'error', 'message'))[:80]}"

    @property
    def shown(self) -> tuple[Evidence, ...]:
        """Both lines."""
        return (self.asked.shown, self.line.shown)


class Talk:
    """One connection. Requests of the agent are served by the desk as they come."""

    def __init__(
        self, name: str, launched: Launched, desk: Desk, ledger: Ledger, bounds: Bounds, clock: Clock
    ) -> None:
        self.name = name
        self.launched = launched
        self.desk = desk
        self.ledger = ledger
        self.bounds = bounds
        self.clock = clock
        self.lines: list[Line] = []
        self.end: End | None = None
        self.offered: Any = ABSENT
        """The client capabilities, as they were sent."""
        self.initialized: Message = {}
        """The result of `initialize`."""
        self.left: int | None = None
        """How many lines there were when the client hung up."""
        self._asked: set[str] = set()
        self._ids = count(1)
        self._news: asyncio.Future[None] | None = None
        launched.transport.start(self)

    # -- what arrives

    def frames(self, frames: list[Frame]) -> None:
        """What the transport brings."""
        for frame in frames:
            line = self._note("agent", frame if isinstance(frame, bytes) else frame.head)
            if line.is_request:
                reply = self.desk.serve(line)
                if reply is not None:
                    self.reply(line, reply)
                for held, late in self.desk.due():
                    self.reply(held, late)
        self._tell()

    def ended(self, end: End) -> None:
        """The agent is gone."""
        self.end = end
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
        """Send anything."""
        if isinstance(message, dict):
            message = json.dumps(message, ensure_ascii=False)
        data = message.encode("utf-8", "surrogatepass") if isinstance(message, str) else message
        line = self._note("client", data)
        if line.is_request:
            self._asked.add(key(line.id))
        self.launched.transport.send(data)
        return line

    def reply(self, request: Line, reply: Message) -> None:
        """Answer a request of the agent."""
        self.send({"jsonrpc": "2.0", "id": request.id, **reply})

    def notify(self, method: str, params: Any = ABSENT) -> Line:
        """Send a notification."""
        more = {} if params is ABSENT else {"params": params}
        return self.send({"jsonrpc": "2.0", "method": method, **more})

    def ask(self, method: str, params: Any = ABSENT, *, id: Any = None) -> Line:
        """Send a request; `answer` waits for what comes of it."""
        more = {} if params is ABSENT else {"params": params}
        number = next(self._ids) if id is None else id
        return self.send({"jsonrpc": "2.0", "id": number, "method": method, **more})

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

    async def answer(self, asked: Line, *, owes: Rule = 11, bound: float | None = None) -> Answer:
        """The answer. Where none comes, the rule that the agent owes it by is noted as broken, and the talk is over."""
        wanted = key(asked.id)

        def fits(line: Line) -> bool:
            if line.sender != "agent" or not line.is_answer:
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
            words = self.launched.stderr.strip().splitlines()
            why = f"the agent ended ({self.end.reason}) without answering {asked.method or 'it'}"
            why += f"; its last words: {words[-1][:200]}" if words else ""
        else:
            why = f"{asked.method or 'the line'} was not answered within {seconds:g} seconds"
        self.ledger.broken(owes, why, (asked.shown,))
        return Over(why)

    async def call(self, method: str, params: Any = ABSENT, *, owes: Rule = 11, id: Any = None) -> Answer:
        """A request and its answer."""
        return await self.answer(self.ask(method, params, id=id), owes=owes)

    async def barrier(self, *, owes: Rule = 11) -> Answer:
        """A request that does nothing: its answer shows that everything before it was taken in."""
        return await self.call("_check/barrier", {}, owes=owes)

    # -- the usual phrases

    async def begin(
        self, capabilities: Any = ABSENT, *, version: Any = 1, owes: Rule = 11, **more: Any
    ) -> Answer:
        """`initialize`, with the client capabilities as given."""
        params = {"protocolVersion": version, **more}
        if capabilities is not ABSENT:
            params["clientCapabilities"] = capabilities
        self.offered = capabilities
        answer = await self.call("initialize", params, owes=owes)
        found = answer.result
        if answer.ok and isinstance(found, dict):
            self.initialized = cast(Message, found)
        return answer

    def has(self, path: str) -> bool:
        """Whether the agent advertises a capability, by its path below `agentCapabilities`."""
        found = at(self.initialized, "agentCapabilities", *path.split("."))
        return found is True or isinstance(found, dict)

    async def new(self, cwd: str, **more: Any) -> Answer:
        """`session/new`."""
        return await self.call("session/new", {"cwd": cwd, "mcpServers": [], **more})

    def prompt(self, session: str, prompt: Any, **more: Any) -> Line:
        """Begin a turn."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        return self.ask("session/prompt", {"sessionId": session, "prompt": blocks, **more})

    async def turn(self, session: str, prompt: Any, *, owes: Rule = 143) -> "Turn":
        """A whole turn."""
        asked = self.prompt(session, prompt)
        return await self.turn_of(asked, owes=owes)

    async def turn_of(self, asked: Line, *, owes: Rule = 143, bound: float | None = None) -> "Turn":
        """The rest of a turn that has begun."""
        answer = await self.answer(asked, owes=owes, bound=self.bounds.turn if bound is None else bound)
        return Turn(answer, self.lines[asked.number : answer.line.number - 1])

    async def leave(self) -> str:
        """Hang up and see the agent out. Empty when it left by itself; else what had to be done."""
        if self.left is None:
            self.left = len(self.lines)
        return await self.launched.leave()

    def cancel(self, session: str) -> Line:
        """Ask the agent to end the turn."""
        return self.notify("session/cancel", {"sessionId": session})


class Turn(NamedTuple):
    """A turn that is over: its answer, and all lines between prompt and answer."""

    answer: Answer
    lines: list[Line]

    @property
    def stop(self) -> Any:
        """Why it ended; None for an error."""
        return at(self.answer.result, "stopReason")

    @property
    def text(self) -> str:
        """What the agent said."""
        return text_of(self.lines, "agent_message_chunk")

    @property
    def all_text(self) -> str:
        """Everything that a user could read in it: words, thoughts, what tools gave."""
        return "".join(shown_text(line) for line in self.lines)

    def updates(self, *kinds: str) -> list[Line]:
        """The updates of these kinds."""
        return [line for line in self.lines if line.sender == "agent" and line.kind in kinds]

    def asked(self, *methods: str) -> list[Line]:
        """The requests of the agent."""
        return [
            line
            for line in self.lines
            if line.sender == "agent" and line.is_request and line.method in methods
        ]


def text_of(lines: list[Line], kind: str) -> str:
    """The text of all chunks of a kind."""
    texts = [at(line.update, "content", "text") for line in lines if line.kind == kind]
    return "".join(text for text in texts if isinstance(text, str))


def shown_text(line: Line) -> str:
    """The text in a line of the agent that a user would see."""
    if line.sender != "agent" or not line.update:
        return ""
    if line.kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
        text = at(line.update, "content", "text")
        return text if isinstance(text, str) else ""
    if line.kind in ("tool_call", "tool_call_update"):
        return "\n" + json.dumps(line.update, ensure_ascii=False) + "\n"
    return ""
