"""The scripted agent on accord.agent behind the gateway's HTTP server, without the rest of the gateway.

Usage: accord_gateway.py [CERTIFICATE KEY]. Its first output line is the port, the second a token.
Records the messages in the folder that RECORD names.
"""

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from accord_agent import agent
from msgspec import UNSET, Raw, convert, json

from accord.gateway.access.access_tokens import TokenRights, TokenStore
from accord.gateway.access.authentication import Authenticator
from accord.gateway.access.browser_logins import BrowserLogins
from accord.gateway.access.request_origin import Origins
from accord.gateway.access.resource_limits import LimitCounter
from accord.gateway.client_connection import CallFrame, ClientConnection, IncomingFrame, OutgoingFrame
from accord.gateway.http import ServerConfig, serve_http, tls_context
from accord.wire.envelope import decode_envelope
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Frame, TransportEnd

CONNECTION_METHODS = {"session/new", "session/load", "session/fork", "session/list", "session/delete"}


def session_of(params: Raw) -> str | None:
    """The session id in the params."""
    value = json.decode(params) if bytes(params) else None
    found = value.get("sessionId") if isinstance(value, dict) else None
    return convert(found, str | None)


class ClientBridge:
    """Connects one client connection to an agent of its own."""

    def __init__(self, connection: ClientConnection) -> None:
        theirs, self._agent = memory_pair()
        agent.connect(theirs)
        self._connection = connection
        self._request_streams: dict[int | str | None, str | None] = {}
        folder = Path(os.environ["RECORD"])
        self._to_agent = (folder / "to_agent").open("ab", 0)
        self._to_client = (folder / "to_client").open("ab", 0)
        self._closing: asyncio.Task[None] | None = None
        self._agent.start(self)

    def frames(self, frames: list[Frame]) -> None:
        """Send frames of the agent to the stream that the transport rules require."""
        for frame in frames:
            assert isinstance(frame, bytes)
            self._to_client.write(frame + b"\n")
            envelope = decode_envelope(frame)
            if envelope.method is UNSET:
                stream = self._request_streams.pop(None if envelope.id is UNSET else envelope.id, None)
            else:
                stream = None if envelope.method.startswith("$/") else session_of(envelope.params)
            is_request = envelope.method is not UNSET
            outgoing = (
                OutgoingFrame(frame)
                if envelope.id is UNSET
                else CallFrame(frame, id=envelope.id, is_request=is_request)
            )
            self._connection.send((outgoing,), stream)

    def on_frames(self, frames: list[IncomingFrame]) -> None:
        """Pass frames of the client to the agent."""
        for frame, envelope in frames:
            self._to_agent.write(frame + b"\n")
            if envelope.method is not UNSET and envelope.id is not UNSET:
                self._request_streams[envelope.id] = (
                    None if envelope.method in CONNECTION_METHODS else session_of(envelope.params)
                )
            self._agent.send(frame)

    def ended(self, end: TransportEnd) -> None:
        """The agent ended."""
        self._connection.end(1011, end.reason)

    def on_closed(self, reason: str) -> None:
        """The client disconnected."""
        self._closing = asyncio.ensure_future(self._agent.aclose())


class Opener:
    """Opens client connections."""

    def open(self, connection: ClientConnection, rights: TokenRights, agent: str | None) -> ClientBridge:
        return ClientBridge(connection)


async def main(certificate: str | None = None, key: str | None = None) -> None:
    with TemporaryDirectory() as folder:
        tokens, browsers = TokenStore(Path(folder, "tokens")), BrowserLogins(Path(folder, "browsers"))
        _, token = tokens.new("interop")
        authenticator = Authenticator(Origins("127.0.0.1"), tokens=tokens, browsers=browsers)
        tls = tls_context(Path(certificate), Path(key)) if certificate and key else None
        config = ServerConfig(tls=tls)
        async with serve_http(
            opener=Opener(), authenticator=authenticator, limit_counter=LimitCounter(), config=config
        ) as server:
            sys.stdout.write(f"{server.addresses[0][1]}\n{token}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
