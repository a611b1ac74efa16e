"""The order in which messages are posted: one at a time, and answers so that they never wait for a post that is held.

A server may hold a post until it can take it, and what it waits for may be an answer of ours. So calls and answers go in a
lane each. Between the lanes the order is kept as well, but only for a short while: then the later one goes first.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from accord.clock import Clock, within
from accord.wire.pipes import Backlog
from accord.wire.remote.messages import Message, read_message

HELD: Final = 0.25
"""Seconds after which a post counts as held."""


class Post:
    """A message on its way."""

    __slots__ = ("begun", "done", "frame", "left", "message", "number")

    def __init__(self, frame: bytes, message: Message, number: int) -> None:
        self.frame = frame
        self.message = message
        self.number = number
        self.left = False
        """Whether its bytes have left this process."""
        self.begun: float | None = None
        self.done = asyncio.Event()


class Posting:
    """Two lanes, and what waits in them."""

    def __init__(self, clock: Clock, post: Callable[[Post], Awaitable[None]]) -> None:
        self.backlog = Backlog()
        self._clock = clock
        self._post = post
        self._number = 0
        self._calls: deque[Post] = deque()
        self._answers: deque[Post] = deque()
        self._news = {id(lane): asyncio.Event() for lane in (self._calls, self._answers)}
        self._tasks: list[asyncio.Task[None]] = []
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        """Begin to post."""
        if not self._tasks:
            lanes = (self._calls, self._answers), (self._answers, self._calls)
            self._tasks = [asyncio.ensure_future(self._work(*pair)) for pair in lanes]

    def add(self, frame: bytes) -> None:
        """Queue a message."""
        self._number += 1
        post = Post(frame, read_message(frame), self._number)
        lane = self._answers if post.message.kind == "answer" else self._calls
        lane.append(post)
        self.backlog.size += len(frame)
        self._idle.clear()
        self._news[id(lane)].set()

    def gone(self, post: Post) -> None:
        """Its bytes have left, or never will."""
        if not post.left:
            post.left = True
            self.backlog.sent(len(post.frame))

    async def all_posted(self) -> None:
        """Wait until nothing is left to do."""
        await self._idle.wait()

    async def stop(self) -> None:
        """Post nothing more."""
        self.backlog.close()
        ours = asyncio.current_task()
        others = [task for task in self._tasks if task is not ours]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)

    async def _work(self, lane: deque[Post], other: deque[Post]) -> None:
        news = self._news[id(lane)]
        while True:
            if not lane:
                if not other:
                    self._idle.set()
                news.clear()
                await news.wait()
                continue
            post = lane[0]
            await self._turn_of(post, other)
            post.begun = self._clock.now()
            try:
                await self._post(post)
            finally:
                self.gone(post)
                post.done.set()
                lane.popleft()

    async def _turn_of(self, post: Post, other: deque[Post]) -> None:
        """Wait for what was sent before, unless that is held."""
        while other and other[0].number < post.number:
            before = other[0]
            begun = self._clock.now() if before.begun is None else before.begun
            left = begun + HELD - self._clock.now()
            if left <= 0:
                return
            waiting = asyncio.ensure_future(before.done.wait())
            try:
                done = await within(self._clock, left, waiting)
            finally:
                waiting.cancel()
            if not done:
                return
