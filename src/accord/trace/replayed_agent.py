"""The recorded agent, played to a client that really speaks: answers go to what it really sends.

Each session is played by itself. What the agent said follows as soon as everything it waited for has come: an answer of
the client, a cancel. Client calls that the recording has in between do not hold up the answers to others. What the
client does otherwise is noted, not punished: the play goes on as far as it can.
"""

import asyncio
from collections.abc import Collection
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, field

from accord.clock import SYSTEM_CLOCK, Clock, Timer
from accord.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, PARSE_ERROR
from accord.schema.codec import NotJson, parse_json
from accord.trace.replay_comparison import NameMap, RecordedScript, SessionScript, differences
from accord.trace.trace_steps import TraceStep, at, id_key
from accord.wire.transport import Frame, Transport, TransportEnd

IGNORED: Final = ("_meta", "clientInfo")
PATIENCE: Final = 10.0
"""Seconds a client that waits for an answer may keep the play waiting for something else it was to send."""

_CREATE: Final = ("session/load", "session/resume", "session/fork")


class ReplayReport(Struct):
    """How a client did: what it did otherwise, and how much was played."""

    deviations: list[str] = field(default_factory=list[str])
    played: int = 0
    of: int = 0


class ReplayedAgent:
    """Plays a script on a transport whose other end is a client."""

    def __init__(
        self,
        script: RecordedScript,
        transport: Transport,
        *,
        speed: float = 0.0,
        patience: float = PATIENCE,
        ignore: Collection[str] = IGNORED,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`speed` 1 keeps the pauses of the recording, 2 halves them, 0 has none; `ignore` names members not compared."""
        self.report = ReplayReport(of=sum(step.side == "agent" for step in script.steps))
        self._script = script
        self._transport = transport
        self._speed = speed
        self._patience = patience
        self._ignore = ignore
        self._clock = clock
        self._names = NameMap()
        self._came: dict[
            TraceStep, Any
        ] = {}  # recorded steps of the client, with the id they really came under
        self._sent: set[TraceStep] = set()
        self._timers: dict[str, Timer] = {}
        self._over = asyncio.Event()

    async def play(self) -> ReplayReport:
        """Until the client has left, or, where the recorded agent left by itself, until it does."""
        self._transport.start(self)
        for lane in self._script.lanes.values():
            if lane.steps and lane.steps[0].side == "agent" and not lane.session:
                self._go_on(lane)
        try:
            await self._over.wait()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            await self._transport.aclose()
        self._missed()
        return self.report

    def frames(self, frames: list[Frame]) -> None:
        """What the client says."""
        for frame in frames:
            try:
                message = parse_json(frame) if isinstance(frame, bytes) else None
            except NotJson:
                message = None
            if isinstance(message, dict):
                self._hear(cast(dict[str, Any], message))
            else:
                self._deviates("sent a line that is no message")
                self._send({"id": None, "error": {"code": PARSE_ERROR, "message": "Parse error"}})

    def ended(self, end: TransportEnd) -> None:
        """The client is gone."""
        self._over.set()

    def _hear(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if isinstance(method, str):
            self._called(method, message)
        else:
            self._answered(message)

    def _called(self, method: str, message: dict[str, Any]) -> None:
        wants_answer = "id" in message
        session = at(message, "params", "sessionId")
        session = (
            self._names.recorded.get(("sessionId", session), session) if isinstance(session, str) else ""
        )
        found = self._find(method, wants_answer, session, message.get("params"))
        if found is None:
            self._unexpected(method, wants_answer, message)
            return
        lane, step = found
        recorded = at(step.params, "sessionId")
        if method in _CREATE and isinstance(recorded, str) and session not in ("", recorded):
            self._names.bind("sessionId", recorded, session)
        self._came[step] = message.get("id")
        self._compare(step, step.params, message.get("params"))
        self._go_on(lane)

    def _answered(self, message: dict[str, Any]) -> None:
        for lane in self._script.lanes.values():
            for step in lane.steps:
                asked = step.asked
                if asked is None or step.side != "client" or asked not in self._sent or step in self._came:
                    continue
                if id_key(asked.id) == id_key(message.get("id")):
                    self._came[step] = None
                    self._compare_answer(step, message)
                    self._go_on(lane)
                    return
        if any(
            step.kind == "request" and id_key(step.id) == id_key(message.get("id")) for step in self._sent
        ):
            return  # asked in the recording too, and never answered there
        self._deviates(f"answered {message.get('id')!r}, which was not asked")

    def _find(
        self, method: str, wants_answer: bool, session: str, params: Any
    ) -> tuple[SessionScript, TraceStep] | None:
        """The recorded call that this one is: the next of its kind, one that says the same first."""
        kind = "request" if wants_answer else "notification"
        lanes = self._script.lanes
        own = lanes.get(session) if session else None
        places = [own] if own is not None else list(lanes.values())
        fits = [
            (lane, step)
            for lane in places
            for step in lane.steps
            if step.side == "client"
            and step.kind == kind
            and step.method == method
            and step not in self._came
        ]
        if own is None and session and method not in _CREATE:
            fits = [(lane, step) for lane, step in fits if not lane.session]
        if own is not None:
            return fits[0] if fits else None
        names = NameMap()
        exact = (
            fit for fit in fits if not any(differences(fit[1].params, params, names, ignore=self._ignore))
        )
        return next(exact, fits[0] if fits else None)

    def _unexpected(self, method: str, wants_answer: bool, message: dict[str, Any]) -> None:
        self._deviates(f"sent {method}, which is not in the recording (again)")
        if not wants_answer:
            return
        for step in self._came:
            # Asked again in the same words: what was answered then is still the best answer.
            if step.method == method and step.answer is not None and step.answer in self._sent:
                again = not any(
                    differences(step.params, message.get("params"), self._names, ignore=self._ignore)
                )
                if again and method != "session/prompt" and method != "session/new":
                    self._send_step(step.answer, message.get("id"))
                    return
        recorded = any(step.method == method for step in self._script.steps)
        code = INTERNAL_ERROR if recorded else METHOD_NOT_FOUND
        text = f"The recording holds no{' further' if recorded else ''} answer to {method}"
        self._send({"id": message.get("id"), "error": {"code": code, "message": text}})

    def _go_on(self, lane: SessionScript, *, waited: bool = False, impatient: bool = False) -> None:
        """Play as far as what has come allows."""
        pending = self._timers.pop(lane.session, None)
        if pending is not None:
            pending.cancel()
        while not lane.over:
            step = lane.steps[lane.place]
            if step.side == "client":
                if step not in self._came and not impatient and not self._may_pass(lane, step):
                    if self._client_waits(lane):
                        self._later(lane, self._patience, impatient=True)
                    break
                impatient = False
            elif not self._owed(step):
                pass
            elif self._speed and not waited and (pause := self._pause(lane) / self._speed) > 0:
                self._later(lane, pause, waited=True)
                break
            else:
                waited = False
                self._send_step(step, self._came.get(step.asked) if step.asked is not None else None)
            lane.place += 1
        self._late_answers(lane)
        if self._script.exit is not None and all(one.over for one in self._script.lanes.values()):
            self._over.set()

    def _may_pass(self, lane: SessionScript, step: TraceStep) -> bool:
        """Whether the play goes on without this one: something later came, or it is a call that nobody waited for."""
        ahead = lane.steps[lane.place + 1 :]
        if any(later in self._came for later in ahead if later.side == "client"):
            return True
        return step.kind == "request" and any(
            self._owed(later) for later in ahead if later.asked is not None and later.side == "agent"
        )

    def _owed(self, step: TraceStep) -> bool:
        """Whether the agent is to say this: an answer only to what was really asked."""
        if step in self._sent:
            return False
        return step.asked in self._came if step.asked is not None else step.kind not in ("answer", "error")

    def _client_waits(self, lane: SessionScript) -> bool:
        return any(
            self._owed(step)
            for step in lane.steps[lane.place :]
            if step.asked is not None and step.side == "agent"
        )

    def _late_answers(self, lane: SessionScript) -> None:
        """Calls that came after the play had passed their answers."""
        for step in lane.steps[: lane.place]:
            if step.side == "agent" and step.asked is not None and self._owed(step):
                self._send_step(step, self._came[step.asked])

    def _later(
        self, lane: SessionScript, seconds: float, *, waited: bool = False, impatient: bool = False
    ) -> None:
        def go_on() -> None:
            self._timers.pop(lane.session, None)
            self._go_on(lane, waited=waited, impatient=impatient)

        self._timers[lane.session] = self._clock.call_later(seconds, go_on)

    def _pause(self, lane: SessionScript) -> float:
        before = lane.steps[lane.place - 1].entry.at if lane.place else lane.steps[lane.place].entry.at
        return max(lane.steps[lane.place].entry.at - before, 0.0)

    def _send_step(self, step: TraceStep, id: Any) -> None:
        self._sent.add(step)
        self.report.played = len(self._sent)
        if step.message is None:
            self._transport.send(step.entry.data)
            return
        message = step.message if step.asked is None else {**step.message, "id": id}
        message = self._names.to_now(message)
        unchanged = message is step.message
        self._transport.send(step.entry.data if unchanged else msgspec.json.encode(message))

    def _send(self, members: dict[str, Any]) -> None:
        self._transport.send(msgspec.json.encode({"jsonrpc": "2.0", **members}))

    def _compare(self, step: TraceStep, recorded: Any, now: Any) -> None:
        what = f"answered {step.method}" if step.asked is not None else f"sent {step.method}"
        for found in differences(recorded, now, self._names, ignore=self._ignore):
            self._deviates(f"{what} with something else at {found}")

    def _compare_answer(self, step: TraceStep, message: dict[str, Any]) -> None:
        now, recorded = ("error" if "error" in one else "result" for one in (message, step.message or {}))
        if now != recorded:
            self._deviates(f"answered {step.method} with {_a(now)}, was {_a(recorded)}")
        else:
            self._compare(step, at(step.message, now), message.get(now))

    def _missed(self) -> None:
        for step in self._script.steps:
            if step.side != "client" or step in self._came or step.kind == "noise":
                continue
            if step.asked is not None:
                if step.asked in self._sent:
                    self._deviates(f"never answered {step.method}")
            else:
                self._deviates(f"never sent {step.method}")

    def _deviates(self, sentence: str) -> None:
        self.report.deviations.append(f"the client {sentence}")


def _a(word: str) -> str:
    return f"an {word}" if word == "error" else f"a {word}"
