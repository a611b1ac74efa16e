"""Streamable HTTP as the server sees it: which requests arrive, in which order, with which headers."""

import asyncio
import json

import pytest
from tests.wire.remote.http_test_server import (
    INITIALIZE,
    INITIALIZE_RESPONSE,
    QUICK,
    HttpTestClient,
    encoded,
    event,
    http_test_server,
    initialized_client,
    prompt,
)
from tests.wire.remote.websocket_test_server import RESUMABLE
from tests.wire.transport_contract import Inbox

from accord.clock import SYSTEM_CLOCK
from accord.testing import FakeClock
from accord.wire.remote.address import NetworkTimeouts, read_address
from accord.wire.remote.streamable_http import StreamableHttpTransport
from accord.wire.transport import OversizedFrame

NEW = {"id": 1, "method": "session/new", "params": {"cwd": "/"}}


async def test_the_first_requests_are_initialize_and_the_connection_stream():
    async with http_test_server() as server, initialized_client(server, token="s3cret") as (client, stream):
        client.send(NEW)
        posted = await server.post()
        assert server.log == ["POST -", "GET -", "POST -"]
        assert json.loads(posted.body) == json.loads(encoded(NEW))
        first, stream_request, _ = server.requests
        assert "acp-connection-id" not in first.headers
        assert first.headers["content-type"] == "application/json"
        assert stream_request.headers["accept"] == "text/event-stream"
        for request in server.requests[1:]:
            assert request.headers["acp-connection-id"] == "c1"
        for request in server.requests:
            assert request.headers["authorization"] == "Bearer s3cret"
            assert request.path == "/acp"
        await stream.chunk(event({"id": 1, "result": {"sessionId": "s1"}}))
        await client.inbox.count(2)


async def test_the_stream_of_a_session_is_opened_before_its_first_post():
    async with http_test_server() as server, initialized_client(server) as (client, stream):
        client.send(NEW)
        await server.post()
        await stream.chunk(event({"id": 1, "result": {"sessionId": "s1"}}))
        await client.inbox.count(2)
        session = await server.stream()
        assert session.headers["acp-session-id"] == "s1", "opened as soon as its id is known"
        client.send(prompt(2, "s1"))
        assert (await server.post()).headers["acp-session-id"] == "s1"

        client.send({"id": 3, "method": "session/load", "params": {"sessionId": "s2", "cwd": "/"}})
        await server.stream()
        assert (await server.post()).headers["acp-session-id"] == "s2"
        assert server.log[3:] == ["GET s1", "POST s1", "GET s2", "POST s2"]


async def test_messages_are_posted_one_at_a_time_in_order():
    async with http_test_server() as server, initialized_client(server) as (client, _):
        client.send(*({"method": "x", "params": {"n": number}} for number in range(5)))
        for number in range(5):
            post = await server.post(None)
            assert json.loads(post.body)["params"] == {"n": number}
            assert len([line for line in server.log if line.startswith("POST")]) == number + 2
            await post.answer(202)


@pytest.mark.rule("framing.agent-dies")
async def test_a_response_names_the_session_that_asked_and_overtakes_a_held_post():
    async with http_test_server() as server, initialized_client(server) as (client, stream):
        client.send(prompt(1, "s1"))
        session = await server.stream()
        post = await server.post(None)
        client.send(
            {"method": "session/cancel", "params": {"sessionId": "s1"}}
        )  # queued behind the held post
        await session.chunk(
            event({"id": "p1", "method": "session/request_permission", "params": {"sessionId": "s1"}})
        )
        await stream.chunk(event({"id": "p2", "method": "_x/ask", "params": {}}))
        await client.inbox.count(3)
        client.send({"id": "p1", "result": {}}, {"id": "p2", "result": {}})
        first, second = await server.post(), await server.post()
        assert json.loads(first.body)["id"] == "p1"
        assert first.headers["acp-session-id"] == "s1"
        assert json.loads(second.body)["id"] == "p2"
        assert "acp-session-id" not in second.headers
        await post.answer(202)
        assert json.loads((await server.post()).body)["method"] == "session/cancel"


async def test_a_response_keeps_its_place_when_no_post_is_held():
    async with (
        http_test_server() as server,
        initialized_client(server, clock=FakeClock()) as (client, stream),
    ):
        await stream.chunk(event({"id": 7, "method": "_x/ask", "params": {}}))
        await client.inbox.count(2)
        client.send({"method": "a"}, {"method": "b"}, {"id": 7, "result": {}}, {"method": "c"})
        bodies = [json.loads((await server.post()).body) for _ in range(4)]
        assert [body.get("method", body.get("id")) for body in bodies] == ["a", "b", 7, "c"]


async def test_a_response_is_accepted_from_any_stream():
    async with http_test_server() as server, initialized_client(server) as (client, stream):
        client.send(prompt(1, "s1"))
        await server.stream()
        await server.post()
        answer = {"id": 1, "result": {"stopReason": "end_turn"}}
        await stream.chunk(event(answer))
        assert (await client.inbox.count(2))[1] == encoded(answer)


async def test_the_session_load_response_waits_for_the_replay_on_the_session_stream():
    clock = FakeClock()
    async with http_test_server() as server, initialized_client(server, clock=clock) as (client, stream):
        client.send({"id": 1, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/"}})
        session = await server.stream()
        await server.post()
        done = {"id": 1, "result": {}}
        update = {"method": "session/update", "params": {"sessionId": "s1"}}
        await stream.chunk(event(done))
        await session.chunk(event(update) * 25)
        await client.inbox.count(26)
        await session.chunk(event(update) * 25)
        await client.inbox.count(51)
        await clock.advance(5)
        assert await client.inbox.count(52) == [INITIALIZE_RESPONSE, *[encoded(update)] * 50, encoded(done)]


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_some_http_statuses_end_the_connection(status: int):
    async with http_test_server() as server, initialized_client(server) as (client, _):
        client.send(NEW)
        await server.post(status)
        end = await client.inbox.end()
        assert f"(HTTP {status})" in end.reason
        assert server.address in end.reason


async def test_other_http_statuses_fail_only_that_request():
    async with http_test_server() as server, initialized_client(server) as (client, _):
        client.send(NEW, {"method": "x"})
        await server.post(413, b"too much" + b"!" * 20_000)
        await server.post(500)
        error = await client.message(1)
        assert error["id"] == 1
        assert error["error"]["code"] == -32603
        assert "too large for the server (HTTP 413)" in error["error"]["message"]
        assert error["error"]["data"]["status"] == 413
        assert len(error["error"]["data"]["body"]) <= 8192
        client.send({"method": "y"})
        assert json.loads((await server.post()).body)["method"] == "y"


async def test_a_conflict_fails_the_requests_of_the_session_which_can_be_loaded_again():
    async with http_test_server() as server, initialized_client(server) as (client, _):
        client.send(prompt(1, "s1"))
        await server.stream()
        await server.post()
        client.send(prompt(2, "s1"))
        await server.post(409)
        failed = [await client.message(1), await client.message(2)]
        assert sorted(answer["id"] for answer in failed) == [1, 2]
        client.send({"id": 3, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/"}})
        await server.stream()
        await server.post()


async def test_a_post_has_no_session_id_when_the_server_has_no_session_stream_yet():
    async with http_test_server() as server, initialized_client(server) as (client, stream):
        client.send({"id": 1, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/"}})
        await server.stream(404)
        assert "acp-session-id" not in (await server.post()).headers
        await stream.chunk(event({"id": 1, "result": {}}))
        await client.inbox.count(2)
        client.send(prompt(2, "s1"))
        await server.stream(404)
        assert (await server.post(404)).headers["acp-session-id"] == "s1"
        error = await client.message(2)
        assert (error["id"], error["error"]["data"]["status"]) == (2, 404)
        client.send({"method": "still/there"})
        await server.post()


async def test_a_session_stream_that_ends_fails_its_requests_and_is_reopened_on_demand():
    async with http_test_server() as server, initialized_client(server) as (client, _):
        client.send(prompt(1, "s1"))
        session = await server.stream()
        await server.post()
        await session.chunk(b"")
        error = await client.message(1)
        assert error["id"] == 1
        assert "s1" in error["error"]["message"]
        client.send(prompt(2, "s1"))
        await server.stream()
        await server.post()


async def test_the_connection_ends_with_its_stream():
    async with http_test_server() as server, initialized_client(server) as (client, stream):
        await stream.chunk(event({"method": "last"}))
        await stream.chunk(b"")
        end = await client.inbox.end()
        assert "the server ended the stream" in end.reason
        assert client.inbox.received[-1] == encoded({"method": "last"})


async def test_streams_with_event_ids_resume_after_the_last_event():
    async with http_test_server() as server, initialized_client(server) as (client, stream):
        client.send(prompt(1, "s1"))
        session = await server.stream()
        await server.post()
        await stream.chunk(event({"method": "a"}, id="41"))
        await session.chunk(
            event({"method": "b"}, id="7") + b"id: 8\ndata: {}"
        )  # the second event is incomplete
        await client.inbox.count(3)
        session.cut()
        again = await server.stream()
        assert (again.headers["last-event-id"], again.headers["acp-session-id"]) == ("7", "s1")
        await stream.chunk(b"")  # a normal end of the stream is resumed too
        back = await server.stream(503)
        assert back.headers["last-event-id"] == "41"
        back = await server.stream()
        assert back.headers["last-event-id"] == "41"
        assert "acp-session-id" not in back.headers
        await again.chunk(event({"id": 1, "result": {}}, id="8"))
        await back.chunk(event({"method": "c"}, id="42"))
        assert len(await client.inbox.count(5)) == 5
        assert client.inbox.ends == []


@pytest.mark.parametrize("announced", [True, False])
async def test_missed_events_end_the_connection_when_the_server_announced_resume(announced: bool):
    async with (
        http_test_server() as server,
        initialized_client(server, response=RESUMABLE if announced else INITIALIZE_RESPONSE) as (client, _),
    ):
        client.send(prompt(1, "s1"))
        session = await server.stream()
        await server.post()
        await session.chunk(event({"method": "a"}, id="4") + event({"method": "b"}, id="5"))
        await session.chunk(event({"method": "c"}, id="6"))
        await client.inbox.count(4)
        session.cut()
        again = await server.stream()
        await again.chunk(b": something is missing\n\n" + event({"method": "d"}, id="10"))
        if announced:
            end = await client.inbox.end()
            assert "3 messages were lost that the server no longer has" in end.reason
            assert len(client.inbox.received) == 4
        else:
            await client.inbox.count(5)


async def test_requests_fail_when_the_server_no_longer_knows_the_session():
    async with http_test_server() as server, initialized_client(server) as (client, _):
        client.send(prompt(1, "s1"))
        session = await server.stream()
        await server.post()
        await session.chunk(event({"method": "a"}, id="1"))
        await client.inbox.count(2)
        session.cut()
        await server.stream(404)
        assert (await client.message(2))["id"] == 1
        assert client.inbox.ends == []


async def test_the_connection_ends_when_the_server_no_longer_knows_it():
    async with http_test_server() as server, initialized_client(server) as (client, stream):
        await stream.chunk(event({"method": "a"}, id="1"))
        await client.inbox.count(2)
        stream.cut()
        await server.stream(404)
        assert "no longer knows the connection (HTTP 404)" in (await client.inbox.end()).reason


async def test_cookies_are_sent_with_every_request_and_the_next_connection():
    async with http_test_server() as server:
        address = read_address(server.address)
        for number in range(2):
            transport, inbox = StreamableHttpTransport(address, timeouts=QUICK), Inbox()
            transport.start(inbox)
            transport.send(INITIALIZE)
            request = await server.post(None)
            assert request.headers.get("cookie") == (None if number == 0 else "node=7; way=left")
            await request.answer(
                200,
                INITIALIZE_RESPONSE,
                Acp_Connection_Id="c1",
                Content_Type="application/json",
                Set_Cookie="node=7; Path=/",
            )
            stream_request = await server.stream()
            assert "node=7" in stream_request.headers["cookie"]
            transport.send(encoded({"method": "x"}))
            posted = await server.post(None)
            assert "node=7" in posted.headers["cookie"]
            await posted.answer(202, b"", Set_Cookie="way=left; Path=/")
            transport.send(encoded({"method": "y"}))
            assert (await server.post()).headers["cookie"] == "node=7; way=left"
            await transport.aclose()


async def test_closing_sends_delete_after_pending_messages():
    async with http_test_server() as server, initialized_client(server, clock=FakeClock()) as (client, _):
        client.send({"method": "last words"})
        closing = asyncio.ensure_future(client.transport.aclose())
        assert json.loads((await server.post()).body)["method"] == "last words"
        await closing
        delete = server.deletes.get_nowait()
        assert delete.headers["acp-connection-id"] == "c1"
        assert client.inbox.ends[0].reason == f"this side closed the connection to {server.address}"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "the token is missing or wrong (HTTP 401)"),
        (404, "there is no ACP server at this path (HTTP 404)"),
        (405, "there is no ACP server at this address (HTTP 405)"),
        (307, "the server redirects to another address; use that one (HTTP 307)"),
        (426, "the server supports only WebSocket; use an address with ws:// or wss:// (HTTP 426)"),
    ],
)
async def test_a_refused_initialize_ends_with_a_reason(status: int, reason: str):
    async with http_test_server() as server:
        client = HttpTestClient(server, QUICK, SYSTEM_CLOCK, 1000, None)
        client.transport.send(INITIALIZE)
        await server.post(status, b"<html>nothing for one line</html>")
        assert (await client.inbox.end()).reason == f"{server.address}: cannot connect: {reason}"
        await client.transport.aclose()


async def test_an_html_page_or_an_initialize_error_ends_the_connection():
    async with http_test_server() as server:
        client = HttpTestClient(server, QUICK, SYSTEM_CLOCK, 1000, None)
        client.transport.send(INITIALIZE)
        await (await server.post(None)).answer(200, b"<html/>", Content_Type="text/html")
        assert "no ACP server" in (await client.inbox.end()).reason
        await client.transport.aclose()

        refusal = encoded({"id": 0, "error": {"code": -32600, "message": "no"}})
        client = HttpTestClient(server, QUICK, SYSTEM_CLOCK, 1000, None)
        client.transport.send(INITIALIZE)
        await (await server.post(None)).answer(200, refusal, Content_Type="application/json")
        assert "opened no connection" in (await client.inbox.end()).reason
        assert client.inbox.received == [refusal]
        await client.transport.aclose()


async def test_an_unreachable_server_ends_the_connection():
    async with http_test_server() as server:
        pass
    client = HttpTestClient(server, QUICK, SYSTEM_CLOCK, 1000, None)
    client.transport.send(INITIALIZE)
    assert (await client.inbox.end()).reason == f"{server.address}: cannot connect: nothing listens there"
    await client.transport.aclose()


async def test_an_event_over_the_limit_is_oversized_and_the_stream_continues():
    async with http_test_server() as server, initialized_client(server, limit=1000) as (client, stream):
        await stream.chunk(b"data: " + b"x" * 5000 + b"\n\n" + event({"method": "next"}))
        _, big, after = await client.inbox.count(3)
        assert isinstance(big, OversizedFrame)
        assert big.size == 5000
        assert after == encoded({"method": "next"})


async def test_a_connection_that_breaks_during_a_post_ends():
    async with http_test_server() as server, initialized_client(server) as (client, _):
        client.send(NEW)
        (await server.post(None)).cut()
        assert "the connection broke" in (await client.inbox.end()).reason


async def test_a_stream_with_keep_alives_ends_after_silence():
    clock = FakeClock()
    async with (
        http_test_server() as server,
        initialized_client(server, clock=clock, timeouts=NetworkTimeouts(silence=60)) as (client, stream),
    ):
        await stream.chunk(b":\n\n" + event({"method": "a"}))
        await client.inbox.count(2)
        await clock.advance(60)  # data has arrived since the last check
        assert client.inbox.ends == []
        await clock.advance(60)
        assert "the stream broke" in (await client.inbox.end()).reason


async def test_a_stream_without_keep_alives_may_be_silent():
    clock = FakeClock()
    async with (
        http_test_server() as server,
        initialized_client(server, clock=clock, timeouts=NetworkTimeouts(silence=60)) as (client, stream),
    ):
        await clock.advance(600)
        await stream.chunk(event({"method": "a"}))
        await client.inbox.count(2)
