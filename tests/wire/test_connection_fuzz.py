"""Fuzzing: no input breaks a connection, and any interleaving keeps the message order."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.repetitions import repetitions
from tests.wire.connection_pair import ConnectionPair

from accord.errors import AccordError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "id": st.integers(0, 4) | json_values,
        "method": st.sampled_from(["ask", "note", "$/cancel_request", "nope"]) | json_values,
        "params": json_values | st.fixed_dictionaries({"requestId": json_values}),
        "result": json_values,
        "error": json_values | st.fixed_dictionaries({"code": json_values, "message": json_values}),
    },
)
messages = members.map(lambda value: json.dumps(value).encode())


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A message with a few bytes changed, cut or added."""
    line = bytearray(draw(messages))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(line)))
        line[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
    return bytes(line).replace(b"\n", b" ")


lines = messages | damaged() | st.binary(max_size=60).map(lambda line: line.replace(b"\n", b" "))


@settings(max_examples=repetitions(1000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(lines, max_size=12), st.booleans())
def test_any_input_raises_only_accord_errors_and_keeps_the_connection_open(
    lines: list[bytes], strict: bool
) -> None:
    async def conversation() -> None:
        pair = ConnectionPair(
            requests={"ask": lambda params, call: params, "alive": lambda params, call: "yes"},
            notifications={"note": lambda params: None},
            strict=strict,
        )
        pending = [asyncio.create_task(pair.request("open")) for _ in range(2)]
        await pair.peer.next("open")
        pair.connection.frames(list(lines))
        assert await pair.peer.call("alive") == "yes"
        await pair.peer.aclose()
        for outcome in await asyncio.gather(*pending, return_exceptions=True):
            assert not isinstance(outcome, BaseException) or isinstance(outcome, AccordError)
        await pair.connection.aclose()

    asyncio.run(conversation())


steps = st.lists(
    st.tuples(
        st.sampled_from(["update", "slow", "calls back", "request", "answer", "cancel"]), st.integers(0, 2)
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.rule("prompt.updates-before-response")
@settings(max_examples=repetitions(1000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_any_interleaving_of_updates_responses_and_cancels_keeps_the_order(
    script: list[tuple[str, int]], pauses: list[int]
) -> None:
    asyncio.run(_interleaved(script, pauses))


async def _interleaved(script: list[tuple[str, int]], pauses: list[int]) -> None:
    started: dict[int, list[int]] = {session: [] for session in range(3)}
    finished: dict[int, set[int]] = {session: set() for session in range(3)}
    cancelled: list[Any] = []

    async def pause(number: int) -> None:
        for _ in range(pauses[number % len(pauses)]):
            await asyncio.sleep(0)

    def update(params: dict[str, Any]) -> None:
        started[params["sessionId"]].append(params["n"])
        finished[params["sessionId"]].add(params["n"])

    async def slow(params: dict[str, Any]) -> None:
        started[params["sessionId"]].append(params["n"])
        await pause(params["n"])
        finished[params["sessionId"]].add(params["n"])

    async def calls_back(params: dict[str, Any]) -> None:
        started[params["sessionId"]].append(params["n"])
        await pair.request("back", key=params["sessionId"])
        finished[params["sessionId"]].add(params["n"])

    async def request(params: dict[str, Any], call: Any) -> dict[str, Any]:
        started[params["sessionId"]].append(params["n"])
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(params["n"])
            raise
        return {}

    pair = ConnectionPair(
        requests={"request": request},
        notifications={"update": update, "slow": slow, "calls back": calls_back},
    )
    notes: dict[int, list[int]] = {session: [] for session in range(3)}
    arrivals: dict[int, list[int]] = {session: [] for session in range(3)}
    open_requests: list[tuple[Any, int]] = []
    answers: list[asyncio.Task[None]] = []

    async def ask(session: int, before: list[int]) -> None:
        await pair.request("prompt", key=session)
        missing = set(before) - finished[session]
        assert not missing, f"response before the handlers of {missing} had finished"

    for n, (kind, session) in enumerate(script):
        if kind == "answer":
            before: list[int] = []
            answers.append(asyncio.create_task(ask(session, before)))
            prompt = await pair.peer.until(lambda message: message.get("method") == "prompt")
            before.extend(notes[session])
            pair.peer.reply(prompt, {})
        elif kind == "cancel":
            if open_requests:
                pair.peer.notify("$/cancel_request", {"requestId": open_requests.pop()[0]})
        elif kind == "request":
            arrivals[session].append(n)
            open_requests.append((pair.peer.ask("request", {"sessionId": session, "n": n}), n))
        else:
            notes[session].append(n)
            arrivals[session].append(n)
            pair.peer.notify(kind, {"sessionId": session, "n": n})
        await pause(n)
        for message in pair.peer.received:
            if message.get("method") == "back" and not message.get("done"):
                message["done"] = True
                pair.peer.reply(message, {})
    while not all(task.done() for task in answers) or any(set(notes[s]) - finished[s] for s in notes):
        await asyncio.sleep(0)
        for message in pair.peer.received:
            if message.get("method") == "back" and not message.get("done"):
                message["done"] = True
                pair.peer.reply(message, {})
    await asyncio.gather(*answers)
    for session in range(3):
        started_in_session = started[session]
        assert [n for n in started_in_session if n in set(notes[session])] == notes[session]
        never_started = set(arrivals[session]) - set(started_in_session)
        assert started_in_session == [n for n in arrivals[session] if n not in never_started]
    await pair.connection.aclose()
