"""Provider and network failures in all four wire formats: classified, retried, partial answers kept."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from tests.coder.models.harness import KINDS, ask, ask_with_retries, of, remote_model, request

from accord.coder.model_history import TextPart
from accord.coder.models import ModelError, ModelEvent, RequestUsage, Retrying, Stopped, TextDelta
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import ErrorKind
from accord.coder.models.provider_request import wire_format
from accord.coder.models.remote_model import RetryPolicy
from accord.coder.user_config import Kind, RequestConfig
from accord.testing import FakeClock
from accord.testing.model_script import (
    DroppedConnection,
    ModelAnswer,
    ModelFault,
    ModelToolCall,
    RawBytes,
    StreamPause,
    Thought,
)
from accord.testing.model_server import ModelServer

every_format = pytest.mark.parametrize("kind", KINDS)


def waits(events: Sequence[ModelEvent]) -> list[float]:
    return [event.seconds for event in of(Retrying, events)]


@every_format
@pytest.mark.parametrize(
    ("fault", "expected", "advice"),
    [
        (ModelFault(401, "Incorrect key", "auth"), "auth", "--login"),
        (ModelFault(403, "Your API key was revoked"), "auth", "--login"),
        (ModelFault(403, "Your country is not supported"), "bad_request", "access was denied"),
        (ModelFault(404, "no model of that name"), "bad_request", "choose another"),
        (ModelFault(400, "temperature must be a number"), "bad_request", "temperature must be a number"),
        (ModelFault(400, "maximum context length is 8 tokens", "context_full"), "context_full", "compact"),
        (ModelFault(400, "request exceeds the available context size"), "context_full", "compact"),
        (ModelFault(413, "too large"), "context_full", "compact"),
        (ModelFault(422, "unprocessable"), "bad_request", "unprocessable"),
    ],
)
async def test_final_errors_are_one_line_and_not_retried(
    kind: Kind, fault: ModelFault, expected: ErrorKind, advice: str
) -> None:
    if kind == "google" and fault.status == 401:
        fault = ModelFault(400, fault.message, "auth")  # the form that Google uses
    clock = FakeClock()
    async with ModelServer([fault]) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_with_retries(model, clock)
    assert events == []
    assert failure is not None
    assert (failure.kind, failure.final, failure.partial_answer) == (expected, True, None)
    line = str(failure)
    assert "\n" not in line
    assert line.startswith(f"{model.provider}:{model.name}: ")
    assert advice in line
    assert len(server.requests) == 1


@every_format
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (ModelFault(429, "slow down"), "rate"),
        (ModelFault(500, "oops"), "overloaded"),
        (ModelFault(502, body=b"<html>bad gateway</html>"), "overloaded"),
        (ModelFault(503, "not now"), "overloaded"),
        (ModelFault(529, "overloaded"), "overloaded"),
    ],
)
async def test_temporary_errors_are_retried_with_events(
    kind: Kind, fault: ModelFault, expected: ErrorKind
) -> None:
    clock = FakeClock()
    script = [fault, fault, ModelAnswer("There you are.")]
    async with ModelServer(script) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_with_retries(model, clock)
    assert failure is None
    assert [type(event) for event in events] == [Retrying, Retrying, TextDelta, RequestUsage, Stopped]
    assert [event.attempt for event in of(Retrying, events)] == [2, 3]
    assert all(str(fault.status) in event.reason for event in of(Retrying, events))
    assert waits(events) == [0.5, 1.0]  # doubled, without jitter
    assert [seen.headers.get("x-stainless-retry-count", "0") for seen in server.requests] == ["0", "0", "0"]


@every_format
async def test_persistent_error_fails_after_the_last_attempt(kind: Kind) -> None:
    clock = FakeClock()
    script = [ModelFault(503, "not now")] * 3
    async with (
        ModelServer(script) as server,
        remote_model(server, kind, clock=clock, requests=RequestConfig(attempts=3)) as model,
    ):
        events, failure = await ask_with_retries(model, clock)
    assert len(of(Retrying, events)) == 2
    assert failure is not None
    assert failure.kind == "overloaded"
    assert "tried 3 times" in str(failure)
    assert len(server.requests) == 3


@every_format
async def test_retry_after_header_sets_the_wait(kind: Kind) -> None:
    clock = FakeClock()
    script = [ModelFault(429, "slow down", retry_after=17), ModelAnswer("ok")]
    async with ModelServer(script) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_with_retries(model, clock)
    assert failure is None
    assert waits(events) == [17.0]


@every_format
async def test_too_long_retry_after_fails_at_once(kind: Kind) -> None:
    clock = FakeClock()
    script = [ModelFault(429, "come back tomorrow", retry_after=86400)]
    async with ModelServer(script) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_with_retries(model, clock)
    assert events == []
    assert failure is not None
    assert (failure.kind, failure.retry_after) == ("rate", 86400.0)
    assert str(failure).endswith("; the provider asks to wait 86400 s")


@every_format
@pytest.mark.parametrize("problem", ["connection refused", "unknown host no-such-host.invalid"])
async def test_unreachable_server_fails_at_once_and_is_named(kind: Kind, problem: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    host = "127.0.0.1" if problem == "connection refused" else "no-such-host.invalid"
    url, clock = f"http://{host}:{port}/v1", FakeClock()
    async with (
        ModelServer() as server,
        remote_model(server, kind, clock=clock, base_url=url) as model,
    ):
        events, failure = await ask_with_retries(model, clock)
    assert events == []
    assert failure is not None
    assert (failure.kind, failure.final) == ("network", True)
    assert f"the connection at {url} failed: {problem}; check the network and the address" in str(failure)


@every_format
async def test_a_proxy_is_named_and_not_used_for_this_machine(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv(name, "" if name == "NO_PROXY" else "http://ada:secret@127.0.0.1:1")
    url = "https://models.example.com/v1"
    async with ModelServer([ModelAnswer("Hi.")]) as server:
        async with remote_model(server, kind) as model:
            assert of(TextDelta, await ask(model)) == [TextDelta("Hi.")]
        async with remote_model(server, kind, base_url=url) as model:
            _, failure = await ask_with_retries(model, FakeClock())
        monkeypatch.setenv("ALL_PROXY", "gopher://x")
        async with remote_model(server, kind, base_url=url) as model:
            _, unusable = await ask_with_retries(model, FakeClock())
    assert f"at {url} failed: connection refused by the proxy 127.0.0.1:1; " in str(failure)
    assert "its address is not that of a proxy" in str(unusable)


@pytest.mark.parametrize("kind", ["openai-chat", "openai-responses", "anthropic"])
async def test_exhausted_quota_is_not_retried(kind: Kind) -> None:
    clock = FakeClock()
    fault = ModelFault(400 if kind == "anthropic" else 429, "You exceeded your current quota", "quota")
    async with ModelServer([fault]) as server, remote_model(server, kind, clock=clock) as model:
        _, failure = await ask_with_retries(model, clock)
    assert failure is not None
    assert (failure.kind, failure.final) == ("rate", True)
    assert "billing" in str(failure)


@every_format
@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(DroppedConnection(), id="broken connection"),
        pytest.param(DroppedConnection(clean=True), id="early end"),
        pytest.param(RawBytes(b"data: {not json\n\n"), id="invalid JSON"),
        pytest.param(RawBytes(b"data: \xff\xfe\n\n"), id="invalid UTF-8"),
        pytest.param(ModelFault(503, "overloaded in the middle"), id="fault in the stream"),
    ],
)
async def test_stream_broken_before_any_output_is_retried(kind: Kind, piece: Any) -> None:
    clock = FakeClock()
    script = [
        ModelAnswer(piece, *([] if isinstance(piece, DroppedConnection) else [DroppedConnection()])),
        ModelAnswer("Again, whole."),
    ]
    async with ModelServer(script) as server, remote_model(server, kind, clock=clock) as model:
        events, failure = await ask_with_retries(model, clock)
    assert failure is None
    assert [type(event) for event in events if not isinstance(event, RequestUsage)] == [
        Retrying,
        TextDelta,
        Stopped,
    ]
    assert len(server.requests) == 2


@every_format
@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(DroppedConnection(), id="broken connection"),
        pytest.param(DroppedConnection(clean=True), id="early end"),
        pytest.param(RawBytes(b"data: {not json\n\n"), id="invalid JSON"),
        pytest.param(ModelFault(500, "failed in the middle"), id="fault in the stream"),
    ],
)
async def test_stream_broken_later_is_retried_and_at_last_kept_without_its_thought(
    kind: Kind, piece: Any
) -> None:
    clock = FakeClock()
    answer = ModelAnswer(
        Thought("Hm."),
        "Half an ",
        "ans",
        piece,
        *([] if isinstance(piece, DroppedConnection) else [DroppedConnection()]),
    )
    requests = RequestConfig(attempts=2)
    async with (
        ModelServer([answer, answer]) as server,
        remote_model(server, kind, clock=clock, requests=requests) as model,
    ):
        events, failure = await ask_with_retries(model, clock)
    assert "".join(event.text for event in of(TextDelta, events)) == "Half an ans" * 2
    assert not of(Stopped, events)
    assert [event.began for event in of(Retrying, events)] == [True]
    assert failure is not None
    assert failure.partial_answer is not None
    assert list(failure.partial_answer.parts) == [TextPart("Half an ans")]
    assert failure.kind in ("network", "overloaded")
    assert "kept" in str(failure)
    assert "tried 2 times" in str(failure)


@every_format
async def test_truncated_tool_call_is_never_passed_on(kind: Kind) -> None:
    clock = FakeClock()
    answer = ModelAnswer(
        "Writing.", ModelToolCall("write_file", {"path": "a", "content": "x" * 50}), DroppedConnection()
    )
    requests = RequestConfig(attempts=1)
    async with (
        ModelServer([answer]) as server,
        remote_model(server, kind, clock=clock, requests=requests) as model,
    ):
        events, failure = await ask_with_retries(model, clock)
    assert [type(event) for event in events if not isinstance(event, RequestUsage)] == [TextDelta]
    assert failure is not None
    assert failure.partial_answer is not None
    assert list(failure.partial_answer.parts) == [TextPart("Writing.")]


@pytest.mark.parametrize("kind", ["openai-chat"])
async def test_server_without_finish_reasons_is_supported(kind: Kind) -> None:
    async with (
        ModelServer([ModelAnswer("All I have.", DroppedConnection(clean=True))]) as server,
        remote_model(server, kind, finish_reason=False) as model,
    ):
        events = await ask(model)
    assert of(Stopped, events)[0].reason == "end_turn"


@every_format
async def test_silent_provider_times_out(kind: Kind) -> None:
    clock, pause = FakeClock(), StreamPause()
    requests = RequestConfig(silence=90, attempts=1)
    async with (
        ModelServer([ModelAnswer("Wait", pause)]) as server,
        remote_model(server, kind, clock=clock, requests=requests) as model,
    ):
        stream = model.stream(request())
        assert await anext(stream) == TextDelta("Wait")
        await pause.reached()
        waiting = asyncio.ensure_future(anext(stream))
        await clock.advance(89)
        assert not waiting.done()
        await clock.advance(2)
        with pytest.raises(ModelError, match="nothing arrived for 90 seconds") as caught:
            await waiting
        assert caught.value.partial_answer is not None
        assert await (await server.request()).ended() == "abandoned"


class ObservedClock(FakeClock):
    """Sets an event when it is read. The model reads the clock whenever bytes arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.was_read = asyncio.Event()

    def now(self) -> float:
        self.was_read.set()
        return super().now()


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind != "google"]
)  # Google streams have no comments
async def test_stream_comments_reset_the_silence_timeout(kind: Kind) -> None:
    clock, first, second = ObservedClock(), StreamPause(), StreamPause()
    answer = ModelAnswer("Wait", first, RawBytes(b": still thinking\n\n"), second, " for it.")
    async with (
        ModelServer([answer]) as server,
        remote_model(server, kind, clock=clock, requests=RequestConfig(silence=90)) as model,
    ):
        stream = model.stream(request())
        assert await anext(stream) == TextDelta("Wait")
        await first.reached()
        waiting = asyncio.ensure_future(anext(stream))
        await clock.advance(80)
        clock.was_read.clear()
        first.release()
        await clock.was_read.wait()
        await clock.advance(80)
        assert not waiting.done()
        second.release()
        assert await waiting == TextDelta(" for it.")
        await stream.aclose()


@every_format
async def test_closing_the_stream_ends_the_provider_request(kind: Kind) -> None:
    pause = StreamPause()
    script = [ModelAnswer("One", pause, "two"), ModelAnswer("Next")]
    async with ModelServer(script) as server, remote_model(server, kind) as model:
        stream = model.stream(request())
        assert await anext(stream) == TextDelta("One")
        await stream.aclose()
        assert await (await server.request()).ended() == "abandoned"
        assert of(TextDelta, await ask(model)) == [TextDelta("Next")]


@every_format
async def test_cancelling_the_reader_ends_the_provider_request(kind: Kind) -> None:
    pause = StreamPause()
    async with ModelServer([ModelAnswer(pause, "never")]) as server, remote_model(server, kind) as model:
        task = asyncio.create_task(ask(model))
        await pause.reached()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await (await server.request()).ended() == "abandoned"


async def test_cancel_while_waiting_for_a_retry() -> None:
    clock = FakeClock()
    async with (
        ModelServer([ModelFault(503)]) as server,
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


def test_waits_double_up_to_a_limit_with_jitter() -> None:
    policy = RetryPolicy(attempts=9, first_wait=1.0, max_backoff=30.0)
    assert [policy.wait(attempt, None, 1.0) for attempt in range(1, 10)] == [
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
    assert policy.wait(3, None, 0.0) == 2.0
    assert policy.wait(1, 10.0, 0.0) == 10.0
    assert 10.0 < (policy.wait(1, 10.0, 1.0) or 0) <= 10.5
    assert policy.wait(1, 121.0, 0.5) is None
    assert policy.wait(1, -5.0, 0.0) == 0.0


@every_format
async def test_module_that_cannot_be_imported_fails_the_request_at_once(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask_once(kind)  # everything else is imported by now
    monkeypatch.setitem(
        sys.modules, type(wire_format(Endpoint("x", kind, None, None, True))).__module__, None
    )
    with pytest.raises(ModelError, match=r"the provider code failed \(ModuleNotFoundError\)") as raised:
        await ask_once(kind)
    assert raised.value.kind == "other"
    assert raised.value.final


async def ask_once(kind: Kind) -> None:
    async with ModelServer([ModelAnswer("fine")]) as server, remote_model(server, kind) as model:
        await ask(model)
