"""Streamable HTTP as the server sees it: which requests come, in which order, with which headers."""

import asyncio
import json

import pytest
from tests.wire.remote.hall import HELLO, QUICK, WELCOME, Guest, encoded, event, hall, prompt, visiting
from tests.wire.remote.socketserver import RESUMABLE
from tests.wire.transport_contract import Inbox

from accord.clock import SYSTEM_CLOCK
from accord.testing import FakeClock
from accord.wire.remote.address import read_address
from accord.wire.remote.http import StreamableHttpTransport
from accord.wire.remote.times import Times
from accord.wire.transport import Oversized

NEW = {"id": 1, "method": "session/new", "params": {"cwd": "/"}}


async def test_the_first_requests_are_initialize_the_connections_stream_and_then_the_rest():
    async with hall() as server, visiting(server, token="s3cret") as (guest, stream):
        guest.send(NEW)
        posted = await server.post()
        assert server.log == ["POST -", "GET -", "POST -"]
        assert json.loads(posted.body) == json.loads(encoded(NEW))
        first, listened, _ = server.requests
        assert "acp-connection-id" not in first.headers
        assert first.headers["content-type"] == "application/json"
        assert listened.headers["accept"] == "text/event-stream"
        for request in server.requests[1:]:
            assert request.headers["acp-connection-id"] == "c1"
        for request in server.requests:
            assert request.headers["authorization"] == "Bearer s3cret"
            assert request.path == "/acp"
        await stream.chunk(event({"id": 1, "result": {"sessionId": "s1"}}))
        await guest.inbox.count(2)


async def test_the_stream_of_a_session_is_open_before_anything_of_it_is_posted():
    async with hall() as server, visiting(server) as (guest, stream):
        guest.send(NEW)
        await server.post()
        await stream.chunk(event({"id": 1, "result": {"sessionId": "s1"}}))
        await guest.inbox.count(2)
        session = await server.stream()
        assert session.headers["acp-session-id"] == "s1", "opened as soon as its name is known"
        guest.send(prompt(2, "s1"))
        assert (await server.post()).headers["acp-session-id"] == "s1"

        guest.send({"id": 3, "method": "session/load", "params": {"sessionId": "s2", "cwd": "/"}})
        await server.stream()
        assert (await server.post()).headers["acp-session-id"] == "s2"
        assert server.log[3:] == ["GET s1", "POST s1", "GET s2", "POST s2"]


async def test_messages_are_posted_one_after_the_other_in_order():
    async with hall() as server, visiting(server) as (guest, _):
        guest.send(*({"method": "x", "params": {"n": number}} for number in range(5)))
        for number in range(5):
            held = await server.post(None)
            assert json.loads(held.body)["params"] == {"n": number}
            assert len([line for line in server.log if line.startswith("POST")]) == number + 2
            await held.answer(202)


@pytest.mark.rule(37)
async def test_an_answer_goes_to_the_stream_that_asked_and_overtakes_a_post_that_is_held():
    async with hall() as server, visiting(server) as (guest, stream):
        guest.send(prompt(1, "s1"))
        session = await server.stream()
        held = await server.post(None)
        guest.send({"method": "session/cancel", "params": {"sessionId": "s1"}})  # waits behind the held one
        await session.chunk(
            event({"id": "p1", "method": "session/request_permission", "params": {"sessionId": "s1"}})
        )
        await stream.chunk(event({"id": "p2", "method": "_x/ask", "params": {}}))
        await guest.inbox.count(3)
        guest.send({"id": "p1", "result": {}}, {"id": "p2", "result": {}})
        first, second = await server.post(), await server.post()
        assert json.loads(first.body)["id"] == "p1"
        assert first.headers["acp-session-id"] == "s1"
        assert json.loads(second.body)["id"] == "p2"
        assert "acp-session-id" not in second.headers
        await held.answer(202)
        assert json.loads((await server.post()).body)["method"] == "session/cancel"


async def test_an_answer_stays_behind_what_was_sent_before_it_where_nothing_is_held():
    async with hall() as server, visiting(server, clock=FakeClock()) as (guest, stream):
        await stream.chunk(event({"id": 7, "method": "_x/ask", "params": {}}))
        await guest.inbox.count(2)
        guest.send({"method": "a"}, {"method": "b"}, {"id": 7, "result": {}}, {"method": "c"})
        bodies = [json.loads((await server.post()).body) for _ in range(4)]
        assert [body.get("method", body.get("id")) for body in bodies] == ["a", "b", 7, "c"]


async def test_any_answer_is_taken_from_any_stream():
    async with hall() as server, visiting(server) as (guest, stream):
        guest.send(prompt(1, "s1"))
        await server.stream()
        await server.post()
        answer = {"id": 1, "result": {"stopReason": "end_turn"}}
        await stream.chunk(event(answer))
        assert (await guest.inbox.count(2))[1] == encoded(answer)


async def test_the_end_of_a_replay_waits_for_the_replay_on_the_other_stream():
    clock = FakeClock()
    async with hall() as server, visiting(server, clock=clock) as (guest, stream):
        guest.send({"id": 1, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/"}})
        session = await server.stream()
        await server.post()
        done = {"id": 1, "result": {}}
        update = {"method": "session/update", "params": {"sessionId": "s1"}}
        await stream.chunk(event(done))
        await session.chunk(event(update) * 25)
        await guest.inbox.count(26)
        await session.chunk(event(update) * 25)
        await guest.inbox.count(51)
        await clock.advance(5)
        assert await guest.inbox.count(52) == [WELCOME, *[encoded(update)] * 50, encoded(done)]


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_some_refusals_mean_that_the_connection_is_gone(status: int):
    async with hall() as server, visiting(server) as (guest, _):
        guest.send(NEW)
        await server.post(status)
        end = await guest.inbox.end()
        assert f"(HTTP {status})" in end.reason
        assert server.address in end.reason


async def test_any_other_refusal_fails_that_request_alone():
    async with hall() as server, visiting(server) as (guest, _):
        guest.send(NEW, {"method": "x"})
        await server.post(413, b"too much" + b"!" * 20_000)
        await server.post(500)
        error = await guest.message(1)
        assert error["id"] == 1
        assert error["error"]["code"] == -32603
        assert "too large for the server (HTTP 413)" in error["error"]["message"]
        assert error["error"]["data"]["status"] == 413
        assert len(error["error"]["data"]["body"]) <= 8192
        guest.send({"method": "y"})
        assert json.loads((await server.post()).body)["method"] == "y"


async def test_a_lost_session_fails_its_requests_and_is_opened_anew():
    async with hall() as server, visiting(server) as (guest, _):
        guest.send(prompt(1, "s1"))
        await server.stream()
        await server.post()
        guest.send(prompt(2, "s1"))
        await server.post(409)
        failed = [await guest.message(1), await guest.message(2)]
        assert sorted(answer["id"] for answer in failed) == [1, 2]
        guest.send({"id": 3, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/"}})
        await server.stream()
        await server.post()


async def test_a_server_that_knows_no_stream_of_a_session_yet_gets_the_request_without_its_name():
    async with hall() as server, visiting(server) as (guest, stream):
        guest.send({"id": 1, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/"}})
        await server.stream(404)
        assert "acp-session-id" not in (await server.post()).headers
        await stream.chunk(event({"id": 1, "result": {}}))
        await guest.inbox.count(2)
        guest.send(prompt(2, "s1"))
        await server.stream(404)
        assert (await server.post(404)).headers["acp-session-id"] == "s1"
        error = await guest.message(2)
        assert (error["id"], error["error"]["data"]["status"]) == (2, 404)
        guest.send({"method": "still/there"})
        await server.post()


async def test_the_end_of_a_sessions_stream_fails_its_requests_and_it_is_opened_again_when_needed():
    async with hall() as server, visiting(server) as (guest, _):
        guest.send(prompt(1, "s1"))
        session = await server.stream()
        await server.post()
        await session.chunk(b"")
        error = await guest.message(1)
        assert error["id"] == 1
        assert "s1" in error["error"]["message"]
        guest.send(prompt(2, "s1"))
        await server.stream()
        await server.post()


async def test_the_end_of_the_connections_stream_is_the_end():
    async with hall() as server, visiting(server) as (guest, stream):
        await stream.chunk(event({"method": "last"}))
        await stream.chunk(b"")
        end = await guest.inbox.end()
        assert "the server ended the stream" in end.reason
        assert guest.inbox.received[-1] == encoded({"method": "last"})


async def test_streams_with_ids_are_taken_up_behind_the_last_event():
    async with hall() as server, visiting(server) as (guest, stream):
        guest.send(prompt(1, "s1"))
        session = await server.stream()
        await server.post()
        await stream.chunk(event({"method": "a"}, id="41"))
        await session.chunk(
            event({"method": "b"}, id="7") + b"id: 8\ndata: {}"
        )  # the second one is not complete
        await guest.inbox.count(3)
        session.cut()
        again = await server.stream()
        assert (again.headers["last-event-id"], again.headers["acp-session-id"]) == ("7", "s1")
        await stream.chunk(b"")  # also after an end in order
        back = await server.stream(503)
        assert back.headers["last-event-id"] == "41"
        back = await server.stream()
        assert back.headers["last-event-id"] == "41"
        assert "acp-session-id" not in back.headers
        await again.chunk(event({"id": 1, "result": {}}, id="8"))
        await back.chunk(event({"method": "c"}, id="42"))
        assert len(await guest.inbox.count(5)) == 5
        assert guest.inbox.ends == []


@pytest.mark.parametrize("announced", [True, False])
async def test_a_gap_is_the_end_where_the_server_numbers_its_events(announced: bool):
    async with hall() as server, visiting(server, welcome=RESUMABLE if announced else WELCOME) as (guest, _):
        guest.send(prompt(1, "s1"))
        session = await server.stream()
        await server.post()
        await session.chunk(event({"method": "a"}, id="4") + event({"method": "b"}, id="5"))
        await session.chunk(event({"method": "c"}, id="6"))
        await guest.inbox.count(4)
        session.cut()
        again = await server.stream()
        await again.chunk(b": something is missing\n\n" + event({"method": "d"}, id="10"))
        if announced:
            end = await guest.inbox.end()
            assert "3 messages were missed that the server no longer has" in end.reason
            assert len(guest.inbox.received) == 4
        else:
            await guest.inbox.count(5)


async def test_a_session_that_the_server_has_forgotten_fails_its_requests():
    async with hall() as server, visiting(server) as (guest, _):
        guest.send(prompt(1, "s1"))
        session = await server.stream()
        await server.post()
        await session.chunk(event({"method": "a"}, id="1"))
        await guest.inbox.count(2)
        session.cut()
        await server.stream(404)
        assert (await guest.message(2))["id"] == 1
        assert guest.inbox.ends == []


async def test_a_connection_that_the_server_has_forgotten_is_not_taken_up():
    async with hall() as server, visiting(server) as (guest, stream):
        await stream.chunk(event({"method": "a"}, id="1"))
        await guest.inbox.count(2)
        stream.cut()
        await server.stream(404)
        assert "no longer knows the connection (HTTP 404)" in (await guest.inbox.end()).reason


async def test_cookies_are_kept_for_every_request_and_for_the_next_connection():
    async with hall() as server:
        address = read_address(server.address)
        for number in range(2):
            transport, inbox = StreamableHttpTransport(address, times=QUICK), Inbox()
            transport.start(inbox)
            transport.send(HELLO)
            asked = await server.post(None)
            assert asked.headers.get("cookie") == (None if number == 0 else "node=7; way=left")
            await asked.answer(
                200,
                WELCOME,
                Acp_Connection_Id="c1",
                Content_Type="application/json",
                Set_Cookie="node=7; Path=/",
            )
            listened = await server.stream()
            assert "node=7" in listened.headers["cookie"]
            transport.send(encoded({"method": "x"}))
            posted = await server.post(None)
            assert "node=7" in posted.headers["cookie"]
            await posted.answer(202, b"", Set_Cookie="way=left; Path=/")
            transport.send(encoded({"method": "y"}))
            assert (await server.post()).headers["cookie"] == "node=7; way=left"
            await transport.aclose()


async def test_closing_says_goodbye_after_what_was_sent():
    async with hall() as server, visiting(server, clock=FakeClock()) as (guest, _):
        guest.send({"method": "last words"})
        closing = asyncio.ensure_future(guest.transport.aclose())
        assert json.loads((await server.post()).body)["method"] == "last words"
        await closing
        goodbye = server.goodbyes.get_nowait()
        assert goodbye.headers["acp-connection-id"] == "c1"
        assert guest.inbox.ends[0].reason == f"this side closed the connection to {server.address}"


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, "the token is missing or wrong (HTTP 401)"),
        (404, "there is no ACP server at this path (HTTP 404)"),
        (405, "what is there is no ACP server (HTTP 405)"),
        (307, "the server sends to another address: use that one (HTTP 307)"),
        (426, "the server speaks WebSocket only: begin the address with ws:// or wss:// (HTTP 426)"),
    ],
)
async def test_a_refused_initialize_says_why(status: int, sentence: str):
    async with hall() as server:
        guest = Guest(server, QUICK, SYSTEM_CLOCK, 1000, None)
        guest.transport.send(HELLO)
        await server.post(status, b"<html>nothing for one line</html>")
        assert (await guest.inbox.end()).reason == f"{server.address}: cannot connect: {sentence}"
        await guest.transport.aclose()


async def test_a_page_is_no_server_and_a_refusal_needs_no_connection():
    async with hall() as server:
        guest = Guest(server, QUICK, SYSTEM_CLOCK, 1000, None)
        guest.transport.send(HELLO)
        await (await server.post(None)).answer(200, b"<html/>", Content_Type="text/html")
        assert "no ACP server" in (await guest.inbox.end()).reason
        await guest.transport.aclose()

        refusal = encoded({"id": 0, "error": {"code": -32600, "message": "no"}})
        guest = Guest(server, QUICK, SYSTEM_CLOCK, 1000, None)
        guest.transport.send(HELLO)
        await (await server.post(None)).answer(200, refusal, Content_Type="application/json")
        assert "opened no connection" in (await guest.inbox.end()).reason
        assert guest.inbox.received == [refusal]
        await guest.transport.aclose()


async def test_nobody_there():
    async with hall() as server:
        pass
    guest = Guest(server, QUICK, SYSTEM_CLOCK, 1000, None)
    guest.transport.send(HELLO)
    assert (await guest.inbox.end()).reason == f"{server.address}: cannot connect: nothing listens there"
    await guest.transport.aclose()


async def test_an_event_over_the_limit_is_left_out_and_the_stream_goes_on():
    async with hall() as server, visiting(server, limit=1000) as (guest, stream):
        await stream.chunk(b"data: " + b"x" * 5000 + b"\n\n" + event({"method": "next"}))
        _, big, after = await guest.inbox.count(3)
        assert isinstance(big, Oversized)
        assert big.size == 5000
        assert after == encoded({"method": "next"})


async def test_a_connection_that_breaks_while_a_message_is_posted_is_the_end():
    async with hall() as server, visiting(server) as (guest, _):
        guest.send(NEW)
        (await server.post(None)).cut()
        assert "the connection broke off" in (await guest.inbox.end()).reason


async def test_a_stream_that_falls_silent_where_signs_of_life_used_to_come_is_dead():
    clock = FakeClock()
    async with hall() as server, visiting(server, clock=clock, times=Times(silence=60)) as (guest, stream):
        await stream.chunk(b":\n\n" + event({"method": "a"}))
        await guest.inbox.count(2)
        await clock.advance(60)  # something was heard since the last look
        assert guest.inbox.ends == []
        await clock.advance(60)
        assert "the stream broke off" in (await guest.inbox.end()).reason


async def test_a_stream_without_signs_of_life_may_be_silent():
    clock = FakeClock()
    async with hall() as server, visiting(server, clock=clock, times=Times(silence=60)) as (guest, stream):
        await clock.advance(600)
        await stream.chunk(event({"method": "a"}))
        await guest.inbox.count(2)
