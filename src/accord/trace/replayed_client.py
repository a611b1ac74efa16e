"""Plays the recorded client to a real agent and reports where the agent differs from the recording.

The client's requests are sent in their order, and not before the agent has sent what the client had seen by
then. The agent's requests are answered as recorded. Requests that are not in the recording are refused. A
permission is granted only if the recording grants the same kind of option.
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
"""Seconds without a message from the agent before the replay gives up."""

_MAX_STRAYS: Final = 100
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
        silence: float = SILENCE,
        ignore: Collection[str] = IGNORED,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`cwd` replaces the folder of the recorded sessions.

        `silence` is the longest time without a message.
        """
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
        self._messages: dict[str, SessionMessages] = {}
        self._used: set[TraceStep] = set()
        self._places = {step: place for place, step in enumerate(script.steps)}
        self._place = 0  # index of the step being played
        self._held: dict[TraceStep, bytes] = {}  # responses that follow later messages of the client
        self._strays: list[str] = []
        self._changed = asyncio.Event()
        self._end: TransportEnd | None = None

    async def play(self, on_call: Callable[[ReplayedCall], None]) -> list[ReplayedCall]:
        """Play the whole script; `on_call` gets every finished call. Raises Crashed and RequestTimeout."""
        calls: list[ReplayedCall] = []
        self._transport.start(self)
        try:
            for place, step in enumerate(self._script.steps):
                self._place = place
                if step.side == "client" and step.kind in ("request", "notification"):
                    await self._wait_for_updates(place)
                    self._send_step(step)
                elif step in self._held:
                    self._transport.send(self._held.pop(step))
                elif step.side == "agent" and step.request is not None:
                    call = await self._response(step)
                    calls.append(call)
                    on_call(call)
        finally:
            await self._transport.aclose()
            if self._strays:  # they may explain a failure
                calls.append(ReplayedCall("", self._strays))
                on_call(calls[-1])
        return calls

    def frames(self, frames: list[Frame]) -> None:
        """Handle frames of the agent."""
        for frame in frames:
            try:
                message = parse_json(frame) if isinstance(frame, bytes) else None
            except NotJson:
                message = None
            if isinstance(message, dict):
                self._receive(cast(dict[str, Any], message))
            elif isinstance(frame, bytes):
                self._stray(f"a line that is not a message: {frame[:80].decode(errors='replace')}")
            else:
                self._stray(f"a message of {frame.size} bytes, too long to read")
        self._changed.set()

    def ended(self, end: TransportEnd) -> None:
        """Note that the agent disconnected."""
        self._end = end
        self._changed.set()

    def _receive(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params")
        session = at(params, "sessionId")
        messages = self._messages.setdefault(session if isinstance(session, str) else "", SessionMessages())
        if method == "session/update":
            messages.updates.append(at(params, "update"))
        elif isinstance(method, str) and "id" in message:
            messages.requests.append(method)
            self._answer_request(method, message)
        elif isinstance(method, str):
            messages.updates.append({"sessionUpdate": method, "params": params})
        elif (key := id_key(message.get("id"))) in self._answers or key not in self._ids:
            self._stray(f"a response to {message.get('id')!r}, which is not a pending request")
        else:
            self._answers[key] = message

    def _stray(self, sentence: str) -> None:
        """Note a message of the agent that belongs to no call."""
        if len(self._strays) < _MAX_STRAYS:
            self._strays.append(sentence)

    def _answer_request(self, method: str, message: dict[str, Any]) -> None:
        """Answer a request of the agent as recorded."""
        answer = {"error": {"code": INTERNAL_ERROR, "message": f"The recording has no response to {method}"}}
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
        names = NameMap(moved=dict(self._names.moved))
        same = [step for step in fits if not any(differences(step.params, message.get("params"), names))]
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
                answer = _permission_answer(step, message, answer)
            break
        frame = msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], **answer})
        if answered is not None and self._is_held(answered):
            self._held[answered] = frame
        else:
            self._transport.send(frame)

    def _is_held(self, answer: TraceStep) -> bool:
        """Tell whether the client has to send other messages of the session before this response."""
        between = self._script.steps[self._place : self._places[answer]]
        return any(
            step.side == "client" and step.request is None and step.session == answer.session
            for step in between
        )

    def _send_step(self, step: TraceStep) -> None:
        if step.method in _TURN_METHODS:
            self._messages[self._names.now.get(("sessionId", step.session), step.session)] = SessionMessages()
        message = self._names.to_now(step.message)
        self._transport.send(step.entry.data if message is step.message else msgspec.json.encode(message))

    async def _wait_for_updates(self, place: int) -> None:
        """Wait for as many updates as the client had seen before this step, unless the turn ends earlier."""
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
        requests = sum(one.kind == "request" for one in mine)
        session = self._names.now.get(("sessionId", step.session), step.session)
        messages = self._messages.setdefault(session, SessionMessages())
        await self._wait_until(
            lambda: (
                (_in_turn(messages.updates) >= seen and len(messages.requests) >= requests)
                or id_key(running.id) in self._answers
            ),
            step.method,
        )

    async def _response(self, step: TraceStep) -> ReplayedCall:
        """Wait for the agent's response and compare it with the recorded one."""
        request = cast(TraceStep, step.request)
        key = id_key(request.id)
        await self._wait_until(lambda: key in self._answers, request.method)
        now = self._answers[key]
        call = ReplayedCall(request.method)
        kind, was = ("error" if "error" in one else "result" for one in (now, step.message or {}))
        if kind != was:
            call.differences.append(
                f"{kind}: {msgspec.json.encode(now.get(kind)).decode()[:200]}, was a {was}"
            )
        else:
            found = differences(
                at(step.message, kind), now.get(kind), self._names, path=kind, ignore=self._ignore
            )
            call.differences += map(str, found)
        session = self._names.now.get(("sessionId", step.session), step.session)
        messages = self._messages.get(session, SessionMessages())
        if request.method in _TURN_METHODS:
            call.differences += self._turn_differences(step, request, messages)
        return call

    def _turn_differences(self, step: TraceStep, request: TraceStep, messages: SessionMessages) -> list[str]:
        """Return where the turn's updates and the agent's requests differ from the recording."""
        steps = self._script.steps
        mine = [one for one in steps[steps.index(request) : steps.index(step)] if one.session == step.session]
        updates = [at(one.params, "update") for one in mine if one.method == "session/update"]
        requests = [one.method for one in mine if one.side == "agent" and one.kind == "request"]
        found = turns_differ(updates, messages.updates, self._names, ignore=self._ignore)
        return [*map(str, found), *orders_differ(requests, messages.requests)]

    async def _wait_until(self, done: Callable[[], bool], method: str) -> None:
        while not done():
            if self._end is not None:
                raise Crashed(
                    f"the agent ended during {method}: {self._end.reason}",
                    exit_code=self._end.exit_code,
                    signal=self._end.signal,
                    stderr=self._end.stderr,
                )
            self._changed.clear()
            change = asyncio.ensure_future(self._changed.wait())
            try:
                if not await within(self._clock, self._silence, change):
                    raise RequestTimeout(
                        f"the agent sent nothing for {self._silence:g} seconds during {method}"
                    )
            finally:
                change.cancel()


def _in_turn(updates: Iterable[Any]) -> int:
    return sum(at(update, "sessionUpdate") not in OF_THE_SESSION for update in updates)


def _permission_answer(step: TraceStep, message: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded choice among the current options: the same kind of option, or cancelled."""
    cancelled = {"result": {"outcome": {"outcome": "cancelled"}}}
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
        return cancelled
    return {"result": {"outcome": {"outcome": "selected", "optionId": chosen if chosen in ids else ids[0]}}}
