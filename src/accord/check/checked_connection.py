"""A hand-driven connection to the program under test: keeps every line, pairs calls with answers, bounds
every wait.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, cast

from msgspec import Struct

from accord.check.findings import Evidence, Rule, RuleNotes
from accord.clock import Clock, within
from accord.schema.codec import NotJson, parse_json
from accord.trace.trace_steps import at
from accord.wire.transport import DEFAULT_LIMIT, Frame, TransportEnd

# MERGED check.lines: The lines of one conversation, in the order they crossed, and how they belong together.

Message: TypeAlias = dict[str, Any]
Side: TypeAlias = Literal["client", "agent"]

MOST_VALUES_PER_MESSAGE: Final = 200_000
"""The values in one line that is still judged; the walk over more would take minutes."""
MOST_DEEP: Final = 100
"""The levels of one line that is still judged; those who walk over it go into each."""

_HEAD: Final = 4096


class WireLine(NamedTuple):
    """One line. `message` is None where it is no JSON object, and where it is too big to be judged: `unread` says why."""

    talk: str
    number: int
    sender: Side
    data: bytes
    message: Message | None
    unread: str = ""

    @property
    def shown(self) -> Evidence:
        """As evidence."""
        return Evidence(self.talk, self.number, self.sender, self.data)

    @property
    def method(self) -> str:
        """The method; empty for an answer and for noise."""
        found = (self.message or {}).get("method")
        return found if isinstance(found, str) else ""

    @property
    def params(self) -> Any:
        """The parameters."""
        return (self.message or {}).get("params")

    @property
    def id(self) -> Any:
        """The id; None also where there is none."""
        return (self.message or {}).get("id")

    @property
    def is_request(self) -> bool:
        """A call that wants an answer."""
        return bool(self.method) and "id" in (self.message or {})

    @property
    def is_answer(self) -> bool:
        """An answer, sound or not."""
        message = self.message or {}
        return bool(message) and "method" not in message and ("result" in message or "error" in message)

    @property
    def may_answer(self) -> bool:
        """It was not read, and at its beginning there is nothing of a call."""
        return bool(self.unread) and b'"method"' not in self.data[:_HEAD]

    @property
    def update(self) -> Message:
        """The session update that it is, empty if it is none."""
        update = at(self.params, "update") if self.method == "session/update" else None
        return cast(Message, update) if isinstance(update, dict) else {}

    @property
    def kind(self) -> str:
        """The kind of update."""
        found = self.update.get("sessionUpdate")
        return found if isinstance(found, str) else ""

    @property
    def session(self) -> str:
        """The session it names."""
        found = at(self.params, "sessionId")
        return found if isinstance(found, str) else ""


def line_of(talk: str, number: int, sender: Side, frame: Frame) -> WireLine:
    """A line as it crossed."""
    if not isinstance(frame, bytes):
        why = f"a message of {frame.size} bytes, more than the {DEFAULT_LIMIT // 1024 // 1024} MiB that are read"
        return WireLine(talk, number, sender, frame.head, None, why)
    if values_in(frame) > MOST_VALUES_PER_MESSAGE:
        why = f"a message of more than {MOST_VALUES_PER_MESSAGE} values"
        return WireLine(talk, number, sender, frame, None, why)
    try:
        value = parse_json(frame)
        deep = frame.count(b"[") + frame.count(b"{") > MOST_DEEP and _is_deep(value)
    except NotJson as error:
        value, deep = None, isinstance(error.__context__, RecursionError)
    if deep:
        return WireLine(talk, number, sender, frame, None, f"a message of more than {MOST_DEEP} levels")
    message = cast(Message, value) if isinstance(value, dict) else None
    return WireLine(talk, number, sender, frame, message)


def values_in(data: bytes) -> int:
    """At most so many values are in a line."""
    return data.count(b",") + data.count(b"[") + data.count(b"{") + 1


def _is_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MOST_DEEP):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += cast(Message, one).values()
            elif isinstance(one, list):
                inner += cast(list[Any], one)
        level = inner
    return bool(level)


class CallRecord(NamedTuple):
    """A request of one side with its answers; there should be one."""

    request: WireLine
    answers: list[WireLine]


def key(id: Any) -> str:
    """An id, or anything else that should be text, as a key: 1, 1.0 and "1" are three."""
    return f"{type(id).__name__}:{id!r}"


def exchanges(lines: list[WireLine], asker: Side) -> Iterator[CallRecord]:
    """The requests of one side, each with its answers. An id that was used again after its answer is a new request."""
    asked: dict[str, CallRecord] = {}
    found: list[CallRecord] = []
    for line in lines:
        if line.sender == asker and line.is_request:
            exchange = CallRecord(line, [])
            asked[key(line.id)] = exchange
            found.append(exchange)
        elif line.sender != asker and line.is_answer and key(line.id) in asked:
            asked[key(line.id)].answers.append(line)
    yield from found


# MERGED check.bounds: How long a check waits before it says so.


class CheckTimeouts(Struct, frozen=True):
    """Seconds. An agent that thinks with a slow model needs longer ones."""

    answer: float = 20.0
    """For an ordinary request."""
    turn: float = 60.0
    """For a whole prompt turn."""
    soon: float = 10.0
    """For what should follow soon: the end of a cancelled turn, something that a turn was to bring about."""
    leave: float = 5.0
    """For the process to end once its input is closed."""

    def times(self, factor: float) -> "CheckTimeouts":
        """All of them longer or shorter."""
        return CheckTimeouts(
            self.answer * factor, self.turn * factor, self.soon * factor, self.leave * factor
        )


# MERGED check.conversation: One conversation with the program under test, spoken by hand: every line is kept, nothing is waited for without a bound, and
# no flood is read to its end.

ABSENT: Any = object()
"""For params that are left out."""

MOST_LINES: Final = 20_000
MOST_BYTES: Final = 64 * 1024 * 1024
MOST_VALUES: Final = 1_000_000
"""What is read of one conversation. No scene needs a hundredth of it."""


class ConnectionOver(Exception):
    """The conversation cannot go on. What the other side owed is noted already, or nobody's fault."""


class CallAnswer(NamedTuple):
    """The answer to one request, with the request."""

    asked: WireLine
    line: WireLine

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


class CheckedConnection(ABC):
    """One connection with `peer`, the side under test, which owes its answers by the rule `owed`. What it asks for is served as
    it comes.
    """

    peer: ClassVar[Side]
    own: ClassVar[Side]
    owed: ClassVar[Rule]

    def __init__(self, name: str, ledger: RuleNotes, bounds: CheckTimeouts, clock: Clock) -> None:
        self.name = name
        self.ledger = ledger
        self.bounds = bounds
        self.clock = clock
        self.lines: list[WireLine] = []
        self.end: TransportEnd | None = None
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
    def serve(self, line: WireLine) -> None:
        """Answer a request, or hold the answer back."""

    @abstractmethod
    def gone(self, end: TransportEnd) -> str:
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

    def ended(self, end: TransportEnd) -> None:
        """The other side is gone."""
        self.end = end
        self._tell()

    def _weigh(self, line: WireLine) -> None:
        self._came += 1
        self._bytes += len(line.data)
        self._values += 0 if line.unread else values_in(line.data)
        if self._came >= MOST_LINES or self._bytes > MOST_BYTES or self._values > MOST_VALUES:
            self.flood = f"a flood: {self._came} lines, {self._bytes} bytes"
            self.hush()

    def _note(self, sender: Side, frame: Frame) -> WireLine:
        line = line_of(self.name, len(self.lines) + 1, sender, frame)
        self.lines.append(line)
        return line

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # -- what is sent

    def send(self, message: Message | str | bytes) -> WireLine:
        """Send anything, as a line."""
        if isinstance(message, dict):
            message = json.dumps(message, ensure_ascii=False)
        data = message.encode("utf-8", "surrogatepass") if isinstance(message, str) else message
        line = self._note(self.own, data)
        if line.is_request:
            self._asked.add(key(line.id))
        self.transmit(data)
        return line

    def reply(self, request: WireLine, reply: Message) -> WireLine:
        """Answer a request of the other side."""
        return self.send({"jsonrpc": "2.0", "id": request.id, **reply})

    def notify(self, method: str, params: Any = ABSENT) -> WireLine:
        """Send a notification."""
        more = {} if params is ABSENT else {"params": params}
        return self.send({"jsonrpc": "2.0", "method": method, **more})

    def ask(self, method: str, params: Any = ABSENT, *, id: Any = None) -> WireLine:
        """Send a request; `answer` waits for what comes of it."""
        more = {} if params is ABSENT else {"params": params}
        number = self.fresh(next(self._ids)) if id is None else id
        return self.send({"jsonrpc": "2.0", "id": number, "method": method, **more})

    def fresh(self, number: int) -> Any:
        """The id of the request with this number."""
        return number

    # -- waiting

    async def until(
        self, wanted: Callable[[WireLine], bool], *, since: int = 0, bound: float | None = None
    ) -> WireLine | None:
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

    async def answer(
        self, asked: WireLine, *, owes: Rule | None = None, bound: float | None = None
    ) -> CallAnswer:
        """The answer. Where none comes, the rule that it is owed by is noted as broken, and the talk is over."""
        wanted = key(asked.id)

        def fits(line: WireLine) -> bool:
            if line.sender != self.peer or not line.is_answer:
                return line.sender == self.peer and line.may_answer
            return key(line.id) == wanted or (line.id is not None and key(line.id) not in self._asked)

        line = await self.until(fits, since=asked.number, bound=bound)
        if line is None or line.unread:
            raise self.silent(asked, self.owed if owes is None else owes, bound)
        if key(line.id) != wanted:
            raise ConnectionOver(
                f"the answer to {asked.id!r} came under the id {line.id!r}"
            )  # noted by the watch
        return CallAnswer(asked, line)

    def silent(self, asked: WireLine, owes: Rule, bound: float | None = None) -> ConnectionOver:
        """What to raise when an answer is owed and does not come."""
        seconds = self.bounds.answer if bound is None else bound
        what = asked.method or "the line"
        unread = next((line for line in self.lines[asked.number :] if line.may_answer), None)
        if unread is not None:
            why = f"{unread.unread}, which may be the answer to {what}"
            self.ledger.unjudged(owes, why, (asked.shown, unread.shown))
            return ConnectionOver(why)
        if self.flood:
            why = f"{what} was not answered in {self.flood}"
        elif self.end is not None:
            words = self.last_words()
            why = f"{self.gone(self.end)} without answering {what}"
            why += f"; its last words: {words[:200]}" if words else ""
        else:
            why = f"{what} was not answered within {seconds:g} seconds"
        self.ledger.broken(owes, why, (asked.shown,))
        return ConnectionOver(why)

    async def call(
        self, method: str, params: Any = ABSENT, *, owes: Rule | None = None, id: Any = None
    ) -> CallAnswer:
        """A request and its answer."""
        return await self.answer(self.ask(method, params, id=id), owes=owes)

    async def barrier(self, *, owes: Rule | None = None) -> CallAnswer:
        """A request that does nothing: its answer shows that everything before it was taken in."""
        return await self.call("_check/barrier", {}, owes=owes)
