"""Follow a stream of server-sent events and resume it after the last id.

A server that announces that connections can be resumed numbers its events one by one. There a gap ends the
stream: loading the session again is better than continuing without a part of it.

Imported on first use.
"""

import asyncio
from typing import Final, Protocol

from accord.clock import Clock, Timer
from accord.wire.remote.address import NetworkTimeouts
from accord.wire.remote.event_parser import EventParser
from accord.wire.remote.http_client import (
    SESSION_ID,
    EventResponse,
    HttpClient,
    NetworkFailure,
    StreamRejected,
)
from accord.wire.transport import Frame

_RETRY_STATUSES: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
"""Temporary refusals: the server may not have noticed yet that the previous stream broke."""


_HTTP_GONE: Final = 410


class EventsLost(Exception):
    """Events of a stream were lost."""


class SseReceiver(Protocol):
    """Receives the frames of a stream."""

    async def ready(self) -> None:
        """Wait until the receiver accepts more frames."""
        ...

    def receive(self, stream: "SseStream", frames: list[Frame]) -> None:
        """Receive all frames that one read completed, in order."""
        ...

    def stream_dropped(self, stream: "SseStream", reason: str) -> None:
        """Learn that a stream could not be opened again at once; with an empty reason, that it is."""
        ...

    def stream_ended(self, stream: "SseStream", reason: str, status: int | None) -> None:
        """Receive the final end of a stream; `status` is set if the server refused it."""
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
        timeouts: NetworkTimeouts,
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
        self._timeouts = timeouts
        self._clock = clock
        self._events_numbered = numbered
        self._parser = EventParser(limit)
        self._receiver_ready = True  # False while the receiver is not ready
        self._dropped = False  # whether the receiver knows that the stream is not open
        self._silence_timer: Timer | None = None
        self._cut_task: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def was_open(self) -> bool:
        """Whether the server has ever started to respond."""
        return self.opened.done() and not self.opened.cancelled() and self.opened.exception() is None

    def start(self, connection_id: dict[str, str]) -> None:
        """Open the stream and follow it."""
        ids = dict(connection_id) if self.session is None else {**connection_id, SESSION_ID: self.session}
        self._task = asyncio.ensure_future(self._follow_with_retries(ids))

    async def stop(self) -> None:
        """Stop following the stream."""
        tasks = [task for task in (self._task, self._cut_task) if task is not None]
        for task in tasks:
            task.cancel()
        if not self.opened.done():
            self.opened.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _follow_with_retries(self, ids: dict[str, str]) -> None:
        attempt, deadline, status = 0, self._clock.now() + self._timeouts.connect, None
        while True:
            reads, started = self.reads, self._clock.now()
            try:
                await self._read_stream(ids)
                reason = "the server ended the stream"
            except StreamRejected as rejected:
                reason, status = str(rejected), rejected.status
                if rejected.status not in _RETRY_STATUSES:
                    break
            except EventsLost as lost:
                reason, status = str(lost), _HTTP_GONE
                break
            except NetworkFailure as failure:
                reason = f"the stream broke: {failure}"
                if not self.opened.done():
                    reason = str(failure)
                    break
            if self.opened.done() and self._parser.last_id is None:
                break
            if self.reads != reads or self._clock.now() - started > self._timeouts.resume:
                attempt, status, deadline = 0, None, self._clock.now() + self._timeouts.resume
            attempt += 1
            pause = self._timeouts.pause_before(attempt)
            if self._clock.now() + pause > deadline:
                break
            if attempt > 1 and self.opened.done() and not self._dropped:
                self._dropped = True
                self._receiver.stream_dropped(self, reason)
            await self._clock.sleep(pause)
        if not self.opened.done():
            self.opened.set_exception(
                StreamRejected(status) if status is not None else NetworkFailure(reason, sent=False)
            )
            self.opened.exception()  # mark it as retrieved
        self._receiver.stream_ended(self, reason, status)

    async def _read_stream(self, ids: dict[str, str]) -> None:
        last_id = self._parser.last_id
        self._parser = EventParser(self._limit)
        self._parser.last_id = last_id
        async with self._client.events(ids, last_id) as events:
            if not self.opened.done():
                self.opened.set_result(None)
            if self._dropped:
                self._dropped = False
                self._receiver.stream_dropped(self, "")
            self._cut_if_silent(events, -1)
            try:
                async for data in events:
                    self._receiver_ready = False
                    await self._receiver.ready()
                    self._receiver_ready = True
                    self.reads += 1
                    last_id_before = self._parser.last_id
                    frames = self._parser.feed(data)
                    if self._events_numbered and last_id_before is not None:
                        _check_complete(last_id_before, self._parser.last_id, len(frames))
                    if frames:
                        self._receiver.receive(self, frames)
            finally:
                if self._silence_timer is not None:
                    self._silence_timer.cancel()

    def _cut_if_silent(self, events: EventResponse, reads: int) -> None:
        """Cut a stream that had keep-alive comments and has been silent for too long."""
        if reads == self.reads and self._receiver_ready and self._parser.comments:
            self._cut_task = asyncio.ensure_future(events.cut())
            return
        current_reads = self.reads
        self._silence_timer = self._clock.call_later(
            self._timeouts.silence, lambda: self._cut_if_silent(events, current_reads)
        )


def _check_complete(last_id_before: str, last_id: str | None, count: int) -> None:
    """Raise EventsLost if the event numbers show that events are missing."""
    if last_id_before.isdecimal() and last_id is not None and last_id.isdecimal():
        missing = int(last_id) - int(last_id_before) - count
        if missing > 0:
            raise EventsLost(f"{missing} messages were lost that the server no longer has")
