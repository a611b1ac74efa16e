"""Links for the transport contract: each transport with an echo at its far end."""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.patience import PATIENCE
from transport_contract import Inbox, Link

from accord.wire.memory_transport import memory_pair
from accord.wire.process import spawn
from accord.wire.process_tree import StopTimeouts
from accord.wire.stdio import StdioTransport
from accord.wire.transport import Frame, Transport, TransportEnd

ECHO = str(Path(__file__).with_name("echo_child.py"))
QUICK = StopTimeouts(leave=0.3, terminate=5.0)


class MemoryLink:
    """A memory pair whose other end echoes."""

    def __init__(self) -> None:
        self.near, self.far = memory_pair()
        self.received = Inbox()
        self.far.start(self)

    def frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            assert isinstance(frame, bytes)
            self.far.send(frame)
        self.received.frames(frames)

    def ended(self, end: TransportEnd) -> None:
        self.received.ended(end)

    async def far_has_echoed(self, number: int) -> None:
        await self.received.count(number)

    async def far_stops_reading(self) -> None:
        self.far.pause()

    async def far_resumes_reading(self) -> None:
        self.far.resume()

    async def far_closes(self) -> None:
        await self.far.aclose()


class ControlledLink:
    """A transport to the echo program, which is controlled through a separate socket."""

    def __init__(self, near: Transport, control: socket.socket) -> None:
        self.near = near
        self._control = control

    async def far_has_echoed(self, number: int) -> None:
        await self._command(f"echoed {number}")

    async def far_stops_reading(self) -> None:
        await self._command("stop")

    async def far_resumes_reading(self) -> None:
        await self._command("go")

    async def far_closes(self) -> None:
        await asyncio.get_running_loop().sock_sendall(self._control, b"exit\n")

    async def _command(self, command: str) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._control, f"{command}\n".encode())
        async with asyncio.timeout(PATIENCE):
            assert await loop.sock_recv(self._control, 3) == b"ok\n"


def listen_for_control(folder: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.join(folder, "control"))
    listener.listen()
    listener.setblocking(False)
    return listener


@asynccontextmanager
async def memory_link() -> AsyncGenerator[Link]:
    link = MemoryLink()
    yield link
    await link.near.aclose()
    await link.far.aclose()


@asynccontextmanager
async def process_link() -> AsyncGenerator[Link]:
    with tempfile.TemporaryDirectory() as folder, listen_for_control(folder) as listener:
        near = await spawn([sys.executable, "-SE", ECHO, listener.getsockname()], timeouts=QUICK)
        control, _ = await asyncio.get_running_loop().sock_accept(listener)
        with control:
            yield ControlledLink(near, control)
            await near.aclose()


@asynccontextmanager
async def stdio_link(listener: socket.socket) -> AsyncGenerator[Link]:
    """For a program whose stdin and stdout are connected to the echo program's stdout and stdin."""
    near = StdioTransport(flush=0.3)
    control, _ = await asyncio.get_running_loop().sock_accept(listener)
    with control:
        yield ControlledLink(near, control)
        await near.aclose()
