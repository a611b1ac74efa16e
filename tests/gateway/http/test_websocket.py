"""The WebSocket: the handshake, the first message, invalid messages, limits, pings, closing."""

import asyncio
import json

import pytest
import websockets
from tests.gateway.http.http_harness import INITIALIZE, http_harness, message
from tests.gateway.http.raw_socket import BINARY, CLOSE, CONT, HANDSHAKE, PING, PONG, TEXT, RawSocket

from accord.gateway.access.resource_limits import GatewayLimits
from accord.gateway.http import ServerConfig
from accord.testing import FakeClock


async def test_the_handshake_names_the_connection_and_sets_a_cookie() -> None:
    async with http_harness() as harness:
        async with websockets.connect(harness.websocket, additional_headers=harness.headers) as socket:
            assert socket.response is not None
            headers = socket.response.headers
            [handler] = harness.echo.clients
            assert headers["Acp-Connection-Id"] == handler.connection.id
            assert (
                headers["Set-Cookie"]
                == f"accord-line={handler.connection.id}; Path=/acp; HttpOnly; SameSite=Strict"
            )
            assert "Sec-WebSocket-Extensions" not in headers, "compression must be off"
            await socket.send(json.dumps(INITIALIZE))
            assert json.loads(await socket.recv()) == {
                "jsonrpc": "2.0",
                "id": 0,
                "result": {"protocolVersion": 1},
            }
        await harness.echo.until(lambda: handler.reasons == ["the client closed the connection"])


async def test_all_sessions_share_the_socket_in_order() -> None:
    async with http_harness() as harness:
        socket = await RawSocket.open(harness)
        for number in range(500):
            harness.echo.clients[0].send({"method": "note", "params": number}, f"s{number % 3}")
        assert [(await socket.receive())["params"] for _ in range(500)] == list(range(500))


async def test_large_messages_pass_both_ways() -> None:
    async with (
        http_harness() as harness,
        websockets.connect(harness.websocket, additional_headers=harness.headers, max_size=None) as socket,
    ):
        await socket.send(json.dumps(INITIALIZE))
        await socket.recv()
        text = "ä" * 1_000_000
        await socket.send(message(id=1, method="echo", params={"text": text}))
        assert json.loads(await socket.recv())["result"] == {"text": text}


async def test_an_upgrade_on_a_kept_alive_connection_works() -> None:
    async with http_harness() as harness:
        reader, writer = await harness.raw()
        writer.write(harness.head(path="/healthz"))
        assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        writer.write(harness.head(**HANDSHAKE))
        socket = RawSocket(reader, writer)
        assert (await socket.head())[0].startswith("HTTP/1.1 101")
        socket.send(id=1, method="initialize")
        assert (await socket.receive())["id"] == 1
        socket.close_socket()


async def test_frames_in_one_packet_with_the_handshake_are_received() -> None:
    async with http_harness() as harness:
        reader, writer = await harness.raw()
        socket = RawSocket(reader, writer)
        body = message(id=1, method="initialize").encode()
        writer.write(harness.head(**HANDSHAKE) + bytes([0x81, 0x80 | len(body)]) + b"\0\0\0\0" + body)
        assert (await socket.head())[0].startswith("HTTP/1.1 101")
        assert (await socket.receive())["id"] == 1
        socket.close_socket()


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
async def test_an_invalid_handshake_is_rejected(changed: dict[str, str], status: int) -> None:
    async with http_harness() as harness:
        reader, writer = await harness.raw()
        writer.write(harness.head(**(HANDSHAKE | changed)))
        head = await RawSocket(reader, writer).head()
        assert head[0].split()[1] == str(status)
        assert harness.echo.clients == []
        writer.close()


async def test_an_unknown_agent_is_rejected_in_the_handshake() -> None:
    async with http_harness() as harness:
        for path in ("/acp/unknown", "/other"):
            reader, writer = await harness.raw()
            writer.write(harness.head(path=path, **HANDSHAKE))
            assert " 404 " in (await RawSocket(reader, writer).head())[0]
            writer.close()
        socket = await RawSocket.open(harness, "/acp/known")
        assert harness.echo.clients[0].agent == "known"
        socket.close_socket()


async def test_a_ticket_opens_one_socket_for_the_page() -> None:
    async with http_harness() as harness:
        cookie = await harness.auth.browsers.log_in(harness.token.id)
        reader, writer = await harness.raw()
        page = {"authorization": "", "cookie": f"accord={cookie}", "origin": harness.url}
        writer.write(harness.head("POST", "/api/ticket", content_length="0", **page))
        socket = RawSocket(reader, writer)
        assert " 200 " in (await socket.head())[0]
        ticket = json.loads(await reader.readuntil(b"}"))["ticket"]
        for status in ("101", "401"):
            reader, writer = await harness.raw()
            asked = HANDSHAKE | {"authorization": "", "origin": harness.url}
            writer.write(harness.head(path=f"/acp?ticket={ticket}", **asked))
            assert (await RawSocket(reader, writer).head())[0].split()[1] == status
            writer.close()
        socket.close_socket()


@pytest.mark.parametrize(
    "first",
    [
        message(id=1, method="session/new"),
        message(method="initialize"),
        message(id=1, result={}),
        message(method="session/cancel", params={"sessionId": "s"}),
    ],
)
async def test_a_first_message_other_than_initialize_closes_the_socket(first: str) -> None:
    async with http_harness() as harness:
        socket = await RawSocket.open(harness, initialize=False)
        socket.send_frame(first)
        assert await socket.wait_closed() == (1002, "the first message must be initialize")
        await harness.echo.until(lambda: bool(harness.echo.clients[0].reasons))
        assert harness.echo.clients[0].received_frames == []


@pytest.mark.parametrize("initialize", [True, False])
async def test_invalid_messages_are_answered_and_the_socket_stays_open(initialize: bool) -> None:
    async with http_harness() as harness:
        socket = await RawSocket.open(harness, initialize=initialize)
        for said, code in [
            ("{", -32700),
            ("", -32700),
            ("nonsense", -32700),
            ("[" * 50_000, -32700),
            ("[]", -32600),
            (f"[{message(id=1, method='initialize')}]", -32600),
            ('"text"', -32600),
            ('{"id": 1, "method": 5}', -32600),
            ('{"jsonrpc": "1.5", "id": 1, "method": "initialize"}', -32600),
        ]:
            socket.send_frame(said)
            answer = await socket.receive()
            assert (said[:20], answer["error"]["code"]) == (said[:20], code)
            assert answer["id"] == (1 if "5" in said else None)
        socket.send_frame(b"\xff\x00 anything", BINARY)
        socket.send(id=2, method="initialize")
        answer = await socket.receive()
        if initialize:
            assert (answer["id"], answer["error"]["code"]) == (2, -32600)
        else:
            assert answer == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert len(harness.echo.clients[0].received_frames) == 1
        socket.close_socket()


async def test_fragments_with_control_frames_between_them() -> None:
    async with http_harness() as harness:
        socket = await RawSocket.open(harness)
        body = message(id=1, method="echo", params={"text": "höre"}).encode()
        middle = body.index(b"\xc3") + 1  # in the middle of a letter
        socket.send_frame(body[:3], TEXT, fin=False)
        socket.send_frame(b"are you there", PING)
        socket.send_frame(body[3:middle], CONT, fin=False)
        socket.send_frame(body[middle:], CONT)
        assert await socket.frame() == (PONG, b"are you there")
        assert (await socket.receive())["result"] == {"text": "höre"}
        socket.send_frame(b"x", BINARY, fin=False)
        socket.send_frame(b"y", CONT)
        socket.send(id=2, method="echo")
        assert (await socket.receive())["id"] == 2
        socket.close_socket()


async def test_an_invalid_frame_closes_the_socket_with_its_code() -> None:
    async with http_harness(ServerConfig(message_size=100_000)) as harness:
        for broken, code in [
            (lambda s: s.send_frame(b"\xff\xfe", TEXT), 1007),
            (lambda s: s.send_frame(b"{}", TEXT, masked=False), 1002),
            (lambda s: s.send_frame(b"{}", CONT), 1002),
            (lambda s: s.send_frame(b"{}", 0x3), 1002),
            (lambda s: s.send_frame(b"x" * 126, PING), 1002),
            (lambda s: s.send_frame(b"\0", CLOSE), 1002),
            (lambda s: s.writer.write(b"\xf1\x80\0\0\0\0"), 1002),
            (lambda s: s.send_frame(b"x" * 200_000, TEXT), 1009),
            (
                lambda s: [s.send_frame(b"x" * 60_000, TEXT, fin=False), s.send_frame(b"x" * 60_000, CONT)],
                1009,
            ),
            (lambda s: s.writer.write(b"\x81\xff" + b"\x7f" + b"\xff" * 7), 1009),
        ]:
            socket = await RawSocket.open(harness)
            handler = harness.echo.clients[-1]
            broken(socket)
            while True:
                opcode, body = await socket.frame()
                if opcode == CLOSE:
                    break
            assert int.from_bytes(body[:2], "big") == code
            assert await socket.reader.read() == b""
            socket.close_socket()
            assert len(handler.received_frames) == 1


async def test_a_message_too_large_does_not_disturb_other_clients() -> None:
    async with http_harness(ServerConfig(message_size=10_000)) as harness:
        good, bad = await RawSocket.open(harness), await RawSocket.open(harness)
        bad.send_frame(b"x" * 1_000_000)
        assert (await bad.frame())[1][:2] == (1009).to_bytes(2, "big")
        good.send(id=1, method="echo", params={"a": "x" * 9_000})
        assert (await good.receive())["id"] == 1
        good.close_socket()
        bad.close_socket()


async def test_a_client_over_its_rate_is_closed_and_can_resume() -> None:
    limits = GatewayLimits(messages_per_second=1, message_burst=5)
    clock = FakeClock()
    async with http_harness(limits=limits, clock=clock) as harness:
        socket = await RawSocket.open(harness)
        for number in range(1, 10):
            socket.send(id=number, method="echo")
        code, reason = await socket.wait_closed()
        assert code == 1008
        assert "messages a second of this token" in reason
        [handler] = harness.echo.clients
        assert len(handler.received_frames) == 5
        assert handler.reasons == []
        await clock.advance(5)
        again = await RawSocket.open(harness, initialize=False)
        again.send(id=1, method="_accord/resume", params={"connectionId": socket.id, "received": 5})
        assert (await again.receive())["result"]["received"] == 5
        again.close_socket()


async def test_connections_over_the_limit_are_rejected() -> None:
    async with http_harness(limits=GatewayLimits(connections=1)) as harness:
        socket = await RawSocket.open(harness)
        reader, writer = await harness.raw()
        writer.write(harness.head(**HANDSHAKE))
        assert " 429 " in (await RawSocket(reader, writer).head())[0]
        writer.close()
        await socket.close()
        await harness.echo.until(lambda: bool(harness.echo.clients[0].reasons))
        (await RawSocket.open(harness)).close_socket()


async def test_a_client_can_resume_although_its_connection_fills_the_limit() -> None:
    async with http_harness(limits=GatewayLimits(connections=1)) as harness:
        first = await RawSocket.open(harness)
        first.drop()
        await harness.until(lambda: harness.server.metrics.sockets == 0)
        second = await RawSocket.open(harness, initialize=False)
        second.send(id=1, method="_accord/resume", params={"connectionId": first.id, "received": 1})
        assert (await second.receive())["result"] == {"connectionId": first.id, "received": 1}
        second.drop()
        await harness.until(lambda: harness.server.metrics.sockets == 0)
        third = await RawSocket.open(harness)  # does not resume, so it replaces the waiting connection
        await harness.echo.until(lambda: bool(harness.echo.clients[0].reasons))
        assert harness.echo.clients[0].reasons == ["replaced by a newer connection of the same token"]
        assert harness.limit_counter.connections == 1
        third.close_socket()


async def test_a_silent_peer_is_pinged_and_then_dropped() -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness:
        answering, dead = await RawSocket.open(harness), await RawSocket.open(harness)
        await clock.advance(21)
        for socket in (answering, dead):
            assert await socket.frame() == (PING, b"")
        answering.send_frame(b"", PONG)
        answering.send(id=1, method="echo")
        await answering.receive()
        await clock.advance(20)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await dead.frame()
        assert harness.echo.clients[1].reasons == [], "its connection must wait for a resume"
        await clock.advance(120)
        await harness.echo.until(lambda: bool(harness.echo.clients[1].reasons))
        dead.close_socket()
        answering.close_socket()


async def test_a_socket_without_initialize_is_closed() -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness:
        socket = await RawSocket.open(harness, initialize=False)
        await clock.advance(10)
        assert await socket.wait_closed() == (1002, "no initialize within 10 seconds")
        await harness.echo.until(lambda: bool(harness.echo.clients[0].reasons))


async def test_the_gateway_ends_a_connection_with_a_code_and_a_reason() -> None:
    async with http_harness() as harness:
        socket = await RawSocket.open(harness)
        [handler] = harness.echo.clients
        handler.send({"method": "last"})
        handler.connection.end(1011, "ä" * 200)
        handler.send({"method": "never"})
        assert (await socket.receive())["method"] == "last"
        code, reason = await socket.wait_closed()
        assert (code, reason) == (1011, "ä" * 61)


async def test_a_revoked_token_closes_its_sockets() -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness:
        socket = await RawSocket.open(harness)
        harness.tokens.revoke(harness.token.id)
        await clock.advance(1)
        assert await socket.wait_closed() == (1008, "the token was revoked")
