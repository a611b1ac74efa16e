"""An HTTP server on loopback with an echo gateway: it answers every request with the request's parameters."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import NotFound
from accord.gateway.access.access_tokens import TokenRights, TokenStore
from accord.gateway.access.authentication import Authenticator
from accord.gateway.access.browser_logins import BrowserLogins
from accord.gateway.access.request_origin import Origins
from accord.gateway.access.resource_limits import GatewayLimits, LimitCounter
from accord.gateway.client_connection import CallFrame, ClientConnection, IncomingFrame, OutgoingFrame
from accord.gateway.http import HttpServer, ServerConfig, serve_http
from accord.gateway.metrics import Metrics
from accord.gateway.notifications.notifier import Notifier
from accord.testing import FakeClock

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1},
}


def message(**members: Any) -> str:
    """One JSON-RPC message as text."""
    return json.dumps({"jsonrpc": "2.0", **members}, ensure_ascii=False)


class EchoHandler:
    """The gateway's end of one connection: the frames it received, and why it ended."""

    def __init__(
        self, echo: "EchoGateway", connection: ClientConnection, rights: TokenRights, agent: str | None
    ) -> None:
        self.connection = connection
        self.rights = rights
        self.agent = agent
        self.received_frames: list[bytes] = []
        self.reasons: list[str] = []
        self._echo = echo

    def on_frames(self, frames: list[IncomingFrame]) -> None:
        assert not self.reasons, "a frame came after the end"
        for frame in frames:
            self.received_frames.append(frame.body)
            said = json.loads(frame.body)
            if "id" in said and "method" in said and said["method"] not in self._echo.silent_on:
                self.answer(said)
        self._echo.notice()

    def answer(self, said: dict[str, Any]) -> None:
        """Answer with the parameters, on the stream that such a request has."""
        params = said.get("params") or {}
        stream = params.get("sessionId") if said["method"] == "session/prompt" else None
        result: Any = {"sessionId": "s1"} if said["method"] == "session/new" else params
        self.send({"id": said["id"], "result": result}, stream)

    def send(self, members: dict[str, Any], stream: str | None = None) -> None:
        """Send a message of the agent."""
        body = json.dumps({"jsonrpc": "2.0", **members}).encode()
        frame = OutgoingFrame(body)
        if "id" in members:
            frame = CallFrame(body, id=members["id"], is_request="method" in members)
        self.connection.send((frame,), stream)

    def on_closed(self, reason: str) -> None:
        self.reasons.append(reason)
        self._echo.notice()


class EchoGateway:
    """Accepts connections, for the agents `None` and `known`."""

    def __init__(self) -> None:
        self.clients: list[EchoHandler] = []
        self.silent_on: set[str] = set()
        self._changed = asyncio.Event()

    def open(self, connection: ClientConnection, rights: TokenRights, agent: str | None) -> EchoHandler:
        if agent not in (None, "known"):
            raise NotFound(f"There is no agent {agent!r}")
        client = EchoHandler(self, connection, rights, agent)
        self.clients.append(client)
        self.notice()
        return client

    def notice(self) -> None:
        """Wake the waiting tests."""
        self._changed.set()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        while not happened():
            self._changed.clear()
            await self._changed.wait()


class HttpHarness:
    """The server under test, and what a client needs to reach it."""

    def __init__(
        self,
        server: HttpServer,
        echo: EchoGateway,
        auth: Authenticator,
        limit_counter: LimitCounter,
        clock: Clock,
    ) -> None:
        self.server = server
        self.echo = echo
        self.auth = auth
        self.limit_counter = limit_counter
        self.clock = clock
        self.sockets: list[asyncio.StreamWriter] = []
        assert isinstance(auth.tokens, TokenStore)
        self.tokens = auth.tokens
        self.token, self.secret = self.tokens.new("test")
        _, self.other = self.tokens.new("other")
        self.host, self.port = server.addresses[0]
        self.url = server.url
        self.headers = {"Authorization": f"Bearer {self.secret}"}

    @property
    def websocket(self) -> str:
        """The address for a WebSocket."""
        return f"ws://{self.host}:{self.port}/acp"

    async def until(self, happened: Callable[[], bool]) -> None:
        """Let sockets work until the condition holds."""
        while not happened():  # noqa: ASYNC110 - socket events of the kernel set no event of ours
            await asyncio.sleep(0)

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A plain socket. It is closed at the end if the test has not closed it."""
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=1 << 24)
        self.sockets.append(writer)
        return reader, writer

    def head(self, verb: str = "GET", path: str = "/acp", **headers: str) -> bytes:
        """The head of an HTTP/1.1 request with the token. `_` in a header name becomes `-`."""
        own = {"host": f"{self.host}:{self.port}", "authorization": f"Bearer {self.secret}"} | headers
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in own.items() if value]
        return "\r\n".join([f"{verb} {path} HTTP/1.1", *lines, "", ""]).encode()


async def advance_forever(clock: Clock) -> None:
    """Advance a fake clock until cancelled."""
    while isinstance(clock, FakeClock):
        await clock.advance(1)


def loopback_authenticator(folder: Path, clock: Clock = SYSTEM_CLOCK) -> Authenticator:
    """An authenticator for loopback with its tokens in this folder."""
    tokens, browsers = TokenStore(folder / "tokens"), BrowserLogins(folder / "browsers")
    return Authenticator(Origins("127.0.0.1"), tokens=tokens, browsers=browsers, clock=clock)


@asynccontextmanager
async def http_harness(
    config: ServerConfig | None = None,
    *,
    limits: GatewayLimits | None = None,
    clock: Clock = SYSTEM_CLOCK,
    new_notifier: Callable[[Authenticator], Notifier] | None = None,
) -> AsyncGenerator[HttpHarness]:
    """Run a server with an echo gateway, and stop it at the end."""
    echo = EchoGateway()
    limit_counter = LimitCounter(limits, clock)
    with TemporaryDirectory() as folder:
        auth = loopback_authenticator(Path(folder), clock)
        async with serve_http(
            opener=echo,
            authenticator=auth,
            limit_counter=limit_counter,
            config=config,
            clock=clock,
            metrics=Metrics(),
            notifier=None if new_notifier is None else new_notifier(auth),
        ) as server:
            harness = HttpHarness(server, echo, auth, limit_counter, clock)
            try:
                yield harness
            finally:
                for writer in harness.sockets:
                    writer.close()
                # Stopping waits on the clock, so a fake clock must keep moving.
                advancing = asyncio.ensure_future(advance_forever(clock))
    advancing.cancel()
    assert all(len(client.reasons) == 1 for client in echo.clients), (
        "a connection must be told of its end once"
    )
    assert limit_counter.connections == 0
    assert limit_counter.buffered == 0
