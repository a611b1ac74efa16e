"""Our own calls that wait for an answer: their ids, how an answer is read, and how they fail when none comes."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from msgspec import Raw, Struct

from accord.errors import BadAnswer, ConnectionClosed
from accord.wire.envelope import ABSENT, Envelope, RequestId, read_error
from accord.wire.lanes import Handling
from accord.wire.transport import End

T = TypeVar("T")


class OpenCall(Struct, Generic[T]):
    """One call: where its answer goes, and what the connection must know about it until then."""

    method: str
    answer: "asyncio.Future[T]"
    read: Callable[[Raw], T]
    key: Hashable | None
    streaming: bool
    handling: Handling | None
    from_handler: bool
    """Made by code that serves the other side: its answer does not wait for handlers that await calls themselves."""

    def settle(self, envelope: Envelope) -> None:
        """Give the caller what was answered."""
        if self.answer.done():
            return
        if envelope.error is not ABSENT and bytes(envelope.error) != b"null":
            self.answer.set_exception(read_error(envelope.error))
        elif envelope.result is ABSENT:
            self.answer.set_exception(BadAnswer(f"{self.method}: the answer has neither result nor error"))
        else:
            try:
                self.answer.set_result(self.read(envelope.result))
            except Exception as error:  # noqa: BLE001 - the caller's own reading failed: it is the caller's to see
                self.answer.set_exception(error)

    def fail(self, error: Exception) -> None:
        """Tell the caller that no answer will come."""
        if not self.answer.done():
            self.answer.set_exception(error)


class OpenCalls:
    """All calls of ours on one connection, by id."""

    def __init__(self) -> None:
        self.short = 0
        """How many are not streaming: somebody waits for the answer itself."""
        self._by_id: dict[RequestId, OpenCall[Any]] = {}
        self._last_id = 0

    def add(self, call: OpenCall[Any]) -> int:
        """Take a call in; the id it goes out with is never used again."""
        self._last_id = id = self._last_id + 1
        self._by_id[id] = call
        if not call.streaming:
            self.short += 1
        return id

    def __contains__(self, id: RequestId) -> bool:
        return id in self._by_id

    def take(self, id: RequestId) -> OpenCall[Any] | None:
        """The call with this id, no longer open; None if it is not one of ours."""
        call = self._by_id.pop(id, None)
        if call is not None and not call.streaming:
            self.short -= 1
        return call

    def take_all(self) -> list[OpenCall[Any]]:
        """Every open call, none of them open any more."""
        return [call for id in list(self._by_id) if (call := self.take(id)) is not None]


def closed(method: str, end: End) -> ConnectionClosed:
    """The error of a call that the end of the connection left without an answer."""
    return ConnectionClosed(
        f"{method} was not answered: {end.reason}",
        exit_code=end.exit_code,
        signal=end.signal,
        stderr=end.stderr,
    )
