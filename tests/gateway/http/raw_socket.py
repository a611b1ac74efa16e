"""A WebSocket driven frame by frame, for what the `websockets` client would not send and for sockets that go
silent.
"""

import asyncio
import struct
from typing import Any

import msgspec
from tests.gateway.http.http_harness import INITIALIZE, HttpHarness, message

TEXT, BINARY, CLOSE, PING, PONG, CONT = 0x1, 0x2, 0x8, 0x9, 0xA, 0x0


class RawSocket:
    """One client socket. Reads and writes single frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.id = ""

    @staticmethod
    async def open(harness: HttpHarness, path: str = "/acp", *, initialize: bool = True) -> "RawSocket":
        """Do the handshake and, with `initialize`, the first call."""
        reader, writer = await harness.raw()
        self = RawSocket(reader, writer)
        writer.write(harness.head(path=path, **HANDSHAKE))
        head = await self.head()
        assert head[0].startswith("HTTP/1.1 101"), head
        self.id = next(
            line.partition(": ")[2] for line in head if line.lower().startswith("acp-connection-id")
        )
        if initialize:
            self.send_frame(msgspec.json.encode(INITIALIZE))
            assert (await self.receive())["id"] == 0
        return self

    async def head(self) -> list[str]:
        """The lines of a response head."""
        return (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]

    def send_frame(
        self, body: bytes | str, opcode: int = TEXT, *, fin: bool = True, masked: bool = True
    ) -> None:
        """Send one frame."""
        body = body.encode() if isinstance(body, str) else body
        size = len(body)
        head = bytes([(0x80 if fin else 0) | opcode])
        mark = 0x80 if masked else 0
        if size < 126:
            head += bytes([mark | size])
        elif size < 1 << 16:
            head += bytes([mark | 126]) + struct.pack("!H", size)
        else:
            head += bytes([mark | 127]) + struct.pack("!Q", size)
        self.writer.write(head + (b"\0\0\0\0" if masked else b"") + body)

    def send(self, **members: Any) -> None:
        """Send one message."""
        self.send_frame(message(**members))

    async def frame(self) -> tuple[int, bytes]:
        """The next frame."""
        first, second = await self.reader.readexactly(2)
        assert first & 0x80
        assert not first & 0x70
        size = second & 0x7F
        assert not second & 0x80, "a server must not mask"
        if size == 126:
            [size] = struct.unpack("!H", await self.reader.readexactly(2))
        elif size == 127:
            [size] = struct.unpack("!Q", await self.reader.readexactly(8))
        return first & 0x0F, await self.reader.readexactly(size)

    async def receive(self) -> Any:
        """The next message."""
        opcode, body = await self.frame()
        assert opcode == TEXT, (opcode, body)
        return msgspec.json.decode(body)

    async def wait_closed(self) -> tuple[int, str]:
        """Read up to the close frame, answer it and wait for the end of the socket. Return the code and the
        reason.
        """
        while True:
            opcode, body = await self.frame()
            if opcode == CLOSE:
                break
        self.send_frame(body, CLOSE)
        assert await self.reader.read() == b""
        self.close_socket()
        return int.from_bytes(body[:2], "big"), body[2:].decode()

    def drop(self) -> None:
        """Abort the connection without a close."""
        self.writer.transport.abort()

    def close_socket(self) -> None:
        """Close the TCP socket."""
        self.writer.close()

    async def close(self, code: int = 1000) -> None:
        """Close the WebSocket with this code."""
        self.send_frame(code.to_bytes(2, "big"), CLOSE)
        while (await self.frame())[0] != CLOSE:
            pass
        self.close_socket()


HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "sec_websocket_extensions": "permessage-deflate",
}
