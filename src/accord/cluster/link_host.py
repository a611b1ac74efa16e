"""Serves clients that are connected to other nodes: the owner's end of links."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from logging import getLogger
from typing import TYPE_CHECKING, Final, TypeAlias

from accord.clock import Clock, OwnedTasks, Timer
from accord.cluster.cluster_log import ClusterLog
from accord.cluster.connection import NatsMessage
from accord.cluster.link_message import (
    PART_BYTES,
    AttachedLog,
    BadLinkMessage,
    BodyJoiner,
    ClientFrames,
    CloseLink,
    DrainAnswer,
    DrainNode,
    LinkAnswer,
    LinkEnded,
    LinkSender,
    OpenLink,
    OwnerFrame,
    OwnerFrames,
    ProbeLink,
    body_parts,
    read_from_client,
)
from accord.errors import RpcError
from accord.gateway.access.access_tokens import NOT_ALLOWED, TokenRights
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.access.resource_limits import LimitLease
from accord.gateway.client_connection import CallFrame, IncomingFrame, LoggedFrame, OutgoingFrame
from accord.gateway.contracts import Fence, Fenced, RecordMark
from accord.wire.envelope import InvalidMessage, parse_envelope

if TYPE_CHECKING:
    from accord.gateway.gateway import Gateway
    from accord.gateway.gateway_client import GatewayClient
    from accord.gateway.live_sessions import LiveSession

LOG = getLogger("accord.cluster")

_LINK_PROBLEM: Final = 1012
_POLICY: Final = 1008

Authorize: TypeAlias = Callable[[str, str], Awaitable[TokenRights]]
"""Returns the rights of a credential; the second argument is the client's address."""


class AttachmentFrame(OutgoingFrame, eq=False, gc=False, kw_only=True):
    """Tells the client's node that the client is attached to a session, or no longer."""

    log: ClusterLog
    number: int
    attached: bool = False
    moved: bool = False

    @property
    def place(self) -> AttachedLog:
        """Where the feed of the log goes on for the client."""
        log = self.log
        return AttachedLog(log.id, log.stream, self.number, log.place_before(self.number))


class LinkedConnection:
    """The connection of a client at another node: `ClientConnection` of the gateway.

    Records of a session's log are left out: the client's node reads them from the feed of the log.
    """

    def __init__(self, host: "LinkHost", opened: OpenLink) -> None:
        self.id: str = opened.connection
        self.client: GatewayClient | None = None
        self.received: int = 0
        """The number of the last message of the client's node."""
        self.sent: int = 0
        """The number of the last message to it."""
        self.last_heard: float = host.clock.now()
        self.bodies: BodyJoiner = BodyJoiner()
        self.token_watch: LimitLease | None = None
        self._host = host
        self._link = opened.link
        self._subject = opened.subject
        self._sent_bytes = 0
        self._taken_bytes = 0

    @property
    def unsent(self) -> int:
        return self._sent_bytes - self._taken_bytes

    @property
    def log_ends(self) -> dict[str, int]:
        """By log: the last committed record of the client's sessions."""
        logs = [session.log for session in self.client.sessions.values()] if self.client else []
        return {log.id: log.committed for log in logs if isinstance(log, ClusterLog)}

    def take(self, taken: int) -> None:
        """Note how many bytes the client's node has passed on."""
        self._taken_bytes = max(self._taken_bytes, min(taken, self._sent_bytes))

    def send(
        self, frames: Sequence[OutgoingFrame], stream: str | None, mark: RecordMark | None = None
    ) -> None:
        if self.client is None:
            return
        log, after = ("", 0) if mark is None else (mark.log.id, mark.number)
        batch: list[OwnerFrame] = []
        size = 0
        for frame in frames:
            if isinstance(frame, LoggedFrame):
                continue
            if isinstance(frame, AttachmentFrame):
                batch.append(_attachment(frame, stream))
                continue
            call, is_request = (frame.id, frame.is_request) if isinstance(frame, CallFrame) else (None, False)
            for body, more in body_parts(frame.body):
                batch.append(OwnerFrame(body, stream, call, is_request, log, after))
                size += len(body)
                if more or size > PART_BYTES:
                    self._send(batch, more)
                    batch, size = [], 0
        if batch:
            self._send(batch, False)

    def _send(self, batch: list[OwnerFrame], more: bool) -> None:
        self.sent += 1
        self._sent_bytes += sum(len(frame.body) for frame in batch)
        self._host.sender.send(self._subject, OwnerFrames(self.sent, batch, more))

    def end(self, code: int, reason: str) -> None:
        if self.client is not None:
            self._host.sender.send(self._subject, LinkEnded(code, reason))
            self.close(reason)

    def close(self, reason: str) -> None:
        """Forget the link; the gateway hears of it later, never within one of its own calls."""
        client, self.client = self.client, None
        if self.token_watch is not None:
            self.token_watch.release()
        self._host.forget(self._link)
        if client is not None:
            asyncio.get_running_loop().call_soon(client.on_closed, reason)


def _attachment(frame: AttachmentFrame, stream: str | None) -> OwnerFrame:
    log = frame.log.id
    if frame.attached:
        return OwnerFrame(b"", stream, log=log, attached=frame.place)
    return OwnerFrame(b"", stream, log=log, detached=not frame.moved, moved=frame.moved)


class LinkHost:
    """All clients of other nodes that this node serves."""

    def __init__(
        self,
        gateway: "Gateway",
        sender: LinkSender,
        fence: Fence,
        clock: Clock,
        tasks: OwnedTasks,
        authorize: Authorize,
        *,
        folders: tuple[str, ...] | None,
        silence: float,
    ) -> None:
        """`authorize` checks the credential of a client, and raises RequestRefused. `folders` bound every
        token at this node. A link that is silent for `silence` seconds ends.
        """
        self._tasks = tasks
        self._authorize = authorize
        self.sender: LinkSender = sender
        self.clock: Clock = clock
        self._gateway = gateway
        self._fence = fence
        self._folders = folders
        self._silence = silence
        self._links: dict[str, LinkedConnection] = {}
        self._timer: Timer | None = None
        self.on_drain: Callable[[bool], DrainAnswer] | None = None
        """Called when an operator wants this node to give its sessions up, or to take sessions again."""
        gateway.on_attachment = self._on_attachment

    def __len__(self) -> int:
        return len(self._links)

    def on_message(self, message: NatsMessage) -> None:
        """Handle a message of another node."""
        try:
            received = read_from_client(message.data)
        except BadLinkMessage as error:
            LOG.warning("%s", error)
            return
        if isinstance(received, DrainNode):
            if self.on_drain is not None and message.reply:
                self.sender.answer(message.reply, self.on_drain(received.drain))
            return
        if isinstance(received, OpenLink):
            self._tasks.start(self._open(received, message.reply))
            return
        connection = self._links.get(received.link)
        if connection is None:
            if isinstance(received, ProbeLink) and message.reply:
                self.sender.answer(message.reply, LinkAnswer("the link has ended"))
            return
        connection.last_heard = self.clock.now()
        if isinstance(received, ClientFrames):
            self._on_frames(connection, received)
        elif isinstance(received, CloseLink):
            connection.close(received.reason)
        elif received.sent > connection.received:
            connection.end(_LINK_PROBLEM, "messages between two nodes were lost; connect again")
        else:
            connection.take(received.taken)
            if message.reply:
                answer = LinkAnswer(sent=connection.sent, ends=connection.log_ends)
                self.sender.answer(message.reply, answer)

    async def _open(self, request: OpenLink, reply: str) -> None:
        self.sender.answer(reply, await self._opened(request))

    async def _opened(self, request: OpenLink) -> LinkAnswer:
        """Open a link with the rights that the client's credential has at this node."""
        try:
            rights = (await self._authorize(request.credential, request.peer)).restricted_to(self._folders)
            if request.link in self._links:
                return LinkAnswer("there is a link with this id")
            connection = LinkedConnection(self, request)
            self._fence.check()
            connection.client = self._gateway.open(connection, rights, request.agent)
        except RequestRefused as refusal:
            LOG.warning("a link of another node is refused: %s", refusal.reason)
            return LinkAnswer(refusal.reason, NOT_ALLOWED)
        except Fenced as error:
            return LinkAnswer(str(error))
        except RpcError as error:
            return LinkAnswer(error.message, error.code)
        if self._gateway.watch_token is not None:
            connection.token_watch = self._gateway.watch_token(
                rights, lambda reason: connection.end(_POLICY, reason)
            )
        self._links[request.link] = connection
        if self._timer is None:
            self._timer = self.clock.call_later(self._silence / 2, self._check)
        return LinkAnswer()

    def _on_frames(self, connection: LinkedConnection, received: ClientFrames) -> None:
        client = connection.client
        if received.number != connection.received + 1:
            connection.end(_LINK_PROBLEM, "messages between two nodes were lost; connect again")
            return
        connection.received = received.number
        frames: list[IncomingFrame] = []
        try:
            for place, part in enumerate(received.bodies, 1):
                body = connection.bodies.add(part, received.more and place == len(received.bodies))
                if body is not None:
                    frames.append(IncomingFrame(body, parse_envelope(body)))
        except (BadLinkMessage, InvalidMessage) as error:
            LOG.warning("a link ends: %s", error)
            connection.end(_LINK_PROBLEM, "a message between two nodes was damaged; connect again")
            return
        if client is not None and frames:
            client.on_frames(frames)

    def _on_attachment(self, client: "GatewayClient", session: "LiveSession", attached: bool) -> None:
        log = session.log
        if isinstance(client.connection, LinkedConnection) and isinstance(log, ClusterLog):
            frame = AttachmentFrame(b"", log=log, number=log.noted, attached=attached)
            self._gateway.outbox.post((client,), frame, session.id, log)

    def forget(self, link: str) -> None:
        self._links.pop(link, None)

    def end_all(self, code: int, reason: str) -> None:
        """End all links, for example because this node lost its lease."""
        for connection in tuple(self._links.values()):
            connection.end(code, reason)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.end_all(1001, "the node stops; connect again")

    def _check(self) -> None:
        self._timer = None
        for connection in tuple(self._links.values()):
            if self.clock.now() - connection.last_heard > self._silence:
                connection.end(_LINK_PROBLEM, "the client's node is silent")
        if self._links:
            self._timer = self.clock.call_later(self._silence / 2, self._check)
