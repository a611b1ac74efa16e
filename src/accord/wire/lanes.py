"""The ordering guarantee of a connection: one queue, a lane, for each session that has something unfinished.

A lane guarantees, for the messages of one session in wire order:
* A notification is handled after all earlier notifications were handled and all earlier requests started.
* A response is delivered after the handlers of all earlier notifications have finished, even if they await.
* A request is started after everything before it, and nothing waits for it to finish.

A handler that awaits a call on its own connection would wait for a response that waits for the handler. To
avoid that, a handler does not block its lane while it awaits a call: later messages are handled, and the lane
is blocked again when the response is delivered. Responses to calls of handlers do not wait for such handlers.
Responses to all other calls do, outside the lane, so that they do not block the messages that the handlers
wait for. A lane exists only while it is busy; an idle session costs nothing.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from collections import deque
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

T = TypeVar("T")

Step = Callable[[], None]
"""The work of one message: runs synchronously and may block its lane through a `RunningHandler`."""


class Lane:
    """The unfinished messages of one session."""

    __slots__ = ("blockers", "key", "steps", "waiting_requests")

    def __init__(self, key: Hashable) -> None:
        self.key: Hashable = key
        self.steps: deque[Step] = deque()
        self.blockers: int = 0
        self.waiting_requests: int = 0


class RunningHandler:
    """A running notification handler: blocks its lane, except while it awaits calls on its connection."""

    __slots__ = ("_done", "_done_callbacks", "_lane", "_pending_calls", "lanes")

    def __init__(self, lanes: "Lanes", key: Hashable) -> None:
        self.lanes: Lanes = lanes
        self._lane = lanes.block(key)
        self._pending_calls = 0
        self._done = False
        self._done_callbacks: list[Step] = []

    def awaits_call(self) -> None:
        """Unblock the lane: the handler is about to await a response."""
        self._pending_calls += 1
        if self._pending_calls == 1 and not self._done:
            self.lanes.add_awaiting(self._lane.key, self)
            self.lanes.unblock(self._lane)

    def call_ended(self) -> None:
        """Block the lane again: the response has arrived and the handler continues."""
        self._pending_calls -= 1
        if self._pending_calls == 0 and not self._done:
            self.lanes.remove_awaiting(self._lane.key, self)
            self._lane = self.lanes.block(self._lane.key)

    def done(self) -> None:
        """Unblock the lane and run the callbacks: the handler has finished."""
        if self._done:
            return
        self._done = True
        if self._pending_calls == 0:
            self.lanes.unblock(self._lane)
        else:
            self.lanes.remove_awaiting(self._lane.key, self)
        for step in self._done_callbacks:
            step()

    def when_done(self, step: Step) -> None:
        """Run the step when the handler has finished."""
        self._done_callbacks.append(step)


CURRENT_HANDLER: ContextVar[RunningHandler | None] = ContextVar("accord_handling", default=None)
"""The notification handler that the running code belongs to."""

IN_REQUEST: ContextVar[bool] = ContextVar("accord_serving", default=False)
"""Whether the running code handles a request of the peer."""


class Lanes:
    """All busy lanes of one connection. Nothing is unfinished on the fast path: both dicts are empty."""

    def __init__(self) -> None:
        self.busy: dict[Hashable, Lane] = {}
        self.awaiting: dict[Hashable, set[RunningHandler]] = {}

    def block(self, key: Hashable) -> Lane:
        """Hold back the next step of this session until `unblock`."""
        lane = self.busy.get(key)
        if lane is None:
            lane = self.busy[key] = Lane(key)
        lane.blockers += 1
        return lane

    def unblock(self, lane: Lane) -> None:
        """Undo one `block`."""
        lane.blockers -= 1
        self.advance(lane)

    def advance(self, lane: Lane) -> None:
        """Run the steps that nothing blocks; remove the lane when it is idle."""
        steps = lane.steps
        while steps and lane.blockers <= 0:
            steps.popleft()()
        if not steps and lane.blockers <= 0 and self.busy.get(lane.key) is lane:
            del self.busy[lane.key]

    def discard_waiting(self) -> None:
        """Discard all steps that have not started."""
        for lane in self.busy.values():
            lane.steps.clear()

    def add_awaiting(self, key: Hashable, handler: RunningHandler) -> None:
        """Register a handler that awaits a call."""
        self.awaiting.setdefault(key, set()).add(handler)

    def remove_awaiting(self, key: Hashable, handler: RunningHandler) -> None:
        """Unregister a handler that continues or is done."""
        awaiting = self.awaiting[key]
        awaiting.discard(handler)
        if not awaiting:
            del self.awaiting[key]

    def run_after(self, keys: tuple[Hashable, ...] | None, step: Step, *, all_done: bool = False) -> None:
        """Run the step after everything that is now in the lanes of these sessions (None: of all sessions).

        `all_done` also waits for the handlers that await calls by then.
        """
        busy = self._select(self.busy, keys)
        if not busy:
            if all_done:
                self._run_after_awaiting(keys, step)
            else:
                step()
            return
        count_down = _countdown(
            len(busy), partial(self._run_after_awaiting, keys, step) if all_done else step
        )
        for lane in busy:
            lane.steps.append(count_down)

    def _run_after_awaiting(self, keys: tuple[Hashable, ...] | None, step: Step) -> None:
        awaiting = [handler for group in self._select(self.awaiting, keys) for handler in group]
        if not awaiting:
            step()
            return
        count_down = _countdown(len(awaiting), step)
        for handler in awaiting:
            handler.when_done(count_down)

    @staticmethod
    def _select(groups: dict[Hashable, T], keys: tuple[Hashable, ...] | None) -> list[T]:
        return list(groups.values()) if keys is None else [groups[key] for key in keys if key in groups]


def _countdown(times: int, step: Step) -> Step:
    """Return a step that runs `step` when it is called for the last of `times` times."""

    def count_down() -> None:
        nonlocal times
        times -= 1
        if times == 0:
            step()

    return count_down
