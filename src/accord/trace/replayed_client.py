"""Plays the recorded client to a real agent and reports where the agent differs from the recording.

The client's requests are sent in their order. Each waits until the agent has sent the messages that preceded
it in the recording. The agent's requests are answered as recorded. Requests that are not in the recording are
refused. A permission is granted only if the recording grants the same kind of option.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, field

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import INTERNAL_ERROR, Crashed, RequestTimeout
from accord.trace.replay_comparison import (
    SESSION_UPDATES,
    RecordedScript,
    ReplayMapping,
    differences,
    order_differences,
    turn_differences,
)
from accord.trace.trace_format import parse_message
from accord.trace.trace_steps import TraceStep, at, listed
from accord.wire.envelope import RpcCore, id_key
from accord.wire.transport import Frame, Transport, TransportEnd

IGNORED_MEMBERS: Final = ("_meta", "agentInfo", "used", "cost", "usage")
MAX_SILENCE: Final = 60.0
"""Seconds without a message from the agent before the replay gives up."""

_MAX_STRAY_MESSAGES: Final = 100
_TURN_METHODS: Final = ("session/prompt", "session/load")


class ReplayedCall(Struct):
    """One call of the recorded client, and where its outcome differs."""

    method: str
    differences: list[str] = field(default_factory=list[str])


class SessionMessages(Struct):
    """The agent's updates and requests in one session during a call."""

    updates: list[Any] = field(default_factory=list[Any])
    requests: list[str] = field(default_factory=list[str])


class ReplayedClient:
    """Plays a recorded script on a transport to an agent."""

    def __init__(
        self,
        script: RecordedScript,
        transport: Transport,
        *,
        cwd: str | None = None,
        max_silence: float = MAX_SILENCE,
        ignore: Collection[str] = IGNORED_MEMBERS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`cwd` replaces the folder of the recorded sessions.

        `max_silence` is the longest time without a message, in seconds.
        """
        self._script = script
        self._transport = transport
        self._max_silence = max_silence
        self._ignore = ignore
        self._clock = clock
        self._mapping = ReplayMapping()
        if cwd is not None:
            for step in script.steps:
                if isinstance(folder := at(step.params, "cwd"), str) and step.side == "client":
                    self._mapping.moved_folders.setdefault(folder.rstrip("/"), cwd)
        self._core = RpcCore[TraceStep]()
        self._responses: dict[str, dict[str, Any]] = {}
        self._messages: dict[str, SessionMessages] = {}
        self._used_requests: set[TraceStep] = set()
        self._positions = {step: position for position, step in enumerate(script.steps)}
        self._position = 0  # index of the step being played
        self._held_responses: dict[
            TraceStep, bytes
        ] = {}  # responses that follow later messages of the client
        self._stray_messages: list[str] = []
        self._changed = asyncio.Event()

    async def play(self, on_call: Callable[[ReplayedCall], None]) -> list[ReplayedCall]:
        """Play the whole script; `on_call` gets every finished call. Raises Crashed and RequestTimeout."""
        calls: list[ReplayedCall] = []
        self._transport.start(self)
        try:
            for position, step in enumerate(self._script.steps):
                self._position = position
                if step.side == "client" and step.kind in ("request", "notification"):
                    await self._wait_for_updates(position)
                    self._send_step(step)
                elif step in self._held_responses:
                    self._transport.send(self._held_responses.pop(step))
                elif step.side == "agent" and step.request is not None:
                    call = await self._await_response(step)
                    calls.append(call)
                    on_call(call)
        finally:
            await self._transport.aclose()
            if self._stray_messages:  # they may explain a failure
                calls.append(ReplayedCall("", self._stray_messages))
                on_call(calls[-1])
        return calls

    def frames(self, frames: list[Frame]) -> None:
        """Handle frames of the agent."""
        for frame in frames:
            message = parse_message(frame)
            if message is not None:
                self._receive(message)
            elif isinstance(frame, bytes):
                self._note_stray_message(
                    f"a line that is not a message: {frame[:80].decode(errors='replace')}"
                )
            else:
                self._note_stray_message(f"a message of {frame.size} bytes, too long to read")
        self._changed.set()

    def ended(self, end: TransportEnd) -> None:
        """Note that the agent disconnected."""
        self._core.close(end)
        self._changed.set()

    def _receive(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params")
        session = at(params, "sessionId")
        messages = self._messages.setdefault(session if isinstance(session, str) else "", SessionMessages())
        if method == "session/update":
            messages.updates.append(at(params, "update"))
        elif isinstance(method, str) and "id" in message:
            messages.requests.append(method)
            self._answer_as_recorded(method, message)
        elif isinstance(method, str):
            messages.updates.append({"sessionUpdate": method, "params": params})
        elif self._core.close_call(key := id_key(message.get("id"))) is None:
            self._note_stray_message(f"a response to {message.get('id')!r}, which is not a pending request")
        else:
            self._responses[key] = message

    def _note_stray_message(self, sentence: str) -> None:
        """Keep a message of the agent that belongs to no call, for the report."""
        if len(self._stray_messages) < _MAX_STRAY_MESSAGES:
            self._stray_messages.append(sentence)

    def _answer_as_recorded(self, method: str, message: dict[str, Any]) -> None:
        """Answer a request of the agent as recorded."""
        response = {
            "error": {"code": INTERNAL_ERROR, "message": f"The recording has no response to {method}"}
        }
        if method == "session/request_permission":
            response = {"result": {"outcome": {"outcome": "cancelled"}}}
        candidates = [
            step
            for step in self._script.steps
            if step.side == "agent"
            and step.kind == "request"
            and step.method == method
            and step not in self._used_requests
        ]
        mapping = ReplayMapping(moved_folders=dict(self._mapping.moved_folders))
        equal_candidates = [
            step for step in candidates if not any(differences(step.params, message.get("params"), mapping))
        ]
        recorded_response: TraceStep | None = None
        for step in (*equal_candidates, *candidates):
            if step.answer is None or step.answer.message is None:
                continue
            recorded_response = step.answer
            self._used_requests.add(step)
            recorded = {
                name: step.answer.message[name] for name in ("result", "error") if name in step.answer.message
            }
            response = self._mapping.to_current(recorded)
            if method == "session/request_permission":
                response = _permission_response(step, message, response)
            break
        frame = msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], **response})
        if recorded_response is not None and self._must_wait(recorded_response):
            self._held_responses[recorded_response] = frame
        else:
            self._transport.send(frame)

    def _must_wait(self, response: TraceStep) -> bool:
        """Tell whether the client has to send other messages of the session before this response."""
        steps_between = self._script.steps[self._position : self._positions[response]]
        return any(
            step.side == "client" and step.request is None and step.session == response.session
            for step in steps_between
        )

    def _send_step(self, step: TraceStep) -> None:
        if step.method in _TURN_METHODS:
            self._messages[self._mapping.current.get(("sessionId", step.session), step.session)] = (
                SessionMessages()
            )
        if step.kind == "request":
            self._core.expect_response(id_key(step.id), step)
        message = self._mapping.to_current(step.message)
        self._transport.send(step.entry.data if message is step.message else msgspec.json.encode(message))

    async def _wait_for_updates(self, position: int) -> None:
        """Wait for as many updates as the client had seen before this step, unless the turn ends earlier."""
        step = self._script.steps[position]
        earlier_steps = self._script.steps[:position]
        prompt = next(
            (
                earlier_step
                for earlier_step in reversed(earlier_steps)
                if earlier_step.method == "session/prompt"
                and earlier_step.kind == "request"
                and earlier_step.session == step.session
            ),
            None,
        )
        if prompt is None or (prompt.answer is not None and prompt.answer in earlier_steps):
            return
        start = earlier_steps.index(prompt)
        session_steps = [
            earlier_step
            for earlier_step in earlier_steps[start:]
            if earlier_step.session == step.session and earlier_step.side == "agent"
        ]
        update_count = _count_turn_updates(
            at(earlier_step.params, "update")
            for earlier_step in session_steps
            if earlier_step.method == "session/update"
        )
        requests = sum(earlier_step.kind == "request" for earlier_step in session_steps)
        session = self._mapping.current.get(("sessionId", step.session), step.session)
        messages = self._messages.setdefault(session, SessionMessages())
        await self._wait_until(
            lambda: (
                (_count_turn_updates(messages.updates) >= update_count and len(messages.requests) >= requests)
                or id_key(prompt.id) in self._responses
            ),
            step.method,
        )

    async def _await_response(self, step: TraceStep) -> ReplayedCall:
        """Wait for the agent's response and compare it with the recorded response."""
        request = cast(TraceStep, step.request)
        key = id_key(request.id)
        await self._wait_until(lambda: key in self._responses, request.method)
        current = self._responses[key]
        call = ReplayedCall(request.method)
        kind, recorded_kind = (
            "error" if "error" in response else "result" for response in (current, step.message or {})
        )
        if kind != recorded_kind:
            call.differences.append(
                f"{kind}: {msgspec.json.encode(current.get(kind)).decode()[:200]}, was a {recorded_kind}"
            )
        else:
            found_differences = differences(
                at(step.message, kind), current.get(kind), self._mapping, path=kind, ignore=self._ignore
            )
            call.differences += map(str, found_differences)
        session = self._mapping.current.get(("sessionId", step.session), step.session)
        messages = self._messages.get(session, SessionMessages())
        if request.method in _TURN_METHODS:
            call.differences += self._turn_differences(step, request, messages)
        return call

    def _turn_differences(self, step: TraceStep, request: TraceStep, messages: SessionMessages) -> list[str]:
        """Return where the turn's updates and the agent's requests differ from the recording."""
        steps = self._script.steps
        session_steps = [
            turn_step
            for turn_step in steps[steps.index(request) : steps.index(step)]
            if turn_step.session == step.session
        ]
        updates = [
            at(turn_step.params, "update")
            for turn_step in session_steps
            if turn_step.method == "session/update"
        ]
        requests = [
            turn_step.method
            for turn_step in session_steps
            if turn_step.side == "agent" and turn_step.kind == "request"
        ]
        found_differences = turn_differences(updates, messages.updates, self._mapping, ignore=self._ignore)
        return [*map(str, found_differences), *order_differences(requests, messages.requests)]

    async def _wait_until(self, done: Callable[[], bool], method: str) -> None:
        while not done():
            if (end := self._core.end) is not None:
                raise end.error(f"the agent ended during {method}: {end.reason}", Crashed)
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                if not await within(self._clock, self._max_silence, changed):
                    raise RequestTimeout(
                        f"the agent sent nothing for {self._max_silence:g} seconds during {method}"
                    )
            finally:
                changed.cancel()


def _count_turn_updates(updates: Iterable[Any]) -> int:
    return sum(at(update, "sessionUpdate") not in SESSION_UPDATES for update in updates)


def _permission_response(
    step: TraceStep, message: dict[str, Any], response: dict[str, Any]
) -> dict[str, Any]:
    """Return the recorded choice among the current options: the same kind of option, or `cancelled`."""
    cancelled = {"result": {"outcome": {"outcome": "cancelled"}}}
    chosen_id = at(response, "result", "outcome", "optionId")
    if chosen_id is None:
        return response
    kinds = {id_key(at(option, "optionId")): at(option, "kind") for option in listed(step.params, "options")}
    kind = kinds.get(id_key(chosen_id))
    matching_options = [
        option
        for option in listed(message, "params", "options")
        if kind is not None and at(option, "kind") == kind
    ]
    ids = [at(option, "optionId") for option in matching_options]
    if not ids:
        return cancelled
    return {
        "result": {"outcome": {"outcome": "selected", "optionId": chosen_id if chosen_id in ids else ids[0]}}
    }
