"""The scripted model server, spoken to by hand: formats, faults, gates, what it keeps of requests."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from accord.testing.models import (
    Answer,
    Call,
    Drop,
    Fault,
    Gate,
    ModelServer,
    Raw,
    Refusal,
    Reply,
    SeenRequest,
    Thought,
    Tokens,
)

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
every_format = pytest.mark.parametrize("spoken", list(PATHS))


class Said(NamedTuple):
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


class Caller:
    """A client of a few lines, on one connection."""

    def __init__(self, server: ModelServer) -> None:
        self._port = int(server.base_url("google").rpartition(":")[2])

    async def __aenter__(self) -> "Caller":
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

    async def answer(self) -> Said:
        status, headers = await self.head()
        if "content-length" in headers:
            return Said(status, headers, await self.reader.readexactly(int(headers["content-length"])))
        body = b""
        while piece := await self.chunk():
            body += piece
        return Said(status, headers, body)

    async def ask(self, path: str, body: Any = None, **headers: str) -> Said:
        self.send(path, body, **headers)
        return await self.answer()


@every_format
async def test_an_answer_is_streamed_in_the_providers_words(spoken: str) -> None:
    answer = Answer(
        Thought("ponder"),
        "Bon",
        "jour",
        Call("shell", {"command": "ls"}),
        usage=Tokens(100, 20, 30, 0, thought=4),
    )
    async with ModelServer([answer]) as server, Caller(server) as caller:
        said = await caller.ask(PATHS[spoken], {"model": "m", "stream": True})
    assert (said.status, said.headers["content-type"]) == (200, "text/event-stream")
    text = json.dumps(said.events)
    assert text.index("ponder") < text.index("Bon") < text.index("jour") < text.index("shell")
    last: dict[str, Callable[[], Any]] = {
        "openai-chat": lambda: said.events[-2]["choices"][0]["finish_reason"],
        "openai-responses": lambda: said.events[-1]["response"]["status"],
        "anthropic": lambda: said.events[-2]["delta"]["stop_reason"],
        "google": lambda: said.events[-1]["candidates"][0]["finishReason"],
    }
    ends = {
        "openai-chat": "tool_calls",
        "openai-responses": "completed",
        "anthropic": "tool_use",
        "google": "STOP",
    }
    assert last[spoken]() == ends[spoken]
    usages: dict[str, Callable[[], Any]] = {
        "openai-chat": lambda: said.events[-1]["usage"]["prompt_tokens"],
        "openai-responses": lambda: said.events[-1]["response"]["usage"]["input_tokens"],
        "anthropic": lambda: (
            said.events[0]["message"]["usage"]["input_tokens"]
            + said.events[0]["message"]["usage"]["cache_read_input_tokens"]
        ),
        "google": lambda: said.events[-1]["usageMetadata"]["promptTokenCount"],
    }
    assert usages[spoken]() == 100


async def test_arguments_of_calls_come_in_pieces() -> None:
    call = Call("write", {"path": "a", "content": "0123456789"}, id="c1", pieces=4)
    async with ModelServer([Answer(call)]) as server, Caller(server) as caller:
        said = await caller.ask(PATHS["openai-chat"], {"model": "m"})
    deltas = [event["choices"][0]["delta"] for event in said.events if event["choices"]]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert calls[0]["id"] == "c1"
    pieces = [item["function"]["arguments"] for item in calls]
    assert len(pieces) == 5
    assert json.loads("".join(pieces)) == call.arguments


@every_format
async def test_a_fault_has_the_providers_shape(spoken: str) -> None:
    fault = Fault(429, "slow down", retry_after=3, headers={"x-extra": "1"})
    async with ModelServer([fault]) as server, Caller(server) as caller:
        said = await caller.ask(PATHS[spoken], {"model": "m"})
    assert (said.status, said.headers["retry-after"], said.headers["x-extra"]) == (429, "3", "1")
    assert said.json["error"]["message"] == "slow down"


async def test_a_script_is_played_in_order_on_one_connection_and_may_grow() -> None:
    async with ModelServer([Answer("one"), Fault(500)]) as server, Caller(server) as caller:
        server.add(lambda seen: Answer(f"you said {seen.body['say']}"))
        assert "one" in (await caller.ask(PATHS["anthropic"], {})).body.decode()
        assert (await caller.ask(PATHS["anthropic"], {})).status == 500
        assert "you said hi" in (await caller.ask(PATHS["anthropic"], {"say": "hi"})).body.decode()
        assert [seen.outcome for seen in server.requests] == ["answered", "faulted", "answered"]


async def test_a_function_may_answer_everything() -> None:
    def reply(seen: SeenRequest) -> Reply:
        return Fault(404) if seen.model == "gone" else Answer(seen.model)

    async with ModelServer(reply) as server, Caller(server) as caller:
        assert (await caller.ask(PATHS["openai-chat"], {"model": "gone"})).status == 404
        assert "here" in (await caller.ask(PATHS["openai-chat"], {"model": "here"})).body.decode()
        assert (await caller.ask("/v1beta/models/gone:streamGenerateContent", {})).status == 404


async def test_what_was_asked_is_kept() -> None:
    async with ModelServer([Answer("ok")]) as server, Caller(server) as caller:
        await caller.ask(PATHS["google"], {"contents": []}, X_Goog_Api_Key="k")
    (seen,) = server.requests
    assert (seen.format, seen.model, seen.body) == ("google", "m", {"contents": []})
    assert seen.headers["x-goog-api-key"] == "k"
    assert seen.path == PATHS["google"]


async def test_a_gate_holds_the_stream_until_the_test_opens_it() -> None:
    gate = Gate()
    async with ModelServer([Answer("before", gate, "after")]) as server, Caller(server) as caller:
        caller.send(PATHS["google"], {})
        await gate.reached()
        await caller.head()
        assert b"before" in await caller.chunk()
        seen = await server.request()
        assert seen.outcome is None
        gate.open()
        assert b"after" in await caller.chunk()
        assert await seen.ended() == "answered"


async def test_a_client_that_leaves_at_a_gate_is_noticed() -> None:
    gate = Gate()
    async with ModelServer([Answer("before", gate)]) as server:
        async with Caller(server) as caller:
            caller.send(PATHS["google"], {})
            await gate.reached()
        assert await (await server.request()).ended() == "abandoned"


@pytest.mark.parametrize(("drop", "ending"), [(Drop(), b""), (Drop(clean=True), b"0\r\n\r\n")])
async def test_a_dropped_stream_breaks_where_the_script_says(drop: Drop, ending: bytes) -> None:
    async with ModelServer([Answer("half", drop, "rest")]) as server, Caller(server) as caller:
        caller.send(PATHS["google"], {})
        await caller.head()
        assert b"half" in await caller.chunk()
        if drop.clean:
            assert await caller.reader.readexactly(len(ending)) == ending
        else:
            assert await caller.reader.read() == b""
        assert server.requests[0].outcome == "dropped"


@every_format
async def test_garbage_refusals_and_faults_can_stand_inside_a_stream(spoken: str) -> None:
    answer = Answer("a", Raw(b"data: {broken\n\n"), Fault(503, "in the middle"), Refusal("never"))
    async with ModelServer([answer]) as server, Caller(server) as caller:
        body = (await caller.ask(PATHS[spoken], {"model": "m"})).body
    assert body.index(b"{broken") < body.index(b"in the middle") < body.index(b"never")


async def test_the_models_are_listed_in_the_format_of_who_asks() -> None:
    async with ModelServer(models=["big", "small"]) as server, Caller(server) as caller:
        openai = (await caller.ask("/v1/models")).json
        anthropic = (await caller.ask("/v1/models?limit=5", anthropic_version="2023-06-01")).json
        gemini = (await caller.ask("/v1beta/models")).json
        server.listing = Fault(403, "not for you")
        assert (await caller.ask("/v1/models")).status == 403
    assert [entry["id"] for entry in openai["data"]] == ["big", "small"]
    assert [entry["id"] for entry in anthropic["data"]] == ["big", "small"]
    assert [entry["name"] for entry in gemini["models"]] == ["models/big", "models/small"]
    assert len(server.listings) == 4
    assert server.requests == []


async def test_a_request_beyond_the_script_fails_the_test() -> None:
    server = ModelServer([Answer("only one")])

    async def ask_too_much() -> None:
        async with server, Caller(server) as caller:
            await caller.ask(PATHS["anthropic"], {})
            assert (await caller.ask(PATHS["anthropic"], {})).status == 400
            assert (await caller.ask("/nowhere")).status == 404

    with pytest.raises(AssertionError, match="request 2 to /v1/messages; GET /nowhere"):
        await ask_too_much()


async def test_an_error_of_the_test_is_not_covered_up() -> None:
    server = ModelServer()

    async def ask_and_fail() -> None:
        async with server, Caller(server) as caller:
            await caller.ask(PATHS["anthropic"], {})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ask_and_fail()


async def test_the_environment_sends_a_providers_clients_here(
    accord_model_server: Callable[..., ModelServer],
) -> None:
    async with accord_model_server([]) as server:
        assert server.environment("openai", "k") == {
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.base_url("openai"),
        }
        assert server.environment("anthropic")["ANTHROPIC_BASE_URL"] == server.base_url("anthropic")
        assert server.environment("google")["GOOGLE_BASE_URL"] == server.base_url("google")


async def test_leaving_ends_streams_that_still_wait() -> None:
    gate = Gate()
    async with ModelServer([Answer(gate)]) as server:
        caller = await Caller(server).__aenter__()
        caller.send(PATHS["google"], {})
        await gate.reached()
    assert server.requests[0].outcome in ("dropped", "abandoned")
    caller.writer.close()
