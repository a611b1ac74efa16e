"""One conversation with the program under test, spoken by hand: every line is kept, nothing is waited for without a bound, and
no flood is read to its end.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar, Final, NamedTuple

from accord.check.bounds import Bounds
from accord.check.ledger import Ledger, Rule
from accord.check.lines import Line, Message, Side, key, line_of, values_in
from accord.check.verdict import Evidence
from accord.clock import Clock, within
from accord.trace.exchange import at
from accord.wire.transport import End, Frame

ABSENT: Any = object()
"""For params that are left out."""

MOST_LINES: Final = 20_000
MOST_BYTES: Final = 64 * 1024 * 1024
MOST_VALUES: Final = 1_000_000
"""What is read of one conversation. No scene needs a hundredth of it."""


class Over(Exception):
    """The conversation cannot go on. What the other side owed is noted already, or nobody's fault."""


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


class Conversation(ABC):
    """One connection with `peer`, the side under test, which owes its answers by the rule `owed`. What it asks for is served as
    it comes.
    """

    peer: ClassVar[Side]
    own: ClassVar[Side]
    owed: ClassVar[Rule]

    def __init__(self, name: str, ledger: Ledger, bounds: Bounds, clock: Clock) -> None:
        self.name = name
        self.ledger = ledger
        self.bounds = bounds
        self.clock = clock
        self.lines: list[Line] = []
        self.end: End | None = None
        self.flood = ""
        """What came of it, once it was too much; the rest is not read."""
        self._asked: set[str] = set()
        self._ids = count(1)
        self._news: asyncio.Future[None] | None = None
        self._came = self._bytes = self._values = 0

    # -- what each side does in its own way

    @abstractmethod
    def transmit(self, data: bytes) -> None:
        """Put one line on the wire."""

    @abstractmethod
    def hush(self) -> None:
        """Read no more."""

    @abstractmethod
    def serve(self, line: Line) -> None:
        """Answer a request, or hold the answer back."""

    @abstractmethod
    def gone(self, end: End) -> str:
        """The end of the other side in a few words."""

    def last_words(self) -> str:
        """What it complained of last."""
        return ""

    # -- what arrives

    def frames(self, frames: list[Frame]) -> None:
        """What the transport brings."""
        for frame in frames:
            if self.flood:
                break
            line = self._note(self.peer, frame)
            self._weigh(line)
            if line.is_request:
                try:
                    self.serve(line)
                except Exception as error:  # noqa: BLE001 - a request that nobody foresaw must not end the run
                    text = f"{line.method} cannot be served here: {type(error).__name__}"
                    self.send({"jsonrpc": "2.0", "id": line.id, "error": {"code": -32603, "message": text}})
        self._tell()

    def ended(self, end: End) -> None:
        """The other side is gone."""
        self.end = end
        self._tell()

    def _weigh(self, line: Line) -> None:
        self._came += 1
        self._bytes += len(line.data)
        self._values += 0 if line.unread else values_in(line.data)
        if self._came >= MOST_LINES or self._bytes > MOST_BYTES or self._values > MOST_VALUES:
            self.flood = f"a flood: {self._came} lines, {self._bytes} bytes"
            self.hush()

    def _note(self, sender: Side, frame: Frame) -> Line:
        line = line_of(self.name, len(self.lines) + 1, sender, frame)
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
        line = self._note(self.own, data)
        if line.is_request:
            self._asked.add(key(line.id))
        self.transmit(data)
        return line

    def reply(self, request: Line, reply: Message) -> Line:
        """Answer a request of the other side."""
        return self.send({"jsonrpc": "2.0", "id": request.id, **reply})

    def notify(self, method: str, params: Any = ABSENT) -> Line:
        """Send a notification."""
        more = {} if params is ABSENT else {"params": params}
        return self.send({"jsonrpc": "2.0", "method": method, **more})

    def ask(self, method: str, params: Any = ABSENT, *, id: Any = None) -> Line:
        """Send a request; `answer` waits for what comes of it."""
        more = {} if params is ABSENT else {"params": params}
        number = self.fresh(next(self._ids)) if id is None else id
        return self.send({"jsonrpc": "2.0", "id": number, "method": method, **more})

    def fresh(self, number: int) -> Any:
        """The id of the request with this number."""
        return number

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
            if self.end is not None or self.flood or left <= 0:
                return None
            self._news = asyncio.get_running_loop().create_future()
            await within(self.clock, left, self._news)

    async def answer(self, asked: Line, *, owes: Rule | None = None, bound: float | None = None) -> Answer:
        """The answer. Where none comes, the rule that it is owed by is noted as broken, and the talk is over."""
        wanted = key(asked.id)

        def fits(line: Line) -> bool:
            if line.sender != self.peer or not line.is_answer:
                return line.sender == self.peer and line.may_answer
            return key(line.id) == wanted or (line.id is not None and key(line.id) not in self._asked)

        line = await self.until(fits, since=asked.number, bound=bound)
        if line is None or line.unread:
            raise self.silent(asked, self.owed if owes is None else owes, bound)
        if key(line.id) != wanted:
            raise Over(f"the answer to {asked.id!r} came under the id {line.id!r}")  # noted by the watch
        return Answer(asked, line)

    def silent(self, asked: Line, owes: Rule, bound: float | None = None) -> Over:
        """What to raise when an answer is owed and does not come."""
        seconds = self.bounds.answer if bound is None else bound
        what = asked.method or "the line"
        unread = next((line for line in self.lines[asked.number :] if line.may_answer), None)
        if unread is not None:
            why = f"{unread.unread}, which may be the answer to {what}"
            self.ledger.unjudged(owes, why, (asked.shown, unread.shown))
            return Over(why)
        if self.flood:
            why = f"{what} was not answered in {self.flood}"
        elif self.end is not None:
            words = self.last_words()
            why = f"{self.gone(self.end)} without answering {what}"
            why += f"; its last words: {words[:200]}" if words else ""
        else:
            why = f"{what} was not answered within {seconds:g} seconds"
        self.ledger.broken(owes, why, (asked.shown,))
        return Over(why)

    async def call(
        self, method: str, params: Any = ABSENT, *, owes: Rule | None = None, id: Any = None
    ) -> Answer:
        """A request and its answer."""
        return await self.answer(self.ask(method, params, id=id), owes=owes)

    async def barrier(self, *, owes: Rule | None = None) -> Answer:
        """A request that does nothing: its answer shows that everything before it was taken in."""
        return await self.call("_check/barrier", {}, owes=owes)
