"""Resuming a WebSocket connection: missed frames arrive once and in order, received ones are counted, other
tokens get nothing.
"""

import pytest
from tests.gateway.http.http_harness import HttpHarness, http_harness
from tests.gateway.http.raw_socket import RawSocket

from accord.gateway.http import ServerConfig
from accord.testing import FakeClock


async def resume(harness: HttpHarness, id: str, received: int) -> RawSocket:
    """A new socket that asks to resume an earlier connection."""
    socket = await RawSocket.open(harness, initialize=False)
    socket.send(id="r", method="_accord/resume", params={"connectionId": id, "received": received})
    return socket


async def drop(harness: HttpHarness, socket: RawSocket) -> None:
    """Drop the socket and wait until the server knows."""
    before = harness.server.metrics.sockets
    socket.drop()
    await harness.until(lambda: harness.server.metrics.sockets < before)


async def notes(socket: RawSocket, count: int) -> list[int]:
    """The numbers of the next notifications."""
    return [(await socket.receive())["params"] for _ in range(count)]


async def test_a_resuming_client_gets_missed_frames_once_and_in_order() -> None:
    async with http_harness() as harness:
        first = await RawSocket.open(harness)
        [handler] = harness.echo.clients
        for number in range(10):
            handler.send({"method": "note", "params": number})
        assert await notes(first, 4) == [0, 1, 2, 3]
        await drop(harness, first)
        for number in range(10, 20):
            handler.send({"method": "note", "params": number})
        second = await resume(harness, first.id, 5)  # the answer to initialize and four notes
        assert await second.receive() == {
            "jsonrpc": "2.0",
            "id": "r",
            "result": {"connectionId": first.id, "received": 1},
        }
        assert await notes(second, 16) == list(range(4, 20))
        second.send(id=1, method="echo")
        assert (await second.receive())["id"] == 1
        assert len(handler.received_frames) == 2
        assert handler.reasons == []
        await harness.echo.until(
            lambda: len(harness.echo.clients) == 2 and bool(harness.echo.clients[1].reasons)
        )
        assert harness.echo.clients[1].received_frames == [], (
            "the connection of the new socket must stay unused"
        )
        assert harness.server.metrics.resumed == 1


async def test_a_client_can_resume_repeatedly() -> None:
    async with http_harness() as harness:
        socket = await RawSocket.open(harness)
        [handler], id, received = harness.echo.clients, socket.id, 1
        for round in range(20):
            for number in range(3):
                handler.send({"method": "note", "params": 3 * round + number})
            assert await notes(socket, 2) == [3 * round, 3 * round + 1]
            received += 2
            await drop(harness, socket)
            socket = await resume(harness, id, received)
            assert (await socket.receive())["result"]["received"] == 1
            assert await notes(socket, 1) == [3 * round + 2]
            received += 1


async def test_a_half_open_socket_is_taken_over() -> None:
    async with http_harness() as harness:
        first = await RawSocket.open(harness)
        [handler] = harness.echo.clients
        handler.send({"method": "note", "params": 1})
        second = await resume(harness, first.id, 1)
        assert (await second.receive())["id"] == "r"
        assert await notes(second, 1) == [1]
        assert await notes(first, 1) == [1]
        assert await first.wait_closed() == (1008, "the client resumed on another socket")
        handler.send({"method": "note", "params": 2})
        assert await notes(second, 1) == [2]
        assert handler.reasons == []


async def test_received_messages_are_counted_so_that_the_client_can_resend() -> None:
    async with http_harness() as harness:
        first = await RawSocket.open(harness)
        first.send(method="_accord/ack", params={"received": 1})
        first.send_frame("no json")
        first.send(method="note")
        first.send_frame(b"binary", 0x2)
        first.send(id=1, method="echo")
        assert (await first.receive())["error"]["code"] == -32700
        assert (await first.receive())["id"] == 1
        await drop(harness, first)
        second = await resume(harness, first.id, 3)
        assert (await second.receive())["result"]["received"] == 4


async def test_acknowledged_frames_are_not_kept() -> None:
    async with http_harness() as harness:
        first = await RawSocket.open(harness)
        [handler] = harness.echo.clients
        for number in range(100):
            handler.send({"method": "note", "params": number})
        await notes(first, 100)
        first.send(method="_accord/ack", params={"received": 90})
        first.send(method="_accord/ack", params={"received": 1000})  # more than were sent, so it is ignored
        first.send(id=1, method="echo")
        assert (await first.receive())["id"] == 1
        await drop(harness, first)
        early = await resume(harness, first.id, 50)
        refusal = await early.receive()
        assert refusal["error"]["code"] == -32002
        assert refusal["error"]["data"] == {"missing": 40}
        assert (await early.wait_closed())[0] == 1008
        right = await resume(harness, first.id, 90)
        assert (await right.receive())["id"] == "r"
        assert await notes(right, 11) == list(range(89, 100))


async def test_the_server_acknowledges_to_clients_that_acknowledge() -> None:
    config = ServerConfig(ack_frames=3)
    async with http_harness(config) as harness:
        plain, faithful = await RawSocket.open(harness), await RawSocket.open(harness)
        faithful.send(method="_accord/ack", params={"received": 1})
        for socket in (plain, faithful):
            for number in range(1, 7):
                socket.send(id=number, method="echo")
        said = [await faithful.receive() for _ in range(8)]
        acks = [one["params"] for one in said if one.get("method") == "_accord/ack"]
        assert acks == [{"received": 4}, {"received": 7}]
        assert [(await plain.receive())["id"] for _ in range(6)] == [1, 2, 3, 4, 5, 6]
        plain.send(id=7, method="echo")
        assert (await plain.receive())["id"] == 7


async def test_a_client_that_does_not_acknowledge_keeps_only_the_latest_frames() -> None:
    async with http_harness(ServerConfig(resume_frames=5)) as harness:
        plain, faithful = await RawSocket.open(harness), await RawSocket.open(harness)
        faithful.send(method="_accord/ack", params={"received": 0})
        faithful.send(id=1, method="echo")
        await faithful.receive()
        for socket, handler in zip((plain, faithful), harness.echo.clients, strict=True):
            for number in range(20):
                handler.send({"method": "note", "params": number})
            await notes(socket, 20)
            await drop(harness, socket)
        late = await resume(harness, plain.id, 3)
        assert (await late.receive())["error"]["code"] == -32002
        assert (await late.wait_closed())[0] == 1008
        back = await resume(harness, faithful.id, 2)
        assert (await back.receive())["id"] == "r"
        assert await notes(back, 20) == list(range(20))


@pytest.mark.parametrize(
    "params",
    [
        {"connectionId": "unknown", "received": 0},
        {"connectionId": "OWN", "received": 0},
        {"connectionId": "THEIRS", "received": -1},
        {"connectionId": "THEIRS", "received": 99},
        {"connectionId": "THEIRS", "received": "1"},
        {"connectionId": "THEIRS"},
        {},
        None,
        [],
    ],
)
async def test_an_invalid_resume_is_rejected_and_the_socket_closes(params: object) -> None:
    async with http_harness() as harness:
        first = await RawSocket.open(harness)
        await drop(harness, first)
        socket = await RawSocket.open(harness, initialize=False)
        if isinstance(params, dict) and "connectionId" in params:
            names = {"OWN": socket.id, "THEIRS": first.id}
            params = params | {"connectionId": names.get(str(params["connectionId"]), "unknown")}
        socket.send(id=1, method="_accord/resume", params=params)
        answer = await socket.receive()
        assert answer["id"] == 1
        assert answer["error"]["code"] in (-32002, -32602)
        assert (await socket.wait_closed())[0] == 1008
        again = await resume(harness, first.id, 1)
        assert "result" in await again.receive(), "the connection must still be resumable"


async def test_another_token_or_agent_cannot_resume_a_connection() -> None:
    async with http_harness() as harness:
        first = await RawSocket.open(harness)
        await drop(harness, first)
        elsewhere = await RawSocket.open(harness, "/acp/known", initialize=False)
        elsewhere.send(id=1, method="_accord/resume", params={"connectionId": first.id, "received": 1})
        assert (await elsewhere.receive())["error"]["code"] == -32002
        harness.secret, own = harness.other, harness.secret
        other_token = await resume(harness, first.id, 1)
        assert (await other_token.receive())["error"]["code"] == -32002
        harness.secret = own
        again = await resume(harness, first.id, 1)
        assert "result" in await again.receive()


async def test_resume_must_be_the_first_message() -> None:
    async with http_harness() as harness:
        first, second = await RawSocket.open(harness), await RawSocket.open(harness)
        second.send(id=1, method="_accord/resume", params={"connectionId": first.id, "received": 1})
        assert (await second.receive())["error"]["code"] == -32600
        second.send(id=2, method="echo")
        assert (await second.receive())["id"] == 2
        assert all(
            b"_accord" not in frame for handler in harness.echo.clients for frame in handler.received_frames
        )


async def test_a_dropped_connection_waits_for_the_grace_time() -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness:
        first = await RawSocket.open(harness)
        [handler] = harness.echo.clients
        await drop(harness, first)
        await clock.advance(119)
        assert handler.reasons == []
        await clock.advance(1)
        await harness.echo.until(lambda: bool(handler.reasons))
        late = await resume(harness, first.id, 1)
        assert (await late.receive())["error"]["code"] == -32002


@pytest.mark.parametrize(
    ("acknowledges", "code", "waits"),
    [(False, 1000, False), (False, 1001, False), (True, 1000, False), (True, 1001, True)],
)
async def test_a_close_ends_the_connection_unless_the_client_may_resume(
    acknowledges: bool, code: int, waits: bool
) -> None:
    async with http_harness() as harness:
        first = await RawSocket.open(harness)
        if acknowledges:
            first.send(method="_accord/ack", params={"received": 1})
        await first.close(code)
        await harness.until(lambda: harness.server.metrics.sockets == 0)
        second = await resume(harness, first.id, 1)
        assert ("result" in await second.receive()) is waits


async def test_too_many_frames_for_an_absent_client_end_its_connection() -> None:
    config = ServerConfig(max_held_bytes=100_000, max_held_frames=50)
    async with http_harness(config) as harness:
        for much, many in [("x" * 20_000, 6), ("", 51)]:
            socket = await RawSocket.open(harness)
            handler = harness.echo.clients[-1]
            await drop(harness, socket)
            for _ in range(many):
                handler.send({"method": "note", "params": much})
            await harness.echo.until(lambda handler=handler: bool(handler.reasons))
            assert handler.reasons == ["more than 100000 bytes or 50 messages are waiting"]
        assert harness.server.metrics.lost == 2
