"""Plays the recorded agent to a real client.

Each session is replayed by itself. A recorded message of the agent is sent as soon as everything it depended
on has arrived: a response of the client, a cancel. Recorded client requests in between do not delay responses
to others. What the client does differently is reported, and the replay continues as far as possible.
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
"""Seconds to wait for a recorded client message while the client itself waits for a response."""

_OPEN_METHODS: Final = ("session/load", "session/resume", "session/fork")


class ReplayReport(Struct):
    """What the client did differently, and how many of the agent's messages were played."""

    deviations: list[str] = field(default_factory=list[str])
    played: int = 0
    of: int = 0


class ReplayedAgent:
    """Plays a recorded script on a transport to a client."""

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
        """`speed` 1 keeps the recorded pauses, 2 halves them, 0 has none.

        `ignore` lists members not compared.
        """
        self.report: ReplayReport = ReplayReport(of=sum(step.side == "agent" for step in script.steps))
        self._script = script
        self._transport = transport
        self._speed = speed
        self._patience = patience
        self._ignore = ignore
        self._clock = clock
        self._names = NameMap()
        self._received: dict[TraceStep, Any] = {}  # recorded client steps, with the ids the client uses now
        self._sent: set[TraceStep] = set()
        self._timers: dict[str, Timer] = {}
        self._over = asyncio.Event()

    async def play(self) -> ReplayReport:
        """Play until the client disconnects, or until the recorded agent ended by itself."""
        self._transport.start(self)
        for session_script in self._script.sessions.values():
            if (
                session_script.steps
                and session_script.steps[0].side == "agent"
                and not session_script.session
            ):
                self._advance(session_script)
        try:
            await self._over.wait()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            await self._transport.aclose()
        self._report_missing()
        return self.report

    def frames(self, frames: list[Frame]) -> None:
        """Handle frames of the client."""
        for frame in frames:
            try:
                message = parse_json(frame) if isinstance(frame, bytes) else None
            except NotJson:
                message = None
            if isinstance(message, dict):
                self._receive(cast(dict[str, Any], message))
            else:
                self._deviates("sent a line that is not a message")
                self._send({"id": None, "error": {"code": PARSE_ERROR, "message": "Parse error"}})

    def ended(self, end: TransportEnd) -> None:
        """End the replay, because the client disconnected."""
        self._over.set()

    def _receive(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if isinstance(method, str):
            self._receive_call(method, message)
        else:
            self._receive_response(message)

    def _receive_call(self, method: str, message: dict[str, Any]) -> None:
        wants_answer = "id" in message
        session = at(message, "params", "sessionId")
        session = (
            self._names.recorded.get(("sessionId", session), session) if isinstance(session, str) else ""
        )
        found = self._find(method, wants_answer, session, message.get("params"))
        if found is None:
            self._unexpected(method, wants_answer, message)
            return
        session_script, step = found
        recorded = at(step.params, "sessionId")
        if method in _OPEN_METHODS and isinstance(recorded, str) and session not in ("", recorded):
            self._names.bind("sessionId", recorded, session)
        self._received[step] = message.get("id")
        self._compare(step, step.params, message.get("params"))
        self._advance(session_script)

    def _receive_response(self, message: dict[str, Any]) -> None:
        for session_script in self._script.sessions.values():
            for step in session_script.steps:
                asked = step.request
                if (
                    asked is None
                    or step.side != "client"
                    or asked not in self._sent
                    or step in self._received
                ):
                    continue
                if id_key(asked.id) == id_key(message.get("id")):
                    self._received[step] = None
                    self._compare_answer(step, message)
                    self._advance(session_script)
                    return
        if any(
            step.kind == "request" and id_key(step.id) == id_key(message.get("id")) for step in self._sent
        ):
            return  # the recording has this request, without a response
        self._deviates(f"answered {message.get('id')!r}, which was not requested")

    def _find(
        self, method: str, wants_answer: bool, session: str, params: Any
    ) -> tuple[SessionScript, TraceStep] | None:
        """Find the recorded call of a real one: with the same parameters, else the next of its method."""
        kind = "request" if wants_answer else "notification"
        sessions = self._script.sessions
        own = sessions.get(session) if session else None
        places = [own] if own is not None else list(sessions.values())
        fits = [
            (session_script, step)
            for session_script in places
            for step in session_script.steps
            if step.side == "client"
            and step.kind == kind
            and step.method == method
            and step not in self._received
        ]
        if own is None and session and method not in _OPEN_METHODS:
            fits = [(session_script, step) for session_script, step in fits if not session_script.session]
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
        for step in self._received:
            # The same request again: repeat its recorded response.
            if step.method == method and step.answer is not None and step.answer in self._sent:
                again = not any(
                    differences(step.params, message.get("params"), self._names, ignore=self._ignore)
                )
                if again and method != "session/prompt" and method != "session/new":
                    self._send_step(step.answer, message.get("id"))
                    return
        recorded = any(step.method == method for step in self._script.steps)
        code = INTERNAL_ERROR if recorded else METHOD_NOT_FOUND
        text = f"The recording has no{' further' if recorded else ''} response to {method}"
        self._send({"id": message.get("id"), "error": {"code": code, "message": text}})

    def _advance(
        self, session_script: SessionScript, *, waited: bool = False, impatient: bool = False
    ) -> None:
        """Play the session's steps as far as the received messages allow."""
        pending = self._timers.pop(session_script.session, None)
        if pending is not None:
            pending.cancel()
        while not session_script.over:
            step = session_script.steps[session_script.place]
            if step.side == "client":
                if step not in self._received and not impatient and not self._may_pass(session_script, step):
                    if self._client_waits(session_script):
                        self._later(session_script, self._patience, impatient=True)
                    break
                impatient = False
            elif not self._is_due(step):
                pass
            elif self._speed and not waited and (pause := self._pause(session_script) / self._speed) > 0:
                self._later(session_script, pause, waited=True)
                break
            else:
                waited = False
                self._send_step(step, self._received.get(step.request) if step.request is not None else None)
            session_script.place += 1
        self._late_answers(session_script)
        if self._script.exit is not None and all(one.over for one in self._script.sessions.values()):
            self._over.set()

    def _may_pass(self, session_script: SessionScript, step: TraceStep) -> bool:
        """Tell whether the replay may skip a missing client step.

        It may if a later one arrived, or if it is a request and the agent has a response to another one to
        send.
        """
        ahead = session_script.steps[session_script.place + 1 :]
        if any(later in self._received for later in ahead if later.side == "client"):
            return True
        return step.kind == "request" and any(
            self._is_due(later) for later in ahead if later.request is not None and later.side == "agent"
        )

    def _is_due(self, step: TraceStep) -> bool:
        """Tell whether the agent has to send this step: a response only if its request arrived."""
        if step in self._sent:
            return False
        return (
            step.request in self._received
            if step.request is not None
            else step.kind not in ("answer", "error")
        )

    def _client_waits(self, session_script: SessionScript) -> bool:
        return any(
            self._is_due(step)
            for step in session_script.steps[session_script.place :]
            if step.request is not None and step.side == "agent"
        )

    def _late_answers(self, session_script: SessionScript) -> None:
        """Answer requests that arrived after the replay had passed their responses."""
        for step in session_script.steps[: session_script.place]:
            if step.side == "agent" and step.request is not None and self._is_due(step):
                self._send_step(step, self._received[step.request])

    def _later(
        self, session_script: SessionScript, seconds: float, *, waited: bool = False, impatient: bool = False
    ) -> None:
        def advance() -> None:
            self._timers.pop(session_script.session, None)
            self._advance(session_script, waited=waited, impatient=impatient)

        self._timers[session_script.session] = self._clock.call_later(seconds, advance)

    def _pause(self, session_script: SessionScript) -> float:
        before = (
            session_script.steps[session_script.place - 1].entry.at
            if session_script.place
            else session_script.steps[session_script.place].entry.at
        )
        return max(session_script.steps[session_script.place].entry.at - before, 0.0)

    def _send_step(self, step: TraceStep, id: Any) -> None:
        self._sent.add(step)
        self.report.played = len(self._sent)
        if step.message is None:
            self._transport.send(step.entry.data)
            return
        message = step.message if step.request is None else {**step.message, "id": id}
        message = self._names.to_now(message)
        unchanged = message is step.message
        self._transport.send(step.entry.data if unchanged else msgspec.json.encode(message))

    def _send(self, members: dict[str, Any]) -> None:
        self._transport.send(msgspec.json.encode({"jsonrpc": "2.0", **members}))

    def _compare(self, step: TraceStep, recorded: Any, now: Any) -> None:
        what = f"answered {step.method}" if step.request is not None else f"sent {step.method}"
        for found in differences(recorded, now, self._names, ignore=self._ignore):
            self._deviates(f"{what} with something else at {found}")

    def _compare_answer(self, step: TraceStep, message: dict[str, Any]) -> None:
        now, recorded = ("error" if "error" in one else "result" for one in (message, step.message or {}))
        if now != recorded:
            self._deviates(f"answered {step.method} with {_a(now)}, was {_a(recorded)}")
        else:
            self._compare(step, at(step.message, now), message.get(now))

    def _report_missing(self) -> None:
        for step in self._script.steps:
            if step.side != "client" or step in self._received or step.kind == "noise":
                continue
            if step.request is not None:
                if step.request in self._sent:
                    self._deviates(f"never answered {step.method}")
            else:
                self._deviates(f"never sent {step.method}")

    def _deviates(self, sentence: str) -> None:
        self.report.deviations.append(f"the client {sentence}")


def _a(word: str) -> str:
    return f"an {word}" if word == "error" else f"a {word}"
