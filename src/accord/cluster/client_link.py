"""The client's end of links: carries a client's messages to the node that has its session.

At the node itself, a `LocalLink` stands for the link.
"""

from collections.abc import Sequence
from itertools import count
from logging import getLogger
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Raw, Struct

from accord.clock import Clock, OwnedTasks
from accord.cluster.connection import NatsConnection, NatsMessage, NatsUnavailable, NoResponders
from accord.cluster.link_message import (
    PART_BYTES,
    BadLinkMessage,
    BodyJoiner,
    ClientFrames,
    CloseLink,
    LinkAnswer,
    LinkEnded,
    LinkSender,
    OpenLink,
    OwnerFrame,
    ProbeLink,
    body_parts,
    encode_link,
    read_from_owner,
    read_link_answer,
)
from accord.errors import RpcError
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.client_connection import (
    MAX_UNSENT_HISTORY,
    ClientConnection,
    IncomingFrame,
    OutgoingFrame,
)
from accord.gateway.contracts import RecordMark

if TYPE_CHECKING:
    from accord.cluster.cluster_router import ClusterRouter
    from accord.cluster.routed_client import RoutedClient

LOG = getLogger("accord.cluster")

_ACK_BYTES: Final = 256 * 1024
_ACK_PAUSE: Final = 0.02


class LinkListener(Protocol):
    """The client whose messages a link carries."""

    @property
    def unsent(self) -> int:
        """Bytes that were not written to the client yet."""
        ...

    def on_owner_frame(self, link: "ClientLink", frame: OwnerFrame) -> None:
        """Handle a frame for the client."""
        ...

    def on_log_ends(self, ends: dict[str, int]) -> None:
        """Read the logs that have records, by number, which did not arrive."""
        ...

    def on_link_lost(self, link: "ClientLink", error: RpcError, unsent: list[IncomingFrame]) -> None:
        """Handle the end of a link. `unsent` are the messages that certainly did not arrive."""
        ...


class ClientLinks:
    """All links of the clients of this node."""

    def __init__(
        self, connection: NatsConnection, sender: LinkSender, tasks: OwnedTasks, *, probe: float
    ) -> None:
        """Links are probed every `probe` seconds, and end after twice that time without an answer."""
        self.connection: NatsConnection = connection
        self.clock: Clock = connection.clock
        self.sender: LinkSender = sender
        self.tasks: OwnedTasks = tasks
        self.probe: float = probe
        self.subject: str = ""
        """Where answers for the clients of this node go; the id of the link follows."""
        self._links: dict[str, ClientLink] = {}
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._links)

    def open(
        self,
        node: str,
        subject: str,
        agent: str,
        connection_id: str,
        rights: TokenRights,
        client: LinkListener,
    ) -> "ClientLink":
        """Open a link to a node. What is forwarded meanwhile waits."""
        link_id = f"{next(self._numbers)}-{token_hex(8)}"
        credential = "" if rights.credential is None else rights.credential.text
        subject_of_link = self.subject + link_id
        request = OpenLink(link_id, subject_of_link, connection_id, agent, credential, rights.peer)
        link = ClientLink(self, node, subject, request, client)
        self._links[link_id] = link
        link.start()
        return link

    def on_message(self, message: NatsMessage) -> None:
        """Handle a message for a client of this node."""
        link = self._links.get(message.subject.rpartition(".")[2])
        if link is not None:
            link.on_message(message.data)

    def forget(self, link_id: str) -> None:
        self._links.pop(link_id, None)

    def end_all(self, reason: str) -> None:
        for link in tuple(self._links.values()):
            link.lose(RpcError(reason))


class ClientLink:
    """A link of one client to one node."""

    def __init__(
        self, links: ClientLinks, node: str, subject: str, request: OpenLink, client: LinkListener
    ) -> None:
        self.node: str = node
        self.alive: bool = True
        self._links = links
        self._subject = subject
        self._request = request
        self._client = client
        self._opened = False
        self._waiting: list[IncomingFrame] = []
        self._sent = 0
        self._received = 0
        self._received_bytes = 0
        self._acknowledged_bytes = 0
        self._bodies = BodyJoiner()
        self._ack_is_planned = False

    def start(self) -> None:
        self._links.tasks.start(self._run(), key=self)

    # -- to the owner

    def forward(self, frames: list[IncomingFrame]) -> None:
        """Pass messages of the client on, in order."""
        if not self._opened:
            self._waiting += frames
            return
        batch: list[bytes] = []
        size = 0
        for frame in frames:
            for body, more in body_parts(frame.body):
                batch.append(body)
                size += len(body)
                if more or size > PART_BYTES:
                    self._send(batch, more)
                    batch, size = [], 0
        if batch:
            self._send(batch, False)

    def _send(self, bodies: list[bytes], more: bool) -> None:
        self._sent += 1
        self._links.sender.send(self._subject, ClientFrames(self._request.link, self._sent, bodies, more))

    def close(self, reason: str) -> None:
        """End the link because the client is gone."""
        if self.alive:
            self._end()
            if self._opened:
                self._links.sender.send(self._subject, CloseLink(self._request.link, reason))

    async def _run(self) -> None:
        """Open the link, then probe it until it ends."""
        links = self._links
        answer = await self._ask(self._request, links.probe * 2)
        if isinstance(answer, RpcError):
            self.lose(answer)
        if not self.alive:
            return
        self._opened = True
        waiting, self._waiting = self._waiting, []
        self.forward(waiting)
        last_heard, expected = links.clock.now(), 0
        while self.alive:
            await links.clock.sleep(links.probe)
            if self._received < expected:
                self.lose(self._error("messages of it were lost"))
                return
            await links.sender.flush()  # a probe must not overtake what it counts
            probe = ProbeLink(self._request.link, self._sent, self._taken())
            answer = await self._ask(probe, links.probe)
            if isinstance(answer, LinkAnswer):
                last_heard, expected = links.clock.now(), answer.sent
                self._client.on_log_ends(answer.ends)
            elif not isinstance(answer, _Silent) or links.clock.now() - last_heard > links.probe * 2:
                self.lose(answer)

    async def _ask(self, request: OpenLink | ProbeLink, seconds: float) -> "LinkAnswer | RpcError":
        try:
            message = await self._links.connection.request(
                self._subject, encode_link(request), seconds=max(seconds, 0.5)
            )
            answer = read_link_answer(message.data)
        except NoResponders:
            return self._error("it does not run")
        except NatsUnavailable as error:
            return _Silent(self._error(str(error)).message)
        except BadLinkMessage as error:
            return self._error(str(error))
        if answer.error:
            return RpcError(answer.error, code=answer.code or None)
        return answer

    def _error(self, reason: str) -> RpcError:
        return RpcError(f"node {self.node} of the session does not answer: {reason}", {"node": self.node})

    # -- from the owner

    def on_message(self, data: bytes) -> None:
        """Handle a message of the owner."""
        if not self.alive:
            return
        try:
            received = read_from_owner(data)
            if isinstance(received, LinkEnded):
                text = f"node {self.node} ended the connection: {received.reason}"
                self.lose(LinkClosed(text, {"node": self.node}))
                return
            if received.number != self._received + 1:
                raise BadLinkMessage("messages of it were lost")
            self._received = received.number
            for place, frame in enumerate(received.frames, 1):
                self._received_bytes += len(frame.body)
                body = self._bodies.add(frame.body, received.more and place == len(received.frames))
                if body is not None and self.alive:
                    whole = frame if body is frame.body else _with_body(frame, body)
                    self._client.on_owner_frame(self, whole)
        except BadLinkMessage as error:
            self.lose(self._error(str(error)))
            return
        if self._received_bytes - self._acknowledged_bytes >= _ACK_BYTES:
            self._acknowledge()

    def _taken(self) -> int:
        if self._client.unsent <= MAX_UNSENT_HISTORY:
            self._acknowledged_bytes = self._received_bytes
        return self._acknowledged_bytes

    def _acknowledge(self) -> None:
        """Say how much the client has taken, once it has: the owner paces a history by it."""
        if self._ack_is_planned or not self.alive:
            return
        if self._client.unsent > MAX_UNSENT_HISTORY:
            self._ack_is_planned = True
            self._links.clock.call_later(_ACK_PAUSE, self._acknowledge_later)
            return
        probe = ProbeLink(self._request.link, self._sent, self._taken())
        self._links.sender.send(self._subject, probe)

    def _acknowledge_later(self) -> None:
        self._ack_is_planned = False
        self._acknowledge()

    # -- the end

    def lose(self, error: RpcError) -> None:
        """End the link and tell the client."""
        if not self.alive:
            return
        self._end()
        waiting, self._waiting = self._waiting, []
        LOG.info("a link to node %s ends: %s", self.node, error.message)
        self._client.on_link_lost(self, error, waiting)

    def _end(self) -> None:
        self.alive = False
        self._links.forget(self._request.link)
        self._links.tasks.cancel(self)


class LinkClosed(RpcError):
    """The node of the session ended the link, for example because it stops."""


class _Silent(RpcError):
    """No answer in time: it may come with the next probe."""


def _with_body(frame: OwnerFrame, body: bytes) -> OwnerFrame:
    from msgspec.structs import replace

    return replace(frame, body=body)


class LocalLink:
    """The client's place at the gateway of this node; also `ClientConnection` for it."""

    def __init__(self, client: "RoutedClient", router: "ClusterRouter", connection: ClientConnection) -> None:
        self.node: str = router.node
        self.alive: bool = True
        self.id: str = connection.id
        self._client = client
        self._connection = connection
        self._handler = router.gateway.open(self, client.rights, client.agent)

    @property
    def unsent(self) -> int:
        return self._connection.unsent

    def forward(self, frames: list[IncomingFrame]) -> None:
        self._handler.on_frames(frames)

    def send(
        self, frames: Sequence[OutgoingFrame], stream: str | None, mark: RecordMark | None = None
    ) -> None:
        self._client.show(self, frames, stream, mark)

    def end(self, code: int, reason: str) -> None:
        self._connection.end(code, reason)

    def close(self, reason: str) -> None:
        self.alive = False
        self._handler.on_closed(reason)


Link: TypeAlias = LocalLink | ClientLink


class NodeNotRunning(RpcError):
    """The node of a session does not run, and no other node can open the session."""


class OpenRequest(Struct):
    """A request of the client that is not answered."""

    link: Link
    method: str
    session_id: str | None
    params: Raw | None
    attempts: int = 1
    started: bool = False
    """Whether the log has a record of it."""

    def sent_again(self, link: Link) -> "OpenRequest":
        """The same request at another node."""
        return OpenRequest(link, self.method, self.session_id, self.params, self.attempts + 1)

    def lost_error(self, error: RpcError) -> RpcError:
        """The error if its node was lost while it was under way. It is never repeated."""
        if self.method != "session/prompt":
            return error
        if self.started:
            text = "the turn may be interrupted; what it did is in the session"
        else:
            text = "the prompt was perhaps not received; it is not sent again by itself"
        return RpcError(f"{error.message}; {text}", error.data)


class OpenSession(Struct):
    """A session that the client has opened."""

    link: Link | None
    params: Raw | None
    """Those of the request that opened it."""
    log: str = ""
    interrupted: bool = False
    """Whether a turn was under way when its node was lost."""
    lost: str = ""
    """The node that was lost."""
