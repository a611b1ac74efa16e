"""Plays the recorded agent to a real client.

Each session is replayed by itself. A recorded message of the agent is sent as soon as everything it depended
on has arrived: a response of the client, a cancel. Recorded client requests in between do not delay responses
to others. The replay reports where the client differs from the recording, and continues as far as possible.
"""

import asyncio
from collections.abc import Collection
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from accord.clock import SYSTEM_CLOCK, Clock, Timer
from accord.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, PARSE_ERROR
from accord.trace.replay_comparison import RecordedScript, ReplayMapping, SessionScript, differences
from accord.trace.trace_format import parse_message
from accord.trace.trace_steps import TraceStep, at
from accord.wire.envelope import RpcCore, id_key
from accord.wire.transport import Frame, Transport, TransportEnd

IGNORED_MEMBERS: Final = ("_meta", "clientInfo", "info")
PATIENCE: Final = 10.0
"""Seconds to wait for a recorded client message while the client itself waits for a response."""

_SESSION_OPENING: Final = ("session/load", "session/resume", "session/fork")


class ReplayReport(Struct):
    """Where the client differed from the recording, and how many of the agent's messages were played."""

    deviations: list[str] = field(default_factory=list[str])
    played: int = 0
    total: int = 0


class ReplayedAgent:
    """Plays a recorded script on a transport to a client."""

    def __init__(
        self,
        script: RecordedScript,
        transport: Transport,
        *,
        speed: float = 0.0,
        patience: float = PATIENCE,
        ignore: Collection[str] = IGNORED_MEMBERS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`speed` 1 keeps the recorded pauses, 2 halves them, 0 has none.

        `ignore` lists members not compared.
        """
        self.report: ReplayReport = ReplayReport(total=sum(step.side == "agent" for step in script.steps))
        self._script = script
        self._transport = transport
        self._speed = speed
        self._patience = patience
        self._ignore = ignore
        self._clock = clock
        self._mapping = ReplayMapping()
        self._received: dict[TraceStep, Any] = {}  # recorded client steps, with the ids the client uses now
        self._sent: set[TraceStep] = set()
        self._core = RpcCore[TraceStep]()
        self._timers: dict[str, Timer] = {}
        self._finished = asyncio.Event()

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
            await self._finished.wait()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            await self._transport.aclose()
        self._report_missing()
        return self.report

    def frames(self, frames: list[Frame]) -> None:
        """Handle frames of the client."""
        for frame in frames:
            message = parse_message(frame)
            if message is not None:
                self._receive(message)
            else:
                self._report_deviation("sent a line that is not a message")
                self._send({"id": None, "error": {"code": PARSE_ERROR, "message": "Parse error"}})

    def ended(self, end: TransportEnd) -> None:
        """End the replay, because the client disconnected."""
        self._finished.set()

    def _receive(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if isinstance(method, str):
            self._receive_call(method, message)
        else:
            self._receive_response(message)

    def _receive_call(self, method: str, message: dict[str, Any]) -> None:
        is_request = "id" in message
        session = at(message, "params", "sessionId")
        session = (
            self._mapping.recorded.get(("sessionId", session), session) if isinstance(session, str) else ""
        )
        match = self._find_recorded_call(method, is_request, session, message.get("params"))
        if match is None:
            self._handle_unexpected(method, is_request, message)
            return
        session_script, step = match
        recorded = at(step.params, "sessionId")
        if method in _SESSION_OPENING and isinstance(recorded, str) and session not in ("", recorded):
            self._mapping.bind("sessionId", recorded, session)
        self._received[step] = message.get("id")
        self._compare_members(step, step.params, message.get("params"))
        self._advance(session_script)

    def _receive_response(self, message: dict[str, Any]) -> None:
        key = id_key(message.get("id"))
        request = self._core.close_call(key)
        if request is None:
            if not any(step.kind == "request" and id_key(step.id) == key for step in self._sent):
                self._report_deviation(f"answered {message.get('id')!r}, which was not requested")
        elif (answer := request.answer) is not None:  # otherwise the recording has no response
            self._received[answer] = None
            self._compare_response(answer, message)
            self._advance(self._script.sessions[answer.session])

    def _find_recorded_call(
        self, method: str, is_request: bool, session: str, params: Any
    ) -> tuple[SessionScript, TraceStep] | None:
        """Find the recorded call of a real one: with the same parameters, else the next of its method."""
        kind = "request" if is_request else "notification"
        sessions = self._script.sessions
        own_script = sessions.get(session) if session else None
        searched_scripts = [own_script] if own_script is not None else list(sessions.values())
        candidates = [
            (session_script, step)
            for session_script in searched_scripts
            for step in session_script.steps
            if step.side == "client"
            and step.kind == kind
            and step.method == method
            and step not in self._received
        ]
        if own_script is None and session and method not in _SESSION_OPENING:
            candidates = [
                (session_script, step) for session_script, step in candidates if not session_script.session
            ]
        if own_script is not None:
            return candidates[0] if candidates else None
        mapping = ReplayMapping()
        exact_matches = (
            candidate
            for candidate in candidates
            if not any(differences(candidate[1].params, params, mapping, ignore=self._ignore))
        )
        return next(exact_matches, candidates[0] if candidates else None)

    def _handle_unexpected(self, method: str, is_request: bool, message: dict[str, Any]) -> None:
        self._report_deviation(f"sent {method}, which is not in the recording (again)")
        if not is_request:
            return
        for step in self._received:
            # The same request again: repeat its recorded response.
            if step.method == method and step.answer is not None and step.answer in self._sent:
                is_repeated = not any(
                    differences(step.params, message.get("params"), self._mapping, ignore=self._ignore)
                )
                if is_repeated and method != "session/prompt" and method != "session/new":
                    self._send_step(step.answer, message.get("id"))
                    return
        recorded = any(step.method == method for step in self._script.steps)
        code = INTERNAL_ERROR if recorded else METHOD_NOT_FOUND
        text = f"The recording has no{' further' if recorded else ''} response to {method}"
        self._send({"id": message.get("id"), "error": {"code": code, "message": text}})

    def _advance(
        self, session_script: SessionScript, *, after_pause: bool = False, skip_missing: bool = False
    ) -> None:
        """Play the session's steps as far as the received messages allow."""
        pending = self._timers.pop(session_script.session, None)
        if pending is not None:
            pending.cancel()
        while not session_script.finished:
            step = session_script.steps[session_script.position]
            if step.side == "client":
                if (
                    step not in self._received
                    and not skip_missing
                    and not self._may_skip(session_script, step)
                ):
                    if self._client_awaits_response(session_script):
                        self._schedule_advance(session_script, self._patience, skip_missing=True)
                    break
                skip_missing = False
            elif not self._must_send(step):
                pass
            elif (
                self._speed
                and not after_pause
                and (pause := self._recorded_pause(session_script) / self._speed) > 0
            ):
                self._schedule_advance(session_script, pause, after_pause=True)
                break
            else:
                after_pause = False
                self._send_step(step, self._received.get(step.request) if step.request is not None else None)
            session_script.position += 1
        self._send_late_responses(session_script)
        if self._script.exit is not None and all(
            script.finished for script in self._script.sessions.values()
        ):
            self._finished.set()

    def _may_skip(self, session_script: SessionScript, step: TraceStep) -> bool:
        """Tell whether the replay may skip a missing client step.

        It may if a later one arrived, or if it is a request and the agent has a response to another one to
        send.
        """
        later_steps = session_script.steps[session_script.position + 1 :]
        if any(later in self._received for later in later_steps if later.side == "client"):
            return True
        return step.kind == "request" and any(
            self._must_send(later)
            for later in later_steps
            if later.request is not None and later.side == "agent"
        )

    def _must_send(self, step: TraceStep) -> bool:
        """Tell whether the agent has to send this step: a response only if its request arrived."""
        if step in self._sent:
            return False
        return (
            step.request in self._received
            if step.request is not None
            else step.kind not in ("answer", "error")
        )

    def _client_awaits_response(self, session_script: SessionScript) -> bool:
        return any(
            self._must_send(step)
            for step in session_script.steps[session_script.position :]
            if step.request is not None and step.side == "agent"
        )

    def _send_late_responses(self, session_script: SessionScript) -> None:
        """Answer requests that arrived after the replay had passed their responses."""
        for step in session_script.steps[: session_script.position]:
            if step.side == "agent" and step.request is not None and self._must_send(step):
                self._send_step(step, self._received[step.request])

    def _schedule_advance(
        self,
        session_script: SessionScript,
        seconds: float,
        *,
        after_pause: bool = False,
        skip_missing: bool = False,
    ) -> None:
        def advance() -> None:
            self._timers.pop(session_script.session, None)
            self._advance(session_script, after_pause=after_pause, skip_missing=skip_missing)

        self._timers[session_script.session] = self._clock.call_later(seconds, advance)

    def _recorded_pause(self, session_script: SessionScript) -> float:
        before = (
            session_script.steps[session_script.position - 1].entry.at
            if session_script.position
            else session_script.steps[session_script.position].entry.at
        )
        return max(session_script.steps[session_script.position].entry.at - before, 0.0)

    def _send_step(self, step: TraceStep, id: Any) -> None:
        self._sent.add(step)
        if step.kind == "request":
            self._core.expect_response(id_key(step.id), step)
        self.report.played = len(self._sent)
        if step.message is None:
            self._transport.send(step.entry.data)
            return
        message = step.message if step.request is None else {**step.message, "id": id}
        message = self._mapping.to_current(message)
        unchanged = message is step.message
        self._transport.send(step.entry.data if unchanged else msgspec.json.encode(message))

    def _send(self, members: dict[str, Any]) -> None:
        self._transport.send(msgspec.json.encode({"jsonrpc": "2.0", **members}))

    def _compare_members(self, step: TraceStep, recorded: Any, current: Any) -> None:
        action = f"answered {step.method}" if step.request is not None else f"sent {step.method}"
        for difference in differences(recorded, current, self._mapping, ignore=self._ignore):
            self._report_deviation(f"{action} with something else at {difference}")

    def _compare_response(self, step: TraceStep, message: dict[str, Any]) -> None:
        current, recorded = (
            "error" if "error" in response else "result" for response in (message, step.message or {})
        )
        if current != recorded:
            self._report_deviation(
                f"answered {step.method} with {_with_article(current)}, was {_with_article(recorded)}"
            )
        else:
            self._compare_members(step, at(step.message, current), message.get(current))

    def _report_missing(self) -> None:
        for step in self._script.steps:
            if step.side != "client" or step in self._received or step.kind == "noise":
                continue
            if step.request is not None:
                if step.request in self._sent:
                    self._report_deviation(f"never answered {step.method}")
            else:
                self._report_deviation(f"never sent {step.method}")

    def _report_deviation(self, sentence: str) -> None:
        self.report.deviations.append(f"the client {sentence}")


def _with_article(word: str) -> str:
    return f"an {word}" if word == "error" else f"a {word}"
