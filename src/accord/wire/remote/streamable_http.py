"""The transport over streamable HTTP: messages are posted one by one, and received on event streams.

The connection has an event stream, and so has each session; the stream of a session is open before its
messages are posted. A refused post fails only that request, unless the server says that the connection is
gone.

Imported on first use: it loads httpx2.
"""

import asyncio
from typing import Final, Protocol

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock, OwnedTasks, Timer, within
from accord.wire.pipes import HIGH_WATER
from accord.wire.remote.address import AgentAddress, LinkObserver, NetworkTimeouts
from accord.wire.remote.event_parser import EventParser
from accord.wire.remote.http_client import (
    CONNECTION_ID,
    MAX_ERROR_BODY,
    SESSION_ID,
    EventResponse,
    HttpClient,
    NetworkFailure,
    PostResponse,
    StreamRejected,
)
from accord.wire.remote.network_errors import FINAL_STATUSES, status_sentence
from accord.wire.remote.post_queue import (
    MAX_ORDER_DELAY,
    SESSION_OPENING_METHODS,
    UPDATE_PREFIX,
    PostQueue,
    QueuedPost,
    encode_failed_call,
    read_message,
)
from accord.wire.remote.resume_buffer import announces_resume
from accord.wire.transport import DEFAULT_LIMIT, Frame, Receiver, TransportEnd

_RETRY_STATUSES: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
"""Temporary refusals: the server may not have noticed yet that the previous stream broke."""


_HTTP_GONE: Final = 410


class EventsLost(Exception):
    """Events of a stream were lost."""


class SseReceiver(Protocol):
    """Receives the frames of a stream."""

    async def ready(self) -> None:
        """Wait until the receiver accepts more frames."""
        ...

    def receive(self, stream: "SseStream", frames: list[Frame]) -> None:
        """Receive all frames that one read completed, in order."""
        ...

    def stream_dropped(self, stream: "SseStream", reason: str) -> None:
        """Learn that a stream could not be opened again at once; with an empty reason, that it is."""
        ...

    def stream_ended(self, stream: "SseStream", reason: str, status: int | None) -> None:
        """Receive the final end of a stream; `status` is set if the server refused it."""
        ...


class SseStream:
    """The event stream of one session, or of the connection itself if `session` is None.

    It is resumed after the last id. A server that announces that connections can be resumed numbers its
    events one by one. There a gap ends the stream: loading the session again is better than continuing
    without a part of it.
    """

    def __init__(
        self,
        session: str | None,
        receiver: SseReceiver,
        client: HttpClient,
        *,
        limit: int,
        timeouts: NetworkTimeouts,
        clock: Clock,
        numbered: bool = False,
    ) -> None:
        self.session: str | None = session
        self.reads: int = 0
        """Counts the reads."""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the server has started to respond; else StreamRejected or NetworkFailure."""
        self._receiver = receiver
        self._client = client
        self._limit = limit
        self._timeouts = timeouts
        self._clock = clock
        self._events_numbered = numbered
        self._parser = EventParser(limit)
        self._receiver_ready = True  # False while the receiver is not ready
        self._dropped = False  # whether the receiver knows that the stream is not open
        self._silence_timer: Timer | None = None
        self._cut_task: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def was_open(self) -> bool:
        """Whether the server has ever started to respond."""
        return self.opened.done() and not self.opened.cancelled() and self.opened.exception() is None

    def start(self, connection_id: dict[str, str]) -> None:
        """Open the stream and follow it."""
        ids = dict(connection_id) if self.session is None else {**connection_id, SESSION_ID: self.session}
        self._task = asyncio.ensure_future(self._follow_with_retries(ids))

    async def stop(self) -> None:
        """Stop following the stream."""
        tasks = [task for task in (self._task, self._cut_task) if task is not None]
        for task in tasks:
            task.cancel()
        if not self.opened.done():
            self.opened.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _follow_with_retries(self, ids: dict[str, str]) -> None:
        attempt, deadline, status = 0, self._clock.now() + self._timeouts.connect, None
        while True:
            reads, started = self.reads, self._clock.now()
            try:
                await self._read_stream(ids)
                reason = "the server ended the stream"
            except StreamRejected as rejected:
                reason, status = str(rejected), rejected.status
                if rejected.status not in _RETRY_STATUSES:
                    break
            except EventsLost as lost:
                reason, status = str(lost), _HTTP_GONE
                break
            except NetworkFailure as failure:
                reason = f"the stream broke: {failure}"
                if not self.opened.done():
                    reason = str(failure)
                    break
            if self.opened.done() and self._parser.last_id is None:
                break
            if self.reads != reads or self._clock.now() - started > self._timeouts.resume:
                attempt, status, deadline = 0, None, self._clock.now() + self._timeouts.resume
            attempt += 1
            pause = self._timeouts.pause_before(attempt)
            if self._clock.now() + pause > deadline:
                break
            if attempt > 1 and self.opened.done() and not self._dropped:
                self._dropped = True
                self._receiver.stream_dropped(self, reason)
            await self._clock.sleep(pause)
        if not self.opened.done():
            self.opened.set_exception(
                StreamRejected(status) if status is not None else NetworkFailure(reason, sent=False)
            )
            self.opened.exception()  # mark it as retrieved
        self._receiver.stream_ended(self, reason, status)

    async def _read_stream(self, ids: dict[str, str]) -> None:
        last_id = self._parser.last_id
        self._parser = EventParser(self._limit)
        self._parser.last_id = last_id
        async with self._client.events(ids, last_id) as events:
            if not self.opened.done():
                self.opened.set_result(None)
            if self._dropped:
                self._dropped = False
                self._receiver.stream_dropped(self, "")
            self._cut_if_silent(events, -1)
            try:
                async for data in events:
                    self._receiver_ready = False
                    await self._receiver.ready()
                    self._receiver_ready = True
                    self.reads += 1
                    last_id_before = self._parser.last_id
                    frames = self._parser.feed(data)
                    if self._events_numbered and last_id_before is not None:
                        _check_complete(last_id_before, self._parser.last_id, len(frames))
                    if frames:
                        self._receiver.receive(self, frames)
            finally:
                if self._silence_timer is not None:
                    self._silence_timer.cancel()

    def _cut_if_silent(self, events: EventResponse, reads: int) -> None:
        """Cut a stream that had keep-alive comments and has been silent for too long."""
        if reads == self.reads and self._receiver_ready and self._parser.comments:
            self._cut_task = asyncio.ensure_future(events.cut())
            return
        current_reads = self.reads
        self._silence_timer = self._clock.call_later(
            self._timeouts.silence, lambda: self._cut_if_silent(events, current_reads)
        )


def _check_complete(last_id_before: str, last_id: str | None, count: int) -> None:
    """Raise EventsLost if the event numbers show that events are missing."""
    if last_id_before.isdecimal() and last_id is not None and last_id.isdecimal():
        missing = int(last_id) - int(last_id_before) - count
        if missing > 0:
            raise EventsLost(f"{missing} messages were lost that the server no longer has")


_QUIET_CHECK_SECONDS: Final = 0.1
_MAX_QUIET_CHECKS: Final = 50
"""A response that ends a replay on another stream waits until the session's stream is quiet: at most this
many checks.
"""


class _Call(Struct, frozen=True):
    """One of our requests that waits for its response."""

    method: str
    session: str | None


class StreamableHttpTransport:
    """One connection; its first message has to be `initialize`."""

    def __init__(
        self,
        address: AgentAddress,
        *,
        limit: int = DEFAULT_LIMIT,
        timeouts: NetworkTimeouts | None = None,
        clock: Clock = SYSTEM_CLOCK,
        on_link: LinkObserver | None = None,
    ) -> None:
        self._address = address
        self._on_link = on_link
        self._limit = limit
        self._timeouts = timeouts or NetworkTimeouts()
        self._clock = clock
        self._client = HttpClient(address, self._timeouts)
        self._posts = PostQueue(clock, self._post)
        self._ids: dict[str, str] = {}  # the header with the connection id, once there is one
        self._events_numbered = False
        self._streams: dict[str | None, SseStream] = {}
        self._unknown_sessions: set[str] = set()  # sessions that the server did not know
        self._calls: dict[bytes, _Call] = {}
        self._agent_requests: dict[bytes, str | None] = {}  # by id: the session whose stream brought it
        self._receiver: Receiver | None = None
        self._reading_allowed = asyncio.Event()
        self._reading_allowed.set()
        self._discard_received = False
        self._end: TransportEnd | None = None
        self._tasks = OwnedTasks(clock)
        self._closing: asyncio.Task[None] | None = None
        self._release_task: asyncio.Task[None] | None = None

    # -- the contract of a transport --------------------------------------------------------------

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if self._end is not None:
            asyncio.get_running_loop().call_soon(receiver.ended, self._end)
        else:
            self._posts.start()

    def send(self, frame: bytes) -> None:
        if self._end is None and self._closing is None:
            self._posts.add(frame)

    @property
    def unsent(self) -> int:
        return self._posts.backlog.unsent

    async def drain(self) -> None:
        if self.unsent >= HIGH_WATER:
            await self._posts.backlog.wait_below(HIGH_WATER // 4)

    def pause(self) -> None:
        if self._closing is None:
            self._reading_allowed.clear()

    def resume(self) -> None:
        self._reading_allowed.set()

    async def aclose(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._discard_received = not self._reading_allowed.is_set()
        self._reading_allowed.set()
        if self._end is None and self._receiver is not None:
            posted = asyncio.ensure_future(self._posts.wait_all_posted())
            await within(self._clock, self._timeouts.close, posted)
            posted.cancel()
        self._finish(f"this side closed the connection to {self._address}")
        if self._release_task is not None:
            await asyncio.wait([self._release_task])

    # -- posting ----------------------------------------------------------------------------------

    async def _post(self, post: QueuedPost) -> None:
        message = post.message
        if message.method == "initialize" and message.kind == "request" and not self._ids:
            await self._initialize(post)
            return
        if message.kind == "response":
            session = self._agent_requests.pop(message.id, None)
        else:
            session = message.session
            if message.kind == "request":
                self._calls[message.id] = _Call(message.method, session)
            if session is not None and not await self._stream_is_open(session, post):
                return
        ids = self._ids
        if session is not None and not (
            session in self._unknown_sessions and message.method in SESSION_OPENING_METHODS
        ):
            ids = {**ids, SESSION_ID: session}
        try:
            response = await self._client.post(post.frame, ids, lambda: self._posts.mark_written(post))
        except NetworkFailure as failure:
            self._finish(f"{self._address}: the connection broke: {failure}")
        else:
            self._handle_post_response(post, session, response)

    async def _initialize(self, post: QueuedPost) -> None:
        try:
            response = await self._client.post(
                post.frame, {}, lambda: self._posts.mark_written(post), max_bytes=self._limit
            )
        except NetworkFailure as failure:
            self._cannot_connect(str(failure))
            return
        if response.status != 200:
            self._cannot_connect(status_sentence(response.status, response.body[:MAX_ERROR_BODY]))
        elif not response.json or len(response.body) > self._limit:
            self._cannot_connect("there is no ACP server at this address")
        elif response.connection_id is None:
            # An error response needs no connection; any other one cannot be continued.
            self._deliver([response.body])
            self._finish(f"{self._address}: the server opened no connection")
        else:
            self._ids = {CONNECTION_ID: response.connection_id}
            self._events_numbered = announces_resume(response.body)
            stream = self._open_stream(None)
            await asyncio.wait([stream.opened])
            self._deliver([response.body])

    def _cannot_connect(self, reason: str) -> None:
        self._finish(f"{self._address}: cannot connect: {reason}", connected=False)

    def _handle_post_response(self, post: QueuedPost, session: str | None, response: PostResponse) -> None:
        status = response.status
        if status < 300:
            if (
                status == 200
                and response.json
                and response.body.strip()
                and len(response.body) <= MAX_ERROR_BODY
            ):
                self._receive_frames(None, [response.body])
        elif status in FINAL_STATUSES and not (status == 404 and session in self._unknown_sessions):
            self._finish(f"{self._address}: {status_sentence(status, response.body, connected=True)}")
        else:
            if status == 409 and session is not None:
                self._fail_session(session, status_sentence(status, response.body))
            self._fail_call(post.message.id, status_sentence(status, response.body), status, response.body)

    def _fail_call(self, id: bytes, reason: str, status: int | None = None, body: bytes = b"") -> None:
        """Answer one of our requests that could not be posted with an error."""
        if self._calls.pop(id, None) is not None:
            data = (
                None
                if status is None
                else {"status": status, "body": body[:MAX_ERROR_BODY].decode(errors="replace")}
            )
            self._deliver([encode_failed_call(id, f"{self._address}: {reason}", data)])

    # -- streams ----------------------------------------------------------------------------------

    def _open_stream(self, session: str | None) -> SseStream:
        stream = self._streams.get(session)
        if stream is None:
            stream = SseStream(
                session,
                self,
                self._client,
                limit=self._limit,
                timeouts=self._timeouts,
                clock=self._clock,
                numbered=self._events_numbered,
            )
            self._streams[session] = stream
            stream.start(self._ids)
        return stream

    async def _stream_is_open(self, session: str, post: QueuedPost) -> bool:
        """Return whether a session's messages can be posted: its stream is open, or the server lacks it."""
        stream = self._open_stream(session)
        await asyncio.wait([stream.opened])
        error = None if stream.opened.cancelled() else stream.opened.exception()
        if stream.opened.cancelled() or self._end is not None:
            return False
        if error is None:
            self._unknown_sessions.discard(session)
            return True
        if isinstance(error, StreamRejected) and error.status == 404:
            self._unknown_sessions.add(session)
            return True
        self._fail_call(
            post.message.id, str(error), error.status if isinstance(error, StreamRejected) else None
        )
        return False

    async def ready(self) -> None:
        if not self._reading_allowed.is_set():
            await self._reading_allowed.wait()

    def receive(self, stream: SseStream, frames: list[Frame]) -> None:
        self._receive_frames(stream.session, frames)

    def stream_dropped(self, stream: SseStream, reason: str) -> None:
        if stream.session is None and self._on_link is not None and self._end is None:
            self._on_link(reason)

    def stream_ended(self, stream: SseStream, reason: str, status: int | None) -> None:
        session = stream.session
        if self._streams.get(session) is stream:
            del self._streams[session]
        if self._end is not None:
            return
        if session is None or status in FINAL_STATUSES - {404}:
            self._finish(f"{self._address}: {reason}")
        elif stream.was_open:
            self._tasks.start(
                self._fail_calls_later(self._calls_of(session), f"the session {session}: {reason}")
            )

    def _fail_session(self, session: str, reason: str) -> None:
        """Fail the calls of a session that the server has lost."""
        stream = self._streams.pop(session, None)
        if stream is not None:
            self._tasks.start(stream.stop())
        for id in self._calls_of(session):
            self._fail_call(id, f"the session {session}: {reason}")

    async def _fail_calls_later(self, ids: list[bytes], reason: str) -> None:
        """Fail calls of an ended stream after a moment: if the server ended, the connection fails first."""
        await self._clock.sleep(MAX_ORDER_DELAY)
        for id in ids:
            self._fail_call(id, reason)

    def _calls_of(self, session: str) -> list[bytes]:
        return [id for id, call in self._calls.items() if call.session == session]

    # -- receiving --------------------------------------------------------------------------------

    def _receive_frames(self, stream_session: str | None, frames: list[Frame]) -> None:
        """Pass on the frames of one read; keep track of the agent's requests and of responses to ours."""
        forwarded: list[Frame] = []
        for frame in frames:
            if not isinstance(frame, bytes) or frame.startswith(UPDATE_PREFIX):
                forwarded.append(frame)
                continue
            message = read_message(frame)
            if message.kind == "request":
                self._agent_requests[message.id] = stream_session
            elif message.kind == "response":
                call = self._calls.pop(message.id, None)
                if message.session is not None and self._ids and call is not None:
                    self._open_stream(message.session)
                if (
                    call is not None
                    and call.method in SESSION_OPENING_METHODS
                    and stream_session != call.session
                ):
                    self._tasks.start(self._deliver_when_quiet(frame, call.session))
                    continue
            forwarded.append(frame)
        self._deliver(forwarded)

    async def _deliver_when_quiet(self, frame: bytes, session: str | None) -> None:
        """Deliver a response after the replay on the session's stream, because it came on another stream."""
        for _ in range(_MAX_QUIET_CHECKS):
            stream = self._streams.get(session)
            reads = 0 if stream is None else stream.reads
            await self._clock.sleep(_QUIET_CHECK_SECONDS)
            if stream is None or stream.reads == reads:
                break
        self._deliver([frame])

    def _deliver(self, frames: list[Frame]) -> None:
        if frames and self._receiver is not None and self._end is None and not self._discard_received:
            self._receiver.frames(frames)

    # -- the end ----------------------------------------------------------------------------------

    def _finish(self, reason: str, *, connected: bool = True) -> None:
        if self._end is not None:
            return
        self._end = TransportEnd(reason, connected=connected)
        self._posts.backlog.close()
        self._release_task = asyncio.ensure_future(self._release())
        if self._receiver is not None:
            self._receiver.ended(self._end)

    async def _release(self) -> None:
        """Stop all tasks, delete the connection at the server and close the sockets; each step is bounded."""
        await self._posts.stop()
        self._tasks.cancel()
        streams = list(self._streams.values())
        if streams:
            stopping = asyncio.gather(*(stream.stop() for stream in streams))
            await within(self._clock, self._timeouts.close, stopping)
        if self._ids:
            deleting = asyncio.ensure_future(self._delete())
            if not await within(self._clock, self._timeouts.close, deleting):
                deleting.cancel()
        await self._client.aclose()

    async def _delete(self) -> None:
        try:
            await self._client.delete(self._ids)
        except NetworkFailure:
            pass  # the server cannot be reached any more
