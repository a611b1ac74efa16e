"""Which message is posted next, and the parts of a message that HTTP needs.

Imported on first use.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.clock import Clock, within
from accord.errors import INTERNAL_ERROR
from accord.schema.codec import encode
from accord.wire.pipes import WriteBacklog

# MERGED wire.remote.messages: What streamable HTTP has to know about a message to carry it: its kind, its id and its session. Nothing is judged.

Kind: TypeAlias = Literal["request", "notification", "answer", "other"]

UPDATE: Final = b'{"jsonrpc":"2.0","method":"session/update",'
"""How the message begins that comes by the thousand, and of which nothing needs to be known."""

OPENING: Final = frozenset(("session/load", "session/resume"))
"""Requests that name a session which the connection need not know yet."""


class PostedMessage(Struct, frozen=True):
    """One message, as far as it matters."""

    kind: Kind = "other"
    method: str = ""
    id: bytes = b""
    """As it is written."""
    session: str | None = None
    """Of a call: the session in its parameters; of an answer: the session in its result."""


class _Envelope(Struct):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Scoped(Struct):
    session: str | None = msgspec.field(name="sessionId", default=None)


_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)
_SCOPED: Final = msgspec.json.Decoder(_Scoped)
_OTHER: Final = PostedMessage()


def read_message(frame: bytes) -> PostedMessage:
    """What there is to know; a frame that is no message is `other`."""
    try:
        found = _ENVELOPE.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _OTHER
    id = b"" if found.id is UNSET else bytes(found.id).strip()
    if found.method is not UNSET:
        kind: Kind = "notification" if found.id is UNSET else "request"
        return PostedMessage(kind, found.method, id, _session(found.params))
    if found.id is not UNSET and (found.result is not UNSET or found.error is not UNSET):
        return PostedMessage("answer", "", id, _session(found.result))
    return _OTHER


def failure(id: bytes, message: str, data: Any) -> bytes:
    """The error answer to a request that could not be carried."""
    error = {"code": INTERNAL_ERROR, "message": message, "data": data}
    return encode({"jsonrpc": "2.0", "id": Raw(id), "error": error})


def _session(value: Raw | UnsetType) -> str | None:
    if value is UNSET or b'"sessionId"' not in bytes(value):
        return None
    try:
        return _SCOPED.decode(value).session
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


# MERGED wire.remote.posting: The order in which messages are posted: one at a time, and answers so that they never wait for a post that is held.
#
# A server may hold a post until it can take it, and what it waits for may be an answer of ours. So calls and answers go in a
# lane each. Between the lanes the order is kept as well, but only for a short while: then the later one goes first.

HELD: Final = 0.25
"""Seconds after which a post counts as held."""


class QueuedPost:
    """A message on its way."""

    __slots__ = ("begun", "done", "frame", "left", "message", "number")

    def __init__(self, frame: bytes, message: PostedMessage, number: int) -> None:
        self.frame = frame
        self.message = message
        self.number = number
        self.left = False
        """Whether its bytes have left this process."""
        self.begun: float | None = None
        self.done = asyncio.Event()


class PostQueue:
    """Two lanes, and what waits in them."""

    def __init__(self, clock: Clock, post: Callable[[QueuedPost], Awaitable[None]]) -> None:
        self.backlog = WriteBacklog()
        self._clock = clock
        self._post = post
        self._number = 0
        self._calls: deque[QueuedPost] = deque()
        self._answers: deque[QueuedPost] = deque()
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
        post = QueuedPost(frame, read_message(frame), self._number)
        lane = self._answers if post.message.kind == "answer" else self._calls
        lane.append(post)
        self.backlog.size += len(frame)
        self._idle.clear()
        self._news[id(lane)].set()

    def gone(self, post: QueuedPost) -> None:
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

    async def _work(self, lane: deque[QueuedPost], other: deque[QueuedPost]) -> None:
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

    async def _turn_of(self, post: QueuedPost, other: deque[QueuedPost]) -> None:
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
