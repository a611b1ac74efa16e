"""One GET over one connection to an address that was checked before. HTTP by h11, TLS and sockets by asyncio."""

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from accord.coder.web.url import Url
from accord.errors import AccordError, MissingExtra

_CHUNK: Final = 64 * 1024
_AGENT: Final = "accord-agent"
_WANTED: Final = "text/html,application/xhtml+xml,text/plain,text/markdown,application/json,*/*;q=0.5"


class WebRefused(AccordError):
    """The page could not be had; one line says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an answer; its body is still to be read."""

    status: int
    headers: dict[str, str]
    """By lower-case name; the last of several."""

    @property
    def type(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """The encoding that the server names."""
        for parameter in self.headers.get("content-type", "").split(";")[1:]:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset":
                return value.strip().strip("\"'") or None
        return None


class Exchange:
    """`async with Exchange(...) as exchange:`, then `ask`, then `body`. The end of the block closes the connection."""

    def __init__(self, url: Url, addresses: Sequence[str], tls: ssl.SSLContext | None) -> None:
        """The addresses are tried in order until one takes the connection."""
        try:
            import h11
        except ImportError:
            raise MissingExtra("agent", "web_fetch") from None

        self._h11 = h11
        self._url = url
        self._addresses = addresses
        self._tls = tls
        self._machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=_CHUNK)
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._answer: Answer

    async def __aenter__(self) -> "Exchange":
        tls = None
        if self._url.scheme == "https":
            tls = self._tls or await asyncio.to_thread(ssl.create_default_context)
        failure: OSError | None = None
        for address in self._addresses:
            try:
                self._reader, self._writer = await asyncio.open_connection(
                    address, self._url.port, ssl=tls, server_hostname=self._url.host if tls else None
                )
            except OSError as error:
                failure = error
            else:
                return self
        raise WebRefused(f"no connection to {self._url.authority}: {failure}")

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()  # nothing is left to say, and a server may be slow to hear it
        with suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()

    async def ask(self) -> Answer:
        """Send the request and read the head of the answer."""
        headers = [
            ("Host", self._url.authority),
            ("User-Agent", _AGENT),
            ("Accept", _WANTED),
            ("Accept-Encoding", "gzip"),
            ("Connection", "close"),
        ]
        h11 = self._h11
        request = h11.Request(method="GET", target=self._url.target, headers=headers)
        self._writer.write(
            (self._machine.send(request) or b"") + (self._machine.send(h11.EndOfMessage()) or b"")
        )
        await self._writer.drain()
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                found = {
                    name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers
                }
                self._answer = Answer(event.status_code, found)
                return self._answer
            if not isinstance(event, h11.InformationalResponse):
                raise WebRefused(f"{self._url.host} closed the connection without an answer")

    async def body(self, most: int) -> tuple[bytes, bool]:
        """The body, unpacked, up to so many bytes; and whether that is all of it."""
        kept = bytearray()
        async for piece in self._unpacked(most + 1):
            kept += piece
            if len(kept) > most:
                return bytes(kept[:most]), False
        return bytes(kept), True

    async def _unpacked(self, most: int) -> AsyncGenerator[bytes]:
        packing = self._answer.headers.get("content-encoding", "identity").strip().lower()
        if packing in ("", "identity"):
            async for piece in self._pieces():
                yield piece
            return
        if packing not in ("gzip", "x-gzip", "deflate"):
            raise WebRefused(f"{self._url.host} answered in the unknown encoding {packing!r}")
        # Never more than was asked for at once: a few packed bytes may stand for gigabytes.
        unpacker = zlib.decompressobj(wbits=47)
        async for piece in self._pieces():
            while piece:
                try:
                    yield unpacker.decompress(piece, most)
                except zlib.error as error:
                    raise WebRefused(
                        f"{self._url.host} sent a body that cannot be unpacked: {error}"
                    ) from None
                piece = unpacker.unconsumed_tail

    async def _pieces(self) -> AsyncGenerator[bytes]:
        while isinstance(event := await self._event(), self._h11.Data):
            yield bytes(event.data)

    async def _event(self) -> object:
        try:
            while (event := self._machine.next_event()) is self._h11.NEED_DATA:
                self._machine.receive_data(await self._reader.read(_CHUNK))
        except (self._h11.RemoteProtocolError, OSError) as error:
            raise WebRefused(f"{self._url.host} broke off its answer: {error}") from None
        return event
