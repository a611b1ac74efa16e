"""Writing to a pipe: how many writes a stream of messages takes, and what a broken pipe does."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from tests.patience import PATIENCE
from tests.wire.loops import LOOPS

from accord.wire.pipes import LoopWriter

UPDATE = b'{"jsonrpc":"2.0","method":"update","params":{"n":%d}}'
RESPONSE = b'{"jsonrpc":"2.0","id":%d,"result":{}}'


@pytest.fixture
def packets() -> Iterator[tuple[int, LoopWriter]]:
    """A pipe that keeps each write as a packet: its read end, and a writer for the other end."""
    read_end, write_end = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
    writer = LoopWriter(write_end)
    yield read_end, writer
    os.close(read_end)


class Writes:
    """Reads the packets as they come."""

    def __init__(self, read_end: int) -> None:
        self.packets: list[bytes] = []
        self._read_end = read_end
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(read_end, self._read)

    @property
    def lines(self) -> list[bytes]:
        return b"".join(self.packets).splitlines()

    async def wait_for(self, lines: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.lines) < lines:
                self._changed.clear()
                await self._changed.wait()

    def _read(self) -> None:
        self.packets.append(os.read(self._read_end, 65536))
        self._changed.set()


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stream_of_notifications_takes_few_writes(loop: str, packets: tuple[int, LoopWriter]) -> None:
    read_end, writer = packets

    async def run() -> None:
        writes = Writes(read_end)
        writer.start(lambda error: None)
        for number in range(1000):
            writer.write(UPDATE % number)
            await asyncio.sleep(0)
        await writes.wait_for(1000)
        assert writes.lines == [UPDATE % number for number in range(1000)]
        assert len(writes.packets) < 300
        writer.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_response_is_sent_with_the_notifications_before_it(
    loop: str, packets: tuple[int, LoopWriter]
) -> None:
    read_end, writer = packets

    async def run() -> None:
        writes = Writes(read_end)
        writer.start(lambda error: None)
        for number in range(50):
            writer.write(UPDATE % number)
            await asyncio.sleep(0)
        writer.write(RESPONSE % 1)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not writer.unsent
        await writes.wait_for(51)
        assert writes.lines == [*(UPDATE % number for number in range(50)), RESPONSE % 1]
        writer.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())


async def test_nothing_is_written_after_the_reader_has_gone() -> None:
    read_end, write_end = os.pipe()
    writer = LoopWriter(write_end)
    broken: list[OSError] = []
    writer.write(UPDATE % 1)
    os.close(read_end)
    writer.start(broken.append)
    other_read_end, reused = os.pipe()  # the descriptor of the broken pipe may be used again
    for number in range(10):
        writer.write(UPDATE % number)
        await asyncio.sleep(0)
    os.close(reused)
    assert os.read(other_read_end, 4096) == b""
    assert len(broken) == 1
    os.close(other_read_end)
