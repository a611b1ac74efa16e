"""The order in which messages are posted, and the parts of a message that streamable HTTP needs.

A server may hold a post until it can handle it, and may wait for one of our responses meanwhile. So calls and
responses have a queue each. Between the two queues the order is kept too, but only for a short time; then the
later one is posted.

Imported on first use.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.clock import Clock, OwnedTasks, within
from accord.errors import INTERNAL_ERROR
from accord.schema.codec import encode
from accord.wire.pipes import WriteBacklog

MessageKind: TypeAlias = Literal["request", "notification", "response", "other"]

UPDATE_PREFIX: Final = b'{"jsonrpc":"2.0","method":"session/update",'
"""How the most frequent message begins; it needs no parsing."""

SESSION_OPENING_METHODS: Final = frozenset(("session/load", "session/resume"))
"""Requests that name a session which the connection may not know yet."""


class PostedMessage(Struct, frozen=True):
    """The kind, id and session of one message."""

    kind: MessageKind = "other"
    method: str = ""
    id: bytes = b""
    """The id as JSON text."""
    session: str | None = None
    """The session in the parameters of a call or in the result of a response."""


class _Envelope(Struct):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _SessionMember(Struct):
    session: str | None = msgspec.field(name="sessionId", default=None)


_ENVELOPE_DECODER: Final = msgspec.json.Decoder(_Envelope)
_SESSION_DECODER: Final = msgspec.json.Decoder(_SessionMember)
_OTHER: Final = PostedMessage()


def read_message(frame: bytes) -> PostedMessage:
    """Read kind, id and session; a frame that is not a message is `other`."""
    try:
        envelope = _ENVELOPE_DECODER.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _OTHER
    id = b"" if envelope.id is UNSET else bytes(envelope.id).strip()
    if envelope.method is not UNSET:
        kind: MessageKind = "notification" if envelope.id is UNSET else "request"
        return PostedMessage(kind, envelope.method, id, _read_session(envelope.params))
    if envelope.id is not UNSET and (envelope.result is not UNSET or envelope.error is not UNSET):
        return PostedMessage("response", "", id, _read_session(envelope.result))
    return _OTHER


def encode_failed_call(id: bytes, message: str, data: Any) -> bytes:
    """Encode the error response to a request that could not be posted."""
    error = {"code": INTERNAL_ERROR, "message": message, "data": data}
    return encode({"jsonrpc": "2.0", "id": Raw(id), "error": error})


def _read_session(value: Raw | UnsetType) -> str | None:
    if value is UNSET or b'"sessionId"' not in bytes(value):
        return None
    try:
        return _SESSION_DECODER.decode(value).session
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


MAX_ORDER_DELAY: Final = 0.25
"""Seconds that a post waits for an earlier one of the other queue."""


class QueuedPost:
    """A message that waits to be posted."""

    __slots__ = ("done", "frame", "message", "number", "started", "written")

    def __init__(self, frame: bytes, message: PostedMessage, number: int) -> None:
        self.frame: bytes = frame
        self.message: PostedMessage = message
        self.number: int = number
        self.written: bool = False
        """Whether its bytes have left this process."""
        self.started: float | None = None
        self.done: asyncio.Event = asyncio.Event()


class PostQueue:
    """The queues of calls and of responses."""

    def __init__(self, clock: Clock, post: Callable[[QueuedPost], Awaitable[None]]) -> None:
        self.backlog: WriteBacklog = WriteBacklog()
        self._clock = clock
        self._post = post
        self._number = 0
        self._calls: deque[QueuedPost] = deque()
        self._responses: deque[QueuedPost] = deque()
        self._added = {id(queue): asyncio.Event() for queue in (self._calls, self._responses)}
        self._tasks = OwnedTasks(clock)
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        """Start posting."""
        self._tasks.start(self._post_all(self._calls, self._responses))
        self._tasks.start(self._post_all(self._responses, self._calls))

    def add(self, frame: bytes) -> None:
        """Queue a message."""
        self._number += 1
        post = QueuedPost(frame, read_message(frame), self._number)
        queue = self._responses if post.message.kind == "response" else self._calls
        queue.append(post)
        self.backlog.unsent += len(frame)
        self._idle.clear()
        self._added[id(queue)].set()

    def mark_written(self, post: QueuedPost) -> None:
        """Note that the bytes of a post have left, or never will."""
        if not post.written:
            post.written = True
            self.backlog.remove_written(len(post.frame))

    async def wait_all_posted(self) -> None:
        """Wait until all messages are posted."""
        await self._idle.wait()

    async def stop(self) -> None:
        """Stop posting."""
        self.backlog.close()
        await self._tasks.end()

    async def _post_all(self, queue: deque[QueuedPost], other: deque[QueuedPost]) -> None:
        added = self._added[id(queue)]
        while True:
            if not queue:
                if not other:
                    self._idle.set()
                added.clear()
                await added.wait()
                continue
            post = queue[0]
            await self._wait_for_earlier(post, other)
            post.started = self._clock.now()
            try:
                await self._post(post)
            finally:
                self.mark_written(post)
                post.done.set()
                queue.popleft()

    async def _wait_for_earlier(self, post: QueuedPost, other: deque[QueuedPost]) -> None:
        """Wait for an earlier post of the other queue, for at most `MAX_ORDER_DELAY`."""
        while other and other[0].number < post.number:
            earlier = other[0]
            started = self._clock.now() if earlier.started is None else earlier.started
            remaining = started + MAX_ORDER_DELAY - self._clock.now()
            if remaining <= 0:
                return
            waiting = asyncio.ensure_future(earlier.done.wait())
            try:
                done = await within(self._clock, remaining, waiting)
            finally:
                waiting.cancel()
            if not done:
                return
