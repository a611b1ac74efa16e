"""Authentication over real sockets: the responses to browsers, foreign pages and requests without a token."""

import asyncio
import json

import pytest
from tests.gateway.http.http_harness import INITIALIZE, HttpHarness, http_harness
from tests.repetitions import repetitions
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from accord.gateway.access.access_tokens import TokenStore
from accord.gateway.access.authentication import Throttle

REQUESTS = repetitions(10_000)


async def statuses(harness: HttpHarness, requests: list[bytes]) -> list[int]:
    """The statuses of requests sent one after the other, over as few sockets as the server allows."""
    found: list[int] = []
    while len(found) < len(requests):
        reader, writer = await harness.raw()
        try:
            for request in requests[len(found) :]:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
                await reader.readexactly(int(fields.get(b"content-length", b"0")))
                found.append(int(head.split()[1]))
                if fields.get(b"connection") == b"close":
                    break
        finally:
            writer.close()
    return found


async def test_bad_credentials_and_origins_are_rejected_on_every_endpoint() -> None:
    mixes: list[tuple[dict[str, str], int]] = [
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer acc_wrong"}, 401),
        ({"authorization": "Basic dTpw"}, 401),
        ({"host": "evil.example"}, 421),
        ({"host": ""}, 400),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:1"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"authorization": "", "cookie": "accord=nonsense"}, 403),
    ]
    async with http_harness() as harness:
        for verb, path in (
            ("POST", "/acp"),
            ("GET", "/acp"),
            ("DELETE", "/acp"),
            ("GET", "/acp/known"),
            ("GET", "/metrics"),
            ("POST", "/api/ticket"),
        ):
            length = {"content_length": "0"} if verb == "POST" else {}
            requests = [harness.head(verb, path, **length, **headers) for headers, _ in mixes]
            expected = [status for _, status in mixes]
            assert await statuses(harness, requests) == expected
            harness.auth.throttle = Throttle(harness.clock)  # every endpoint starts with a fresh throttle
        assert await statuses(harness, [harness.head(path=f"/acp?token={harness.secret}")]) == [400]
        assert harness.echo.clients == []


async def test_a_websocket_is_rejected_before_the_upgrade() -> None:
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec_websocket_version": "13",
        "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    mixes: list[tuple[str, dict[str, str], int]] = [
        ("/acp", {"authorization": ""}, 401),
        ("/acp?ticket=nonsense", {"authorization": ""}, 401),
        ("/acp", {"authorization": "", "cookie": "accord=nonsense", "origin": "own"}, 401),
        ("/acp", {"origin": "https://evil.example"}, 403),
        ("/acp", {"host": "evil.example"}, 421),
    ]
    async with http_harness() as harness:
        for path, headers, status in mixes:
            sent_headers = {name: harness.url if value == "own" else value for name, value in headers.items()}
            assert await statuses(harness, [harness.head("GET", path, **upgrade, **sent_headers)]) == [status]
        assert harness.echo.clients == []


async def test_thousands_of_requests_without_a_token() -> None:
    async with http_harness() as harness:
        kinds = [
            harness.head("GET", "/metrics", authorization=""),
            harness.head("GET", "/acp", authorization="", accept="text/event-stream", acp_connection_id="x"),
            harness.head("POST", "/acp", authorization="Bearer acc_aaaaaaaa_" + "A" * 43, content_length="0"),
            harness.head("POST", "/api/ticket", authorization="", cookie="accord=x", content_length="0"),
            harness.head("DELETE", "/acp", authorization=f"Bearer acc_{harness.token.id}_" + "A" * 43),
        ]
        lanes = [statuses(harness, kinds * (REQUESTS // 20)) for _ in range(4)]
        found = [status for lane in await asyncio.gather(*lanes) for status in lane]
        assert len(found) == REQUESTS
        assert set(found) <= {401, 403, 429}
        assert harness.auth.refused == REQUESTS
        assert harness.echo.clients == []
        assert harness.auth.tokens.last_used(harness.token) is None
        assert await statuses(harness, [harness.head("GET", "/metrics")]) == [200]


async def test_a_browser_logs_in_gets_a_ticket_and_opens_one_websocket() -> None:
    async with http_harness() as harness:
        reader, writer = await harness.raw()
        writer.write(
            harness.head("POST", "/api/login", origin=harness.url, content_length="0", connection="close")
        )
        head = (await reader.read()).decode()
        writer.close()
        assert head.startswith("HTTP/1.1 204")
        cookie = next(line for line in head.splitlines() if line.lower().startswith("set-cookie: "))[12:]
        assert cookie.endswith("HttpOnly; SameSite=Strict")
        page = {"authorization": "", "cookie": cookie.partition(";")[0], "origin": harness.url}
        reader, writer = await harness.raw()
        writer.write(harness.head("POST", "/api/ticket", content_length="0", connection="close", **page))
        body = (await reader.read()).partition(b"\r\n\r\n")[2]
        writer.close()
        ticket = json.loads(body)["ticket"]
        async with connect(
            f"{harness.websocket}?ticket={ticket}", origin=Origin(harness.url), proxy=None
        ) as socket:
            await socket.send(json.dumps(INITIALIZE))
            assert '"result"' in str(await socket.recv())
        assert await statuses(harness, [harness.head("GET", f"/acp?ticket={ticket}", authorization="")]) == [
            401
        ]


async def test_revoking_a_token_ends_its_websockets_and_streams() -> None:
    async with http_harness() as harness:
        async with connect(harness.websocket, additional_headers=harness.headers, proxy=None) as socket:
            await socket.send(json.dumps(INITIALIZE))
            await socket.recv()
            body = json.dumps(INITIALIZE)
            reader, writer = await harness.raw()
            length = {"content_type": "application/json", "content_length": str(len(body))}
            writer.write(harness.head("POST", "/acp", **length) + body.encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            connection = next(line for line in head.splitlines() if line.startswith("acp-connection-id: "))[
                19:
            ]
            writer.close()
            reader, writer = await harness.raw()
            named = harness.echo.clients[-1].connection.id
            assert named.lower() == connection
            writer.write(harness.head("GET", "/acp", accept="text/event-stream", acp_connection_id=named))
            await reader.readuntil(b"\r\n\r\n")
            assert isinstance(harness.auth.tokens, TokenStore)
            TokenStore(harness.auth.tokens.folder).revoke(harness.token.id)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "the token was revoked")
            await reader.read()  # the stream ends
            writer.close()
        await harness.echo.until(lambda: all(client.reasons for client in harness.echo.clients))
        assert await statuses(harness, [harness.head("GET", "/metrics")]) == [401]
