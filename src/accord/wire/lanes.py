"""The order promise of a connection, kept by lanes: one queue for each session that has something unfinished.

What a lane guarantees, for the messages of one session in wire order:
* a notification is handled after everything before it was handled (notifications) or started (requests);
* an answer is delivered after the handlers of all notifications before it have finished, even when they await;
* a request is started after everything before it, and nothing waits for it to finish.

A handler that awaits a call on its own connection would wait for an answer that waits for the handler. So while it
awaits, it is set aside and does not block its lane: what follows goes on, and the lane is blocked again from the moment
its answer is delivered. Answers to calls made by handlers do not wait for handlers set aside; answers to all other
calls do, set aside themselves, so that nothing stands in the way of what the handlers wait for.
A lane exists only while it is busy; an idle session costs nothing.
"""

from collections import deque
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

T = TypeVar("T")

Step = Callable[[], None]
"""One message's turn: runs synchronously, may block the lane it is given to through a `RunningHandler`."""


class Lane:
    """The unfinished business of one session."""

    __slots__ = ("blockers", "key", "steps", "waiting_requests")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.steps: deque[Step] = deque()
        self.blockers = 0
        self.waiting_requests = 0


class RunningHandler:
    """One asynchronous notification handler at work: blocks its lane, except while it awaits our own calls."""

    __slots__ = ("_calls", "_done", "_lane", "_then", "lanes")

    def __init__(self, lanes: "Lanes", key: Hashable) -> None:
        self.lanes = lanes
        self._lane = lanes.block(key)
        self._calls = 0
        self._done = False
        self._then: list[Step] = []

    def awaits_call(self) -> None:
        """The handler is about to await an answer: let its lane go on."""
        self._calls += 1
        if self._calls == 1 and not self._done:
            self.lanes.set_aside(self._lane.key, self)
            self.lanes.unblock(self._lane)

    def call_ended(self) -> None:
        """The answer is there: the handler goes on, and its lane waits for it again."""
        self._calls -= 1
        if self._calls == 0 and not self._done:
            self.lanes.take_back(self._lane.key, self)
            self._lane = self.lanes.block(self._lane.key)

    def done(self) -> None:
        """The handler has finished."""
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
        """Run the step once the handler has finished."""
        self._then.append(step)


HANDLING: ContextVar[RunningHandler | None] = ContextVar("accord_handling", default=None)
"""The notification handler that the running code belongs to."""

SERVING: ContextVar[bool] = ContextVar("accord_serving", default=False)
"""Whether the running code serves a request of the other side."""


class Lanes:
    """All busy lanes of one connection. Falsy when nothing is unfinished, which is the fast case."""

    def __init__(self) -> None:
        self.busy: dict[Hashable, Lane] = {}
        self._aside: dict[Hashable, set[RunningHandler]] = {}

    def __bool__(self) -> bool:
        return bool(self.busy) or bool(self._aside)

    def get(self, key: Hashable) -> Lane | None:
        """The lane of this session, if it is busy."""
        return self.busy.get(key)

    def block(self, key: Hashable) -> Lane:
        """Something of this session must finish before its next step; `unblock` says when it has."""
        lane = self.busy.get(key)
        if lane is None:
            lane = self.busy[key] = Lane(key)
        lane.blockers += 1
        return lane

    def unblock(self, lane: Lane) -> None:
        """That something has finished."""
        lane.blockers -= 1
        self.advance(lane)

    def advance(self, lane: Lane) -> None:
        """Run the steps that nothing blocks; forget the lane when it is idle."""
        steps = lane.steps
        while steps and lane.blockers <= 0:
            steps.popleft()()
        if not steps and lane.blockers <= 0 and self.busy.get(lane.key) is lane:
            del self.busy[lane.key]

    def drop(self) -> None:
        """Start nothing more: what still waits for its turn is given up."""
        for lane in self.busy.values():
            lane.steps.clear()

    def set_aside(self, key: Hashable, handling: RunningHandler) -> None:
        """This handler awaits a call."""
        self._aside.setdefault(key, set()).add(handling)

    def take_back(self, key: Hashable, handling: RunningHandler) -> None:
        """It goes on, or is done."""
        aside = self._aside[key]
        aside.discard(handling)
        if not aside:
            del self._aside[key]

    def after(self, keys: tuple[Hashable, ...] | None, step: Step, *, all_done: bool = False) -> None:
        """Run the step once the lanes of these sessions (None: of all) have come to this point.

        `all_done` also waits for the handlers set aside by then.
        """
        busy = self._of(self.busy, keys)
        if not busy:
            if all_done:
                self._after_aside(keys, step)
            else:
                step()
            return
        arrived = _countdown(len(busy), partial(self._after_aside, keys, step) if all_done else step)
        for lane in busy:
            lane.steps.append(arrived)

    def _after_aside(self, keys: tuple[Hashable, ...] | None, step: Step) -> None:
        aside = [handling for group in self._of(self._aside, keys) for handling in group]
        if not aside:
            step()
            return
        arrived = _countdown(len(aside), step)
        for handling in aside:
            handling.when_done(arrived)

    @staticmethod
    def _of(groups: dict[Hashable, T], keys: tuple[Hashable, ...] | None) -> list[T]:
        return list(groups.values()) if keys is None else [groups[key] for key in keys if key in groups]


def _countdown(times: int, step: Step) -> Step:
    """A step that runs the given one when it has itself been run so many times."""

    def arrived() -> None:
        nonlocal times
        times -= 1
        if times == 0:
            step()

    return arrived
