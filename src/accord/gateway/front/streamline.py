"""The line of an HTTP client: a stream for the connection and one for each session, each read by one GET at a time.

A stream exists from the moment that something is sent to it or somebody reads it. The answer to the first `initialize` does
not go to a stream but into the response of the POST that asked.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from accord.gateway.access.passes import Pass
from accord.gateway.front.line import FrontLine
from accord.gateway.front.stream import Outlet, Stream
from accord.gateway.line import Outgoing
from accord.wire.envelope import Envelope, RequestId, decode_envelope

if TYPE_CHECKING:
    from accord.gateway.front.lines import Lines

_ASKED: Final = 4096
"""Requests of the agent whose stream is remembered until they are answered."""


class StreamLine(FrontLine):
    """The streams of one HTTP client, by session; None is the connection's."""

    def __init__(self, lines: "Lines", id: str, visa: Pass, agent: str | None) -> None:
        super().__init__(lines, id, visa, agent)
        self._streams: OrderedDict[str | None, Stream] = OrderedDict()
        self._streams[None] = Stream(self._config)
        self._asked: OrderedDict[RequestId, str | None] = OrderedDict()
        self._initialize: tuple[RequestId, Callable[[bytes | None], None]] | None = None

    def streams(self) -> Iterable[Stream]:
        return self._streams.values()

    def initialize(self, id: RequestId, answered: Callable[[bytes | None], None]) -> None:
        """The next answer to this id goes to the callback; None if the line ends before."""
        self._initialize = id, answered

    def give_up_initialize(self) -> None:
        """Nobody waits for the answer any more."""
        self._initialize = None

    def send(self, frame: Outgoing, stream: str | None) -> None:
        if self.over:
            return
        envelope = _read(frame.body)
        if envelope is not None and envelope.id is not UNSET:
            if envelope.method is not UNSET:
                self._asked[envelope.id] = stream
                if len(self._asked) > _ASKED:
                    self._asked.popitem(last=False)
            elif self._initialize is not None and envelope.id == self._initialize[0]:
                _, answered = self._initialize
                self._initialize = None
                answered(frame.body)
                return
        target = self.stream(stream)
        if target is None:
            self._overflow(f"more than {self._config.streams} event streams nobody reads")
            return
        target.put(frame)
        if not self.dirty:
            self.dirty = True
            self._lines.flush_soon(self)

    def stream(self, session: str | None) -> Stream | None:
        """The stream of a session, made if there is none; None if there are too many."""
        found = self._streams.get(session)
        if found is None:
            if len(self._streams) > self._config.streams and not self._drop_spent():
                return None
            found = self._streams[session] = Stream(self._config)
        return found

    def _drop_spent(self) -> bool:
        """Forget the oldest session stream that is neither read nor waited for."""
        for session, stream in self._streams.items():
            if session is not None and stream.outlet is None and not stream.waiting:
                del self._streams[session]
                return True
        return False

    def asked_on(self, id: RequestId) -> tuple[bool, str | None]:
        """Whether the agent asked under this id, and on which stream."""
        return id in self._asked, self._asked.get(id)

    def answered(self, id: RequestId) -> None:
        """The client has answered that one."""
        self._asked.pop(id, None)

    def attach(self, stream: Stream, outlet: Outlet, received: int) -> None:
        """This response carries the stream from now on."""
        self.left = None
        stream.attach(outlet, received)
        if not self.dirty:
            self.dirty = True
            self._lines.flush_soon(self)

    def seen(self) -> None:
        """The client did something: without an open stream, its time begins anew."""
        if self.left is not None:
            self.left = self._lines.clock.now()

    def _finish(self, reason: str) -> None:
        waiting, self._initialize = self._initialize, None
        super()._finish(reason)
        if waiting is not None:
            waiting[1](None)


def _read(body: bytes) -> Envelope | None:
    try:
        return decode_envelope(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
