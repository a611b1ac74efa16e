"""Reads a session's log from its stream: the history as few updates, then what came since.

At the node that writes the log, the records that are not committed yet come from the writer: a client that
joins a busy session would otherwise never reach its end. The frames made of them wait for the commit.
"""

from collections.abc import Callable
from typing import Final

from accord.cluster.connection import NatsUnavailable
from accord.cluster.jetstream import JetStream, with_retries
from accord.cluster.log_message import CommitReader
from accord.cluster.log_writer import LogWriter
from accord.cluster.streams import LogAddress
from accord.gateway.log_pages import LogPages
from accord.session import Event
from accord.store.records import EVENT, decode_event, events_in

_STALE_SECONDS: Final = 10.0
"""How long replicas may be behind the leader before a read fails."""
_PAUSE: Final = 0.02


class ClusterLogReader(LogPages):
    """Reads one log from its beginning, or after a number."""

    def __init__(
        self,
        jetstream: JetStream,
        address: LogAddress,
        writer: Callable[[], LogWriter | None],
        after: int = 0,
    ) -> None:
        """`writer` returns the writer of the log at this node, if there is one."""
        super().__init__(after)
        self.last: int = after
        """The number of the last record that was read."""
        self._jetstream = jetstream
        self._address = address
        self._writer = writer
        current = writer()
        place = (0, 0) if current is None else current.place_before(after)
        self._commits = CommitReader(place[0], 0, place[1])

    @property
    def place(self) -> tuple[int, int]:
        """The last record that was read from the stream, and the message that it ends with."""
        return self._commits.last, self._commits.sequence

    async def read_state(self) -> None:
        """Apply everything so far to `state`. Raises StoreError."""
        while await self._read_new():
            pass

    async def _read_new(self) -> list[Event]:
        events: list[Event] = []
        writer = self._writer()
        if writer is None:
            return await self._read_to(await self._end())
        while self.last < writer.committed:
            events += await self._read_to(writer.sequence)
        if writer.failure is None:
            for number, kind, payload in writer.unwritten():
                if number > self.last:
                    self.last = number
                    if kind == EVENT:
                        events.append(self.state.apply(decode_event(payload)))
        return events

    async def _end(self) -> int:
        last = await with_retries(
            lambda: self._jetstream.last(self._address.stream, self._address.subject), self._jetstream
        )
        return 0 if last is None else last.sequence

    async def _read_to(self, target: int) -> list[Event]:
        """Read the stream up to the message with this sequence, also from a replica that is behind."""
        events: list[Event] = []
        clock = self._jetstream.connection.clock
        deadline = clock.now() + _STALE_SECONDS
        while self._commits.sequence < target:
            page = await with_retries(
                lambda: self._jetstream.page(
                    self._address.stream, self._address.subject, self._commits.sequence
                ),
                self._jetstream,
            )
            for commit in self._commits.feed(page):
                first = self.last + 1
                for group in commit.groups:
                    if group.kind == EVENT and group.first + group.length > first:
                        for event in events_in([group], first, commit.head.last):
                            events.append(self.state.apply(event))
                            await self._slice.pause_if_due()
                self.last = max(self.last, commit.head.last)
            if not page:
                if clock.now() > deadline:
                    raise NatsUnavailable(f"no NATS server has the end of session log {self._address.log}")
                await clock.sleep(_PAUSE)
        return events
