"""One stream of events, followed to its end. Where its events carry ids, a stream that breaks off is taken up behind the last.

A server that announces that connections to it can be had back numbers its events one by one. There a gap is noticed, and is the
end: better to load a session anew than to go on without a part of it.
"""

import asyncio
from typing import Final, Protocol

from accord.clock import Clock, Timer
from accord.wire.remote.exchange import SESSION_ID, Events, Exchange, Rejected, Unreachable
from accord.wire.remote.sse import EventParser
from accord.wire.remote.times import Times
from accord.wire.transport import Frame

_LATER: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
"""Refusals that may pass: the server may not have noticed yet that the stream before broke off."""


_GONE: Final = 410


class Missed(Exception):
    """Events of a stream will never come."""


class Reader(Protocol):
    """Who reads a stream."""

    async def ready(self) -> None:
        """Wait until more is wanted."""
        ...

    def came(self, stream: "EventStream", frames: list[Frame]) -> None:
        """Everything that one read completed, in order."""
        ...

    def over(self, stream: "EventStream", reason: str, status: int | None) -> None:
        """The stream has ended for good; `status` where the server refused it."""
        ...


class EventStream:
    """The stream of a session, or (None) of the connection itself."""

    def __init__(
        self,
        session: str | None,
        reader: Reader,
        exchange: Exchange,
        *,
        limit: int,
        times: Times,
        clock: Clock,
        numbered: bool = False,
    ) -> None:
        self.session = session
        self.heard = 0
        """Counts up with every read."""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the server has begun to answer; else Rejected or Unreachable."""
        self._reader = reader
        self._exchange = exchange
        self._limit = limit
        self._times = times
        self._clock = clock
        self._numbered = numbered
        self._parser = EventParser(limit)
        self._reading = True  # not while more is unwanted
        self._watch: Timer | None = None
        self._cutting: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def was_open(self) -> bool:
        """Whether the server has ever begun to answer."""
        return self.opened.done() and not self.opened.cancelled() and self.opened.exception() is None

    def start(self, connection_id: dict[str, str]) -> None:
        """Open it and follow it."""
        ids = dict(connection_id) if self.session is None else {**connection_id, SESSION_ID: self.session}
        self._task = asyncio.ensure_future(self._run(ids))

    async def stop(self) -> None:
        """Follow it no further."""
        tasks = [task for task in (self._task, self._cutting) if task is not None]
        for task in tasks:
            task.cancel()
        if not self.opened.done():
            self.opened.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, ids: dict[str, str]) -> None:
        number, until, status = 0, self._clock.now() + self._times.connect, None
        while True:
            heard, began = self.heard, self._clock.now()
            try:
                await self._follow(ids)
                reason = "the server ended the stream"
            except Rejected as rejected:
                reason, status = str(rejected), rejected.status
                if rejected.status not in _LATER:
                    break
            except Missed as missed:
                reason, status = str(missed), _GONE
                break
            except Unreachable as unreachable:
                reason = f"the stream broke off: {unreachable}"
                if not self.opened.done():
                    reason = str(unreachable)
                    break
            if self.opened.done() and self._parser.last_id is None:
                break
            if self.heard != heard or self._clock.now() - began > self._times.back:
                number, status, until = 0, None, self._clock.now() + self._times.back
            number += 1
            pause = self._times.pause_before(number)
            if self._clock.now() + pause > until:
                break
            await self._clock.sleep(pause)
        if not self.opened.done():
            self.opened.set_exception(
                Rejected(status) if status is not None else Unreachable(reason, sent=False)
            )
            self.opened.exception()  # whoever waits for it has it
        self._reader.over(self, reason, status)

    async def _follow(self, ids: dict[str, str]) -> None:
        last_id = self._parser.last_id
        self._parser = EventParser(self._limit)
        self._parser.last_id = last_id
        async with self._exchange.events(ids, last_id) as events:
            if not self.opened.done():
                self.opened.set_result(None)
            self._look(events, -1)
            try:
                async for data in events:
                    self._reading = False
                    await self._reader.ready()
                    self._reading = True
                    self.heard += 1
                    before = self._parser.last_id
                    frames = self._parser.feed(data)
                    if self._numbered and before is not None:
                        _insist_on_all(before, self._parser.last_id, len(frames))
                    if frames:
                        self._reader.came(self, frames)
            finally:
                if self._watch is not None:
                    self._watch.cancel()

    def _look(self, events: Events, heard: int) -> None:
        """A stream on which signs of life come by themselves, and that has fallen silent, is dead."""
        if heard == self.heard and self._reading and self._parser.comments:
            self._cutting = asyncio.ensure_future(events.cut())
            return
        now = self.heard
        self._watch = self._clock.call_later(self._times.silence, lambda: self._look(events, now))


def _insist_on_all(before: str, after: str | None, came: int) -> None:
    """Raises Missed where the numbers say that more was sent than came."""
    if before.isdecimal() and after is not None and after.isdecimal():
        missing = int(after) - int(before) - came
        if missing > 0:
            raise Missed(f"{missing} messages were missed that the server no longer has")
