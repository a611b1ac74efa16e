"""Every transport, held to the one contract."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from transport_contract import CHECKS, Inbox, Link, MakeLink

from accord.wire.memory import memory_pair
from accord.wire.transport import End, Frame, Oversized


class MemoryLink:
    """A memory pair whose other end echoes."""

    def __init__(self) -> None:
        self.near, self.far = memory_pair()
        self.heard = Inbox()
        self.far.start(self)

    def frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            assert isinstance(frame, bytes)
            self.far.send(frame)
        self.heard.frames(frames)

    def ended(self, end: End) -> None:
        self.heard.ended(end)

    async def far_has_echoed(self, number: int) -> None:
        await self.heard.count(number)

    async def far_stops_reading(self) -> None:
        self.far.pause()

    async def far_reads_on(self) -> None:
        self.far.resume()

    async def far_goes(self) -> None:
        await self.far.aclose()


@asynccontextmanager
async def memory_link() -> AsyncGenerator[Link]:
    link = MemoryLink()
    yield link
    await link.near.aclose()
    await link.far.aclose()


LINKS: dict[str, MakeLink] = {"memory": memory_link}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("link", LINKS)
async def test_contract(link: str, check: str):
    await CHECKS[check](LINKS[link])


async def test_a_frame_over_the_limit_of_a_memory_pair_arrives_as_oversized():
    left, right = memory_pair(limit=10)
    inbox = Inbox()
    right.start(inbox)
    left.send(b"0123456789")
    left.send(b"0123456789x")
    left.send(b"next")
    assert await inbox.count(3) == [b"0123456789", Oversized(11, b"0123456789x", b"0123456789x"), b"next"]


async def test_what_was_sent_before_the_close_of_a_memory_pair_still_arrives():
    left, right = memory_pair()
    inbox = Inbox()
    right.start(inbox)
    right.pause()
    left.start(Inbox())
    left.send(b"last words")
    await left.aclose()
    assert inbox.ends == []
    right.resume()
    assert (await inbox.end()).reason == "the other side closed the connection"
    assert inbox.received == [b"last words"]
