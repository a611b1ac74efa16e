"""The course of a turn: the application's code runs in a task of its own, and the prompt is answered, once, in any case."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, get_args

from msgspec import UNSET

from accord.errors import InternalError, RpcError
from accord.schema.prompts import PromptResponse, StopReason

from .peer import LOG, Peer
from .turn import Turn

TurnResult: TypeAlias = StopReason | PromptResponse | None
"""What the code of a turn gives: why it stopped (None: the turn is done), or the whole answer."""

_REASONS: Final = frozenset(get_args(StopReason))


class Course:
    """One prompt being worked on, from its start to its answer."""

    def __init__(self, peer: Peer, turn: Turn) -> None:
        self.turn = turn
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[None] = loop.create_future()
        """Done once the answer is on its way."""
        self._over: asyncio.Future[None] = loop.create_future()
        self._peer = peer
        self._work: asyncio.Task[TurnResult] | None = None

    async def run(self, function: Callable[[Turn], Awaitable[TurnResult] | TurnResult]) -> PromptResponse:
        """Do the work and return the answer. Cancelling this cancels the turn; it still returns."""
        self._work = asyncio.get_running_loop().create_task(_done(function, self.turn))
        self._work.add_done_callback(lambda _: self._end())
        if self.turn.cancelled:
            self._work.cancel()
        while not self._over.done():
            try:
                await asyncio.wait((self._over,))
            except asyncio.CancelledError:
                self.cancel()
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
        return self._answer(self._work)

    def cancel(self) -> None:
        """Stop the work. Once: a second cancellation would only disturb its cleaning up. Bounded."""
        if self.turn.cancelled or (self._work is not None and self._work.done()):
            return
        self.turn.cancelled = True
        if self._work is not None:
            self._work.cancel()
        timer = self._peer.clock.call_later(self._peer.grace, self._end)
        self._over.add_done_callback(lambda _: timer.cancel())

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _answer(self, work: "asyncio.Task[TurnResult]") -> PromptResponse:
        if not work.done():
            LOG.warning(
                "a cancelled turn of session %s does not stop; answered without it", self.turn.session.id
            )
            self.turn.close(dropped=True)
            self._peer.adopt(work)
            return PromptResponse("cancelled")
        self.turn.close()
        if work.cancelled():
            return PromptResponse("cancelled")
        error = work.exception()
        if error is not None and not (self.turn.cancelled or isinstance(error, RpcError)):
            LOG.error("the turn of session %s failed", self.turn.session.id, exc_info=error)
        if self.turn.cancelled:
            return PromptResponse("cancelled", usage=UNSET if error is not None else _usage(work.result()))
        if error is not None:
            raise error
        return _response(work.result())


async def _done(function: Callable[[Turn], Any], turn: Turn) -> TurnResult:
    result = function(turn)
    return await result if hasattr(result, "__await__") else result


def _usage(result: TurnResult) -> Any:
    return result.usage if isinstance(result, PromptResponse) else UNSET


def _response(result: TurnResult) -> PromptResponse:
    response = (
        result
        if isinstance(result, PromptResponse)
        else PromptResponse("end_turn" if result is None else result)
    )
    if not isinstance(response.stop_reason, str) or response.stop_reason not in _REASONS:
        LOG.error(
            "a turn gave %r; a stop reason is one of %s", response.stop_reason, ", ".join(sorted(_REASONS))
        )
        raise InternalError(data="the agent gave no valid stop reason")
    return response
