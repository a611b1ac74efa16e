"""One client of a cluster: each of its messages goes to the node that has the session.

The client sees one gateway. Its requests keep their ids; requests to it get ids of their own, because two
nodes may use the same. A session at another node comes in two ways that are put in order again: its records
by the feed of its log, everything else by a link.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Raw

from accord.cluster.client_feeds import ClientFeeds
from accord.cluster.client_link import (
    ClientLink,
    Link,
    LinkClosed,
    LocalLink,
    NodeNotRunning,
    OpenRequest,
    OpenSession,
)
from accord.cluster.link_host import AttachmentFrame
from accord.cluster.link_message import AttachedLog, OwnerFrame
from accord.cluster.message_members import (
    cancelled_id,
    error_of,
    folders_of,
    members_of,
    owner_named,
    read_folders,
    request_frame,
    text_member,
    update_body,
    with_id,
    with_node,
)
from accord.errors import RpcError, StoreError
from accord.gateway.access.access_tokens import NOT_ALLOWED, TokenRights
from accord.gateway.client_connection import (
    CallFrame,
    ClientConnection,
    IncomingFrame,
    LoggedFrame,
    OutgoingFrame,
)
from accord.gateway.client_features import OfferedFeatures
from accord.gateway.contracts import RecordMark
from accord.gateway.gateway_client import session_id_of
from accord.schema import InitializeRequest, Notice, SessionInfoUpdate
from accord.schema.codec import DECODE_ERRORS, decoder, encode
from accord.schema.updates import NoticeSeverity
from accord.wire.connection import CANCEL_REQUEST
from accord.wire.envelope import (
    ABSENT,
    Notification,
    RequestId,
    Success,
    encode_failure,
    parse_envelope,
)

if TYPE_CHECKING:
    from accord.cluster.cluster_router import ClusterRouter

LOG = getLogger("accord.cluster")

_OPENING: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
_SUBSCRIBING: Final = frozenset({"_accord/inbox", "_accord/sessions"})
_CLOSING: Final = frozenset({"session/close", "session/delete"})
_RESTART: Final = 1012
_MAX_ATTEMPTS: Final = 3
_GOES_ON: Final = (
    "The session goes on with the next message, at a node that has its folder and agent, or when this one is "
    "back."
)
_OWN_ID: Final = "accord-node-"
"""Begins the ids of requests that this node sends for a client."""
_CANCEL_MARK: Final = f'"{CANCEL_REQUEST}"'.encode()


class RoutedClient(OfferedFeatures):
    """The handler of one client's connection."""

    def __init__(
        self, router: "ClusterRouter", connection: ClientConnection, rights: TokenRights, agent: str
    ) -> None:
        super().__init__()
        self.rights: TokenRights = rights
        self.agent: str = agent
        self.connection: ClientConnection = connection
        self._router = router
        self._links: dict[str, Link] = {}
        self._home: Link | None = None
        self._initialize: Raw | None = None
        self._held: dict[Link, list[IncomingFrame]] = {}
        """By link: what waits until `initialize` is answered there."""
        self._waiting: dict[str, list[IncomingFrame]] = {}
        """By session: what waits until its node is known, or until it is open there."""
        self._resuming: dict[str, Link] = {}
        """By session: where it is being opened again."""
        self._requests: dict[RequestId, OpenRequest] = {}
        self._own_requests: dict[RequestId, tuple[Link, Callable[[bytes], None]]] = {}
        """Those that this node sends for the client: the link, and what handles the answer."""
        self._sessions: dict[str, OpenSession] = {}
        self._asked: dict[int, tuple[Link, RequestId]] = {}
        self._feeds = ClientFeeds(router, connection, self, self._mark_started)
        self._subscriptions: dict[str, Raw] = {}
        """By method: what the client follows at its home node."""
        self._awaited: set[tuple[str, str]] = set()
        """The sessions and incarnations that the client was told to wait for."""
        self._numbers = count(1)
        self._own_numbers = count(1)
        self._closed = False
        if agent in router.gateway.agents:
            self._home = self._links[router.node] = LocalLink(self, router, connection)

    @property
    def unsent(self) -> int:
        return self.connection.unsent

    # -- from the client

    def on_frames(self, frames: list[IncomingFrame]) -> None:
        """Pass each message to the node that it is for."""
        batch: list[IncomingFrame] = []
        current: Link | None = None
        for frame in frames:
            routed = self._route(frame)
            if routed is None:
                continue
            link, frame = routed
            if link is not current and batch and current is not None:
                self._forward(current, batch)
                batch = []
            current = link
            batch.append(frame)
        if current is not None and batch:
            self._forward(current, batch)

    def on_closed(self, reason: str) -> None:
        """Handle the end of the connection."""
        self._closed = True
        for link in tuple(self._links.values()):
            link.close(reason)
        self._feeds.close()
        self._router.forget(self)

    def _route(
        self,
        frame: IncomingFrame,
        exclude: frozenset[str] = frozenset(),
        attempts: int = 1,
        *,
        looked_up: bool = False,
    ) -> tuple[Link, IncomingFrame] | None:
        """The link for a message. None if it waits, was answered here, or is for nobody."""
        envelope = frame.envelope
        if envelope.method is UNSET:
            asked = self._asked.pop(envelope.id, None) if isinstance(envelope.id, int) else None
            if asked is None or not asked[0].alive:
                return None
            return asked[0], with_id(frame, asked[1])
        params = None if envelope.params is ABSENT else envelope.params
        method, session_id = envelope.method, session_id_of(params)
        if method == CANCEL_REQUEST:
            request = self._requests.get(cancelled_id(params))
            link = self._home if request is None else request.link
            return None if link is None or not link.alive else (link, frame)
        try:
            if session_id is not None:
                if session_id in self._waiting:
                    self._waiting[session_id].append(frame)
                    return None
                is_known = session_id in self._sessions or self._router.knows(self.agent, session_id)
                if not is_known and not looked_up:
                    self._waiting[session_id] = [frame]
                    self._router.start(self._look_up(session_id))
                    return None
            link = self._find_link(method, session_id, params, exclude)
        except RpcError as error:
            if isinstance(error, NodeNotRunning) and method == "session/load" and session_id is not None:
                self._router.start(self._show_stored(envelope.id, session_id, params, error))
            else:
                self._fail(envelope.id, error)
            return None
        if envelope.id is not UNSET and envelope.id is not None:
            self._requests[envelope.id] = OpenRequest(link, method, session_id, params, attempts)
        if method in _SUBSCRIBING and params is not None:
            self._subscriptions[method] = params
        if method == "initialize" and not self._sessions and params is not None:
            self._initialize = params
            self._read_features(params)
        session = self._sessions.get(session_id or "")
        if session is not None and session.link is None and session_id is not None:
            if method not in _OPENING:
                self._resume(session_id, session, link, [frame])
                return None
            self._feeds.unfollow(session.log)  # the client gets the history anew
        return link, frame

    def _find_link(
        self, method: str, session_id: str | None, params: Raw | None, exclude: frozenset[str]
    ) -> Link:
        """The link to the node that handles this method. Raises RpcError."""
        router = self._router
        if method == "session/new":
            return self._link(router.node_for_session(self.agent, folders_of(params), exclude))
        if method == "_accord/inbox/answer":
            return self._link(router.node_of_request(text_member(params, "id"), self._home_node()))
        if session_id is None or method == "session/list":
            return self._link(self._home_node())
        session = self._sessions.get(session_id)
        if session is not None and session.link is not None and session.link.alive:
            return session.link
        node = router.node_of_session(self.agent, session_id, exclude)
        lost = router.lost_owner(self.agent, session_id, exclude)
        if lost is not None and lost.node != node and (session_id, lost.incarnation) not in self._awaited:
            self._awaited.add((session_id, lost.incarnation))
            text = f"The session goes on {router.lease_seconds:g} seconds after its last sign of life."
            self._show_notice(session_id, f"Waiting for the lease of node {lost.node}", text, "info")
        return self._link(node or router.node_for_new(self.agent, folders_of(params), exclude))

    def _home_node(self) -> str:
        """The node for what concerns no session: this one, if it has the agent."""
        if self._home is None or not self._home.alive:
            self._home = self._link(self._router.node_for_new(self.agent, (), frozenset()))
        return self._home.node

    def _link(self, node: str) -> Link:
        link = self._links.get(node)
        if link is not None and link.alive:
            return link
        router = self._router
        if node == router.node:
            link = LocalLink(self, router, self.connection)
        else:
            link = router.open_link(node, self.agent, self.connection.id, self.rights, self)
        self._links[node] = link
        if self._initialize is not None:
            self._held[link] = []
            self._ask(link, "initialize", self._initialize, lambda body: self._on_initialized(link, body))
        return link

    def _on_initialized(self, link: Link, body: bytes) -> None:
        held = self._held.pop(link, [])
        error = error_of(body)
        if error is None:
            link.forward(held)
            return
        if self._links.get(link.node) is link:  # else every message to this node would fail from now on
            del self._links[link.node]
            self._home = None if self._home is link else self._home
            link.close("the agent cannot be started there")
        self._fail_all(held, error)

    def _forward(self, link: Link, frames: list[IncomingFrame]) -> None:
        if link in self._held:
            self._held[link] += frames
        else:
            link.forward(frames)

    def _ask(self, link: Link, method: str, params: Raw, then: Callable[[bytes], None]) -> None:
        """Send a request of this node for the client."""
        id = f"{_OWN_ID}{next(self._own_numbers)}"
        self._own_requests[id] = link, then
        frame = request_frame(id, method, params)
        if method == "initialize":
            link.forward([frame])
        else:
            self._forward(link, [frame])

    def _read_features(self, params: Raw) -> None:
        try:
            self.set_capabilities(decoder(InitializeRequest).decode(params).client_capabilities or None)
        except DECODE_ERRORS:
            self.set_capabilities(None)

    async def _look_up(self, session_id: str) -> None:
        """Read what other nodes have written to the list of sessions, then pass the messages on."""
        await self._router.refresh()
        for frame in self._waiting.pop(session_id, []):
            routed = None if self._closed else self._route(frame, looked_up=True)
            if routed is not None:
                self._forward(routed[0], [routed[1]])

    # -- sessions that move

    def _resume(
        self, session_id: str, session: OpenSession, link: Link, frames: list[IncomingFrame], attempt: int = 1
    ) -> None:
        """Open a session at the node that has it now, then pass the messages on that wait for it."""
        self._waiting[session_id] = frames
        self._resuming[session_id] = link
        folders = read_folders(session.params)
        params: dict[str, Any] = {
            "sessionId": session_id,
            "cwd": folders.cwd or self._router.folder_of(self.agent, session_id),
            "mcpServers": folders.mcp_servers or [],
        }
        if folders.additional_directories:
            params["additionalDirectories"] = folders.additional_directories

        def on_resumed(body: bytes) -> None:
            frames = self._waiting.pop(session_id, [])
            self._resuming.pop(session_id, None)
            error = error_of(body)
            if error is None:
                session.link = link
                if isinstance(link, LocalLink) and self._router.log_of(self.agent, session_id) != session.log:
                    self._feeds.unfollow(session.log)  # it was deleted, and created again with the same id
                turn = "; the turn was interrupted" if session.interrupted else ""
                session.interrupted = False
                moved = SessionInfoUpdate(meta={"accord": {"node": link.node}})
                self.connection.send([OutgoingFrame(update_body(session_id, moved))], session_id)
                where = "Connected again to" if link.node == session.lost else "Moved to"
                self._router.moved_sessions += link.node != session.lost
                self._show_notice(session_id, f"{where} {link.node}{turn}.", "", "info")
                self._forward(link, frames)
            elif frames and not self._closed:
                owner = self._owner_link(error, link, attempt)
                if owner is not None:
                    self._resume(session_id, session, owner, frames, attempt + 1)
                else:
                    self._fail_all(frames, error)

        self._ask(link, "session/resume", Raw(encode(params)), on_resumed)

    def _owner_link(self, error: RpcError, refused: Link, attempts: int) -> Link | None:
        """The link to the node that has a session, if another node refused a request for this reason."""
        owner = owner_named(error)
        if self._closed or owner in ("", refused.node) or attempts >= _MAX_ATTEMPTS:
            return None
        with suppress(RpcError):
            return self._link(owner)

    async def _show_stored(self, id: Any, session_id: str, params: Raw | None, error: RpcError) -> None:
        """Show the history of a session whose node does not run. It goes on when the node is back."""
        try:
            stored = self._router.stored(self, session_id)
            if stored is None:
                raise error
            async for page in stored.bodies():
                self.connection.send([OutgoingFrame(body) for body in page], session_id)
                await self._router.wait_until_sent(self)
        except StoreError as failure:
            self._fail(id, RpcError(f"cannot read the history: {failure}"))
            return
        except RpcError as failure:
            self._fail(id, failure)
            return
        if self._closed:
            return
        self.connection.send([CallFrame(encode(Success(id, stored.response)), id=id)], None)
        attached = stored.attached
        self._sessions[session_id] = OpenSession(None, params, attached.log)
        self._feeds.unfollow(attached.log)
        self._follow(session_id, attached)
        self._show_notice(session_id, "The session can only be read now", error.message)
        self._attach_again_later()

    def on_link_lost(self, link: ClientLink, error: RpcError, unsent: list[IncomingFrame]) -> None:
        """Answer what was under way at the lost node, and send elsewhere what did not reach it."""
        if self._links.get(link.node) is link:
            del self._links[link.node]
        unsent = [*unsent, *self._held.pop(link, [])]
        title = f"Node {link.node} {'stops' if isinstance(error, LinkClosed) else 'does not answer'}"
        for session_id, session in self._sessions.items():
            if session.link is link:
                session.link, session.lost = None, link.node
                session.interrupted = self._router.is_running(self.agent, session_id)
                turn = "The turn was interrupted. " if session.interrupted else ""
                self._show_notice(session_id, title, turn + _GOES_ON)
        for number, (asked, _) in tuple(self._asked.items()):
            if asked is link:
                del self._asked[number]
                cancellation = Notification(CANCEL_REQUEST, {"requestId": number})
                self.connection.send([OutgoingFrame(encode(cancellation))], None)
        for id, (asked, _) in tuple(self._own_requests.items()):
            if asked is link:
                del self._own_requests[id]
        for session_id, resumed in tuple(self._resuming.items()):
            if resumed is link:
                del self._resuming[session_id]
                unsent += self._waiting.pop(session_id, [])
        for frame in unsent:
            self._send_elsewhere(frame, link.node, error)
        for id, request in tuple(self._requests.items()):
            if request.link is link:
                self._fail(id, request.lost_error(error))
        if link is self._home and not self._closed:
            self._replace_home(error)
        self._attach_again_later()

    def _replace_home(self, error: RpcError) -> None:
        """Choose another node for what concerns no session, and subscribe there again."""
        self._home = None
        try:
            self._home_node()
        except RpcError:
            self.connection.end(_RESTART, f"{error.message}; connect again")
            return
        for method, params in self._subscriptions.items():
            assert self._home is not None
            self._ask(self._home, method, params, lambda _: None)

    def _on_moved(self, link: Link, session_id: str, attached: AttachedLog | None = None) -> None:
        """Handle that a node has given a session up. It goes on elsewhere with the next message."""
        session = self._sessions.get(session_id)
        if session is None or session.link is not link:
            return
        session.link, session.lost = None, ""
        if attached is not None:
            self._follow(session_id, attached)
        text = "The session goes on at another node with the next prompt."
        self._show_notice(session_id, f"Node {link.node} is about to stop", text, "info")
        self._attach_again_later()

    def _attach_again_later(self) -> None:
        """Open the sessions of lost links again, as soon as they have a node that runs."""
        if not self._closed and any(session.link is None for session in self._sessions.values()):
            self._router.later(self._attach_again)

    def _attach_again(self) -> None:
        if self._closed:
            return
        for session_id, session in tuple(self._sessions.items()):
            if session.link is None and session_id not in self._waiting:
                node = self._router.owner_of(self.agent, session_id)
                if node is not None:
                    self._resume(session_id, session, self._link(node), [])
        self._attach_again_later()

    def _send_elsewhere(self, frame: IncomingFrame, node: str, error: RpcError) -> None:
        id = frame.envelope.id
        if isinstance(id, str) and id.startswith(_OWN_ID):
            return
        request = None if id is UNSET or id is None else self._requests.pop(id, None)
        attempts = 1 if request is None else request.attempts
        if attempts >= _MAX_ATTEMPTS or error.code == NOT_ALLOWED:
            self._fail(id, error)
            return
        routed = self._route(frame, frozenset({node}), attempts + 1)
        if routed is not None:
            self._forward(routed[0], [routed[1]])

    # -- to the client

    def show(
        self, link: Link, frames: Sequence[OutgoingFrame], stream: str | None, mark: RecordMark | None
    ) -> None:
        """Send frames of this node's own gateway."""
        for frame in frames:
            if isinstance(frame, AttachmentFrame):
                self._on_moved(link, stream or "", frame.place)
                return
        session = self._sessions.get(stream or "")
        if session is not None and self._feeds.cursor(session.log) is not None:
            # It was taken over from another node: its records still come by the feed.
            frames = [frame for frame in frames if not isinstance(frame, LoggedFrame)]
        shown = [own for frame in frames if (own := self._own_frame(link, frame)) is not None]
        cursor = None if mark is None else self._feeds.cursor(mark.log.id)
        if cursor is not None and mark is not None:
            for frame in shown:
                cursor.hold(mark.number, frame, stream)
        elif shown and not self._closed:
            self.connection.send(shown, stream)

    def on_owner_frame(self, link: ClientLink, frame: OwnerFrame) -> None:
        """Handle a frame of another node."""
        if self._closed:
            return
        if frame.attached is not None:
            session_id = frame.stream or ""
            if self._router.is_log_of(self.agent, session_id, frame.attached.log):
                self._follow(session_id, frame.attached)
            else:
                link.lose(RpcError(f"node {link.node} names the log of another session"))
            return
        if frame.detached:
            self._feeds.unfollow(frame.log)
            return
        if frame.moved:
            self._on_moved(link, frame.stream or "")
            return
        outgoing = (
            OutgoingFrame(frame.body)
            if frame.call is None
            else CallFrame(frame.body, id=frame.call, is_request=frame.is_request)
        )
        own = self._own_frame(link, outgoing)
        if own is None:
            return
        cursor = self._feeds.cursor(frame.log)
        if cursor is None:
            self.connection.send([own], frame.stream)
        else:
            cursor.hold(frame.after, own, frame.stream)

    def on_log_ends(self, ends: dict[str, int]) -> None:
        """Read the logs whose last message was lost: no later one shows the gap."""
        for log, number in ends.items():
            cursor = self._feeds.cursor(log)
            if cursor is not None:
                cursor.feed.expect_end(number)

    def _own_frame(self, link: Link, frame: OutgoingFrame) -> OutgoingFrame | None:
        """The frame with ids of this client. None if it answers a request of this node."""
        if isinstance(frame, CallFrame):
            if frame.is_request:
                number = next(self._numbers)
                self._asked[number] = link, frame.id
                body = encode({**members_of(frame.body), "id": number})
                return CallFrame(body, id=number, is_request=True)
            own = self._own_requests.pop(frame.id, None)
            if own is not None:
                own[1](frame.body)
                return None
            request = self._requests.pop(frame.id, None)
            if request is not None:
                error = error_of(frame.body) if request.method in ("session/load", "session/resume") else None
                owner = None if error is None else self._owner_link(error, link, request.attempts)
                if owner is not None:  # its node looked lost for a moment
                    self._requests[frame.id] = request.sent_again(owner)
                    self._forward(owner, [request_frame(frame.id, request.method, request.params)])
                    return None
                self._on_answer(link, request, frame.body)
                if request.method in _OPENING:
                    return CallFrame(with_node(frame.body, link.node), id=frame.id)
        elif _CANCEL_MARK in frame.body[:80]:
            return self._own_cancellation(link, frame)
        return frame

    def _own_cancellation(self, link: Link, frame: OutgoingFrame) -> OutgoingFrame | None:
        cancelled = cancelled_id(parse_envelope(frame.body).params)
        for number, asked in tuple(self._asked.items()):
            if asked == (link, cancelled):
                del self._asked[number]
                return OutgoingFrame(encode(Notification(CANCEL_REQUEST, {"requestId": number})))
        return None

    def _on_answer(self, link: Link, request: OpenRequest, body: bytes) -> None:
        """Note which session was opened or closed at which node."""
        if request.method in _OPENING:
            result = members_of(body).get("result")
            if result is None:
                return
            session_id = request.session_id
            if session_id is None or request.method == "session/fork":
                session_id = text_member(result, "sessionId")
            self._sessions[session_id] = OpenSession(link, request.params)
        elif request.method in _CLOSING and request.session_id is not None:
            session = self._sessions.pop(request.session_id, None)
            if session is not None:
                self._feeds.unfollow(session.log)

    # -- the feeds of sessions at other nodes

    def _follow(self, session_id: str, attached: AttachedLog) -> None:
        if self._feeds.cursor(attached.log) is not None:  # it was followed before its node changed
            return
        session = self._sessions.get(session_id)
        if session is not None:
            self._feeds.unfollow(session.log)  # another, if it was deleted and created again with the same id
            session.log = attached.log
        self._feeds.follow(session_id, attached)

    def _mark_started(self, session_id: str) -> None:
        for request in self._requests.values():
            if request.session_id == session_id and request.method == "session/prompt":
                request.started = True

    # -- errors

    def _fail(self, id: Any, error: RpcError) -> None:
        if id is UNSET or id is None:
            return
        request = self._requests.pop(id, None)
        stream = None if request is None or request.method in _OPENING else request.session_id
        self.connection.send([CallFrame(encode_failure(id, error), id=id)], stream)

    def _fail_all(self, frames: list[IncomingFrame], error: RpcError) -> None:
        for frame in frames:
            id = frame.envelope.id
            own = self._own_requests.pop(id, None) if isinstance(id, str) else None
            if own is not None and isinstance(id, str):
                own[1](encode_failure(id, error))
            else:
                self._fail(id, error)

    def _show_notice(
        self, session_id: str, title: str, text: str, severity: NoticeSeverity = "warning"
    ) -> None:
        notice = Notice(severity=severity, title=title, description=text)
        if self.wants_update(notice) and not self._closed:
            self.connection.send([OutgoingFrame(update_body(session_id, notice))], session_id)
