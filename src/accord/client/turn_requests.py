"""The requests of the agent that are served for a turn, so that a stopped turn does nothing more.

Reads, writes, new terminals and questions to the user belong to the turn. A canceled turn ends all of them
before `session/cancel` is sent, and refuses later ones. Until the next turn, changes and permissions stay
refused, also after the canceled turn has ended. A turn that ends by itself ends those that still wait
for the user; a write that was allowed is finished.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Final, TypeVar

from accord.client.client_options import ignore_failure
from accord.clock import OwnedTasks
from accord.errors import RequestCancelled
from accord.wire.calls import IncomingCall
from accord.workspace.roots import CURRENT_STOP, StopSignal

T = TypeVar("T")

_STOPPED: Final = "not done: the turn was stopped"


class TurnRequest:
    """One request of the agent, from its arrival to its end."""

    def __init__(self, owner: "TurnRequests", changes: bool) -> None:
        self._owner = owner
        self._changes = changes
        self._signal = StopSignal()
        self._on_stop: Callable[[], object] | None = None

    def serve(self, call: IncomingCall, work: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Serve the request in the task of its call. When it is stopped, the call is answered at once."""
        self._on_stop = lambda: call.stop(call, RequestCancelled(_STOPPED))
        call.after_answer(lambda: self._owner.forget(self))
        return self._work(work)

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Serve the request in a task. Raises RequestCancelled at once when it is stopped.

        A change that was done before the stop is reported, so that the agent can end its command.
        """
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_stop = lambda: stopped.done() or stopped.set_result(None)
        if self._signal.is_set():
            self._on_stop()
        task = self._owner.tasks.start(self._work(work))
        try:
            try:
                await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                if not stopped.done():
                    raise
                # The agent has seen `session/cancel` and withdraws its request; it still gets the answer.
            if task.cancelled() or (stopped.done() and not (self._changes and task.done())):
                raise RequestCancelled(_STOPPED)
            return task.result()
        finally:
            task.cancel()
            self._owner.forget(self)

    async def _work(self, work: Callable[[], Awaitable[T]]) -> T:
        if self._signal.is_set():
            raise RequestCancelled(_STOPPED)
        CURRENT_STOP.set(self._signal)
        return await work()

    @property
    def writing(self) -> bool:
        """Whether it was allowed and is writing a file."""
        return self._signal.writing

    def stop(self) -> None:
        """Stop it. When this returns, nothing more is written or started for it."""
        self._signal.set()
        if self._on_stop is not None:
            self._on_stop()


class TurnRequests:
    """The open requests of one session. Several turns can run, as in a session that clients share.

    A child session passes the requests of its parent, whose turns are also its own.
    """

    def __init__(self, parent: "TurnRequests | None" = None) -> None:
        self._parent = parent
        self._numbers = count(1)
        self._running: set[int] = set()
        self._canceled: set[int] = set()
        self._stopped = False
        self._open: set[TurnRequest] = set()
        # Work that ignores its cancellation is kept until it ends; its request was answered without it.
        self.tasks: OwnedTasks = OwnedTasks(on_failure=ignore_failure)

    @property
    def stopped(self) -> bool:
        """Whether nothing may be written, started or permitted: from a cancellation until the next turn."""
        return self._stopped or (self._parent is not None and self._parent.stopped)

    @property
    def canceling(self) -> bool:
        """Whether a canceled turn has not ended yet, so that no question is asked."""
        return bool(self._canceled) or (self._parent is not None and self._parent.canceling)

    def refuses(self, *, acts: bool) -> bool:
        """Whether a request that arrives now is refused.

        `acts`: it writes a file, starts a command, or asks whether the agent may do something itself.
        """
        return self.canceling or (acts and self.stopped)

    def admit(self, *, changes: bool = False, permission: bool = False) -> TurnRequest:
        """Take a request at its arrival. Raises RequestCancelled in a stopped turn.

        `changes`: it writes a file or starts a command. `permission`: it asks whether the agent may do
        something itself.
        """
        self.check(acts=changes or permission)
        request = TurnRequest(self, changes)
        self._open.add(request)
        return request

    def check(self, *, acts: bool = False) -> None:
        """Raise RequestCancelled for a request that is refused now."""
        if (self._canceled or self._stopped or self._parent is not None) and self.refuses(acts=acts):
            raise RequestCancelled(_STOPPED)

    def forget(self, request: TurnRequest) -> None:
        """Remove a request that was answered."""
        self._open.discard(request)

    def begin_turn(self) -> int:
        """Start a turn and return its number. Ends the stop, unless a canceled turn has not ended."""
        number = next(self._numbers)
        self._running.add(number)
        self.resume()
        return number

    def resume(self) -> None:
        """Allow changes again, unless a canceled turn has not ended."""
        self._stopped = bool(self._canceled)

    def cancel_turn(self, number: int | None = None) -> None:
        """Stop everything that is open, and refuse later changes. Call it before `session/cancel` is sent.

        With a number, only that turn is canceled: while other turns run, it is unknown whose requests are
        open, and nothing is stopped.
        """
        self._canceled |= self._running if number is None else self._running & {number}
        if self._running <= self._canceled:
            self.stop()

    def end_turn(self, number: int | None = None) -> None:
        """End one turn, or all. After the last one, the requests that wait for the user are stopped."""
        ended = set(self._running) if number is None else {number}
        self._running -= ended
        self._canceled -= ended
        if self._running:
            self.resume()
        elif self._open:
            # After the first step of work that has just arrived: a write that needs no question has begun.
            asyncio.get_running_loop().call_soon(self._stop_questions, list(self._open))

    def stop(self) -> None:
        """Stop everything that is open, and refuse changes until the next turn: the agent is gone."""
        self._stopped = True
        self._stop_requests(self._open)

    def _stop_questions(self, requests: Iterable[TurnRequest]) -> None:
        self._stop_requests(request for request in requests if not request.writing)

    def _stop_requests(self, requests: Iterable[TurnRequest]) -> None:
        for request in list(requests):
            self._open.discard(request)
            request.stop()
