"""Serves the test agent to a client over WebSocket or streamable HTTP."""

import hmac
import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from accord.check.client.client_under_test import PipeHandler
from accord.errors import NotFound
from accord.gateway.access.access_tokens import TokenRights, TokenStore
from accord.gateway.access.authentication import Authenticator, AuthRequest
from accord.gateway.access.browser_logins import BrowserLogins
from accord.gateway.access.request_origin import Origins
from accord.gateway.access.resource_limits import LimitCounter
from accord.gateway.client_connection import CallFrame, ClientConnection, IncomingFrame, OutgoingFrame
from accord.gateway.http import serve_http
from accord.gateway.http.server_config import ServerConfig
from accord.trace.wire_line import WireLine, read_wire_line
from accord.wire.envelope import id_key
from accord.wire.pipes import LineFramer
from accord.wire.transport import Receiver, TransportEnd


class ServedPipe:
    """The connection of a client to the agent that the checker serves. Implements `AgentPipe`."""

    def __init__(self, connection: ClientConnection) -> None:
        self.arguments: Sequence[str] = ()
        self.login: str = ""
        self._connection = connection
        self._receiver: Receiver | None = None
        self._waiting: list[bytes] = []
        self._framer = LineFramer()
        self._sessions: dict[str, str | None] = {}
        """The sessions of the client's open requests: their streams get the responses."""

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        waiting, self._waiting = self._waiting, []
        if waiting:
            receiver.frames(list(waiting))

    def write(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            if isinstance(frame, bytes):
                self._send(read_wire_line("", 0, "agent", frame))

    def _send(self, line: WireLine) -> None:
        """Send a message on the stream that it belongs to."""
        frame: OutgoingFrame = OutgoingFrame(line.data)
        stream = line.session or None
        if line.message is not None and "id" in line.message and line.id is not None:
            frame = CallFrame(line.data, id=line.id, is_request=bool(line.method))
            if not line.method:
                stream = self._sessions.pop(id_key(line.id), None)
        self._connection.send((frame,), stream)

    def write_stderr(self, text: str) -> None:
        """A remote agent shows no stderr."""

    def set_reading(self, reading: bool) -> None:
        """The server always reads."""

    def exit(self, code: int | None = None) -> None:
        self._connection.end(1001 if code is None else 1000, "the agent exited")

    # -- the server's side

    def on_frames(self, frames: list[IncomingFrame]) -> None:
        for frame in frames:
            line = read_wire_line("", 0, "client", frame.body)
            if line.is_request and line.method != "session/new":
                self._sessions[id_key(line.id)] = line.session or None
            if self._receiver is None:
                self._waiting.append(frame.body)
            else:
                self._receiver.frames([frame.body])

    def on_closed(self, reason: str) -> None:
        if self._receiver is not None:
            self._receiver.ended(TransportEnd(reason))


class _SecretPath(Authenticator):
    """Asks no client for a token: the path of the agent is secret."""

    def __init__(self, folder: Path) -> None:
        tokens = TokenStore(folder / "tokens")
        super().__init__(Origins("127.0.0.1"), tokens=tokens, browsers=BrowserLogins(folder / "browsers"))
        self._token, _ = tokens.new("accord check")

    def authenticate(self, request: AuthRequest) -> TokenRights:
        self.check_origin(request)
        return TokenRights(token=self._token.id, peer=request.peer)

    async def authenticate_socket(self, request: AuthRequest) -> TokenRights:
        return self.authenticate(request)


class AgentServer:
    """Serves the test agent to one client process. Implements `AgentListener`."""

    def __init__(self, on_pipe: PipeHandler) -> None:
        self.command: list[str] = []
        self.address: str = ""
        self._secret = secrets.token_hex(16)
        self._on_pipe = on_pipe
        self._stack = AsyncExitStack()

    async def start(self, folder: Path) -> None:
        """Listen on a free port of loopback; the files of the server go to `folder`."""
        limits = LimitCounter()
        authenticator, config = _SecretPath(folder), ServerConfig(translates=False)
        serving = serve_http(opener=self, authenticator=authenticator, limit_counter=limits, config=config)
        server = await self._stack.enter_async_context(serving)
        host, port = server.addresses[0]
        self.address = f"{host}:{port}/acp/{self._secret}"

    def open(self, connection: ClientConnection, rights: TokenRights, agent: str | None) -> ServedPipe:
        """Open a connection of the client."""
        if not hmac.compare_digest((agent or "").encode(), self._secret.encode()):
            raise NotFound("there is no such agent")
        pipe = ServedPipe(connection)
        self._on_pipe(pipe)
        return pipe

    async def aclose(self) -> None:
        await self._stack.aclose()


async def serve_agent(folder: Path, on_pipe: PipeHandler) -> AgentServer:
    """Serve the test agent; `on_pipe` is called for each connection."""
    server = AgentServer(on_pipe)
    await server.start(folder)
    return server
