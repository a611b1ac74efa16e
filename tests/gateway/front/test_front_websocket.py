"""The WebSocket: the handshake, the first message, what is no message, limits, pings, how it closes."""

import asyncio
import json

import pytest
import websockets
from tests.gateway.front.stage import INITIALIZE, a_front, message
from tests.gateway.front.wire import BINARY, CLOSE, CONT, HANDSHAKE, PING, PONG, TEXT, RawSocket

from accord.gateway.access.limits import Limits
from accord.gateway.front import FrontConfig
from accord.testing import FakeClock


async def test_the_handshake_names_the_connection_and_sets_a_cookie() -> None:
    async with a_front() as stage:
        async with websockets.connect(stage.websocket, additional_headers=stage.headers) as socket:
            assert socket.response is not None
            headers = socket.response.headers
            [opened] = stage.echo.clients
            assert headers["Acp-Connection-Id"] == opened.line.id
            assert (
                headers["Set-Cookie"] == f"accord-line={opened.line.id}; Path=/acp; HttpOnly; SameSite=Strict"
            )
            assert "Sec-WebSocket-Extensions" not in headers, "nothing is compressed"
            await socket.send(json.dumps(INITIALIZE))
            assert json.loads(await socket.recv()) == {
                "jsonrpc": "2.0",
                "id": 0,
                "result": {"protocolVersion": 1},
            }
        await stage.echo.until(lambda: opened.reasons == ["the client closed the connection"])


async def test_all_sessions_share_the_socket_in_order() -> None:
    async with a_front() as stage:
        socket = await RawSocket.open(stage)
        for number in range(500):
            stage.echo.clients[0].tell({"method": "note", "params": number}, f"s{number % 3}")
        assert [(await socket.hear())["params"] for _ in range(500)] == list(range(500))


async def test_large_messages_pass_both_ways() -> None:
    async with (
        a_front() as stage,
        websockets.connect(stage.websocket, additional_headers=stage.headers, max_size=None) as socket,
    ):
        await socket.send(json.dumps(INITIALIZE))
        await socket.recv()
        text = "ä" * 1_000_000
        await socket.send(message(id=1, method="echo", params={"text": text}))
        assert json.loads(await socket.recv())["result"] == {"text": text}


async def test_an_upgrade_on_a_kept_alive_connection_works() -> None:
    async with a_front() as stage:
        reader, writer = await stage.raw()
        writer.write(stage.head(path="/healthz"))
        assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        writer.write(stage.head(**HANDSHAKE))
        socket = RawSocket(reader, writer)
        assert (await socket.head())[0].startswith("HTTP/1.1 101")
        socket.tell(id=1, method="initialize")
        assert (await socket.hear())["id"] == 1
        socket.shut()


async def test_frames_in_one_packet_with_the_handshake_are_heard() -> None:
    async with a_front() as stage:
        reader, writer = await stage.raw()
        socket = RawSocket(reader, writer)
        body = message(id=1, method="initialize").encode()
        writer.write(stage.head(**HANDSHAKE) + bytes([0x81, 0x80 | len(body)]) + b"\0\0\0\0" + body)
        assert (await socket.head())[0].startswith("HTTP/1.1 101")
        assert (await socket.hear())["id"] == 1
        socket.shut()


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"sec_websocket_key": ""}, 400),
        ({"sec_websocket_key": "short"}, 400),
        ({"sec_websocket_version": "8"}, 400),
        ({"connection": "keep-alive"}, 426),
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "", "cookie": "accord=anything"}, 401),
        ({"origin": "http://evil.test"}, 403),
        ({"host": "evil.test"}, 421),
    ],
)
async def test_a_handshake_that_is_not_right_is_refused(changed: dict[str, str], status: int) -> None:
    async with a_front() as stage:
        reader, writer = await stage.raw()
        writer.write(stage.head(**(HANDSHAKE | changed)))
        head = await RawSocket(reader, writer).head()
        assert head[0].split()[1] == str(status)
        assert stage.echo.clients == []
        writer.close()


async def test_an_unknown_agent_is_refused_in_the_handshake() -> None:
    async with a_front() as stage:
        for path in ("/acp/unknown", "/other"):
            reader, writer = await stage.raw()
            writer.write(stage.head(path=path, **HANDSHAKE))
            assert " 404 " in (await RawSocket(reader, writer).head())[0]
            writer.close()
        socket = await RawSocket.open(stage, "/acp/known")
        assert stage.echo.clients[0].agent == "known"
        socket.shut()


async def test_a_ticket_opens_one_socket_for_the_page() -> None:
    async with a_front() as stage:
        _, cookie = stage.door.browsers, stage.door.browsers.log_in(stage.token.id)
        reader, writer = await stage.raw()
        page = {"authorization": "", "cookie": f"accord={cookie}", "origin": stage.url}
        writer.write(stage.head("POST", "/api/ticket", content_length="0", **page))
        socket = RawSocket(reader, writer)
        assert " 200 " in (await socket.head())[0]
        ticket = json.loads(await reader.readuntil(b"}"))["ticket"]
        for status in ("101", "401"):
            reader, writer = await stage.raw()
            asked = HANDSHAKE | {"authorization": "", "origin": stage.url}
            writer.write(stage.head(path=f"/acp?ticket={ticket}", **asked))
            assert (await RawSocket(reader, writer).head())[0].split()[1] == status
            writer.close()
        socket.shut()


@pytest.mark.parametrize(
    "first",
    [
        message(id=1, method="session/new"),
        message(method="initialize"),
        message(id=1, result={}),
        message(method="session/cancel", params={"sessionId": "s"}),
    ],
)
async def test_the_first_message_is_initialize_or_the_socket_closes(first: str) -> None:
    async with a_front() as stage:
        socket = await RawSocket.open(stage, initialize=False)
        socket.say(first)
        assert await socket.closed() == (1002, "the first message must be initialize")
        await stage.echo.until(lambda: bool(stage.echo.clients[0].reasons))
        assert stage.echo.clients[0].heard == []


@pytest.mark.parametrize("initialize", [True, False])
async def test_what_is_no_message_is_answered_and_the_socket_stays(initialize: bool) -> None:
    async with a_front() as stage:
        socket = await RawSocket.open(stage, initialize=initialize)
        for said, code in [
            ("{", -32700),
            ("", -32700),
            ("nonsense", -32700),
            ("[" * 50_000, -32700),
            ("[]", -32600),
            (f"[{message(id=1, method='initialize')}]", -32600),
            ('"text"', -32600),
            ('{"id": 1, "method": 5}', -32600),
        ]:
            socket.say(said)
            answer = await socket.hear()
            assert (said[:20], answer["error"]["code"]) == (said[:20], code)
            assert answer["id"] == (1 if "5" in said else None)
        socket.say(b"\xff\x00 anything", BINARY)
        socket.tell(id=2, method="initialize")
        answer = await socket.hear()
        if initialize:
            assert (answer["id"], answer["error"]["code"]) == (2, -32600)
        else:
            assert answer == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert len(stage.echo.clients[0].heard) == 1
        socket.shut()


async def test_fragments_and_control_frames_between_them() -> None:
    async with a_front() as stage:
        socket = await RawSocket.open(stage)
        body = message(id=1, method="echo", params={"text": "höre"}).encode()
        middle = body.index(b"\xc3") + 1  # in the middle of a letter
        socket.say(body[:3], TEXT, fin=False)
        socket.say(b"are you there", PING)
        socket.say(body[3:middle], CONT, fin=False)
        socket.say(body[middle:], CONT)
        assert await socket.frame() == (PONG, b"are you there")
        assert (await socket.hear())["result"] == {"text": "höre"}
        socket.say(b"x", BINARY, fin=False)
        socket.say(b"y", CONT)
        socket.tell(id=2, method="echo")
        assert (await socket.hear())["id"] == 2
        socket.shut()


async def test_a_broken_frame_closes_the_socket_with_its_code() -> None:
    async with a_front(FrontConfig(message_size=100_000)) as stage:
        for broken, code in [
            (lambda s: s.say(b"\xff\xfe", TEXT), 1007),
            (lambda s: s.say(b"{}", TEXT, masked=False), 1002),
            (lambda s: s.say(b"{}", CONT), 1002),
            (lambda s: s.say(b"{}", 0x3), 1002),
            (lambda s: s.say(b"x" * 126, PING), 1002),
            (lambda s: s.say(b"\0", CLOSE), 1002),
            (lambda s: s.writer.write(b"\xf1\x80\0\0\0\0"), 1002),
            (lambda s: s.say(b"x" * 200_000, TEXT), 1009),
            (lambda s: [s.say(b"x" * 60_000, TEXT, fin=False), s.say(b"x" * 60_000, CONT)], 1009),
            (lambda s: s.writer.write(b"\x81\xff" + b"\x7f" + b"\xff" * 7), 1009),
        ]:
            socket = await RawSocket.open(stage)
            opened = stage.echo.clients[-1]
            broken(socket)
            while True:
                opcode, body = await socket.frame()
                if opcode == CLOSE:
                    break
            assert int.from_bytes(body[:2], "big") == code
            assert await socket.reader.read() == b""
            socket.shut()
            assert len(opened.heard) == 1


async def test_a_message_too_large_does_not_disturb_the_others() -> None:
    async with a_front(FrontConfig(message_size=10_000)) as stage:
        good, bad = await RawSocket.open(stage), await RawSocket.open(stage)
        bad.say(b"x" * 1_000_000)
        assert (await bad.frame())[1][:2] == (1009).to_bytes(2, "big")
        good.tell(id=1, method="echo", params={"a": "x" * 9_000})
        assert (await good.hear())["id"] == 1
        good.shut()
        bad.shut()


async def test_a_client_over_its_rate_is_closed_and_can_come_back() -> None:
    limits = Limits(messages_per_second=1, message_burst=5)
    clock = FakeClock()
    async with a_front(limits=limits, clock=clock) as stage:
        socket = await RawSocket.open(stage)
        for number in range(1, 10):
            socket.tell(id=number, method="echo")
        code, reason = await socket.closed()
        assert code == 1008
        assert "messages a second of this token" in reason
        [opened] = stage.echo.clients
        assert len(opened.heard) == 5
        assert opened.reasons == []
        await clock.advance(5)
        again = await RawSocket.open(stage, initialize=False)
        again.tell(id=1, method="_accord/resume", params={"connectionId": socket.id, "received": 5})
        assert (await again.hear())["result"]["received"] == 5
        again.shut()


async def test_connections_over_the_limit_are_refused() -> None:
    async with a_front(limits=Limits(connections=1)) as stage:
        socket = await RawSocket.open(stage)
        reader, writer = await stage.raw()
        writer.write(stage.head(**HANDSHAKE))
        assert " 429 " in (await RawSocket(reader, writer).head())[0]
        writer.close()
        await socket.leave()
        await stage.echo.until(lambda: bool(stage.echo.clients[0].reasons))
        (await RawSocket.open(stage)).shut()


async def test_a_client_may_come_back_although_its_own_line_fills_the_limit() -> None:
    async with a_front(limits=Limits(connections=1)) as stage:
        first = await RawSocket.open(stage)
        first.drop()
        await stage.until(lambda: stage.front.metrics.sockets == 0)
        second = await RawSocket.open(stage, initialize=False)
        second.tell(id=1, method="_accord/resume", params={"connectionId": first.id, "received": 1})
        assert (await second.hear())["result"] == {"connectionId": first.id, "received": 1}
        second.drop()
        await stage.until(lambda: stage.front.metrics.sockets == 0)
        third = await RawSocket.open(stage)  # does not resume: the waiting line makes room
        await stage.echo.until(lambda: bool(stage.echo.clients[0].reasons))
        assert stage.echo.clients[0].reasons == ["a newer connection of the same token took its place"]
        assert stage.meter.connections == 1
        third.shut()


async def test_a_silent_peer_is_pinged_and_then_taken_for_dead() -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage:
        answering, dead = await RawSocket.open(stage), await RawSocket.open(stage)
        await clock.advance(21)
        for socket in (answering, dead):
            assert await socket.frame() == (PING, b"")
        answering.say(b"", PONG)
        answering.tell(id=1, method="echo")
        await answering.hear()
        await clock.advance(20)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await dead.frame()
        assert stage.echo.clients[1].reasons == [], "its line waits"
        await clock.advance(120)
        await stage.echo.until(lambda: bool(stage.echo.clients[1].reasons))
        dead.shut()
        answering.shut()


async def test_a_socket_that_never_begins_is_closed() -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage:
        socket = await RawSocket.open(stage, initialize=False)
        await clock.advance(10)
        assert await socket.closed() == (1002, "no initialize within 10 seconds")
        await stage.echo.until(lambda: bool(stage.echo.clients[0].reasons))


async def test_the_core_ends_a_line_with_a_code_and_a_reason() -> None:
    async with a_front() as stage:
        socket = await RawSocket.open(stage)
        [opened] = stage.echo.clients
        opened.tell({"method": "last"})
        opened.line.end(1011, "ä" * 200)
        opened.tell({"method": "never"})
        assert (await socket.hear())["method"] == "last"
        code, reason = await socket.closed()
        assert (code, reason) == (1011, "ä" * 61)


async def test_a_revoked_token_closes_its_sockets() -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage:
        socket = await RawSocket.open(stage)
        stage.door.tokens.revoke(stage.token.id)
        await clock.advance(1)
        assert await socket.closed() == (1008, "the token was revoked")
