"""All lines of a front: opening and finding them, one flush a loop turn for all that were sent to, the end of each."""

import asyncio
from secrets import token_urlsafe
from typing import TypeVar

from accord.clock import Clock
from accord.gateway.access.door import Door
from accord.gateway.access.limits import LimitReached, Meter
from accord.gateway.access.passes import Pass
from accord.gateway.front.config import FrontConfig
from accord.gateway.front.line import POLICY, FrontLine
from accord.gateway.front.socketline import SocketLine
from accord.gateway.front.streamline import StreamLine
from accord.gateway.line import Opening
from accord.gateway.metrics import Metrics

L = TypeVar("L", SocketLine, StreamLine)


class Lines:
    """The lines that live, by id."""

    def __init__(
        self,
        config: FrontConfig,
        clock: Clock,
        opening: Opening,
        door: Door,
        meter: Meter,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.clock = clock
        self.meter = meter
        self.metrics = metrics
        self._opening = opening
        self._door = door
        self._loop = asyncio.get_running_loop()
        self._lines: dict[str, FrontLine] = {}
        self._dirty: list[FrontLine] = []

    def open(self, kind: type[L], visa: Pass, agent: str | None) -> L:
        """A new line and its other end. Raises NotFound for an unknown agent, LimitReached."""
        line = kind(self, token_urlsafe(24), visa, agent)
        try:
            line.lease = self.meter.connection(visa)
        except LimitReached:
            # A client that lost its socket must be able to come back although its own waiting line fills the limit.
            if kind is not SocketLine or self._oldest_waiting(visa) is None:
                raise
        try:
            line.client = self._opening.open(line, visa, agent)
        except BaseException:
            if line.lease is not None:
                line.lease.release()
            raise
        line.hold = self._door.hold(visa, lambda reason: line.end(POLICY, reason))
        self._lines[line.id] = line
        self.metrics.connections += 1
        return line

    def settle(self, line: FrontLine) -> None:
        """The line is here to stay: if it came in over the limit, one that waits makes room. Raises LimitReached."""
        if line.lease is None:
            oldest = self._oldest_waiting(line.visa)
            if oldest is not None:
                oldest.end(POLICY, "a newer connection of the same token took its place")
            line.lease = self.meter.connection(line.visa)

    def _oldest_waiting(self, visa: Pass) -> FrontLine | None:
        waiting = [
            line
            for line in self._lines.values()
            if isinstance(line, SocketLine) and line.visa.token == visa.token
            if line.left is not None and line.lease is not None
        ]
        return min(waiting, key=lambda line: line.left or 0.0, default=None)

    def find(self, kind: type[L], id: str, visa: Pass) -> L | None:
        """The line of that id, if this token opened it."""
        line = self._lines.get(id)
        return line if isinstance(line, kind) and line.visa.token == visa.token else None

    def flush_soon(self, line: FrontLine) -> None:
        """Flush it at the end of this loop turn, with all others."""
        if not self._dirty:
            self._loop.call_soon(self._flush)
        self._dirty.append(line)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for line in dirty:
            line.flush()

    def forget(self, line: FrontLine, reason: str) -> None:
        """The line is over: its other end hears of it, never inside a call of its own."""
        if self._lines.pop(line.id, None) is not None:
            self.metrics.connections -= 1
        client, line.client = line.client, None
        if client is not None:
            self._loop.call_soon(client.gone, reason)

    def tick(self, now: float) -> None:
        """Once a second."""
        for line in list(self._lines.values()):
            line.tick(now)

    def end(self, code: int, reason: str) -> None:
        """End them all."""
        for line in list(self._lines.values()):
            line.end(code, reason)
