"""What providers and networks do wrong, in all four wire formats: told apart, retried visibly, never losing what came."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import pytest
from tests.coder.asking import KINDS, ask, ask_patiently, of, remote_model, request

from accord.coder.messages import TextPart, ThoughtPart
from accord.coder.models import ModelError, ModelEvent, Retrying, Stopped, TextDelta, Usage
from accord.coder.models.config import Kind, RequestConfig
from accord.coder.models.model import ErrorKind
from accord.coder.models.retry import Patience
from accord.testing import FakeClock
from accord.testing.models import Answer, Call, Drop, Fault, Gate, ModelServer, Raw, Thought

every_format = pytest.mark.parametrize("kind", KINDS)


def waits(events: Sequence[ModelEvent]) -> list[float]:
    return [event.seconds for event in of(Retrying, events)]


@every_format
@pytest.mark.parametrize(
    ("fault", "expected", "advice"),
    [
        (Fault(401, "Incorrect key", "auth"), "auth", "--login"),
        (Fault(403, "Not allowed"), "auth", "--login"),
        (Fault(404, "no model of that name"), "bad_request", "choose another"),
        (Fault(400, "temperature must be a number"), "bad_request", "temperature must be a number"),
        (Fault(400, "maximum context length is 8 tokens", "context_full"), "context_full", "compact"),
        (Fault(400, "request exceeds the available context size"), "context_full", "compact"),
        (Fault(413, "too large"), "context_full", "compact"),
        (Fault(422, "unprocessable"), "bad_request", "unprocessable"),
    ],
)
async def test_final_faults_are_told_in_one_line_and_not_retried(
    kind: Kind, fault: Fault, expected: ErrorKind, advice: str
) -> None:
    if kind == "google" and fault.status == 401:
        fault = Fault(400, fault.message, "auth")  # as Google says it
    clock = FakeClock()
    async with ModelServer([fault]) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_patiently(model, clock)
    assert events == []
    assert failure is not None
    assert (failure.kind, failure.final, failure.partial) == (expected, True, None)
    line = str(failure)
    assert "\n" not in line
    assert line.startswith(f"{model.provider}:{model.name}: ")
    assert advice in line
    assert len(server.requests) == 1


@every_format
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(429, "slow down"), "rate"),
        (Fault(500, "oops"), "overloaded"),
        (Fault(502, body=b"<html>bad gateway</html>"), "overloaded"),
        (Fault(503, "not now"), "overloaded"),
        (Fault(529, "overloaded"), "overloaded"),
    ],
)
async def test_passing_faults_are_retried_and_visibly_so(
    kind: Kind, fault: Fault, expected: ErrorKind
) -> None:
    clock = FakeClock()
    script = [fault, fault, Answer("There you are.")]
    async with ModelServer(script) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_patiently(model, clock)
    assert failure is None
    assert [type(event) for event in events] == [Retrying, Retrying, TextDelta, Usage, Stopped]
    assert [event.attempt for event in of(Retrying, events)] == [2, 3]
    assert all(str(fault.status) in event.why for event in of(Retrying, events))
    assert waits(events) == [0.5, 1.0]  # doubled; chance is nil here
    assert [seen.headers.get("x-stainless-retry-count", "0") for seen in server.requests] == ["0", "0", "0"]


@every_format
async def test_a_fault_that_does_not_pass_is_given_up_after_the_last_attempt(kind: Kind) -> None:
    clock = FakeClock()
    script = [Fault(503, "not now")] * 3
    async with (
        ModelServer(script) as server,
        remote_model(server, kind, clock=clock, requests=RequestConfig(attempts=3)) as model,
    ):
        events, failure = await ask_patiently(model, clock)
    assert len(of(Retrying, events)) == 2
    assert failure is not None
    assert failure.kind == "overloaded"
    assert "tried 3 times" in str(failure)
    assert len(server.requests) == 3


@every_format
async def test_retry_after_is_waited_for(kind: Kind) -> None:
    clock = FakeClock()
    script = [Fault(429, "slow down", retry_after=17), Answer("ok")]
    async with ModelServer(script) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_patiently(model, clock)
    assert failure is None
    assert waits(events) == [17.0]


@every_format
async def test_a_provider_that_asks_for_too_long_a_wait_is_not_waited_for(kind: Kind) -> None:
    clock = FakeClock()
    script = [Fault(429, "come back tomorrow", retry_after=86400)]
    async with ModelServer(script) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_patiently(model, clock)
    assert events == []
    assert failure is not None
    assert (failure.kind, failure.retry_after) == ("rate", 86400.0)


@pytest.mark.parametrize("kind", ["openai-chat", "openai-responses", "anthropic"])
async def test_a_used_up_quota_is_not_retried_although_it_looks_like_a_rate_limit(kind: Kind) -> None:
    clock = FakeClock()
    fault = Fault(400 if kind == "anthropic" else 429, "You exceeded your current quota", "quota")
    async with ModelServer([fault]) as server, remote_model(server, kind, clock=clock) as model:
        _, failure = await ask_patiently(model, clock)
    assert failure is not None
    assert (failure.kind, failure.final) == ("rate", True)
    assert "billing" in str(failure)


@every_format
@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(Drop(), id="connection broken"),
        pytest.param(Drop(clean=True), id="ended early"),
        pytest.param(Raw(b"data: {not json\n\n"), id="no json"),
        pytest.param(Raw(b"data: \xff\xfe\n\n"), id="no text"),
        pytest.param(Fault(503, "overloaded in the middle"), id="fault in the stream"),
    ],
)
async def test_a_stream_that_breaks_before_anything_was_said_is_retried(kind: Kind, piece: Any) -> None:
    clock = FakeClock()
    script = [Answer(piece, *([] if isinstance(piece, Drop) else [Drop()])), Answer("Again, whole.")]
    async with ModelServer(script) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_patiently(model, clock)
    assert failure is None
    assert [type(event) for event in events if not isinstance(event, Usage)] == [Retrying, TextDelta, Stopped]
    assert len(server.requests) == 2


@every_format
@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(Drop(), id="connection broken"),
        pytest.param(Drop(clean=True), id="ended early"),
        pytest.param(Raw(b"data: {not json\n\n"), id="no json"),
        pytest.param(Fault(500, "failed in the middle"), id="fault in the stream"),
    ],
)
async def test_a_stream_that_breaks_later_is_an_error_that_keeps_what_came(kind: Kind, piece: Any) -> None:
    clock = FakeClock()
    answer = Answer(Thought("Hm."), "Half an ", "ans", piece, *([] if isinstance(piece, Drop) else [Drop()]))
    async with ModelServer([answer]) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_patiently(model, clock)
    assert "".join(event.text for event in of(TextDelta, events)) == "Half an ans"
    assert not of(Stopped, events)
    assert not of(Retrying, events)
    assert failure is not None
    assert failure.partial is not None
    assert list(failure.partial.parts) == [ThoughtPart("Hm."), TextPart("Half an ans")]
    assert failure.kind in ("network", "overloaded")
    assert "kept" in str(failure)
    assert len(server.requests) == 1


@every_format
async def test_a_call_that_was_cut_off_is_never_handed_on(kind: Kind) -> None:
    clock = FakeClock()
    answer = Answer("Writing.", Call("write_file", {"path": "a", "content": "x" * 50}), Drop())
    async with ModelServer([answer]) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_patiently(model, clock)
    assert [type(event) for event in events if not isinstance(event, Usage)] == [TextDelta]
    assert failure is not None
    assert failure.partial is not None
    assert list(failure.partial.parts) == [TextPart("Writing.")]


@pytest.mark.parametrize("kind", ["openai-chat"])
async def test_a_server_that_never_gives_finish_reasons_can_be_lived_with(kind: Kind) -> None:
    async with (
        ModelServer([Answer("All I have.", Drop(clean=True))]) as server,
        remote_model(server, kind, finish_reason=False) as model,
    ):
        events = await ask(model)
    assert of(Stopped, events)[0].reason == "end_turn"


@every_format
async def test_a_provider_that_falls_silent_is_given_up(kind: Kind) -> None:
    clock, gate = FakeClock(), Gate()
    requests = RequestConfig(silence=90)
    async with (
        ModelServer([Answer("Wait", gate)]) as server,
        remote_model(server, kind, clock=clock, requests=requests) as model,
    ):
        stream = model.stream(request())
        assert await anext(stream) == TextDelta("Wait")
        await gate.reached()
        waiting = asyncio.ensure_future(anext(stream))
        await clock.advance(89)
        assert not waiting.done()
        await clock.advance(2)
        with pytest.raises(ModelError, match="nothing came for 90 seconds") as caught:
            await waiting
        assert caught.value.partial is not None
        assert await (await server.request()).ended() == "abandoned"


class HeardClock(FakeClock):
    """Tells when it was looked at: every byte that arrives is noted with its time."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at = asyncio.Event()

    def now(self) -> float:
        self.looked_at.set()
        return super().now()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "google"])  # whose stream has no comments
async def test_bytes_that_say_nothing_are_a_sign_of_life(kind: Kind) -> None:
    clock, first, second = HeardClock(), Gate(), Gate()
    answer = Answer("Wait", first, Raw(b": still thinking\n\n"), second, " for it.")
    async with (
        ModelServer([answer]) as server,
        remote_model(server, kind, clock=clock, requests=RequestConfig(silence=90)) as model,
    ):
        stream = model.stream(request())
        assert await anext(stream) == TextDelta("Wait")
        await first.reached()
        waiting = asyncio.ensure_future(anext(stream))
        await clock.advance(80)
        clock.looked_at.clear()
        first.open()
        await clock.looked_at.wait()
        await clock.advance(80)
        assert not waiting.done()
        second.open()
        assert await waiting == TextDelta(" for it.")
        await stream.aclose()


@every_format
async def test_closing_the_stream_ends_the_request_at_the_provider(kind: Kind) -> None:
    gate = Gate()
    script = [Answer("One", gate, "two"), Answer("Next")]
    async with ModelServer(script) as server, remote_model(server, kind) as model:
        stream = model.stream(request())
        assert await anext(stream) == TextDelta("One")
        await stream.aclose()
        assert await (await server.request()).ended() == "abandoned"
        assert of(TextDelta, await ask(model)) == [TextDelta("Next")]


@every_format
async def test_a_cancelled_reader_ends_the_request_at_the_provider(kind: Kind) -> None:
    gate = Gate()
    async with ModelServer([Answer(gate, "never")]) as server, remote_model(server, kind) as model:
        reading = asyncio.create_task(ask(model))
        await gate.reached()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert await (await server.request()).ended() == "abandoned"


async def test_a_cancel_while_it_waits_to_try_again_is_heard() -> None:
    clock = FakeClock()
    async with (
        ModelServer([Fault(503)]) as server,
        remote_model(server, "openai-chat", clock=clock) as model,
    ):
        stream = model.stream(request())
        assert isinstance(await anext(stream), Retrying)
        waiting = asyncio.ensure_future(anext(stream))
        await clock.advance(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert len(server.requests) == 1


@every_format
async def test_a_server_that_is_not_there_is_named(kind: Kind) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    clock, requests = FakeClock(), RequestConfig(attempts=2)
    address = f"http://127.0.0.1:{port}"
    async with (
        ModelServer() as server,
        remote_model(server, kind, clock=clock, requests=requests, base_url=address) as model,
    ):
        events, failure = await ask_patiently(model, clock)
    assert len(of(Retrying, events)) == 1
    assert failure is not None
    assert failure.kind == "network"
    assert address in str(failure)


def test_waits_double_to_a_bound_and_are_spread() -> None:
    patience = Patience(attempts=9, first=1.0, most=30.0)
    assert [patience.wait(attempt, None, 1.0) for attempt in range(1, 10)] == [
        1,
        2,
        4,
        8,
        16,
        30,
        30,
        30,
        None,
    ]
    assert patience.wait(3, None, 0.0) == 2.0
    assert patience.wait(1, 10.0, 0.0) == 10.0
    assert 10.0 < (patience.wait(1, 10.0, 1.0) or 0) <= 10.5
    assert patience.wait(1, 121.0, 0.5) is None
    assert patience.wait(1, -5.0, 0.0) == 0.0
