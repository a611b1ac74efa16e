"""A connection to the program under test. Records every line and limits every wait."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import count
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, cast

from msgspec import Struct

from accord.check.findings import RuleId, RuleNotes
from accord.clock import Clock, within
from accord.trace.trace_format import Side
from accord.trace.trace_steps import at
from accord.trace.wire_line import Evidence, WireLine, count_values, read_wire_line
from accord.wire.envelope import Message, RpcCore, id_key
from accord.wire.transport import Frame, TransportEnd

Reply: TypeAlias = Message | None
"""`{"result": ...}` or `{"error": ...}`; None leaves the request unanswered."""
Handler: TypeAlias = Callable[[WireLine], Reply]


def result_reply(value: Any) -> Message:
    return {"result": value}


def error_reply(code: int, message: str) -> Message:
    return {"error": {"code": code, "message": message}}


class Responder:
    """Answers the peer's requests. A case puts its own handlers into `overrides`, by method."""

    def __init__(self) -> None:
        self.overrides: dict[str, Handler] = {}
        self.handlers: dict[str, Handler] = {}

    def serve(self, line: WireLine) -> Reply:
        """The answer to a request, or None to leave it unanswered."""
        handler = self.overrides.get(line.method) or self.handlers.get(line.method)
        return error_reply(-32601, f"Method not found: {line.method}") if handler is None else handler(line)


def leave_unanswered(line: WireLine) -> Reply:
    """A handler that does not answer."""
    del line
    return None


def has_capability(capabilities: Any, path: str) -> bool:
    """Whether capabilities have the one at a dotted path: `true` or an object."""
    value = at(capabilities, *path.split("."))
    return value is True or isinstance(value, dict)


def remove_capabilities(capabilities: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """A copy of the capabilities without those at these dotted paths."""
    copy = deepcopy(dict(capabilities))
    for path in paths:
        inner = copy
        *parents, last = path.split(".")
        for parent in parents:
            inner = inner[parent]
        inner.pop(last, None)
    return copy


def substitute(value: Any, values: Mapping[str, Any]) -> Any:
    """Replace `$name` strings by their values, at any depth."""
    if isinstance(value, str):
        return values.get(value[1:], value) if value.startswith("$") else value
    if isinstance(value, list):
        return [substitute(item, values) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {name: substitute(item, values) for name, item in cast(dict[str, Any], value).items()}
    return value


class CheckTimeouts(Struct, frozen=True):
    """Timeouts in seconds. Agents with a slow model need longer ones."""

    answer: float = 20.0
    """For an ordinary request."""
    turn: float = 60.0
    """For a whole prompt turn."""
    soon: float = 10.0
    """For what should follow soon, such as the end of a canceled turn."""
    exit: float = 5.0
    """For the process to exit after its input is closed."""

    def scaled(self, factor: float) -> "CheckTimeouts":
        """All timeouts, multiplied by a factor."""
        return CheckTimeouts(self.answer * factor, self.turn * factor, self.soon * factor, self.exit * factor)


ABSENT: Any = object()
"""Marks missing params."""

MAX_LINES: Final = 20_000
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_VALUES: Final = 1_000_000
"""Limits for one connection. The rest of a flood is not read; no case needs a hundredth of this."""


class ConnectionOver(Exception):
    """The connection cannot continue. A missing answer is already noted."""


class CallAnswer(NamedTuple):
    """A request and its answer."""

    request: WireLine
    line: WireLine

    @property
    def ok(self) -> bool:
        """Whether it has a result and no error."""
        message = self.line.message or {}
        return "result" in message and "error" not in message

    @property
    def result(self) -> Any:
        """The result, or None."""
        return (self.line.message or {}).get("result")

    @property
    def code(self) -> Any:
        """The error code, or None."""
        return at(self.line.message, "error", "code")

    @property
    def summary(self) -> str:
        """The result or error as a short text."""
        if self.ok:
            return f"result {json.dumps(self.result)[:80]}"
        return f"error {self.code}: {str(at(self.line.message, 'error', 'message'))[:80]}"

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Request and answer as evidence."""
        return (*self.request.evidence, *self.line.evidence)


class CheckedConnection(ABC):
    """A connection to the side under test, the peer.

    Requests of the peer are answered as they arrive. A missing answer of the peer breaks `answer_rule`.
    """

    peer_side: ClassVar[Side]
    own_side: ClassVar[Side]
    answer_rule: ClassVar[RuleId]

    def __init__(self, name: str, notes: RuleNotes, timeouts: CheckTimeouts, clock: Clock) -> None:
        self.name = name
        self.notes = notes
        self.timeouts = timeouts
        self.clock = clock
        self.lines: list[WireLine] = []
        self.flood: str = ""
        """A description of the flood, once a limit was reached; nothing more is read then."""
        self._core = RpcCore[WireLine]()  # calls stay open: every answer is judged, also after the end
        self._ids = count(1)
        self._arrival: asyncio.Future[None] | None = None
        self._line_count = self._byte_count = self._value_count = 0

    # -- implemented for agents and for clients

    @abstractmethod
    def transmit(self, data: bytes) -> None:
        """Send one line."""

    @abstractmethod
    def stop_reading(self) -> None:
        """Stop reading."""

    @abstractmethod
    def serve(self, line: WireLine) -> None:
        """Answer a request, or leave it unanswered."""

    @abstractmethod
    def describe_end(self, end: TransportEnd) -> str:
        """Describe the end of the peer."""

    def last_stderr_line(self) -> str:
        """The last line of stderr, or empty."""
        return ""

    @property
    def end(self) -> TransportEnd | None:
        """Why the connection to the peer has ended; None while it is open."""
        return self._core.end

    # -- received frames

    def frames(self, frames: list[Frame]) -> None:
        """Called by the transport with received frames."""
        for frame in frames:
            if self.flood:
                break
            line = self._record_line(self.peer_side, frame)
            self._check_limits(line)
            if line.is_request:
                try:
                    self.serve(line)
                except Exception as error:  # noqa: BLE001 - an unexpected request must not end the run
                    text = f"{line.method} cannot be served here: {type(error).__name__}"
                    self.send({"jsonrpc": "2.0", "id": line.id, "error": {"code": -32603, "message": text}})
        self._wake()

    def ended(self, end: TransportEnd) -> None:
        """Called by the transport when the connection to the peer has ended."""
        self._core.end = end
        self._wake()

    def _check_limits(self, line: WireLine) -> None:
        self._line_count += 1
        self._byte_count += len(line.data)
        self._value_count += 0 if line.skip_reason else count_values(line.data)
        if self._line_count >= MAX_LINES or self._byte_count > MAX_BYTES or self._value_count > MAX_VALUES:
            self.flood = f"a flood: {self._line_count} lines, {self._byte_count} bytes"
            self.stop_reading()

    def _record_line(self, sender: Side, frame: Frame) -> WireLine:
        line = read_wire_line(self.name, len(self.lines) + 1, sender, frame)
        self.lines.append(line)
        return line

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    # -- sending

    def send(self, message: Message | str | bytes) -> WireLine:
        """Send any text, bytes or message as one line."""
        if isinstance(message, dict):
            message = json.dumps(message, ensure_ascii=False)
        data = message.encode("utf-8", "surrogatepass") if isinstance(message, str) else message
        line = self._record_line(self.own_side, data)
        if line.is_request:
            self._core.expect_response(id_key(line.id), line)
        for item in line.batch:
            if "id" in item:
                self._core.expect_response(id_key(item["id"]), line)
        self.transmit(data)
        return line

    def reply(self, request: WireLine, reply: Message) -> WireLine:
        """Answer a request of the peer."""
        return self.send({"jsonrpc": "2.0", "id": request.id, **reply})

    def notify(self, method: str, params: Any = ABSENT) -> WireLine:
        """Send a notification."""
        more = {} if params is ABSENT else {"params": params}
        return self.send({"jsonrpc": "2.0", "method": method, **more})

    def send_request(self, method: str, params: Any = ABSENT, *, id: Any = None) -> WireLine:
        """Send a request; `wait_for_answer` waits for its answer."""
        more = {} if params is ABSENT else {"params": params}
        request_id = self.request_id(next(self._ids)) if id is None else id
        return self.send({"jsonrpc": "2.0", "id": request_id, "method": method, **more})

    def request_id(self, number: int) -> Any:
        """The id for the request with this number."""
        return number

    # -- waiting

    async def wait_for_line(
        self, matches: Callable[[WireLine], bool], *, since: int = 0, timeout: float | None = None
    ) -> WireLine | None:
        """Wait for a line that matches, starting at index `since`; None after the timeout."""
        deadline = self.clock.now() + (self.timeouts.answer if timeout is None else timeout)
        position = since
        while True:
            while position < len(self.lines):
                line = self.lines[position]
                position += 1
                if matches(line):
                    return line
            remaining = deadline - self.clock.now()
            if self.end is not None or self.flood or remaining <= 0:
                return None
            self._arrival = asyncio.get_running_loop().create_future()
            await within(self.clock, remaining, self._arrival)

    async def wait_for_answer(
        self, request: WireLine, *, rule: RuleId | None = None, timeout: float | None = None
    ) -> CallAnswer:
        """Wait for the answer to a request.

        An error without an id is the answer if nothing else was sent that it can belong to. If no answer
        comes, the rule is noted as broken and `ConnectionOver` is raised.
        """
        answer_key = id_key(request.id)

        def is_answer_line(line: WireLine) -> bool:
            if line.sender != self.peer_side or not line.is_answer:
                return line.sender == self.peer_side and line.may_answer
            if line.id is None:
                return self._answers_without_id(line, request)
            return id_key(line.id) == answer_key or id_key(line.id) not in self._core.calls

        line = await self.wait_for_line(is_answer_line, since=request.number, timeout=timeout)
        if line is None or line.skip_reason:
            raise self.note_missing_answer(request, self.answer_rule if rule is None else rule, timeout)
        if line.id is not None and id_key(line.id) != answer_key:
            raise ConnectionOver(
                f"the answer to {request.id!r} has the id {line.id!r}"
            )  # the envelope rules note it
        return CallAnswer(request, line)

    def _answers_without_id(self, line: WireLine, request: WireLine) -> bool:
        """Whether an error without an id answers this request: no other line can have caused it."""
        if "error" not in (line.message or {}):
            return False
        earlier = self.lines[: line.number - 1]
        own_lines = [one for one in earlier if one.sender == self.own_side]
        if any(one.is_request or one.is_malformed for one in own_lines if one.number > request.number):
            return False
        peer_ids = {id_key(one.id) for one in earlier if one.sender == self.peer_side and one.is_request}
        malformed = sum(
            one.is_malformed or (one.is_answer and id_key(one.id) not in peer_ids) for one in own_lines
        )
        errors = sum(one.sender == self.peer_side and one.is_answer and one.id is None for one in earlier)
        return errors >= malformed

    def note_missing_answer(
        self, request: WireLine, rule: RuleId, timeout: float | None = None
    ) -> ConnectionOver:
        """Note a missing answer and return the exception to raise."""
        seconds = self.timeouts.answer if timeout is None else timeout
        request_name = request.method or "the line"
        skipped = next((line for line in self.lines[request.number :] if line.may_answer), None)
        if skipped is not None:
            reason = f"{skipped.skip_reason}, which may be the answer to {request_name}"
            self.notes.add_unjudged(rule, reason, request, skipped)
            return ConnectionOver(reason)
        if self.flood:
            reason = f"{request_name} was not answered in {self.flood}"
        elif self.end is not None:
            stderr_line = self.last_stderr_line()
            reason = f"{self.describe_end(self.end)} without answering {request_name}"
            reason += f"; stderr: {stderr_line[:200]}" if stderr_line else ""
        else:
            reason = f"{request_name} was not answered within {seconds:g} seconds"
        self.notes.add_fail(rule, reason, request)
        return ConnectionOver(reason)

    async def call(
        self, method: str, params: Any = ABSENT, *, rule: RuleId | None = None, id: Any = None
    ) -> CallAnswer:
        """Send a request and wait for its answer."""
        return await self.wait_for_answer(self.send_request(method, params, id=id), rule=rule)

    async def ping(self, *, rule: RuleId | None = None) -> CallAnswer:
        """Send a request without effect and wait for its answer: the peer has read every earlier line."""
        return await self.call("_check/barrier", {}, rule=rule)
