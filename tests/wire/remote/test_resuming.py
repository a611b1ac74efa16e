"""A WebSocket connection that drops and goes on: nothing is lost, nothing comes twice, and nobody above notices."""

import json

from tests.wire.remote.socketserver import PLAIN, QUICK, RESUMABLE, calling, desk, greet, heard, message, tell

from accord.wire.remote.ledger import ACK_FRAMES
from accord.wire.remote.times import Times


def answer(received: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "accord-resume", "result": {"received": received}}).encode()


async def test_a_dropped_connection_goes_on_where_it_was():
    async with desk() as server, calling(server) as (caller, first):
        await greet(caller, first)
        await tell(first, b'"one"')
        await caller.inbox.count(2)
        caller.send(b'"heard"')
        await heard(first, b'"heard"')
        first.transport.abort()

        second = await server.next()
        asked = await message(second)
        assert (asked["id"], asked["method"]) == ("accord-resume", "_accord/resume")
        assert asked["params"] == {"connectionId": "c1", "received": 2}
        caller.send(b'"while away"')
        await tell(second, answer(1), b'"two"', b'"three"')
        await heard(second, b'"heard"', b'"while away"')
        assert await caller.inbox.count(4) == [RESUMABLE, b'"one"', b'"two"', b'"three"']

        caller.send(b'"after"')
        await heard(second, b'"after"')
        second.transport.abort()
        third = await server.next()
        assert (await message(third))["params"] == {"connectionId": "c1", "received": 4}
        await tell(third, answer(4))
        caller.send(b'"again"')
        await heard(third, b'"again"')
        assert caller.inbox.ends == []


async def test_a_half_message_does_not_count():
    async with desk() as server, calling(server) as (caller, first):
        await greet(caller, first)
        first.transport.write(b'\x81\x05"ab')  # two bytes are missing
        await tell_all_sent(first)
        first.transport.close()
        second = await server.next()
        assert (await message(second))["params"]["received"] == 1
        await tell(second, answer(1), b'"abc"')
        assert await caller.inbox.count(2) == [RESUMABLE, b'"abc"']


async def tell_all_sent(socket: object) -> None:
    """What was written has left, since nothing waits."""
    assert socket.transport.get_write_buffer_size() == 0  # type: ignore[attr-defined]


async def test_both_sides_confirm_what_they_got():
    async with desk() as server, calling(server) as (caller, first):
        await greet(caller, first)
        await tell(first, *(b"%d" % number for number in range(ACK_FRAMES - 1)))
        told = await message(first)
        assert told == {"jsonrpc": "2.0", "method": "_accord/ack", "params": {"received": ACK_FRAMES}}
        caller.send(b"1", b"2", b"3")
        await heard(first, b"1", b"2", b"3")
        await tell(first, b'{"jsonrpc":"2.0","method":"_accord/ack","params":{"received":4}}', b'"next"')
        await caller.inbox.count(ACK_FRAMES + 1)
        assert caller.inbox.received[-1] == b'"next"'
        first.transport.abort()
        second = await server.next()
        assert (await message(second))["params"]["received"] == ACK_FRAMES + 1
        await tell(second, answer(4))
        caller.send(b"4")
        await heard(second, b"4")


async def test_a_server_that_has_forgotten_the_connection_ends_it():
    async with desk() as server, calling(server) as (caller, first):
        await greet(caller, first)
        first.transport.abort()
        second = await server.next()
        await message(second)
        await tell(
            second,
            b'{"jsonrpc":"2.0","id":"accord-resume","error":{"code":-32002,"message":"no such connection"}}',
        )
        end = await caller.inbox.end()
        assert server.address in end.reason
        assert "no longer has the connection: no such connection" in end.reason


async def test_with_a_plain_server_a_drop_is_the_end():
    async with desk() as server, calling(server) as (caller, first):
        await greet(caller, first, PLAIN)
        first.transport.abort()
        end = await caller.inbox.end()
        assert "broke off" in end.reason
        assert len(server.requests) == 1


async def test_a_goodbye_is_the_end_also_where_one_could_come_back():
    async with desk() as server, calling(server) as (caller, first):
        await greet(caller, first)
        await first.close(1000)
        assert "closed the connection" in (await caller.inbox.end()).reason
        assert len(server.requests) == 1


async def test_a_server_that_restarts_is_tried_until_it_is_there_again():
    async with desk() as server, calling(server) as (caller, first):
        await greet(caller, first)
        server.refuse = [503, 502, 429]
        await first.close(1012, "back soon")
        second = await server.next()
        await message(second)
        await tell(second, answer(1), b'"still here"')
        assert await caller.inbox.count(2) == [RESUMABLE, b'"still here"']
        assert len(server.requests) == 5


async def test_a_refusal_for_good_ends_the_tries():
    async with desk() as server, calling(server) as (caller, first):
        await greet(caller, first)
        server.refuse = [401]
        first.transport.abort()
        end = await caller.inbox.end()
        assert "the token is missing or wrong (HTTP 401): not today" in end.reason
        assert len(server.requests) == 2


async def test_the_tries_are_bounded():
    times = Times(leave=0.3, pause=0.01, longest_pause=0.01, back=0.0)
    async with desk() as server, calling(server, times=times) as (caller, first):
        await greet(caller, first)
        server.refuse = [503] * 100
        first.transport.abort()
        end = await caller.inbox.end()
        assert "the way back failed: the server has too much to do" in end.reason


async def test_a_drop_while_coming_back_is_tried_again():
    async with desk() as server, calling(server) as (caller, first):
        await greet(caller, first)
        first.transport.abort()
        second = await server.next()
        await message(second)
        second.transport.abort()
        third = await server.next()
        assert (await message(third))["params"]["received"] == 1
        await tell(third, answer(1))
        caller.send(b'"there"')
        await heard(third, b'"there"')


async def test_closing_while_coming_back_is_quick_and_ends_once():
    async with desk() as server, calling(server, times=QUICK) as (caller, first):
        await greet(caller, first)
        first.transport.abort()
        second = await server.next()
        await message(second)
        await caller.transport.aclose()
        assert [end.reason for end in caller.inbox.ends] == [
            f"this side closed the connection to {server.address}"
        ]


async def test_a_paused_reader_stays_paused_over_a_drop():
    async with desk() as server, calling(server) as (caller, first):
        await greet(caller, first)
        caller.transport.pause()
        caller.transport.resume()
        first.transport.abort()
        second = await server.next()
        await message(second)
        caller.transport.pause()
        await tell(second, answer(1))
        caller.send(b'"paused"')
        await heard(second, b'"paused"')
        await tell(second, b'"later"')
        caller.send(b'"more"')
        await heard(second, b'"more"')
        assert caller.inbox.received == [RESUMABLE]
        caller.transport.resume()
        assert await caller.inbox.count(2) == [RESUMABLE, b'"later"']


async def test_cookies_are_shown_again_to_the_server_that_set_them():
    async with desk() as server:
        server.cookie = "node=seven; Path=/"
        async with calling(server) as (caller, first):
            await greet(caller, first)
            assert "Cookie" not in server.requests[0].headers
            first.transport.abort()
            second = await server.next()
            await message(second)
            assert server.requests[1].headers["Cookie"] == "node=seven"
