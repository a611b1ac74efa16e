"""The ordering guarantee of a connection: one queue, a lane, for each session that has something unfinished.

A lane guarantees, for the messages of one session in wire order: * a notification is handled after all
earlier notifications were handled and all earlier requests were started; * a response is delivered after the
handlers of all earlier notifications have finished, even when they await; * a request is started after
everything before it, and nothing waits for it to finish.

A handler that awaits a call on its own connection would wait for a response that waits for the handler. So
while it awaits, it is set awaiting and does not block its lane: later messages are handled, and the lane is
blocked again when the response is delivered. Responses to calls of handlers do not wait for handlers that are
set awaiting. Responses to all other calls do, outside the lane, so that they do not block the messages that
the handlers wait for. A lane exists only while it is busy; an idle session costs nothing.

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
    """A running asynchronous notification handler: blocks its lane, except while it awaits calls on its
    connection.
    """

    __slots__ = ("_calls", "_done", "_lane", "_then", "lanes")

    def __init__(self, lanes: "Lanes", key: Hashable) -> None:
        self.lanes: Lanes = lanes
        self._lane = lanes.block(key)
        self._calls = 0
        self._done = False
        self._then: list[Step] = []

    def awaits_call(self) -> None:
        """Unblock the lane: the handler is about to await a response."""
        self._calls += 1
        if self._calls == 1 and not self._done:
            self.lanes.set_aside(self._lane.key, self)
            self.lanes.unblock(self._lane)

    def call_ended(self) -> None:
        """Block the lane again: the response has arrived and the handler continues."""
        self._calls -= 1
        if self._calls == 0 and not self._done:
            self.lanes.take_back(self._lane.key, self)
            self._lane = self.lanes.block(self._lane.key)

    def done(self) -> None:
        """Note that the handler has finished."""
        if self._done:
            return
        self._done = True
        if self._calls == 0:
            self.lanes.unblock(self._lane)
        else:
            self.lanes.take_back(self._lane.key, self)
        for step in self._then:
            step()

    def when_done(self, step: Step) -> None:
        """Run the step when the handler has finished."""
        self._then.append(step)


CURRENT_HANDLER: ContextVar[RunningHandler | None] = ContextVar("accord_handling", default=None)
"""The notification handler that the running code belongs to."""

IN_REQUEST: ContextVar[bool] = ContextVar("accord_serving", default=False)
"""Whether the running code handles a request of the peer."""


class Lanes:
    """All busy lanes of one connection. Falsy when nothing is unfinished, which is the fast path."""

    def __init__(self) -> None:
        self.busy: dict[Hashable, Lane] = {}
        self._awaiting: dict[Hashable, set[RunningHandler]] = {}

    def __bool__(self) -> bool:
        return bool(self.busy) or bool(self._awaiting)

    def get(self, key: Hashable) -> Lane | None:
        """Return the lane of this session if it is busy."""
        return self.busy.get(key)

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

    def drop(self) -> None:
        """Discard all steps that have not started."""
        for lane in self.busy.values():
            lane.steps.clear()

    def set_aside(self, key: Hashable, handler: RunningHandler) -> None:
        """Keep a handler that awaits a call."""
        self._awaiting.setdefault(key, set()).add(handler)

    def take_back(self, key: Hashable, handler: RunningHandler) -> None:
        """Remove a handler that continues or is done."""
        awaiting = self._awaiting[key]
        awaiting.discard(handler)
        if not awaiting:
            del self._awaiting[key]

    def after(self, keys: tuple[Hashable, ...] | None, step: Step, *, all_done: bool = False) -> None:
        """Run the step after everything that is now in the lanes of these sessions (None: of all sessions).

        `all_done` also waits for the handlers that are set awaiting by then.
        """
        busy = self._selected(self.busy, keys)
        if not busy:
            if all_done:
                self._after_awaiting(keys, step)
            else:
                step()
            return
        arrived = _countdown(len(busy), partial(self._after_awaiting, keys, step) if all_done else step)
        for lane in busy:
            lane.steps.append(arrived)

    def _after_awaiting(self, keys: tuple[Hashable, ...] | None, step: Step) -> None:
        awaiting = [handler for group in self._selected(self._awaiting, keys) for handler in group]
        if not awaiting:
            step()
            return
        arrived = _countdown(len(awaiting), step)
        for handler in awaiting:
            handler.when_done(arrived)

    @staticmethod
    def _selected(groups: dict[Hashable, T], keys: tuple[Hashable, ...] | None) -> list[T]:
        return list(groups.values()) if keys is None else [groups[key] for key in keys if key in groups]


def _countdown(times: int, step: Step) -> Step:
    """Return a step that runs the given one when it was itself run `times` times."""

    def arrived() -> None:
        nonlocal times
        times -= 1
        if times == 0:
            step()

    return arrived
