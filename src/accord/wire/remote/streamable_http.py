"""The transport over streamable HTTP: messages are posted one by one, and come back on streams of events.

The connection has a stream of its own, each session one more, which is open before anything that concerns the session is
posted. Whatever the server refuses fails that request alone, unless it says that the connection is gone.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.wire.pipes import HIGH_WATER
from accord.wire.remote.address import AgentAddress, NetworkTimeouts
from accord.wire.remote.http_client import (
    BODY_SHOWN,
    CONNECTION_ID,
    SESSION_ID,
    HttpClient,
    NetworkFailure,
    PostResponse,
    StreamRejected,
)
from accord.wire.remote.network_errors import FINAL_STATUSES, status_sentence
from accord.wire.remote.post_queue import HELD, OPENING, UPDATE, PostQueue, QueuedPost, failure, read_message
from accord.wire.remote.resume_buffer import announces_return
from accord.wire.remote.server_sent_events import SseStream
from accord.wire.transport import DEFAULT_LIMIT, Frame, Receiver, TransportEnd

_QUIET: Final = 0.1
_ROUNDS: Final = 50
"""An answer that closes a replay on another stream is held until the session's own is quiet, but not for ever."""


class _Call(Struct, frozen=True):
    """A request of ours that is open."""

    method: str
    session: str | None


class StreamableHttpTransport:
    """One connection; it begins with the first message, which has to be `initialize`."""

    def __init__(
        self,
        address: AgentAddress,
        *,
        limit: int = DEFAULT_LIMIT,
        times: NetworkTimeouts | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._address = address
        self._limit = limit
        self._times = times or NetworkTimeouts()
        self._clock = clock
        self._exchange = HttpClient(address, self._times)
        self._posting = PostQueue(clock, self._post)
        self._ids: dict[str, str] = {}  # the connection's header, once it has one
        self._numbered = False
        self._streams: dict[str | None, SseStream] = {}
        self._unknown: set[str] = set()  # sessions of which the server knew no stream
        self._calls: dict[bytes, _Call] = {}
        self._asked: dict[bytes, str | None] = {}  # the agent's requests, and the stream that carried each
        self._receiver: Receiver | None = None
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._deaf = False
        self._end: TransportEnd | None = None
        self._held: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self._releasing: asyncio.Task[None] | None = None

    # -- the contract of a transport ----------------------------------------------------------------------------

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if self._end is not None:
            asyncio.get_running_loop().call_soon(receiver.ended, self._end)
        else:
            self._posting.start()

    def send(self, frame: bytes) -> None:
        if self._end is None and self._closing is None:
            self._posting.add(frame)

    @property
    def unsent(self) -> int:
        return self._posting.backlog.size

    async def drain(self) -> None:
        if self.unsent >= HIGH_WATER:
            await self._posting.backlog.below(HIGH_WATER // 4)

    def pause(self) -> None:
        if self._closing is None:
            self._wanted.clear()

    def resume(self) -> None:
        self._wanted.set()

    async def aclose(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._deaf = not self._wanted.is_set()
        self._wanted.set()
        if self._end is None and self._receiver is not None:
            posted = asyncio.ensure_future(self._posting.all_posted())
            await within(self._clock, self._times.leave, posted)
            posted.cancel()
        self._finish(f"this side closed the connection to {self._address}")
        if self._releasing is not None:
            await asyncio.wait([self._releasing])

    # -- posting ------------------------------------------------------------------------------------------------

    async def _post(self, post: QueuedPost) -> None:
        message = post.message
        if message.method == "initialize" and message.kind == "request" and not self._ids:
            await self._initialize(post)
            return
        if message.kind == "answer":
            session = self._asked.pop(message.id, None)
        else:
            session = message.session
            if message.kind == "request":
                self._calls[message.id] = _Call(message.method, session)
            if session is not None and not await self._stream_is_open(session, post):
                return
        ids = self._ids
        if session is not None and not (session in self._unknown and message.method in OPENING):
            ids = {**ids, SESSION_ID: session}
        try:
            answer = await self._exchange.post(post.frame, ids, lambda: self._posting.gone(post))
        except NetworkFailure as unreachable:
            self._finish(f"{self._address}: the connection broke off: {unreachable}")
        else:
            self._posted(post, session, answer)

    async def _initialize(self, post: QueuedPost) -> None:
        try:
            answer = await self._exchange.post(
                post.frame, {}, lambda: self._posting.gone(post), longest=self._limit
            )
        except NetworkFailure as unreachable:
            self._cannot_connect(str(unreachable))
            return
        if answer.status != 200:
            self._cannot_connect(status_sentence(answer.status, answer.body[:BODY_SHOWN]))
        elif not answer.json or len(answer.body) > self._limit:
            self._cannot_connect("what is there is no ACP server")
        elif answer.connection_id is None:
            # A refusal needs no connection. With anything else there would be nothing to go on with.
            self._give([answer.body])
            self._finish(f"{self._address}: the server opened no connection")
        else:
            self._ids = {CONNECTION_ID: answer.connection_id}
            self._numbered = announces_return(answer.body)
            stream = self._open(None)
            await asyncio.wait([stream.opened])
            self._give([answer.body])

    def _cannot_connect(self, why: str) -> None:
        self._finish(f"{self._address}: cannot connect: {why}", connected=False)

    def _posted(self, post: QueuedPost, session: str | None, answer: PostResponse) -> None:
        status = answer.status
        if status < 300:
            if status == 200 and answer.json and answer.body.strip() and len(answer.body) <= BODY_SHOWN:
                self._take(None, [answer.body])
        elif status in FINAL_STATUSES and not (status == 404 and session in self._unknown):
            self._finish(f"{self._address}: {status_sentence(status, answer.body, connected=True)}")
        else:
            if status == 409 and session is not None:
                self._forget(session, status_sentence(status, answer.body))
            self._fail(post.message.id, status_sentence(status, answer.body), status, answer.body)

    def _fail(self, id: bytes, why: str, status: int | None = None, body: bytes = b"") -> None:
        """A request of ours was not carried: its error is made here."""
        if self._calls.pop(id, None) is not None:
            data = (
                None
                if status is None
                else {"status": status, "body": body[:BODY_SHOWN].decode(errors="replace")}
            )
            self._give([failure(id, f"{self._address}: {why}", data)])

    # -- streams ------------------------------------------------------------------------------------------------

    def _open(self, session: str | None) -> SseStream:
        stream = self._streams.get(session)
        if stream is None:
            stream = SseStream(
                session,
                self,
                self._exchange,
                limit=self._limit,
                times=self._times,
                clock=self._clock,
                numbered=self._numbered,
            )
            self._streams[session] = stream
            stream.start(self._ids)
        return stream

    async def _stream_is_open(self, session: str, post: QueuedPost) -> bool:
        """Whether a message of a session may be posted: its stream is open, or the server does not want that yet."""
        stream = self._open(session)
        await asyncio.wait([stream.opened])
        error = None if stream.opened.cancelled() else stream.opened.exception()
        if stream.opened.cancelled() or self._end is not None:
            return False
        if error is None:
            self._unknown.discard(session)
            return True
        if isinstance(error, StreamRejected) and error.status == 404:
            self._unknown.add(session)
            return True
        self._fail(post.message.id, str(error), error.status if isinstance(error, StreamRejected) else None)
        return False

    async def ready(self) -> None:
        if not self._wanted.is_set():
            await self._wanted.wait()

    def came(self, stream: SseStream, frames: list[Frame]) -> None:
        self._take(stream.session, frames)

    def over(self, stream: SseStream, reason: str, status: int | None) -> None:
        session = stream.session
        if self._streams.get(session) is stream:
            del self._streams[session]
        if self._end is not None:
            return
        if session is None or status in FINAL_STATUSES - {404}:
            self._finish(f"{self._address}: {reason}")
        elif stream.was_open:
            self._own(self._fail_later(self._calls_of(session), f"the session {session}: {reason}"))

    def _forget(self, session: str, why: str) -> None:
        """The server has lost the session: whoever waits in it is told."""
        stream = self._streams.pop(session, None)
        if stream is not None:
            self._own(stream.stop())
        for id in self._calls_of(session):
            self._fail(id, f"the session {session}: {why}")

    async def _fail_later(self, ids: list[bytes], why: str) -> None:
        """The stream of a session is over. Often that is the server's end; then, in a moment, it is the connection that fails."""
        await self._clock.sleep(HELD)
        for id in ids:
            self._fail(id, why)

    def _calls_of(self, session: str) -> list[bytes]:
        return [id for id, call in self._calls.items() if call.session == session]

    # -- what arrives -------------------------------------------------------------------------------------------

    def _take(self, carrier: str | None, frames: list[Frame]) -> None:
        """Frames of one read: note who asked and who was answered, and pass them on."""
        kept: list[Frame] = []
        for frame in frames:
            if not isinstance(frame, bytes) or frame.startswith(UPDATE):
                kept.append(frame)
                continue
            message = read_message(frame)
            if message.kind == "request":
                self._asked[message.id] = carrier
            elif message.kind == "answer":
                call = self._calls.pop(message.id, None)
                if message.session is not None and self._ids and call is not None:
                    self._open(message.session)
                if call is not None and call.method in OPENING and carrier != call.session:
                    self._own(self._give_when_quiet(frame, call.session))
                    continue
            kept.append(frame)
        self._give(kept)

    async def _give_when_quiet(self, frame: bytes, session: str | None) -> None:
        """The replay is on the session's stream, its end came on another one: let the replay come first."""
        for _ in range(_ROUNDS):
            stream = self._streams.get(session)
            heard = 0 if stream is None else stream.heard
            await self._clock.sleep(_QUIET)
            if stream is None or stream.heard == heard:
                break
        self._give([frame])

    def _give(self, frames: list[Frame]) -> None:
        if frames and self._receiver is not None and self._end is None and not self._deaf:
            self._receiver.frames(frames)

    # -- the end ------------------------------------------------------------------------------------------------

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._held.add(task)
        task.add_done_callback(self._held.discard)

    def _finish(self, reason: str, *, connected: bool = True) -> None:
        if self._end is not None:
            return
        self._end = TransportEnd(reason, connected=connected)
        self._posting.backlog.close()
        self._releasing = asyncio.ensure_future(self._release())
        if self._receiver is not None:
            self._receiver.ended(self._end)

    async def _release(self) -> None:
        """Stop everything, say goodbye, let the sockets go; each step bounded."""
        await self._posting.stop()
        for task in self._held:
            task.cancel()
        streams = list(self._streams.values())
        if streams:
            stopping = asyncio.gather(*(stream.stop() for stream in streams))
            await within(self._clock, self._times.leave, stopping)
        if self._ids:
            leaving = asyncio.ensure_future(self._goodbye())
            if not await within(self._clock, self._times.leave, leaving):
                leaving.cancel()
        await self._exchange.aclose()

    async def _goodbye(self) -> None:
        try:
            await self._exchange.goodbye(self._ids)
        except NetworkFailure:
            pass  # it is gone by itself
