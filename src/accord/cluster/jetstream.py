"""JetStream as the cluster uses it: appends with an expected sequence, reads, purges and key-value buckets.

Reads come from the leader of a stream where something is decided by them, and otherwise from any replica,
which may be behind. No consumers are created.
"""

import asyncio
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from msgspec import MsgspecError, Struct, field, json

from accord.clock import within
from accord.cluster.connection import (
    REQUEST_SECONDS,
    NatsConnection,
    NatsMessage,
    NatsRefused,
    NatsUnavailable,
)
from accord.schema.codec import encode

WRONG_SEQUENCE: Final = 10071
APPENDS_IN_PROGRESS: Final = frozenset({10158, 10164})
"""An append to the subject, perhaps the same one, is not decided yet."""
STREAM_NOT_FOUND: Final = 10059
NO_MESSAGE: Final = 10037
RESOURCE_CODES: Final = frozenset({10002, 10023, 10028, 10047, 10054, 10077})
"""A stream is full, or the account or server has no storage left."""
PAGE_MESSAGES: Final = 500
_PAGE_BYTES: Final = 8 * 1024 * 1024
_LEADERLESS_CODES: Final = frozenset({10004, 10008, 10009, 10118})
"""JetStream is not available now, for example during an election."""
_NOT_ENABLED: Final = frozenset({10039, 10076})
"""The account or the server has no JetStream."""

EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
MESSAGE_ID: Final = "Nats-Msg-Id"
SEQUENCE: Final = "Nats-Sequence"
PREVIOUS: Final = "Nats-Last-Sequence"
_STATUS: Final = "Status"
_OPERATION: Final = "KV-Operation"
MARKER_SECONDS: Final = 3600
"""How long a bucket remembers that a key was deleted, for nodes that follow it."""


class StoredMessage(Struct, frozen=True, gc=False):
    """A message of a stream. `previous` is the sequence of the message before it on its subject, if known."""

    subject: str
    sequence: int
    data: bytes
    headers: dict[str, str]
    previous: int | None = None


class _ApiError(Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Stored(Struct, frozen=True):
    subject: str
    seq: int
    hdrs: str = ""
    data: str = ""


class _Answer(Struct, frozen=True):
    error: _ApiError | None = None
    seq: int = 0
    duplicate: bool = False
    message: _Stored | None = None
    success: bool = False
    purged: int = 0


class AppendCounts(Struct):
    """Numbers of the appends to session logs, for the metrics."""

    appends: int = 0
    seconds: float = 0.0
    retries: Counter[str] = field(default_factory=Counter[str])
    """By JetStream's error code, or `unavailable` if no server answered."""


class JetStream:
    """The operations on streams. All raise NatsUnavailable and NatsRefused."""

    def __init__(self, connection: NatsConnection) -> None:
        self.connection: NatsConnection = connection
        domain = connection.settings.leaf
        self._api = "$JS.API" if domain is None else f"$JS.{domain}.API"
        self.key_prefix: str = "" if domain is None else f"{self._api}."
        """Before the subjects of buckets: a leaf node passes `$KV` on only with the domain of its hub."""
        self.append_counts: AppendCounts = AppendCounts()

    async def api(self, subject: str, request: Any = None) -> bytes:
        """Call `$JS.API.<subject>` and return the answer, as JSON."""
        data = b"" if request is None else encode(request)
        message = await self.connection.request(f"{self._api}.{subject}", data)
        _checked(message)
        return message.data

    async def append(
        self, subject: str, data: bytes, headers: dict[str, str], seconds: float = REQUEST_SECONDS
    ) -> int:
        """Append a message and return its sequence in the stream."""
        return _checked(await self.connection.request(subject, data, headers, seconds)).seq

    async def last(self, stream: str, subject: str) -> StoredMessage | None:
        """Read the last message of a subject from the leader of the stream."""
        try:
            message = await self.connection.request(
                f"{self._api}.STREAM.MSG.GET.{stream}", encode({"last_by_subj": subject})
            )
            stored = _checked(message).message
        except NatsRefused as error:
            if error.code == NO_MESSAGE:
                return None
            raise
        if stored is None:
            raise NatsRefused(f"the NATS server answered a read of {stream} with no message")
        return StoredMessage(
            stored.subject, stored.seq, b64decode(stored.data), _header_lines(b64decode(stored.hdrs))
        )

    async def page(
        self, stream: str, subject: str, after: int = 0, limit: int = PAGE_MESSAGES
    ) -> list[StoredMessage]:
        """Read the next messages of a subject, or of a wildcard, from any replica; empty at the end."""
        inbox = self.connection.new_inbox()
        page: list[StoredMessage] = []
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def receive(message: NatsMessage) -> None:
            headers = message.headers or {}
            if ended.done():
                return
            if (status := headers.get(_STATUS)) is None:
                page.append(read_message(message))
            elif status in ("204", "404"):
                ended.set_result(None)
            else:
                ended.set_exception(NatsUnavailable(f"the NATS server cannot read {stream} ({status})"))

        def on_connection(connected: bool) -> None:
            if not connected and not ended.done():  # no answer can come any more
                ended.set_exception(NatsUnavailable("the connection to the NATS server was lost"))
                ended.exception()  # nothing may wait for it yet

        request = {"seq": after + 1, "next_by_subj": subject, "batch": limit, "max_bytes": _PAGE_BYTES}
        subscription = await self.connection.subscribe(inbox, receive)
        self.connection.on_change.append(on_connection)
        try:
            if not await self.connection.publish(f"{self._api}.DIRECT.GET.{stream}", encode(request), inbox):
                raise NatsUnavailable("no NATS server is connected")
            if not await within(self.connection.clock, REQUEST_SECONDS, ended):
                raise NatsUnavailable(f"no NATS server answered a read of {stream}")
            ended.result()
        finally:
            ended.cancel()
            self.connection.on_change.remove(on_connection)
            await self.connection.unsubscribe(subscription)
        return page

    async def messages(self, stream: str, subject: str, after: int = 0) -> AsyncGenerator[StoredMessage]:
        """Read all messages of a subject from any replica, page by page."""
        while page := await self.page(stream, subject, after):
            for message in page:
                yield message
            after = page[-1].sequence

    async def send_chunk(self, subject: str, data: bytes, seconds: float = REQUEST_SECONDS) -> None:
        """Send a part of a snapshot that is being restored; an empty one ends it."""
        message = await self.connection.request(subject, data, seconds=seconds)
        if message.data:
            _checked(message)

    async def purge(self, stream: str, subject: str) -> int:
        """Delete all messages of a subject; return how many there were."""
        request = encode({"filter": subject})
        message = await self.connection.request(f"{self._api}.STREAM.PURGE.{stream}", request)
        return _checked(message).purged


class BucketEntry(Struct, frozen=True):
    """A key of a bucket. A deleted one has no value; its revision is still needed to create it again."""

    key: str
    value: bytes | None
    revision: int
    written: str = ""
    """When it was written, by the clock of a NATS server; empty if it is not known."""


class Bucket:
    """A key-value bucket; every change names the revision that it replaces."""

    def __init__(self, jetstream: JetStream, name: str) -> None:
        self.name: str = name
        self.stream: str = f"KV_{name}"
        self._jetstream = jetstream
        self._prefix = f"$KV.{name}."
        self._writes = f"{jetstream.key_prefix}{self._prefix}"

    async def get(self, key: str) -> BucketEntry | None:
        """Read a key from the leader; None if it was never written."""
        message = await self._jetstream.last(self.stream, self._prefix + key)
        return None if message is None else self.entry(message)

    async def put(self, key: str, value: bytes, revision: int) -> int:
        """Write a key whose last revision is `revision` (0: none); return the new one.

        Raises NatsRefused with `WRONG_SEQUENCE` if it has another revision.
        """
        return await self._write(key, value, {EXPECTED: str(revision)})

    async def delete(self, key: str, revision: int, *, marker_seconds: int = MARKER_SECONDS) -> int:
        """Delete a key whose last revision is `revision`; return the revision of the deletion."""
        headers = {EXPECTED: str(revision), _OPERATION: "DEL", "Nats-TTL": f"{marker_seconds}s"}
        return await self._write(key, b"", headers)

    async def _write(self, key: str, value: bytes, headers: dict[str, str]) -> int:
        try:
            return await self._jetstream.append(self._writes + key, value, headers)
        except NatsRefused as error:
            if error.code not in APPENDS_IN_PROGRESS:
                raise
            raise NatsUnavailable(f"another change of {key} is not decided yet ({error})") from None

    async def entries(self, after: int = 0, keys: str = ">") -> AsyncGenerator[BucketEntry]:
        """Read the last entry of each key, in the order of their revisions, from any replica."""
        async for message in self._jetstream.messages(self.stream, self._prefix + keys, after):
            yield self.entry(message)

    def entry(self, message: StoredMessage) -> BucketEntry:
        """The entry that a message of the bucket's stream holds."""
        deleted = _OPERATION in message.headers
        key = message.subject.removeprefix(self._prefix)
        written = message.headers.get("Nats-Time-Stamp", "")
        return BucketEntry(key, None if deleted else message.data, message.sequence, written)


def read_message(message: NatsMessage) -> StoredMessage:
    """A message of a direct read or of a republished subject. Raises NatsRefused."""
    headers = message.headers or {}
    try:
        previous = headers.get(PREVIOUS)
        return StoredMessage(
            headers.get("Nats-Subject", message.subject),
            int(headers[SEQUENCE]),
            message.data,
            headers,
            None if previous is None else int(previous),
        )
    except (KeyError, ValueError):
        raise NatsRefused(f"a message of {message.subject} has no sequence") from None


async def with_retries(
    work: "Callable[[], Any]", jetstream: JetStream, *, seconds: float = 10.0, pause: float = 0.05
) -> Any:
    """Repeat an operation that may be repeated while no server answers, for at most so many seconds."""
    clock = jetstream.connection.clock
    deadline = clock.now() + seconds
    while True:
        try:
            return await work()
        except NatsUnavailable:
            if clock.now() + pause >= deadline:
                raise
        await clock.sleep(pause)
        pause = min(pause * 2, 1.0)


def _checked(message: NatsMessage) -> _Answer:
    try:
        answer = json.decode(message.data, type=_Answer)
    except MsgspecError:
        raise NatsUnavailable(f"the NATS server gave no answer to {message.subject}") from None
    error = answer.error
    if error is None:
        return answer
    text = f"{error.description or 'refused'} ({error.err_code or error.code})"
    final = error.err_code in RESOURCE_CODES or error.err_code in _NOT_ENABLED
    if error.err_code in _LEADERLESS_CODES or (error.code == 503 and not final):
        raise NatsUnavailable(f"the NATS server is not available: {text}")
    raise NatsRefused(f"the NATS server refused: {text}", error.err_code)


def _header_lines(data: bytes) -> dict[str, str]:
    lines = data.decode("utf-8", "replace").split("\r\n")[1:]
    return {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
