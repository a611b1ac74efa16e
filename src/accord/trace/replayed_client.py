"""The recorded client, played to an agent that really runs; and where what that agent does differs from the recording.

What the client asked is asked again, in its order and no sooner than what it then knew has come. What the agent asks is
answered as it was answered then; what was never asked then is refused, and a permission is never given that was not
given for the same kind of option.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, field

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import INTERNAL_ERROR, Crashed, RequestTimeout
from accord.schema.codec import NotJson, parse_json
from accord.trace.replay_comparison import (
    OF_THE_SESSION,
    NameMap,
    RecordedScript,
    differences,
    orders_differ,
    turns_differ,
)
from accord.trace.trace_steps import TraceStep, at, id_key, listed
from accord.wire.transport import Frame, Transport, TransportEnd

IGNORED: Final = ("_meta", "agentInfo", "used", "cost", "usage")
SILENCE: Final = 60.0
"""Seconds without a word from the agent after which it is given up."""

_MOST_STRAYS: Final = 100
_TURNS: Final = ("session/prompt", "session/load")


class ReplayedCall(Struct):
    """One call of the recorded client, and where what came of it differs."""

    method: str
    differences: list[str] = field(default_factory=list[str])


class SessionMessages(Struct):
    """What the agent said in one session while a call was open."""

    updates: list[Any] = field(default_factory=list[Any])
    asked: list[str] = field(default_factory=list[str])


class ReplayedClient:
    """Plays a script on a transport whose other end is an agent."""

    def __init__(
        self,
        script: RecordedScript,
        transport: Transport,
        *,
        cwd: str | None = None,
        silence: float = SILENCE,
        ignore: Collection[str] = IGNORED,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`cwd` stands for the folder of the recorded sessions; `silence` is how long the agent may say nothing."""
        self._script = script
        self._transport = transport
        self._silence = silence
        self._ignore = ignore
        self._clock = clock
        self._names = NameMap()
        if cwd is not None:
            for step in script.steps:
                if isinstance(folder := at(step.params, "cwd"), str) and step.side == "client":
                    self._names.moved.setdefault(folder.rstrip("/"), cwd)
        self._ids = {
            id_key(step.id): step for step in script.steps if step.kind == "request" and step.side == "client"
        }
        self._answers: dict[str, dict[str, Any]] = {}
        self._heard: dict[str, SessionMessages] = {}
        self._used: set[TraceStep] = set()
        self._places = {step: place for place, step in enumerate(script.steps)}
        self._place = 0  # how far the play has come
        self._held: dict[TraceStep, bytes] = {}  # answers that were given only after something else was said
        self._strays: list[str] = []
        self._news = asyncio.Event()
        self._end: TransportEnd | None = None

    async def play(self, told: Callable[[ReplayedCall], None]) -> list[ReplayedCall]:
        """Play all of it; `told` hears of every call as it is through. Raises `Crashed` and `RequestTimeout`."""
        outcomes: list[ReplayedCall] = []
        self._transport.start(self)
        try:
            for place, step in enumerate(self._script.steps):
                self._place = place
                if step.side == "client" and step.kind in ("request", "notification"):
                    await self._known_by(place)
                    self._say(step)
                elif step in self._held:
                    self._transport.send(self._held.pop(step))
                elif step.side == "agent" and step.asked is not None:
                    outcome = await self._answered(step)
                    outcomes.append(outcome)
                    told(outcome)
        finally:
            await self._transport.aclose()
            if self._strays:  # they may tell why it came to nothing
                outcomes.append(ReplayedCall("", self._strays))
                told(outcomes[-1])
        return outcomes

    def frames(self, frames: list[Frame]) -> None:
        """What the agent says."""
        for frame in frames:
            try:
                message = parse_json(frame) if isinstance(frame, bytes) else None
            except NotJson:
                message = None
            if isinstance(message, dict):
                self._hear(cast(dict[str, Any], message))
            elif isinstance(frame, bytes):
                self._stray(f"a line that is no message: {frame[:80].decode(errors='replace')}")
            else:
                self._stray(f"a message of {frame.size} bytes, too long to be read")
        self._news.set()

    def ended(self, end: TransportEnd) -> None:
        """The agent is gone."""
        self._end = end
        self._news.set()

    def _hear(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params")
        session = at(params, "sessionId")
        heard = self._heard.setdefault(session if isinstance(session, str) else "", SessionMessages())
        if method == "session/update":
            heard.updates.append(at(params, "update"))
        elif isinstance(method, str) and "id" in message:
            heard.asked.append(method)
            self._serve(method, message)
        elif isinstance(method, str):
            heard.updates.append({"sessionUpdate": method, "params": params})
        elif (key := id_key(message.get("id"))) in self._answers or key not in self._ids:
            self._stray(f"an answer to {message.get('id')!r}, which nobody waits for")
        else:
            self._answers[key] = message

    def _stray(self, sentence: str) -> None:
        if len(self._strays) < _MOST_STRAYS:
            self._strays.append(sentence)

    def _serve(self, method: str, message: dict[str, Any]) -> None:
        """Answer the agent as it was answered."""
        answer = {"error": {"code": INTERNAL_ERROR, "message": f"The recording holds no answer to {method}"}}
        if method == "session/request_permission":
            answer = {"result": {"outcome": {"outcome": "cancelled"}}}
        fits = [
            step
            for step in self._script.steps
            if step.side == "agent"
            and step.kind == "request"
            and step.method == method
            and step not in self._used
        ]
        said = NameMap(moved=dict(self._names.moved))
        same = [step for step in fits if not any(differences(step.params, message.get("params"), said))]
        answered: TraceStep | None = None
        for step in (*same, *fits):
            if step.answer is None or step.answer.message is None:
                continue
            answered = step.answer
            self._used.add(step)
            recorded = {
                name: step.answer.message[name] for name in ("result", "error") if name in step.answer.message
            }
            answer = self._names.to_now(recorded)
            if method == "session/request_permission":
                answer = _permission(step, message, answer)
            break
        frame = msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], **answer})
        if answered is not None and self._later(answered):
            self._held[answered] = frame
        else:
            self._transport.send(frame)

    def _later(self, answer: TraceStep) -> bool:
        """Whether the client said something else in this session before it gave this answer, and is yet to say it."""
        between = self._script.steps[self._place : self._places[answer]]
        return any(
            step.side == "client" and step.asked is None and step.session == answer.session
            for step in between
        )

    def _say(self, step: TraceStep) -> None:
        if step.method in _TURNS:
            self._heard[self._names.now.get(("sessionId", step.session), step.session)] = SessionMessages()
        message = self._names.to_now(step.message)
        self._transport.send(step.entry.data if message is step.message else msgspec.json.encode(message))

    async def _known_by(self, place: int) -> None:
        """Wait for as many updates as the client had seen when it spoke, unless the turn ends before."""
        step = self._script.steps[place]
        before = self._script.steps[:place]
        running = next(
            (
                one
                for one in reversed(before)
                if one.method == "session/prompt" and one.kind == "request" and one.session == step.session
            ),
            None,
        )
        if running is None or (running.answer is not None and running.answer in before):
            return
        began = before.index(running)
        mine = [one for one in before[began:] if one.session == step.session and one.side == "agent"]
        seen = _in_turn(at(one.params, "update") for one in mine if one.method == "session/update")
        asked = sum(one.kind == "request" for one in mine)
        session = self._names.now.get(("sessionId", step.session), step.session)
        heard = self._heard.setdefault(session, SessionMessages())
        await self._until(
            lambda: (
                (_in_turn(heard.updates) >= seen and len(heard.asked) >= asked)
                or id_key(running.id) in self._answers
            ),
            step.method,
        )

    async def _answered(self, step: TraceStep) -> ReplayedCall:
        asked = cast(TraceStep, step.asked)
        key = id_key(asked.id)
        await self._until(lambda: key in self._answers, asked.method)
        now = self._answers[key]
        outcome = ReplayedCall(asked.method)
        kind, was = ("error" if "error" in one else "result" for one in (now, step.message or {}))
        if kind != was:
            outcome.differences.append(
                f"{kind}: {msgspec.json.encode(now.get(kind)).decode()[:200]}, was a {was}"
            )
        else:
            found = differences(
                at(step.message, kind), now.get(kind), self._names, path=kind, ignore=self._ignore
            )
            outcome.differences += map(str, found)
        session = self._names.now.get(("sessionId", step.session), step.session)
        heard = self._heard.get(session, SessionMessages())
        if asked.method in _TURNS:
            outcome.differences += self._turn(step, asked, heard)
        return outcome

    def _turn(self, step: TraceStep, asked: TraceStep, heard: SessionMessages) -> list[str]:
        """Where a turn went otherwise: what was said, done and asked in it."""
        steps = self._script.steps
        mine = [one for one in steps[steps.index(asked) : steps.index(step)] if one.session == step.session]
        updates = [at(one.params, "update") for one in mine if one.method == "session/update"]
        requests = [one.method for one in mine if one.side == "agent" and one.kind == "request"]
        found = turns_differ(updates, heard.updates, self._names, ignore=self._ignore)
        return [*map(str, found), *orders_differ(requests, heard.asked)]

    async def _until(self, done: Callable[[], bool], waiting_for: str) -> None:
        while not done():
            if self._end is not None:
                raise Crashed(
                    f"the agent ended before {waiting_for} was through: {self._end.reason}",
                    exit_code=self._end.exit_code,
                    signal=self._end.signal,
                    stderr=self._end.stderr,
                )
            self._news.clear()
            bell = asyncio.ensure_future(self._news.wait())
            try:
                if not await within(self._clock, self._silence, bell):
                    raise RequestTimeout(
                        f"the agent said nothing for {self._silence:g} seconds while {waiting_for} was waited for"
                    )
            finally:
                bell.cancel()


def _in_turn(updates: Iterable[Any]) -> int:
    return sum(at(update, "sessionUpdate") not in OF_THE_SESSION for update in updates)


def _permission(step: TraceStep, message: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The recorded choice among the options of now: the same kind of option, or no."""
    no = {"result": {"outcome": {"outcome": "cancelled"}}}
    chosen = at(answer, "result", "outcome", "optionId")
    if chosen is None:
        return answer
    kinds = {id_key(at(one, "optionId")): at(one, "kind") for one in listed(step.params, "options")}
    kind = kinds.get(id_key(chosen))
    offered = [
        one for one in listed(message, "params", "options") if kind is not None and at(one, "kind") == kind
    ]
    ids = [at(one, "optionId") for one in offered]
    if not ids:
        return no
    return {"result": {"outcome": {"outcome": "selected", "optionId": chosen if chosen in ids else ids[0]}}}
