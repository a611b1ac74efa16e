"""Parse server-sent events; follow a stream and resume it after the last id.

Imported on first use.
"""

import asyncio
from typing import Final, Protocol

from accord.clock import Clock, Timer
from accord.wire.remote.address import NetworkTimeouts
from accord.wire.remote.http_client import (
    SESSION_ID,
    EventResponse,
    HttpClient,
    NetworkFailure,
    StreamRejected,
)
from accord.wire.transport import DEFAULT_LIMIT, SHOWN, Frame, OversizedFrame

# MERGED wire.remote.sse: Server-sent events from bytes, however the reads cut them. Pure, no I/O.
#
# A line ends with LF, CR or CRLF; several `data` lines make one event; comments are signs of life; other fields mean nothing
# here. An event over the limit becomes one `OversizedFrame` in its place and streams past in bounded memory.

_BOM: Final = b"\xef\xbb\xbf"
_LONGEST_ID: Final = 1024
_SLACK: Final = 16  # the name of a field and the blank behind it


class EventParser:
    """Feed it every read of one stream; it gives the data of each event that is complete."""

    __slots__ = ("_after_cr", "_begun", "_data", "_id", "_limit", "_line", "_passing", "comments", "last_id")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.last_id: str | None = None
        """The id of the last complete event that had one."""
        self.comments = 0
        self._limit = limit
        self._begun = False
        self._after_cr = False
        self._line = bytearray()  # the unfinished line; of one that is too long only its ends
        self._passing = _Passing()  # what went by of it
        self._data: list[bytes | OversizedFrame] = []
        self._id: str | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """The events that these bytes complete, in order."""
        if not data:
            return []
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return []
        self._after_cr = data.endswith(b"\r")
        lines = data.splitlines(keepends=True)
        rest = b"" if data.endswith((b"\n", b"\r")) else lines.pop()
        frames: list[Frame] = []
        for line in lines:
            text = line.rstrip(b"\r\n")
            if self._line or len(text) > self._limit + _SLACK:
                self._keep(text)
                self._finish_line(frames)
            else:
                self._field(text, frames)
        if rest:
            self._keep(rest)
        return frames

    def _keep(self, piece: bytes) -> None:
        self._line += piece
        if self._passing.size:
            self._passing.size += len(piece)
            del self._line[:-SHOWN]
        elif len(self._line) > self._limit + _SLACK:
            self._passing = _Passing(len(self._line), bytes(self._line[: SHOWN + _SLACK]))
            del self._line[:-SHOWN]

    def _finish_line(self, frames: list[Frame]) -> None:
        line, passed = bytes(self._line), self._passing
        self._line, self._passing = bytearray(), _Passing()
        if not passed.size:
            self._field(line, frames)
            return
        name, mark, value = passed.head.partition(b":")
        if name == b"data" and mark:
            head = value.removeprefix(b" ")
            size = passed.size - (len(passed.head) - len(head))
            self._data.append(OversizedFrame(size, head[:SHOWN], line[-SHOWN:]))

    def _field(self, line: bytes, frames: list[Frame]) -> None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(frames)
        elif line.startswith(b":"):
            self.comments += 1
        else:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif name == b"id" and b"\0" not in value and len(value) <= _LONGEST_ID:
                self._id = value.removeprefix(b" ").decode(errors="replace")

    def _dispatch(self, frames: list[Frame]) -> None:
        data, self._data = self._data, []
        if self._id is not None:
            self.last_id, self._id = self._id, None
        if not data:
            return
        frame = data[0] if len(data) == 1 else _joined(data)
        if isinstance(frame, bytes) and len(frame) > self._limit:
            frame = OversizedFrame(len(frame), frame[:SHOWN], frame[-SHOWN:])
        if isinstance(frame, OversizedFrame) or frame.strip():
            frames.append(frame)


class _Passing:
    """A line that is too long: how much of it there was so far, and how it began."""

    __slots__ = ("head", "size")

    def __init__(self, size: int = 0, head: bytes = b"") -> None:
        self.size = size
        self.head = head


def _joined(data: list[bytes | OversizedFrame]) -> bytes | OversizedFrame:
    if all(isinstance(part, bytes) for part in data):
        return b"\n".join(part for part in data if isinstance(part, bytes))
    size = len(data) - 1 + sum(part.size if isinstance(part, OversizedFrame) else len(part) for part in data)
    first, last = data[0], data[-1]
    head = first.head if isinstance(first, OversizedFrame) else first[:SHOWN]
    tail = last.tail if isinstance(last, OversizedFrame) else last[-SHOWN:]
    return OversizedFrame(size, head, tail)


# MERGED wire.remote.streams: One stream of events, followed to its end. Where its events carry ids, a stream that breaks off is taken up behind the last.
#
# A server that announces that connections to it can be had back numbers its events one by one. There a gap is noticed, and is the
# end: better to load a session anew than to go on without a part of it.

_LATER: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
"""Refusals that may pass: the server may not have noticed yet that the stream before broke off."""


_GONE: Final = 410


class EventsLost(Exception):
    """Events of a stream will never come."""


class SseReceiver(Protocol):
    """Who reads a stream."""

    async def ready(self) -> None:
        """Wait until more is wanted."""
        ...

    def came(self, stream: "SseStream", frames: list[Frame]) -> None:
        """Everything that one read completed, in order."""
        ...

    def over(self, stream: "SseStream", reason: str, status: int | None) -> None:
        """The stream has ended for good; `status` where the server refused it."""
        ...


class SseStream:
    """The stream of a session, or (None) of the connection itself."""

    def __init__(
        self,
        session: str | None,
        reader: SseReceiver,
        exchange: HttpClient,
        *,
        limit: int,
        times: NetworkTimeouts,
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
            except StreamRejected as rejected:
                reason, status = str(rejected), rejected.status
                if rejected.status not in _LATER:
                    break
            except EventsLost as missed:
                reason, status = str(missed), _GONE
                break
            except NetworkFailure as unreachable:
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
                StreamRejected(status) if status is not None else NetworkFailure(reason, sent=False)
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

    def _look(self, events: EventResponse, heard: int) -> None:
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
            raise EventsLost(f"{missing} messages were missed that the server no longer has")
