"""A WebSocket connection that drops and resumes, without lost or repeated messages."""

import json

from tests.wire.remote.websocket_test_server import (
    NOT_RESUMABLE,
    QUICK,
    RESUMABLE,
    connected_client,
    expect_frames,
    initialize,
    next_message,
    send_frames,
    websocket_test_server,
)

from accord.wire.remote.address import NetworkTimeouts
from accord.wire.remote.resume_buffer import ACK_FRAMES


def resume_response(received: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "accord-resume", "result": {"received": received}}).encode()


async def test_a_dropped_connection_resumes_where_it_was():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first)
        await send_frames(first, b'"one"')
        await client.inbox.count(2)
        client.send(b'"heard"')
        await expect_frames(first, b'"heard"')
        first.transport.abort()

        second = await server.next()
        request = await next_message(second)
        assert (request["id"], request["method"]) == ("accord-resume", "_accord/resume")
        assert request["params"] == {"connectionId": "c1", "received": 2}
        client.send(b'"while away"')
        await send_frames(second, resume_response(1), b'"two"', b'"three"')
        await expect_frames(second, b'"heard"', b'"while away"')
        assert await client.inbox.count(4) == [RESUMABLE, b'"one"', b'"two"', b'"three"']

        client.send(b'"after"')
        await expect_frames(second, b'"after"')
        second.transport.abort()
        third = await server.next()
        assert (await next_message(third))["params"] == {"connectionId": "c1", "received": 4}
        await send_frames(third, resume_response(4))
        client.send(b'"again"')
        await expect_frames(third, b'"again"')
        assert client.inbox.ends == []


async def test_an_incomplete_message_does_not_count_as_received():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first)
        first.transport.write(b'\x81\x05"ab')  # two bytes of the payload are missing
        await assert_all_sent(first)
        first.transport.close()
        second = await server.next()
        assert (await next_message(second))["params"]["received"] == 1
        await send_frames(second, resume_response(1), b'"abc"')
        assert await client.inbox.count(2) == [RESUMABLE, b'"abc"']


async def assert_all_sent(socket: object) -> None:
    """Assert that everything written has left the buffer."""
    assert socket.transport.get_write_buffer_size() == 0  # type: ignore[attr-defined]


async def test_both_sides_ack_received_messages():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first)
        await send_frames(first, *(b"%d" % number for number in range(ACK_FRAMES - 1)))
        ack = await next_message(first)
        assert ack == {"jsonrpc": "2.0", "method": "_accord/ack", "params": {"received": ACK_FRAMES}}
        client.send(b"1", b"2", b"3")
        await expect_frames(first, b"1", b"2", b"3")
        await send_frames(
            first, b'{"jsonrpc":"2.0","method":"_accord/ack","params":{"received":4}}', b'"next"'
        )
        await client.inbox.count(ACK_FRAMES + 1)
        assert client.inbox.received[-1] == b'"next"'
        first.transport.abort()
        second = await server.next()
        assert (await next_message(second))["params"]["received"] == ACK_FRAMES + 1
        await send_frames(second, resume_response(4))
        client.send(b"4")
        await expect_frames(second, b"4")


async def test_the_connection_ends_when_the_server_no_longer_knows_it():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first)
        first.transport.abort()
        second = await server.next()
        await next_message(second)
        await send_frames(
            second,
            b'{"jsonrpc":"2.0","id":"accord-resume","error":{"code":-32002,"message":"no such connection"}}',
        )
        end = await client.inbox.end()
        assert server.address in end.reason
        assert "no longer has the connection: no such connection" in end.reason


async def test_a_drop_ends_the_connection_when_the_server_cannot_resume():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first, NOT_RESUMABLE)
        first.transport.abort()
        end = await client.inbox.end()
        assert "the connection broke" in end.reason
        assert len(server.requests) == 1


async def test_a_normal_close_ends_a_resumable_connection():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first)
        await first.close(1000)
        assert "closed the connection" in (await client.inbox.end()).reason
        assert len(server.requests) == 1


async def test_resume_is_retried_while_the_server_restarts():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first)
        server.refuse = [503, 502, 429]
        await first.close(1012, "back soon")
        second = await server.next()
        await next_message(second)
        await send_frames(second, resume_response(1), b'"still here"')
        assert await client.inbox.count(2) == [RESUMABLE, b'"still here"']
        assert len(server.requests) == 5


async def test_a_permanent_refusal_ends_the_retries():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first)
        server.refuse = [401]
        first.transport.abort()
        end = await client.inbox.end()
        assert "the token is missing or wrong (HTTP 401): not today" in end.reason
        assert len(server.requests) == 2


async def test_a_revoked_token_is_the_only_reason_that_is_shown():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first)
        server.refuse = [401]
        await first.close(1008, "the token was revoked")
        end = await client.inbox.end()
        assert end.reason.endswith(
            ": the server closed the connection (WebSocket 1008): the token was revoked"
        )


async def test_resume_retries_are_bounded():
    timeouts = NetworkTimeouts(close=0.3, retry_pause=0.01, max_retry_pause=0.01, resume=0.0)
    async with (
        websocket_test_server() as server,
        connected_client(server, timeouts=timeouts) as (client, first),
    ):
        await initialize(client, first)
        server.refuse = [503] * 100
        first.transport.abort()
        end = await client.inbox.end()
        assert "resuming failed: the server is overloaded" in end.reason


async def test_a_drop_during_resume_is_retried():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first)
        first.transport.abort()
        second = await server.next()
        await next_message(second)
        second.transport.abort()
        third = await server.next()
        assert (await next_message(third))["params"]["received"] == 1
        await send_frames(third, resume_response(1))
        client.send(b'"there"')
        await expect_frames(third, b'"there"')


async def test_closing_during_resume_reports_one_end():
    async with websocket_test_server() as server, connected_client(server, timeouts=QUICK) as (client, first):
        await initialize(client, first)
        first.transport.abort()
        second = await server.next()
        await next_message(second)
        await client.transport.aclose()
        assert [end.reason for end in client.inbox.ends] == [
            f"this side closed the connection to {server.address}"
        ]


async def test_reading_stays_paused_after_a_resume():
    async with websocket_test_server() as server, connected_client(server) as (client, first):
        await initialize(client, first)
        client.transport.pause()
        client.transport.resume()
        first.transport.abort()
        second = await server.next()
        await next_message(second)
        client.transport.pause()
        await send_frames(second, resume_response(1))
        client.send(b'"paused"')
        await expect_frames(second, b'"paused"')
        await send_frames(second, b'"later"')
        client.send(b'"more"')
        await expect_frames(second, b'"more"')
        assert client.inbox.received == [RESUMABLE]
        client.transport.resume()
        assert await client.inbox.count(2) == [RESUMABLE, b'"later"']


async def test_cookies_are_sent_again_on_resume():
    async with websocket_test_server() as server:
        server.cookie = "node=seven; Path=/"
        async with connected_client(server) as (client, first):
            await initialize(client, first)
            assert "Cookie" not in server.requests[0].headers
            first.transport.abort()
            second = await server.next()
            await next_message(second)
            assert server.requests[1].headers["Cookie"] == "node=seven"
