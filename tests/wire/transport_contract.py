"""The contract of every transport, as checks that any implementation can run.

A `Link` is a transport under test with an echo at its far end. `make_link` creates a new one.
The checks control the far end through the link.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from tests.patience import PATIENCE

from accord.wire.transport import Frame, Transport, TransportEnd


class Inbox:
    """A receiver that records what it gets. Tests can wait for frames and for the end."""

    def __init__(self) -> None:
        self.received: list[Frame] = []
        self.batches: list[int] = []
        self.ends: list[TransportEnd] = []
        self._changed = asyncio.Event()

    def frames(self, frames: list[Frame]) -> None:
        assert not self.ends, "frames after the end"
        assert frames, "an empty batch"
        self.received += frames
        self.batches.append(len(frames))
        self._changed.set()

    def ended(self, end: TransportEnd) -> None:
        self.ends.append(end)
        self._changed.set()

    async def count(self, number: int) -> list[Frame]:
        """Wait until this many frames have arrived in total."""
        await self._until(lambda: len(self.received) >= number)
        return self.received

    async def end(self) -> TransportEnd:
        """Wait for the end."""
        await self._until(lambda: bool(self.ends))
        return self.ends[0]

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                assert not self.ends, f"ended too early, after {len(self.received)} frames: {self.ends}"
                self._changed.clear()
                await self._changed.wait()


class Link(Protocol):
    """A transport under test. Its far end echoes every frame until told otherwise."""

    @property
    def near(self) -> Transport:
        """The transport under test."""
        ...

    async def far_has_echoed(self, number: int) -> None:
        """Wait until the far end has sent this many frames back, delivered or not."""
        ...

    async def far_stops_reading(self) -> None:
        """Make the far end stop reading."""
        ...

    async def far_resumes_reading(self) -> None:
        """Make the far end read and echo again."""
        ...

    async def far_closes(self) -> None:
        """Make the far end close normally."""
        ...


MakeLink = Callable[[], AbstractAsyncContextManager[Link]]
Check = Callable[[MakeLink], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Add a check to the contract under its own name."""
    CHECKS[getattr(function, "__name__", "")] = function
    return function


@check
async def frames_arrive_once_each_and_in_order(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        many: int = getattr(link, "many", 3000)
        sent = [b'{"n":%d}' % number for number in range(many)]
        for number, frame in enumerate(sent):
            link.near.send(frame)
            if number % 100 == 0:
                await link.near.drain()
        assert await inbox.count(many) == sent


@check
async def frames_sent_before_start_are_not_lost(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.send(b'"early"')
        link.near.start(inbox)
        link.near.send(b'"later"')
        assert await inbox.count(2) == [b'"early"', b'"later"']


@check
async def frames_sent_in_one_loop_iteration_arrive_in_few_batches(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        for _ in range(500):
            link.near.send(b"{}")
        await inbox.count(500)
        assert len(inbox.batches) < 50


@check
async def a_stream_over_many_loop_iterations_arrives_in_order(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        sent: list[Frame] = []
        for number in range(500):
            kind = b'"id":1,"result":{}' if number % 97 == 96 else b'"method":"update"'
            frame = b'{"jsonrpc":"2.0",%s,"n":%d}' % (kind, number)
            sent.append(frame)
            link.near.send(frame)
            if number % 50 == 49:
                await inbox.count(len(sent))  # the last frames are not held back until more are sent
            else:
                await asyncio.sleep(0)
        assert await inbox.count(500) == sent


@check
async def bytes_arrive_unchanged(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        frames = ['"héllo 你好 👋"'.encode(), b'"\xff\xfe\x00"', b' {"a": 1} ', b"[" * 10_000]
        for frame in frames:
            link.near.send(frame)
        assert await inbox.count(4) == frames


@check
async def a_big_frame_arrives_whole(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        big = b'"' + b"0123456789abcdef" * (3 << 16) + b'"'
        link.near.send(b"1")
        link.near.send(big)
        link.near.send(b"2")
        await link.near.drain()
        assert await inbox.count(3) == [b"1", big, b"2"]
        assert link.near.unsent == 0


@check
async def pause_stops_deliveries_and_resume_continues_them(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        link.near.send(b"1")
        await inbox.count(1)
        link.near.pause()
        link.near.pause()
        for number in range(2, 200):
            link.near.send(b"%d" % number)
        await link.far_has_echoed(199)
        assert inbox.received == [b"1"]
        link.near.resume()
        assert await inbox.count(199) == [b"%d" % number for number in range(1, 200)]


@check
async def drain_waits_for_a_slow_peer(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        await link.far_stops_reading()
        frame = b'"' + b"x" * 100_000 + b'"'
        for _ in range(40):
            link.near.send(frame)
        drain_task = asyncio.ensure_future(link.near.drain())
        await asyncio.wait([drain_task], timeout=0)
        assert not drain_task.done()
        assert link.near.unsent > 0
        await link.far_resumes_reading()
        async with asyncio.timeout(PATIENCE):
            await drain_task
        assert await inbox.count(40) == [frame] * 40
        assert link.near.unsent == 0


@check
async def the_end_of_the_peer_is_reported_once_after_its_last_frame(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        for number in range(50):
            link.near.send(b"%d" % number)
        await link.far_has_echoed(50)
        await link.far_closes()
        end = await inbox.end()
        assert end.reason
        assert inbox.received == [b"%d" % number for number in range(50)]
        await link.near.aclose()
        assert len(inbox.ends) == 1


@check
async def after_the_end_drain_returns_and_send_has_no_effect(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        await link.far_stops_reading()
        for _ in range(40):
            link.near.send(b"x" * 100_000)
        drain_task = asyncio.ensure_future(link.near.drain())
        await asyncio.wait([drain_task], timeout=0)
        await link.near.aclose()
        async with asyncio.timeout(PATIENCE):
            await drain_task
        assert len(inbox.ends) == 1
        link.near.send(b"too late")
        link.near.pause()
        link.near.resume()
        await link.near.drain()


@check
async def aclose_may_be_called_repeatedly_and_reports_one_end(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        await asyncio.gather(link.near.aclose(), link.near.aclose())
        await link.near.aclose()
        assert len(inbox.ends) == 1


@check
async def aclose_does_not_wait_for_a_paused_reader(make_link: MakeLink) -> None:
    async with make_link() as link:
        inbox = Inbox()
        link.near.start(inbox)
        link.near.pause()
        for _ in range(20):
            link.near.send(b"y" * 100_000)
        await link.near.aclose()
        assert len(inbox.ends) == 1


@check
async def aclose_is_allowed_before_start(make_link: MakeLink) -> None:
    async with make_link() as link:
        await link.near.aclose()
        inbox = Inbox()
        link.near.start(inbox)
        assert await inbox.end()
        assert inbox.received == []
