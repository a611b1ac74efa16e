"""Incoming calls: their routes, the reports about unusable ones, and the back-pressure on the peer.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Final, Literal, Protocol

from msgspec import Raw, Struct

from accord.errors import RpcError
from accord.wire.envelope import FaultKind, RequestId
from accord.wire.transport import Transport


class IncomingCall:
    """One incoming request until its response is sent."""

    __slots__ = (
        "_after", "cancelled", "id", "method", "size", "started", "stop", "stop_error", "task", "translated",
    )  # fmt: skip

    def __init__(self, id: RequestId, method: str, size: int) -> None:
        self.id: RequestId = id
        self.method: str = method
        self.size: int = size
        self.started: bool = False
        self.cancelled: bool = False
        self.translated: bool = True
        """Whether the response may differ between the protocol versions."""
        self.task: asyncio.Task[None] | None = None
        self.stop: Callable[[IncomingCall, RpcError], None]
        """Set by the dispatcher: cancels the handler and answers with an error, whatever the handler does."""
        self.stop_error: RpcError | None = None
        self._after: list[Callable[[], None]] = []

    def after_answer(self, callback: Callable[[], None]) -> None:
        """Run the callback directly after the response is queued, before anything else can be sent."""
        self._after.append(callback)

    def run_callbacks(self, report: Callable[[str], None]) -> None:
        """Run the callbacks of `after_answer`; called once the response is queued."""
        for callback in self._after:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
                report(
                    f"a callback after the response to {self.method} raised {type(error).__name__}: {error}"
                )


class Route(Struct, frozen=True):
    """How one method is handled.

    `run` handles a request from its parameters and the `IncomingCall` and returns the result or an awaitable
    of it; it handles a notification from its parameters alone. `read` decodes the parameters, `key` returns
    the session they belong to. An `urgent` notification overtakes slow handlers of its session, but no
    earlier request that has not started. Two ways are faster, and used while nothing is unfinished:
    `read_lines` decodes whole lines of a notification, with None for each that needs the normal way, and
    `run_read` handles its parameters and size; `run_now` answers a request at once, or returns None.
    """

    run: Callable[..., Any]
    read: Callable[[Raw | None], Any]
    key: Callable[[Any], Hashable | None]
    urgent: bool = False
    read_lines: Callable[[list[Any]], list[Any]] | None = None
    run_read: Callable[[Any, int], None] | None = None
    run_now: Callable[[Any], Any] | None = None
    translated: bool = True
    """Whether the response may differ between the protocol versions. Extensions are the same in all."""


class ConnectionLimits(Struct, frozen=True):
    """How many bytes a connection holds unread and unsent before the peer has to wait."""

    inbound: int = 16 * 1024 * 1024
    outbound: int = 256 * 1024
    grace: float = 5.0
    """How many seconds unfinished handlers may delay the end of the connection."""


ReportKind = FaultKind | Literal["unknown", "refused", "failed"]


class ConnectionReport(Struct, frozen=True):
    """A fault that the connection tolerated: its kind, one line of detail, and the frame."""

    kind: ReportKind
    detail: str
    frame: bytes = b""


class ConnectionObserver(Protocol):
    """Receives the reports of a connection."""

    def __call__(self, report: ConnectionReport, /) -> None: ...


class BackPressure:
    """Counts received bytes that are not handled yet, and pauses the transport at the limit.

    While a caller waits for a response, reading continues up to a multiple of the limit: the code that would
    empty the backlog may be the code that waits. Streaming calls do not count, because their callers read the
    backlog.
    """

    _AWAITED_FACTOR: Final = 4

    def __init__(
        self, transport: Transport, limits: ConnectionLimits, output: Transport | None = None
    ) -> None:
        """`output` is where the handled messages go, if they do not go back to `transport`."""
        self.awaited: int = 0
        """How many callers wait for a response itself, not for the notifications before it."""
        self.frame_size: int = 0
        """The size of the notification that is being handled."""
        self._transport = transport
        self._output = transport if output is None else output
        self._limits = limits
        self.paused: bool = False
        """Whether reading is paused; silence then says nothing about the peer."""
        self._unhandled = 0
        self._draining = False

    def hold(self, size: int) -> None:
        """Count received bytes that wait to be handled."""
        self._unhandled += size
        if self._unhandled > self._limits.inbound and not self.paused:
            self._update()

    def release(self, size: int) -> None:
        """Stop counting bytes that are handled."""
        self._unhandled -= size
        if self.paused:
            self._update()

    def call_sent(self) -> None:
        """Reconsider after an outgoing request: its caller may be the code that has to empty the backlog."""
        if self.paused:
            self._update()

    def _update(self) -> None:
        """Pause or resume reading according to the current counts."""
        limit = self._limits.inbound * (self._AWAITED_FACTOR if self.awaited else 1)
        if self.paused:
            # Resume at half the limit. While a caller waits for a response, resume at the limit: the backlog
            # may not shrink before that response is read.
            if self._unhandled <= (limit if self.awaited else limit // 2) and not self._draining:
                self.paused = False
                self._transport.resume()
        elif self._unhandled > limit or self._draining:
            self.paused = True
            self._transport.pause()

    def pause_for_output(self) -> bool:
        """Pause reading if too much is unsent; if it returns True, the caller has to run `drain`."""
        if self._draining or self._output.unsent <= self._limits.outbound:
            return False
        self._draining = True
        self._update()
        return True

    async def drain(self) -> None:
        """Resume reading once the peer has read what was sent."""
        try:
            await self._output.drain()
        finally:
            self._draining = False
            self._update()
