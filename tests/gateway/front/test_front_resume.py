"""Coming back to a WebSocket line: what was missed arrives once and in order, what was sent is counted, strangers get nothing."""

import pytest
from tests.gateway.front.stage import Stage, a_front
from tests.gateway.front.wire import RawSocket

from accord.gateway.front import FrontConfig
from accord.testing import FakeClock


async def come_back(stage: Stage, id: str, received: int) -> RawSocket:
    """A new socket that asks for an earlier line."""
    socket = await RawSocket.open(stage, initialize=False)
    socket.tell(id="r", method="_accord/resume", params={"connectionId": id, "received": received})
    return socket


async def vanish(stage: Stage, socket: RawSocket) -> None:
    """Drop the socket, and wait until the front knows."""
    before = stage.front.metrics.sockets
    socket.drop()
    await stage.until(lambda: stage.front.metrics.sockets < before)


async def notes(socket: RawSocket, count: int) -> list[int]:
    """The numbers of so many notifications."""
    return [(await socket.hear())["params"] for _ in range(count)]


async def test_a_client_that_comes_back_gets_what_it_missed_once_and_in_order() -> None:
    async with a_front() as stage:
        first = await RawSocket.open(stage)
        [opened] = stage.echo.clients
        for number in range(10):
            opened.tell({"method": "note", "params": number})
        assert await notes(first, 4) == [0, 1, 2, 3]
        await vanish(stage, first)
        for number in range(10, 20):
            opened.tell({"method": "note", "params": number})
        second = await come_back(stage, first.id, 5)  # the answer to initialize and four notes
        assert await second.hear() == {
            "jsonrpc": "2.0",
            "id": "r",
            "result": {"connectionId": first.id, "received": 1},
        }
        assert await notes(second, 16) == list(range(4, 20))
        second.tell(id=1, method="echo")
        assert (await second.hear())["id"] == 1
        assert len(opened.heard) == 2
        assert opened.reasons == []
        await stage.echo.until(lambda: len(stage.echo.clients) == 2 and bool(stage.echo.clients[1].reasons))
        assert stage.echo.clients[1].heard == [], "the line of the new socket was never used"
        assert stage.front.metrics.resumed == 1


async def test_a_client_may_come_back_again_and_again() -> None:
    async with a_front() as stage:
        socket = await RawSocket.open(stage)
        [opened], id, received = stage.echo.clients, socket.id, 1
        for round in range(20):
            for number in range(3):
                opened.tell({"method": "note", "params": 3 * round + number})
            assert await notes(socket, 2) == [3 * round, 3 * round + 1]
            received += 2
            await vanish(stage, socket)
            socket = await come_back(stage, id, received)
            assert (await socket.hear())["result"]["received"] == 1
            assert await notes(socket, 1) == [3 * round + 2]
            received += 1


async def test_a_half_open_socket_is_taken_over() -> None:
    async with a_front() as stage:
        first = await RawSocket.open(stage)
        [opened] = stage.echo.clients
        opened.tell({"method": "note", "params": 1})
        second = await come_back(stage, first.id, 1)
        assert (await second.hear())["id"] == "r"
        assert await notes(second, 1) == [1]
        assert await notes(first, 1) == [1]
        assert await first.closed() == (1008, "the client came back on another socket")
        opened.tell({"method": "note", "params": 2})
        assert await notes(second, 1) == [2]
        assert opened.reasons == []


async def test_messages_of_the_client_are_counted_so_that_it_knows_what_to_send_again() -> None:
    async with a_front() as stage:
        first = await RawSocket.open(stage)
        first.tell(method="_accord/ack", params={"received": 1})
        first.say("no json")
        first.tell(method="note")
        first.say(b"binary", 0x2)
        first.tell(id=1, method="echo")
        assert (await first.hear())["error"]["code"] == -32700
        assert (await first.hear())["id"] == 1
        await vanish(stage, first)
        second = await come_back(stage, first.id, 3)
        assert (await second.hear())["result"]["received"] == 4


async def test_acknowledged_frames_are_not_kept() -> None:
    async with a_front() as stage:
        first = await RawSocket.open(stage)
        [opened] = stage.echo.clients
        for number in range(100):
            opened.tell({"method": "note", "params": number})
        await notes(first, 100)
        first.tell(method="_accord/ack", params={"received": 90})
        first.tell(method="_accord/ack", params={"received": 1000})  # more than there are: nothing to it
        first.tell(id=1, method="echo")
        assert (await first.hear())["id"] == 1
        await vanish(stage, first)
        early = await come_back(stage, first.id, 50)
        refusal = await early.hear()
        assert refusal["error"]["code"] == -32002
        assert refusal["error"]["data"] == {"missing": 40}
        assert (await early.closed())[0] == 1008
        right = await come_back(stage, first.id, 90)
        assert (await right.hear())["id"] == "r"
        assert await notes(right, 11) == list(range(89, 100))


async def test_the_front_acknowledges_to_clients_that_do() -> None:
    config = FrontConfig(ack_frames=3)
    async with a_front(config) as stage:
        plain, faithful = await RawSocket.open(stage), await RawSocket.open(stage)
        faithful.tell(method="_accord/ack", params={"received": 1})
        for socket in (plain, faithful):
            for number in range(1, 7):
                socket.tell(id=number, method="echo")
        said = [await faithful.hear() for _ in range(8)]
        acks = [one["params"] for one in said if one.get("method") == "_accord/ack"]
        assert acks == [{"received": 4}, {"received": 7}]
        assert [(await plain.hear())["id"] for _ in range(6)] == [1, 2, 3, 4, 5, 6]
        plain.tell(id=7, method="echo")
        assert (await plain.hear())["id"] == 7


async def test_a_plain_client_is_kept_the_latest_frames_only() -> None:
    async with a_front(FrontConfig(kept_frames=5)) as stage:
        plain, faithful = await RawSocket.open(stage), await RawSocket.open(stage)
        faithful.tell(method="_accord/ack", params={"received": 0})
        faithful.tell(id=1, method="echo")
        await faithful.hear()
        for socket, opened in zip((plain, faithful), stage.echo.clients, strict=True):
            for number in range(20):
                opened.tell({"method": "note", "params": number})
            await notes(socket, 20)
            await vanish(stage, socket)
        late = await come_back(stage, plain.id, 3)
        assert (await late.hear())["error"]["code"] == -32002
        assert (await late.closed())[0] == 1008
        back = await come_back(stage, faithful.id, 2)
        assert (await back.hear())["id"] == "r"
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
async def test_what_cannot_be_resumed_is_refused_and_the_socket_closes(params: object) -> None:
    async with a_front() as stage:
        first = await RawSocket.open(stage)
        await vanish(stage, first)
        socket = await RawSocket.open(stage, initialize=False)
        if isinstance(params, dict) and "connectionId" in params:
            names = {"OWN": socket.id, "THEIRS": first.id}
            params = params | {"connectionId": names.get(str(params["connectionId"]), "unknown")}
        socket.tell(id=1, method="_accord/resume", params=params)
        answer = await socket.hear()
        assert answer["id"] == 1
        assert answer["error"]["code"] in (-32002, -32602)
        assert (await socket.closed())[0] == 1008
        again = await come_back(stage, first.id, 1)
        assert "result" in await again.hear(), "the line was not harmed"


async def test_another_token_or_agent_cannot_resume_a_line() -> None:
    async with a_front() as stage:
        first = await RawSocket.open(stage)
        await vanish(stage, first)
        elsewhere = await RawSocket.open(stage, "/acp/known", initialize=False)
        elsewhere.tell(id=1, method="_accord/resume", params={"connectionId": first.id, "received": 1})
        assert (await elsewhere.hear())["error"]["code"] == -32002
        stage.secret, own = stage.other, stage.secret
        stranger = await come_back(stage, first.id, 1)
        assert (await stranger.hear())["error"]["code"] == -32002
        stage.secret = own
        again = await come_back(stage, first.id, 1)
        assert "result" in await again.hear()


async def test_resume_comes_before_anything_else() -> None:
    async with a_front() as stage:
        first, second = await RawSocket.open(stage), await RawSocket.open(stage)
        second.tell(id=1, method="_accord/resume", params={"connectionId": first.id, "received": 1})
        assert (await second.hear())["error"]["code"] == -32600
        second.tell(id=2, method="echo")
        assert (await second.hear())["id"] == 2
        assert all(b"_accord" not in frame for opened in stage.echo.clients for frame in opened.heard)


async def test_a_dropped_line_waits_the_grace_time_and_no_longer() -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage:
        first = await RawSocket.open(stage)
        [opened] = stage.echo.clients
        await vanish(stage, first)
        await clock.advance(119)
        assert opened.reasons == []
        await clock.advance(1)
        await stage.echo.until(lambda: bool(opened.reasons))
        late = await come_back(stage, first.id, 1)
        assert (await late.hear())["error"]["code"] == -32002


@pytest.mark.parametrize(
    ("acknowledges", "code", "waits"),
    [(False, 1000, False), (False, 1001, False), (True, 1000, False), (True, 1001, True)],
)
async def test_a_goodbye_ends_the_line_unless_the_client_may_come_back(
    acknowledges: bool, code: int, waits: bool
) -> None:
    async with a_front() as stage:
        first = await RawSocket.open(stage)
        if acknowledges:
            first.tell(method="_accord/ack", params={"received": 1})
        await first.leave(code)
        await stage.until(lambda: stage.front.metrics.sockets == 0)
        second = await come_back(stage, first.id, 1)
        assert ("result" in await second.hear()) is waits


async def test_too_much_for_an_absent_client_ends_its_line() -> None:
    config = FrontConfig(held_bytes=100_000, held_frames=50)
    async with a_front(config) as stage:
        for much, many in [("x" * 20_000, 6), ("", 51)]:
            socket = await RawSocket.open(stage)
            opened = stage.echo.clients[-1]
            await vanish(stage, socket)
            for _ in range(many):
                opened.tell({"method": "note", "params": much})
            await stage.echo.until(lambda opened=opened: bool(opened.reasons))
            assert opened.reasons == ["more than 100000 bytes or 50 messages waited"]
        assert stage.front.metrics.lost == 2
