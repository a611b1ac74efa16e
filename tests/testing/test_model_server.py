"""The scripted model server, tested with raw HTTP: formats, faults, pauses, and the requests it keeps."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from accord.testing.model_script import (
    DroppedConnection,
    ModelAnswer,
    ModelFault,
    ModelToolCall,
    RawBytes,
    Refusal,
    Reply,
    ScriptedUsage,
    StreamPause,
    Thought,
)
from accord.testing.model_server import ModelServer, RecordedRequest

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
every_format = pytest.mark.parametrize("format_name", list(PATHS))


class HttpAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        lines = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


class HttpCaller:
    """A minimal HTTP client on one connection."""

    def __init__(self, server: ModelServer) -> None:
        self._port = int(server.base_url("google").rpartition(":")[2])

    async def __aenter__(self) -> "HttpCaller":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    def send(self, path: str, body: Any = None, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        head = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(data)}"]
        head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*head, "", ""]).encode() + data)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        return int(lines[0].split()[1]), headers

    async def chunk(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def answer(self) -> HttpAnswer:
        status, headers = await self.head()
        if "content-length" in headers:
            return HttpAnswer(status, headers, await self.reader.readexactly(int(headers["content-length"])))
        body = b""
        while piece := await self.chunk():
            body += piece
        return HttpAnswer(status, headers, body)

    async def ask(self, path: str, body: Any = None, **headers: str) -> HttpAnswer:
        self.send(path, body, **headers)
        return await self.answer()


@every_format
async def test_an_answer_is_streamed_in_the_providers_format(format_name: str) -> None:
    answer = ModelAnswer(
        Thought("ponder"),
        "Bon",
        "jour",
        ModelToolCall("shell", {"command": "ls"}),
        usage=ScriptedUsage(100, 20, 30, 0, thought=4),
    )
    async with ModelServer([answer]) as server, HttpCaller(server) as caller:
        response = await caller.ask(PATHS[format_name], {"model": "m", "stream": True})
    assert (response.status, response.headers["content-type"]) == (200, "text/event-stream")
    text = json.dumps(response.events)
    assert text.index("ponder") < text.index("Bon") < text.index("jour") < text.index("shell")
    last: dict[str, Callable[[], Any]] = {
        "openai-chat": lambda: response.events[-2]["choices"][0]["finish_reason"],
        "openai-responses": lambda: response.events[-1]["response"]["status"],
        "anthropic": lambda: response.events[-2]["delta"]["stop_reason"],
        "google": lambda: response.events[-1]["candidates"][0]["finishReason"],
    }
    ends = {
        "openai-chat": "tool_calls",
        "openai-responses": "completed",
        "anthropic": "tool_use",
        "google": "STOP",
    }
    assert last[format_name]() == ends[format_name]
    usages: dict[str, Callable[[], Any]] = {
        "openai-chat": lambda: response.events[-1]["usage"]["prompt_tokens"],
        "openai-responses": lambda: response.events[-1]["response"]["usage"]["input_tokens"],
        "anthropic": lambda: (
            response.events[0]["message"]["usage"]["input_tokens"]
            + response.events[0]["message"]["usage"]["cache_read_input_tokens"]
        ),
        "google": lambda: response.events[-1]["usageMetadata"]["promptTokenCount"],
    }
    assert usages[format_name]() == 100


async def test_tool_call_arguments_are_streamed_in_pieces() -> None:
    call = ModelToolCall("write", {"path": "a", "content": "0123456789"}, id="c1", pieces=4)
    async with ModelServer([ModelAnswer(call)]) as server, HttpCaller(server) as caller:
        response = await caller.ask(PATHS["openai-chat"], {"model": "m"})
    deltas = [event["choices"][0]["delta"] for event in response.events if event["choices"]]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert calls[0]["id"] == "c1"
    pieces = [item["function"]["arguments"] for item in calls]
    assert len(pieces) == 5
    assert json.loads("".join(pieces)) == call.arguments


@every_format
async def test_a_fault_has_the_providers_format(format_name: str) -> None:
    fault = ModelFault(429, "slow down", retry_after=3, headers={"x-extra": "1"})
    async with ModelServer([fault]) as server, HttpCaller(server) as caller:
        response = await caller.ask(PATHS[format_name], {"model": "m"})
    assert (response.status, response.headers["retry-after"], response.headers["x-extra"]) == (429, "3", "1")
    assert response.json["error"]["message"] == "slow down"


async def test_a_script_is_played_in_order_and_can_be_extended() -> None:
    async with ModelServer([ModelAnswer("one"), ModelFault(500)]) as server, HttpCaller(server) as caller:
        server.add(lambda request: ModelAnswer(f"you said {request.body['say']}"))
        assert "one" in (await caller.ask(PATHS["anthropic"], {})).body.decode()
        assert (await caller.ask(PATHS["anthropic"], {})).status == 500
        assert "you said hi" in (await caller.ask(PATHS["anthropic"], {"say": "hi"})).body.decode()
        assert [request.outcome for request in server.requests] == ["answered", "faulted", "answered"]


async def test_a_function_can_answer_every_request() -> None:
    def reply(request: RecordedRequest) -> Reply:
        return ModelFault(404) if request.model == "gone" else ModelAnswer(request.model)

    async with ModelServer(reply) as server, HttpCaller(server) as caller:
        assert (await caller.ask(PATHS["openai-chat"], {"model": "gone"})).status == 404
        assert "here" in (await caller.ask(PATHS["openai-chat"], {"model": "here"})).body.decode()
        assert (await caller.ask("/v1beta/models/gone:streamGenerateContent", {})).status == 404


async def test_requests_are_kept() -> None:
    async with ModelServer([ModelAnswer("ok")]) as server, HttpCaller(server) as caller:
        await caller.ask(PATHS["google"], {"contents": []}, X_Goog_Api_Key="k")
    (request,) = server.requests
    assert (request.format, request.model, request.body) == ("google", "m", {"contents": []})
    assert request.headers["x-goog-api-key"] == "k"
    assert request.path == PATHS["google"]


async def test_a_pause_stops_the_stream_until_the_test_releases_it() -> None:
    pause = StreamPause()
    async with ModelServer([ModelAnswer("before", pause, "after")]) as server, HttpCaller(server) as caller:
        caller.send(PATHS["google"], {})
        await pause.reached()
        await caller.head()
        assert b"before" in await caller.chunk()
        request = await server.request()
        assert request.outcome is None
        pause.release()
        assert b"after" in await caller.chunk()
        assert await request.ended() == "answered"


async def test_a_client_that_disconnects_at_a_pause_is_recorded_as_abandoned() -> None:
    pause = StreamPause()
    async with ModelServer([ModelAnswer("before", pause)]) as server:
        async with HttpCaller(server) as caller:
            caller.send(PATHS["google"], {})
            await pause.reached()
        assert await (await server.request()).ended() == "abandoned"


@pytest.mark.parametrize(
    ("drop", "ending"), [(DroppedConnection(), b""), (DroppedConnection(clean=True), b"0\r\n\r\n")]
)
async def test_a_dropped_stream_ends_where_the_script_says(drop: DroppedConnection, ending: bytes) -> None:
    async with ModelServer([ModelAnswer("half", drop, "rest")]) as server, HttpCaller(server) as caller:
        caller.send(PATHS["google"], {})
        await caller.head()
        assert b"half" in await caller.chunk()
        if drop.clean:
            assert await caller.reader.readexactly(len(ending)) == ending
        else:
            assert await caller.reader.read() == b""
        assert server.requests[0].outcome == "dropped"


@every_format
async def test_a_stream_can_contain_raw_bytes_refusals_and_faults(format_name: str) -> None:
    answer = ModelAnswer(
        "a", RawBytes(b"data: {broken\n\n"), ModelFault(503, "in the middle"), Refusal("never")
    )
    async with ModelServer([answer]) as server, HttpCaller(server) as caller:
        body = (await caller.ask(PATHS[format_name], {"model": "m"})).body
    assert body.index(b"{broken") < body.index(b"in the middle") < body.index(b"never")


async def test_models_are_listed_in_the_callers_format() -> None:
    async with ModelServer(models=["big", "small"]) as server, HttpCaller(server) as caller:
        openai = (await caller.ask("/v1/models")).json
        anthropic = (await caller.ask("/v1/models?limit=5", anthropic_version="2023-06-01")).json
        gemini = (await caller.ask("/v1beta/models")).json
        server.listing = ModelFault(403, "not for you")
        assert (await caller.ask("/v1/models")).status == 403
    assert [entry["id"] for entry in openai["data"]] == ["big", "small"]
    assert [entry["id"] for entry in anthropic["data"]] == ["big", "small"]
    assert [entry["name"] for entry in gemini["models"]] == ["models/big", "models/small"]
    assert len(server.listings) == 4
    assert server.requests == []


async def test_a_request_beyond_the_script_fails_the_test() -> None:
    server = ModelServer([ModelAnswer("only one")])

    async def ask_too_much() -> None:
        async with server, HttpCaller(server) as caller:
            await caller.ask(PATHS["anthropic"], {})
            assert (await caller.ask(PATHS["anthropic"], {})).status == 400
            assert (await caller.ask("/nowhere")).status == 404

    with pytest.raises(AssertionError, match="request 2 to /v1/messages; GET /nowhere"):
        await ask_too_much()


async def test_an_exception_of_the_test_is_not_replaced() -> None:
    server = ModelServer()

    async def ask_and_fail() -> None:
        async with server, HttpCaller(server) as caller:
            await caller.ask(PATHS["anthropic"], {})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ask_and_fail()


async def test_the_environment_points_a_provider_at_the_server(
    accord_model_server: Callable[..., ModelServer],
) -> None:
    async with accord_model_server([]) as server:
        assert server.environment("openai", "k") == {
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.base_url("openai"),
        }
        assert server.environment("anthropic")["ANTHROPIC_BASE_URL"] == server.base_url("anthropic")
        assert server.environment("google")["GOOGLE_BASE_URL"] == server.base_url("google")


async def test_closing_the_server_ends_waiting_streams() -> None:
    pause = StreamPause()
    async with ModelServer([ModelAnswer(pause)]) as server:
        caller = await HttpCaller(server).__aenter__()
        caller.send(PATHS["google"], {})
        await pause.reached()
    assert server.requests[0].outcome in ("dropped", "abandoned")
    caller.writer.close()
