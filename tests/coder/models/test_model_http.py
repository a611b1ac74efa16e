"""HTTP answers of servers that misbehave, and the errors that they become."""

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import format_datetime
from typing import Any

import pytest
from tests.coder.models.harness import KEY, ask, ask_with_retries, of, remote_model
from tests.patience import PATIENCE

from accord.coder.models import ModelError, Retrying, Stopped, TextDelta, provider_request
from accord.coder.models.credentials import Secret
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.provider_errors import failure_of_body, to_model_error
from accord.coder.models.provider_request import fetch_models, http_client
from accord.coder.models.remote_model import ModelConnections, RemoteModel
from accord.coder.user_config import RequestConfig
from accord.testing import FakeClock
from accord.testing.model_script import DroppedConnection, ModelAnswer, ModelFault, RawBytes, StreamPause
from accord.testing.model_server import HttpConnection, ModelServer

# A server that answers every request with the same bytes.


class RawServer:
    """The address of a server, and what it has seen."""

    def __init__(self) -> None:
        self.address = ""
        self.connections = 0
        self.paths: list[str] = []


@asynccontextmanager
async def raw_server(answer: Callable[[str], bytes], *, close: bool = False) -> AsyncGenerator[RawServer]:
    seen = RawServer()
    connections: list[HttpConnection] = []
    tasks: list[asyncio.Task[None]] = []

    async def serve(connection: HttpConnection) -> None:
        while (request := await connection.next_request()) is not None:
            seen.paths.append(request.target)
            transport = connection._tcp_transport
            assert transport is not None
            transport.write(answer(seen.address))
            if close:
                transport.close()

    def accept() -> HttpConnection:
        seen.connections += 1
        connections.append(HttpConnection())
        tasks.append(asyncio.ensure_future(serve(connections[-1])))
        return connections[-1]

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    seen.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield seen
    finally:
        server.close()
        for connection, task in zip(connections, tasks, strict=True):
            connection.drop()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def response(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def sse(*events: Any) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


HELLO = sse(
    {"choices": [{"delta": {"content": "Hello"}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}
)


@asynccontextmanager
async def model_at(address: str, attempts: int = 1, key: str = KEY) -> AsyncGenerator[RemoteModel]:
    connections = ModelConnections()
    endpoint = Endpoint("mine", "openai-chat", address, Secret(key), True)
    requests = RequestConfig(attempts=attempts)
    try:
        yield RemoteModel(endpoint, "m", connections, None, requests, FakeClock(), lambda: 0.0)
    finally:
        await connections.aclose()


async def failure_at(address: str, key: str = KEY) -> ModelError:
    async with model_at(address, key=key) as model:
        with pytest.raises(ModelError) as caught:
            await ask(model)
    return caught.value


@pytest.mark.parametrize("slash", ["", "/"])
async def test_connection_is_used_again(slash: str) -> None:
    done = response(HELLO + b"data: [DONE]\n\n", content_type="text/event-stream")
    async with raw_server(lambda _: done) as server, model_at(f"{server.address}/v1{slash}") as model:
        for _ in range(3):
            assert of(TextDelta, await ask(model)) == [TextDelta("Hello")]
    assert server.connections == 1
    assert server.paths == ["/v1/chat/completions"] * 3


@pytest.mark.parametrize("after", [StreamPause, DroppedConnection])
async def test_server_that_does_not_end_the_stream_after_the_answer(after: Any) -> None:
    answer = ModelAnswer(
        RawBytes(
            b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
        ),
        after(),
    )
    async with ModelServer([answer]) as server, remote_model(server, "openai-chat") as model:
        assert [type(event) for event in await ask(model)] == [TextDelta, Stopped]


async def test_last_event_without_an_empty_line_is_read() -> None:
    cut = response(HELLO.rstrip(), content_type="text/event-stream")
    async with raw_server(lambda _: cut) as server, model_at(server.address) as model:
        assert [type(event) for event in await ask(model)] == [TextDelta, Stopped]


async def test_compressed_stream_is_read() -> None:
    packed = response(gzip.compress(HELLO), content_type="text/event-stream", content_encoding="gzip")
    async with raw_server(lambda _: packed) as server, model_at(server.address) as model:
        assert of(TextDelta, await ask(model)) == [TextDelta("Hello")]


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (
            b'{"error": {"code": "context_length_exceeded", "message": "too long"}}',
            "context_full",
            "too long",
        ),
        (b'{"error": {"code": 503, "message": "busy"}}', "overloaded", "busy"),
        (b'{"error": "model is loading"}', "network", "model is loading"),
        (b'{"choices": []}', "network", "unreadable"),
        (b"[1]", "network", "unreadable"),
        (b"", "network", "ended too early"),
    ],
)
async def test_json_in_place_of_a_stream_is_an_error(body: bytes, kind: str, text: str) -> None:
    async with raw_server(lambda _: response(body, content_type="application/json; charset=utf-8")) as server:
        failure = await failure_at(server.address)
    assert failure.kind == kind
    assert text in str(failure)


async def test_stream_with_a_wrong_content_type_is_read() -> None:
    async with (
        raw_server(lambda _: response(HELLO, content_type="application/json")) as server,
        model_at(server.address) as model,
    ):
        assert of(TextDelta, await ask(model)) == [TextDelta("Hello")]


async def test_redirect_is_not_followed() -> None:
    async with raw_server(lambda own: response(b"", "302 Found", location=f"{own}/elsewhere")) as server:
        failure = await failure_at(server.address)
        endpoint = Endpoint("mine", "openai-chat", server.address, Secret(KEY), True)
        async with http_client(60) as http:
            with pytest.raises(ModelError, match="status 302"):
                await fetch_models(endpoint, http)
    assert "the request was refused (302)" in str(failure)
    assert server.paths == ["/chat/completions", "/models"]


async def test_large_error_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_request, "MAX_ERROR_BYTES", 1000)
    async with raw_server(lambda _: response(b"y" * 100_000, "400 Bad Request")) as server:
        failure = await failure_at(server.address)
    assert str(failure).startswith("mine:m: the request was refused (400): yyy")
    assert len(str(failure)) < 400


async def test_error_that_breaks_off_keeps_its_status() -> None:
    cut = response(b'{"error": {"message": "x', "503 Service Unavailable").replace(b"length: ", b"length: 9")
    async with raw_server(lambda _: cut, close=True) as server:
        failure = await failure_at(server.address)
    assert (failure.kind, "(503)" in str(failure)) == ("overloaded", True)


@pytest.mark.parametrize(
    ("limit", "line"),
    [("MAX_STREAM_BYTES", b": keep waiting\n"), ("MAX_EVENT_BYTES", b"data: " + b"x" * 2000 + b"\n\n")],
)
async def test_endless_answer_is_given_up_and_not_retried(
    limit: str, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_request, limit, 1000)
    endless = response(line * 100, content_type="text/event-stream")
    async with raw_server(lambda _: endless) as server, model_at(server.address, attempts=3) as model:
        with pytest.raises(ModelError, match="too large") as caught:
            await ask(model)
    assert caught.value.final
    assert len(server.paths) == 1


async def test_large_model_list_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_request, "MAX_BODY_BYTES", 1000)
    body = json.dumps({"data": [{"id": str(number)} for number in range(1000)]}).encode()
    async with raw_server(lambda _: response(body)) as server, http_client(60) as http:
        endpoint = Endpoint("mine", "openai-chat", server.address, Secret(KEY), True)
        with pytest.raises(ModelError, match="mine: no list of models: the list is unreadable"):
            await fetch_models(endpoint, http)


async def test_key_that_is_no_header_is_not_shown() -> None:
    key = "sk-first-line\nsecond-line"
    async with raw_server(lambda _: response(HELLO)) as server:
        failure = await failure_at(server.address, key)
    assert failure.kind == "network"
    assert "line" not in str(failure)
    assert failure.__context__ is None


# Errors.


ENDPOINT = Endpoint("openai", "openai-chat", None, Secret(KEY), True)


def error_of(status: int | None, error: Mapping[str, Any], **headers: str) -> ModelError:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return to_model_error(
        failure_of_body(status, json.dumps({"error": error}).encode(), names), ENDPOINT, "m"
    )


@pytest.mark.parametrize(
    ("status", "error", "kind", "final"),
    [
        (402, {"message": "pay"}, "rate", True),
        (403, {"message": "flagged", "metadata": {"reasons": ["violence"]}}, "bad_request", True),
        (408, {"message": "slow"}, "network", False),
        (400, {"code": "invalid_api_key", "message": "no"}, "auth", True),
        (400, {"code": "model_not_found", "message": "no"}, "bad_request", True),
        (400, {"type": "invalid_request_error", "message": "Your credit balance is too low"}, "rate", True),
        (500, {"message": "the context window of the process is broken"}, "overloaded", False),
        (418, {"message": "teapot"}, "bad_request", True),
        (None, {"code": "rate_limit_exceeded", "message": "slow"}, "rate", False),
        (None, {"code": "insufficient_quota", "message": "pay"}, "rate", True),
        (None, {"type": "overloaded_error", "message": "busy"}, "overloaded", False),
        (None, {"code": 502, "message": "bad gateway"}, "overloaded", False),
        (None, {"code": "503", "message": "busy"}, "overloaded", False),
        (None, {"status": "RESOURCE_EXHAUSTED", "message": "slow"}, "rate", False),
        (None, {"code": "strange", "message": "what"}, "network", False),
    ],
)
def test_errors_are_classified(status: int | None, error: dict[str, Any], kind: str, final: bool) -> None:
    failure = error_of(status, error)
    assert (failure.kind, failure.final) == (kind, final)
    assert error["message"] in str(failure)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "17"}, 17.0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after": "9", "retry_after_ms": "250"}, 0.25),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert error_of(429, {"message": "slow"}, **headers).retry_after == seconds


def test_retry_after_can_be_a_date() -> None:
    from datetime import UTC, datetime, timedelta

    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    wait = error_of(429, {"message": "slow"}, retry_after=date).retry_after
    assert wait is not None
    assert 3600 - PATIENCE < wait <= 3600


async def test_provider_can_ask_not_to_retry() -> None:
    clock = FakeClock()
    fault = ModelFault(503, "gone for good", headers={"x-should-retry": "false"})
    async with ModelServer([fault]) as server, remote_model(server, "anthropic", clock=clock) as model:
        events, failure = await ask_with_retries(model, clock)
    assert not of(Retrying, events)
    assert failure is not None
    assert failure.final


async def test_prompt_refused_by_a_content_filter_is_a_refusal() -> None:
    body = json.dumps({"error": {"code": "content_filter", "message": "Not that."}}).encode()
    async with (
        ModelServer([ModelFault(400, body=body)]) as server,
        remote_model(server, "openai-chat") as model,
    ):
        (stopped,) = await ask(model)
    assert isinstance(stopped, Stopped)
    assert (stopped.reason, stopped.refusal_text) == ("refusal", "Not that.")
