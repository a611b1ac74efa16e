"""A hand-spoken WebSocket: for what the `websockets` client would not send, and for sockets that go silent."""

import asyncio
import os
import struct
from typing import Any

import msgspec
from tests.gateway.front.stage import INITIALIZE, Stage, message

TEXT, BINARY, CLOSE, PING, PONG, CONT = 0x1, 0x2, 0x8, 0x9, 0xA, 0x0


class RawSocket:
    """One client socket; reads and writes single frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.id = ""

    @staticmethod
    async def open(stage: Stage, path: str = "/acp", *, initialize: bool = True) -> "RawSocket":
        """Shake hands; with `initialize`, begin the conversation too."""
        reader, writer = await stage.raw()
        self = RawSocket(reader, writer)
        writer.write(stage.head(path=path, **HANDSHAKE))
        head = await self.head()
        assert head[0].startswith("HTTP/1.1 101"), head
        self.id = next(
            line.partition(": ")[2] for line in head if line.lower().startswith("acp-connection-id")
        )
        if initialize:
            self.say(msgspec.json.encode(INITIALIZE))
            assert (await self.hear())["id"] == 0
        return self

    async def head(self) -> list[str]:
        """The lines of a response's head."""
        return (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]

    def say(self, body: bytes | str, opcode: int = TEXT, *, fin: bool = True, masked: bool = True) -> None:
        """One frame."""
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

    def tell(self, **members: Any) -> None:
        """One message."""
        self.say(message(**members))

    async def frame(self) -> tuple[int, bytes]:
        """The next frame."""
        first, second = await self.reader.readexactly(2)
        assert first & 0x80
        assert not first & 0x70
        size = second & 0x7F
        assert not second & 0x80, "a server does not mask"
        if size == 126:
            [size] = struct.unpack("!H", await self.reader.readexactly(2))
        elif size == 127:
            [size] = struct.unpack("!Q", await self.reader.readexactly(8))
        return first & 0x0F, await self.reader.readexactly(size)

    async def hear(self) -> Any:
        """The next message."""
        opcode, body = await self.frame()
        assert opcode == TEXT, (opcode, body)
        return msgspec.json.decode(body)

    async def closed(self) -> tuple[int, str]:
        """The close code and the reason, after whatever comes before; then the end of the socket."""
        while True:
            opcode, body = await self.frame()
            if opcode == CLOSE:
                break
        self.say(body, CLOSE)
        assert await self.reader.read() == b""
        self.shut()
        return int.from_bytes(body[:2], "big"), body[2:].decode()

    def drop(self) -> None:
        """Vanish without a goodbye."""
        self.writer.transport.abort()

    def shut(self) -> None:
        """Close the socket."""
        self.writer.close()

    async def leave(self, code: int = 1000) -> None:
        """Say goodbye with this code."""
        self.say(code.to_bytes(2, "big"), CLOSE)
        while (await self.frame())[0] != CLOSE:
            pass
        self.shut()


HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "sec_websocket_extensions": "permessage-deflate",
}


def noise(size: int) -> bytes:
    """Bytes of no meaning."""
    return os.urandom(size)
