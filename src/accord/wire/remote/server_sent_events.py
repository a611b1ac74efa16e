"""Parse server-sent events; follow a stream and resume it after the last id.

A server that announces that connections can be resumed numbers its events one by one. There a gap ends the
stream: loading the session again is better than continuing without a part of it.

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
from accord.wire.transport import DEFAULT_LIMIT, OVERSIZED_SAMPLE, Frame, OversizedFrame

_BOM: Final = b"\xef\xbb\xbf"
_LONGEST_ID: Final = 1024
_FIELD_NAME: Final = 16
"""Room for the name of a field and the space behind it."""


class EventParser:
    """Parses the bytes of one stream: `feed` every read and get the data of each complete event.

    A line ends with LF, CR or CRLF. Several `data` lines make one event. Comments are keep-alives; other
    fields are ignored. An event over the limit becomes one `OversizedFrame` and takes bounded memory. No I/O.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_first_line_read",
        "_id",
        "_limit",
        "_line",
        "_oversized",
        "comments",
        "last_id",
    )

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.last_id: str | None = None
        """The id of the last complete event that had one."""
        self.comments: int = 0
        self._limit = limit
        self._first_line_read = False
        self._after_cr = False
        self._line = bytearray()  # the unfinished line; if it is too long, only its end
        self._oversized = _OversizedLine()  # the dropped part of it
        self._data: list[bytes | OversizedFrame] = []
        self._id: str | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Return the events that these bytes complete, in order."""
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
            if self._line or len(text) > self._limit + _FIELD_NAME:
                self._append(text)
                self._finish_line(frames)
            else:
                self._field(text, frames)
        if rest:
            self._append(rest)
        return frames

    def _append(self, piece: bytes) -> None:
        self._line += piece
        if self._oversized.size:
            self._oversized.size += len(piece)
            del self._line[:-OVERSIZED_SAMPLE]
        elif len(self._line) > self._limit + _FIELD_NAME:
            self._oversized = _OversizedLine(
                len(self._line), bytes(self._line[: OVERSIZED_SAMPLE + _FIELD_NAME])
            )
            del self._line[:-OVERSIZED_SAMPLE]

    def _finish_line(self, frames: list[Frame]) -> None:
        line, oversized = bytes(self._line), self._oversized
        self._line, self._oversized = bytearray(), _OversizedLine()
        if not oversized.size:
            self._field(line, frames)
            return
        name, mark, value = oversized.head.partition(b":")
        if name == b"data" and mark:
            head = value.removeprefix(b" ")
            size = oversized.size - (len(oversized.head) - len(head))
            self._data.append(OversizedFrame(size, head[:OVERSIZED_SAMPLE], line[-OVERSIZED_SAMPLE:]))

    def _field(self, line: bytes, frames: list[Frame]) -> None:
        if not self._first_line_read:
            self._first_line_read = True
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
            frame = OversizedFrame(len(frame), frame[:OVERSIZED_SAMPLE], frame[-OVERSIZED_SAMPLE:])
        if isinstance(frame, OversizedFrame) or frame.strip():
            frames.append(frame)


class _OversizedLine:
    """A line that is too long: its size so far, and its first bytes."""

    __slots__ = ("head", "size")

    def __init__(self, size: int = 0, head: bytes = b"") -> None:
        self.size = size
        self.head = head


def _joined(data: list[bytes | OversizedFrame]) -> bytes | OversizedFrame:
    if all(isinstance(part, bytes) for part in data):
        return b"\n".join(part for part in data if isinstance(part, bytes))
    size = len(data) - 1 + sum(part.size if isinstance(part, OversizedFrame) else len(part) for part in data)
    first, last = data[0], data[-1]
    head = first.head if isinstance(first, OversizedFrame) else first[:OVERSIZED_SAMPLE]
    tail = last.tail if isinstance(last, OversizedFrame) else last[-OVERSIZED_SAMPLE:]
    return OversizedFrame(size, head, tail)


_RETRY_STATUSES: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
"""Temporary refusals: the server may not have noticed yet that the previous stream broke."""


_GONE: Final = 410


class EventsLost(Exception):
    """Events of a stream were lost."""


class SseReceiver(Protocol):
    """Receives the frames of a stream."""

    async def ready(self) -> None:
        """Wait until the receiver accepts more frames."""
        ...

    def receive(self, stream: "SseStream", frames: list[Frame]) -> None:
        """Take all frames that one read completed, in order."""
        ...

    def stream_ended(self, stream: "SseStream", reason: str, status: int | None) -> None:
        """Take the final end of a stream; `status` is set if the server refused it."""
        ...


class SseStream:
    """The event stream of one session, or of the connection itself if `session` is None."""

    def __init__(
        self,
        session: str | None,
        receiver: SseReceiver,
        client: HttpClient,
        *,
        limit: int,
        times: NetworkTimeouts,
        clock: Clock,
        numbered: bool = False,
    ) -> None:
        self.session: str | None = session
        self.reads: int = 0
        """Counts the reads."""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the server has started to respond; else StreamRejected or NetworkFailure."""
        self._receiver = receiver
        self._client = client
        self._limit = limit
        self._times = times
        self._clock = clock
        self._numbered = numbered
        self._parser = EventParser(limit)
        self._reading = True  # False while the receiver is not ready
        self._silence_timer: Timer | None = None
        self._cutting: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def was_open(self) -> bool:
        """Whether the server has ever started to respond."""
        return self.opened.done() and not self.opened.cancelled() and self.opened.exception() is None

    def start(self, connection_id: dict[str, str]) -> None:
        """Open the stream and follow it."""
        ids = dict(connection_id) if self.session is None else {**connection_id, SESSION_ID: self.session}
        self._task = asyncio.ensure_future(self._run(ids))

    async def stop(self) -> None:
        """Stop following the stream."""
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
            reads, started = self.reads, self._clock.now()
            try:
                await self._follow(ids)
                reason = "the server ended the stream"
            except StreamRejected as rejected:
                reason, status = str(rejected), rejected.status
                if rejected.status not in _RETRY_STATUSES:
                    break
            except EventsLost as lost:
                reason, status = str(lost), _GONE
                break
            except NetworkFailure as unreachable:
                reason = f"the stream broke: {unreachable}"
                if not self.opened.done():
                    reason = str(unreachable)
                    break
            if self.opened.done() and self._parser.last_id is None:
                break
            if self.reads != reads or self._clock.now() - started > self._times.back:
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
            self.opened.exception()  # mark it as retrieved
        self._receiver.stream_ended(self, reason, status)

    async def _follow(self, ids: dict[str, str]) -> None:
        last_id = self._parser.last_id
        self._parser = EventParser(self._limit)
        self._parser.last_id = last_id
        async with self._client.events(ids, last_id) as events:
            if not self.opened.done():
                self.opened.set_result(None)
            self._check_alive(events, -1)
            try:
                async for data in events:
                    self._reading = False
                    await self._receiver.ready()
                    self._reading = True
                    self.reads += 1
                    before = self._parser.last_id
                    frames = self._parser.feed(data)
                    if self._numbered and before is not None:
                        _check_complete(before, self._parser.last_id, len(frames))
                    if frames:
                        self._receiver.receive(self, frames)
            finally:
                if self._silence_timer is not None:
                    self._silence_timer.cancel()

    def _check_alive(self, events: EventResponse, reads: int) -> None:
        """Cut a stream that had keep-alive comments and has been silent for too long."""
        if reads == self.reads and self._reading and self._parser.comments:
            self._cutting = asyncio.ensure_future(events.cut())
            return
        now = self.reads
        self._silence_timer = self._clock.call_later(
            self._times.silence, lambda: self._check_alive(events, now)
        )


def _check_complete(before: str, after: str | None, count: int) -> None:
    """Raise EventsLost if the event numbers show that events are missing."""
    if before.isdecimal() and after is not None and after.isdecimal():
        missing = int(after) - int(before) - count
        if missing > 0:
            raise EventsLost(f"{missing} messages were lost that the server no longer has")
