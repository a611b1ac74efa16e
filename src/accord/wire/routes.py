"""What a role tells its connection: how each method is served, the bounds, and who hears of what was survived."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Literal, Protocol

from msgspec import Raw, Struct

from accord.wire.envelope import RequestId


class Call:
    """One incoming request, while it is served."""

    __slots__ = ("_after", "cancelled", "id", "method", "size", "started", "task")

    def __init__(self, id: RequestId, method: str, size: int) -> None:
        self.id = id
        self.method = method
        self.size = size
        self.started = False
        self.cancelled = False
        self.task: asyncio.Task[None] | None = None
        self._after: list[Callable[[], None]] = []

    def after_answer(self, callback: Callable[[], None]) -> None:
        """Run something right behind this request's answer, before anything else can be sent."""
        self._after.append(callback)

    def answered(self, failed: Callable[[str], None]) -> None:
        """The answer is queued: run what must follow it."""
        for callback in self._after:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
                failed(
                    f"what should follow the answer of {self.method} raised {type(error).__name__}: {error}"
                )


class Route(Struct, frozen=True):
    """How one method is served.

    `run` of a request takes the parameters and the `Call`, and gives the result or an awaitable of it; of a
    notification it takes the parameters. `urgent` lets a notification overtake slow handlers of its session, though
    never a request that came before it and has not started. `whole`, for the notification that comes by the thousand,
    reads a line in one pass; it gives None where the line wants the ordinary way.
    """

    run: Callable[..., Any]
    read: Callable[[Raw | None], Any]
    key: Callable[[Any], Hashable | None]
    urgent: bool = False
    whole: Callable[[bytes], Any] | None = None


class Limits(Struct, frozen=True):
    """Bounds of one connection, in bytes: what may lie unread here, and unsent, before the other side must wait."""

    inbound: int = 16 * 1024 * 1024
    outbound: int = 256 * 1024
    grace: float = 5.0
    """Seconds that unfinished handlers may hold back the end of the connection."""


ReportKind = Literal["noise", "invalid", "oversized", "unmatched", "unknown", "refused", "failed"]


class Report(Struct, frozen=True):
    """Something that was survived and that an observer may want to know: what, in one line, and the frame."""

    kind: ReportKind
    detail: str
    frame: bytes = b""


class Observer(Protocol):
    """Told about what the connection survives."""

    def __call__(self, report: Report, /) -> None: ...
