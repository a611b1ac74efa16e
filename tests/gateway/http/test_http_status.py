"""The status codes of the HTTP transport, over HTTP/1.1 and HTTP/2."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.gateway.http.http_client import http_client, open_connection
from tests.gateway.http.http_harness import INITIALIZE, http_harness

from accord.gateway.access.resource_limits import GatewayLimits
from accord.gateway.http import ServerConfig
from accord.testing import FakeClock

both_versions = pytest.mark.parametrize("version", [1, 2])
PROMPT: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 5,
    "method": "session/prompt",
    "params": {"sessionId": "s1"},
}


@both_versions
async def test_initialize_is_answered_with_the_connection_id_and_a_cookie(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        answer = await client.post("/acp", json=INITIALIZE)
        assert answer.http_version == ("HTTP/1.1" if version == 1 else "HTTP/2")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1}}
        [handler] = harness.echo.clients
        assert answer.headers["acp-connection-id"] == handler.connection.id
        cookie = answer.headers["set-cookie"]
        assert cookie == f"accord-line={handler.connection.id}; Path=/acp; HttpOnly; SameSite=Strict"


@both_versions
async def test_a_message_is_accepted_with_202_and_no_body(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        answer = await client.post(
            "/acp", json={"jsonrpc": "2.0", "id": 1, "method": "session/new"}, headers=connection
        )
        assert (answer.status_code, answer.content) == (202, b"")
        assert [b"session/new" in frame for frame in harness.echo.clients[0].received_frames] == [False, True]


@both_versions
@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Content-Type": ""}, 415),
        (b"{", {}, 400),
        (b"", {}, 400),
        (b"\xff\xfe", {}, 400),
        (b'"text"', {}, 400),
        (b"[" * 100_000, {}, 501),
        (b'{"a":' * 100_000, {}, 400),
        (b"[]", {}, 501),
        (b' [{"jsonrpc":"2.0","id":1,"method":"initialize"}]', {}, 501),
        (b'{"jsonrpc":"2.0","id":1,"method":"session/new"}', {}, 400),
        (b'{"jsonrpc":"2.0","method":"initialize"}', {}, 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"session/new"}', {"Acp-Connection-Id": "unknown-id"}, 404),
        (b'{"jsonrpc":"2.0","id":1,"method":"session/new"}', {"Acp-Connection-Id": "x" * 2000}, 404),
    ],
)
async def test_an_invalid_message_is_rejected(
    version: int, body: bytes, headers: dict[str, str], status: int
) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        answer = await client.post(
            "/acp", content=body, headers={"Content-Type": "application/json"} | headers
        )
        assert answer.status_code == status
        assert answer.text.count("\n") == 1, "expected a one-line reason"
        assert harness.echo.clients == []
        assert (await client.get("/healthz")).status_code == 200, "the server must keep running"


@both_versions
async def test_initialize_on_a_connection_is_rejected(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        assert (await client.post("/acp", json=INITIALIZE, headers=connection)).status_code == 400
        assert len(harness.echo.clients) == 1


@both_versions
async def test_the_session_header_must_match_the_session_parameter(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}
        load = {"jsonrpc": "2.0", "id": 6, "method": "session/load", "params": {"sessionId": "s1"}}
        for sent, session, status in [
            (PROMPT, None, 400),
            (PROMPT, "s2", 400),
            (PROMPT, "", 400),
            (PROMPT, "x" * 2000, 400),
            (PROMPT, "s1", 202),
            (cancel, None, 400),
            (cancel, "s1", 202),
            (load, None, 202),
            (load, "s2", 400),
            (load, "s1", 202),
        ]:
            own = {} if session is None else {"Acp-Session-Id": session}
            answer = await client.post("/acp", json=sent, headers=connection | own)
            assert (sent["method"], session, answer.status_code) == (sent["method"], session, status)
        twice = [*connection.items(), ("Acp-Session-Id", "s1"), ("Acp-Session-Id", "s2")]
        assert (await client.post("/acp", json=PROMPT, headers=twice)).status_code == 400
        assert len(harness.echo.clients[0].received_frames) == 5


@both_versions
async def test_an_answer_must_name_the_session_of_its_request_or_none(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        [handler] = harness.echo.clients
        handler.send({"id": 9, "method": "session/request_permission", "params": {"sessionId": "s1"}}, "s1")
        answer = {"jsonrpc": "2.0", "id": 9, "result": {}}
        wrong = await client.post("/acp", json=answer, headers=connection | {"Acp-Session-Id": "s2"})
        assert wrong.status_code == 400
        right = await client.post("/acp", json=answer, headers=connection | {"Acp-Session-Id": "s1"})
        assert right.status_code == 202
        handler.send(
            {"id": "nine", "method": "session/request_permission", "params": {"sessionId": "s1"}}, "s1"
        )
        bare = await client.post("/acp", json=answer | {"id": "nine"}, headers=connection)
        assert bare.status_code == 202, "the official Python client sends no session header"
        assert len(handler.received_frames) == 3


@both_versions
async def test_a_stream_needs_the_event_stream_media_type(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        for accept in ("*/*", "application/json", "text/event-stream;q=0", "text/*"):
            assert (await client.get("/acp", headers=connection | {"Accept": accept})).status_code == 406
        events = {"Accept": "application/json, text/event-stream"}
        assert (await client.get("/acp", headers=events)).status_code == 400
        assert (await client.get("/acp", headers=events | {"Acp-Connection-Id": "?"})).status_code == 404


@both_versions
async def test_delete_ends_the_connection(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        assert (await client.delete("/acp")).status_code == 400
        assert (await client.delete("/acp", headers={"Acp-Connection-Id": "?"})).status_code == 404
        answer = await client.delete("/acp", headers=connection)
        assert (answer.status_code, answer.content) == (202, b"")
        await harness.echo.until(
            lambda: harness.echo.clients[0].reasons == ["the client deleted the connection"]
        )
        assert (await client.delete("/acp", headers=connection)).status_code == 404


@both_versions
async def test_other_verbs_are_rejected_with_the_allowed_ones(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        for verb in ("PUT", "PATCH", "HEAD", "TRACE"):
            answer = await client.request(verb, "/acp")
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST, DELETE, OPTIONS")


@both_versions
async def test_the_path_selects_the_agent(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        answer = await client.post("/acp/known", json=INITIALIZE)
        assert answer.status_code == 200
        assert harness.echo.clients[0].agent == "known"
        connection = {"Acp-Connection-Id": answer.headers["acp-connection-id"]}
        assert (await client.delete("/acp", headers=connection)).status_code == 404
        for path in ("/acp/unknown", "/acp/", "/acp/known/more"):
            assert (await client.post(path, json=INITIALIZE)).status_code == 404


@both_versions
async def test_a_connection_belongs_to_the_token_that_opened_it(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        foreign = connection | {"Authorization": f"Bearer {harness.other}", "Accept": "text/event-stream"}
        assert (await client.get("/acp", headers=foreign)).status_code == 404
        assert (await client.delete("/acp", headers=foreign)).status_code == 404
        assert (await client.post("/acp", json=PROMPT, headers=foreign)).status_code == 404
        for wrong in ("Bearer no", "Basic x", ""):
            answer = await client.delete("/acp", headers=connection | {"Authorization": wrong})
            assert answer.status_code == 401
            assert "Bearer" in answer.headers["www-authenticate"]
        assert harness.echo.clients[0].reasons == []


@both_versions
async def test_a_revoked_token_ends_its_connections(version: int) -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        harness.tokens.revoke(harness.token.id)
        await clock.advance(1)
        await harness.echo.until(lambda: harness.echo.clients[0].reasons == ["the token was revoked"])
        assert (await client.delete("/acp", headers=connection)).status_code == 401


@both_versions
async def test_foreign_origins_and_hosts_are_rejected(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        assert (
            await client.post("/acp", json=INITIALIZE, headers={"Origin": "http://evil.test"})
        ).status_code == 403
        assert (await client.post("/acp", json=INITIALIZE, headers={"Host": "evil.test"})).status_code == 421
        assert (await client.get("/", headers={"Host": "evil.test"})).status_code == 421
        assert (await client.options("/acp", headers={"Origin": "http://evil.test"})).status_code == 403
        own = await client.post("/acp", json=INITIALIZE, headers={"Origin": harness.url})
        assert own.status_code == 200
        assert len(harness.echo.clients) == 1


@both_versions
async def test_a_body_over_the_limit_is_rejected(version: int) -> None:
    config = ServerConfig(message_size=100_000)
    async with http_harness(config) as harness, http_client(harness, version) as client:
        fits = INITIALIZE | {"params": {"text": "x" * 90_000}}
        assert (await client.post("/acp", json=fits)).status_code == 200
        large = INITIALIZE | {"params": {"text": "x" * 200_000}}
        assert (await client.post("/acp", json=large)).status_code == 413

        async def pieces() -> AsyncGenerator[bytes]:
            for _ in range(10):
                yield b" " * 20_000

        unsized = await client.post("/acp", content=pieces(), headers={"Content-Type": "application/json"})
        assert unsized.status_code == 413
        assert len(harness.echo.clients) == 1


@both_versions
async def test_limits_are_rejected_with_429(version: int) -> None:
    limits = GatewayLimits(connections=2, messages_per_second=1, message_burst=4)
    clock = FakeClock()
    async with http_harness(limits=limits, clock=clock) as harness, http_client(harness, version) as client:
        first = await open_connection(client)
        await open_connection(client)
        over = await client.post("/acp", json=INITIALIZE)
        assert over.status_code == 429
        assert "at most 2" in over.text
        assert (await client.delete("/acp", headers=first)).status_code == 202
        await open_connection(client)
        fast = await client.post("/acp", json=INITIALIZE)
        assert (fast.status_code, fast.headers["retry-after"]) == (429, "1")


@both_versions
async def test_an_unanswered_initialize_times_out(version: int) -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness, http_client(harness, version) as client:
        harness.echo.silent_on.add("initialize")
        asking = asyncio.ensure_future(client.post("/acp", json=INITIALIZE))
        await harness.echo.until(lambda: bool(harness.echo.clients))
        await clock.advance(60)
        assert (await asking).status_code == 504
        asking = asyncio.ensure_future(client.post("/acp", json=INITIALIZE))
        await harness.echo.until(lambda: len(harness.echo.clients) == 2)
        harness.echo.clients[1].connection.end(1011, "the agent broke")
        assert (await asking).status_code == 500


@both_versions
async def test_a_failed_initialize_is_answered_with_its_error_and_the_connection_id(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        harness.echo.silent_on.add("initialize")
        asking = asyncio.ensure_future(client.post("/acp", json=INITIALIZE))
        await harness.echo.until(
            lambda: bool(harness.echo.clients and harness.echo.clients[0].received_frames)
        )
        [handler] = harness.echo.clients
        handler.send({"method": "session/update", "params": {}})
        handler.send({"id": "0", "result": {}})
        handler.send({"id": 0, "error": {"code": -32603, "message": "broken"}})
        answer = await asking
        assert answer.json()["error"]["code"] == -32603
        assert answer.headers["acp-connection-id"] == handler.connection.id
