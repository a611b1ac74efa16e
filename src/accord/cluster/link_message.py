"""The messages of links: a link joins a client at one node with the node that has its session.

Both directions are numbered: a missing message ends the link. Messages over 512 KiB are cut into parts.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from accord.clock import OwnedTasks
from accord.cluster.connection import INBOX, NatsConnection
from accord.cluster.settings import SubjectToken
from accord.errors import AccordError
from accord.wire.envelope import RequestId

PART_BYTES: Final = 512 * 1024
_LINE: Final = r"^[a-z][a-z0-9]*\.line(\.[A-Za-z0-9_-]{1,128}){3}\Z"
MAX_FRAME_BYTES: Final = 512 * 1024 * 1024
"""Of one frame in parts, so that a peer cannot fill the memory."""


class OpenLink(Struct, frozen=True, array_like=True, tag="open"):
    """A request of the client's node: serve this client."""

    link: SubjectToken
    subject: Annotated[str, Meta(pattern=_LINE)]
    """Where the answers for the client go. Nothing else may be written with the rights of this node."""
    connection: SubjectToken
    """The id of the client's connection, which is also the author of its records: not `HIDDEN_FROM_ALL`."""
    agent: str
    credential: str
    """What the client has shown: a token or a cookie. The node checks it itself."""
    peer: str = ""
    """The client's address, for the audit log."""

    def __repr__(self) -> str:
        return f"OpenLink({self.link!r}, {self.agent!r})"


class ClientFrames(Struct, frozen=True, array_like=True, tag="frames"):
    """Messages of the client."""

    link: str
    number: int
    bodies: list[bytes]
    more: bool = False
    """Whether the last body goes on in the next message."""


class ProbeLink(Struct, frozen=True, array_like=True, tag="probe"):
    """A request: does the link live, and did everything arrive?"""

    link: str
    sent: int
    """The number of the last `ClientFrames`."""
    taken: int
    """Bytes of `OwnerFrames` that the client's node has passed on."""


class CloseLink(Struct, frozen=True, array_like=True, tag="close"):
    """The client is gone."""

    link: str
    reason: str


class DrainNode(Struct, frozen=True, array_like=True, tag="drain"):
    """A request of an operator: give all sessions up, or take sessions again. May be repeated."""

    drain: bool


class AttachedLog(Struct, frozen=True, array_like=True):
    """From here on, the records of a session come by the feed of its log."""

    log: SubjectToken
    stream: SubjectToken
    number: int
    """The client has everything up to this record."""
    place: tuple[int, int]
    """A record not after it, and the message that it ends with."""


class OwnerFrame(Struct, frozen=True, array_like=True):
    """A frame for the client. `log` and `after` name the record that must be shown before it."""

    body: bytes
    stream: str | None = None
    call: RequestId | None = None
    """The id of a request to the client, or of a response."""
    is_request: bool = False
    log: str = ""
    after: int = 0
    attached: AttachedLog | None = None
    detached: bool = False
    moved: bool = False
    """Whether this node has given the session up, for another one to open it."""


class OwnerFrames(Struct, frozen=True, array_like=True, tag="frames"):
    """Frames of the session's node for the client."""

    number: int
    frames: list[OwnerFrame]
    more: bool = False
    """Whether the body of the last frame goes on in the next message."""


class LinkEnded(Struct, frozen=True, array_like=True, tag="ended"):
    """The session's node ended the link. `code` is a WebSocket close code."""

    code: int
    reason: str


class LinkAnswer(Struct, frozen=True, array_like=True):
    """The answer to `OpenLink` and `ProbeLink`."""

    error: str = ""
    code: int = 0
    sent: int = 0
    """The number of the last `OwnerFrames`."""
    ends: dict[str, int] = {}
    """By log: the last committed record of the client's sessions, in case that its message was lost."""


class DrainAnswer(Struct, frozen=True, array_like=True):
    """The answer to `DrainNode`: what the node still has."""

    sessions: int
    turns: int


class BadLinkMessage(AccordError):
    """A node sent something that is no message of a link."""


FromClient = OpenLink | ClientFrames | ProbeLink | CloseLink | DrainNode
FromOwner = OwnerFrames | LinkEnded

T = TypeVar("T")
_ENCODER: Final = msgspec.msgpack.Encoder()
_FROM_CLIENT: Final = msgspec.msgpack.Decoder(FromClient)
_FROM_OWNER: Final = msgspec.msgpack.Decoder(FromOwner)
_ANSWER: Final = msgspec.msgpack.Decoder(LinkAnswer)
_DRAIN_ANSWER: Final = msgspec.msgpack.Decoder(DrainAnswer)
encode_link: Final = _ENCODER.encode


def read_from_client(data: bytes) -> FromClient:
    """Decode a message to the session's node. Raises BadLinkMessage."""
    return _read(_FROM_CLIENT, data)


def read_from_owner(data: bytes) -> FromOwner:
    """Decode a message to the client's node. Raises BadLinkMessage."""
    return _read(_FROM_OWNER, data)


def read_link_answer(data: bytes) -> LinkAnswer:
    """Decode the answer to a request. Raises BadLinkMessage."""
    return _read(_ANSWER, data)


def read_drain_answer(data: bytes) -> DrainAnswer:
    """Decode the answer to `DrainNode`. Raises BadLinkMessage."""
    return _read(_DRAIN_ANSWER, data)


def _read(decoder: "msgspec.msgpack.Decoder[T]", data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadLinkMessage(f"a message of a link is damaged: {error}") from None


def body_parts(body: bytes) -> Iterator[tuple[bytes, bool]]:
    """The parts of a body, each with whether more follow."""
    for start in range(0, max(len(body), 1), PART_BYTES):
        yield body[start : start + PART_BYTES], start + PART_BYTES < len(body)


class BodyJoiner:
    """Puts the parts of one direction's bodies together."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, body: bytes, more: bool) -> bytes | None:
        """Add a part; return the whole body with the last one. Raises BadLinkMessage."""
        if not more and not self._parts:
            return body
        self._parts.append(body)
        self._size += len(body)
        if self._size > MAX_FRAME_BYTES:
            raise BadLinkMessage("a message of a link is too large")
        if more:
            return None
        whole = b"".join(self._parts)
        self._parts, self._size = [], 0
        return whole


class LinkSender:
    """Publishes the messages of all links of a node, in order, without waiting."""

    def __init__(self, connection: NatsConnection, tasks: OwnedTasks) -> None:
        self._connection = connection
        self._tasks = tasks
        self._queue: deque[tuple[str, bytes]] = deque()
        self._sending: asyncio.Task[None] | None = None

    def send(self, subject: str, message: FromClient | FromOwner) -> None:
        """Queue a message. One that is lost shows by the numbers."""
        self._put(subject, encode_link(message))

    def answer(self, subject: str, answer: LinkAnswer | DrainAnswer) -> None:
        """Queue the answer to a request, if it goes where answers go."""
        if subject.startswith(INBOX):
            self._put(subject, encode_link(answer))

    def _put(self, subject: str, data: bytes) -> None:
        self._queue.append((subject, data))
        if self._sending is None:
            self._sending = self._tasks.start(self._send_all())

    async def flush(self) -> None:
        """Wait until everything queued so far is published."""
        if self._sending is not None:
            await asyncio.shield(self._sending)

    async def _send_all(self) -> None:
        try:
            while self._queue:
                await self._connection.publish(*self._queue.popleft())
        finally:
            self._sending = None
