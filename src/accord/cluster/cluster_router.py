"""Serves the clients of this node: sends what they ask to the nodes that have their sessions."""

from collections.abc import Callable, Coroutine, Sequence
from logging import getLogger
from typing import Any, Final

from accord.clock import OwnedTasks
from accord.cluster.book import ClusterBook
from accord.cluster.client_link import ClientLink, ClientLinks, NodeNotRunning
from accord.cluster.cluster_log import ClusterLog
from accord.cluster.connection import NatsSubscription
from accord.cluster.link_host import AttachmentFrame, Authorize, LinkHost
from accord.cluster.link_message import AttachedLog, LinkSender
from accord.cluster.nodes import NodeEntry, NodeLease, NodeRegistry
from accord.cluster.placement import volume_of
from accord.cluster.routed_client import RoutedClient
from accord.cluster.session_feed import FeedClient, FeedCursor, SessionFeed
from accord.cluster.session_index import IndexEntry
from accord.cluster.stored_session import StoredSession
from accord.errors import NotFound, RpcError, StoreError
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.client_connection import MAX_UNSENT_HISTORY, ClientConnection
from accord.gateway.gateway import Gateway
from accord.gateway.live_sessions import LiveSession

LOG = getLogger("accord.cluster")

_PROBE_SECONDS: Final = 5.0
_SEND_PAUSE: Final = 0.02


class ClusterRouter:
    """Opens the connections of this node's clients: `ConnectionOpener` of the HTTP server."""

    def __init__(
        self,
        gateway: Gateway,
        book: ClusterBook,
        registry: NodeRegistry,
        lease: NodeLease,
        tasks: OwnedTasks,
        authorize: Authorize,
        *,
        folders: tuple[str, ...] | None,
    ) -> None:
        self.gateway: Gateway = gateway
        self.node: str = lease.entry.node
        self.clients: list[RoutedClient] = []
        self._book = book
        self._registry = registry
        self._lease = lease
        self._tasks = tasks
        self._names = book.streams.names
        connection = book.jetstream.connection
        self._connection = connection
        sender = LinkSender(connection, tasks)
        probe = min(_PROBE_SECONDS, lease.times.renew)
        self.links: ClientLinks = ClientLinks(connection, sender, tasks, probe=probe)
        self.host: LinkHost = LinkHost(
            gateway, sender, lease, connection.clock, tasks, authorize, folders=folders, silence=probe * 3
        )
        gateway.agents_elsewhere = self._agents_elsewhere
        gateway.on_session_change = _show_state
        book.index.on_change = self._on_index_change
        self._feeds: dict[str, SessionFeed] = {}
        self._ended_feed_gaps = 0
        self.moved_sessions: int = 0
        """How often a session went on at another node while a client of this one had it open."""
        self._subscriptions: list[NatsSubscription] = []
        self._alive_nodes: set[tuple[str, str]] = set()
        self._watches_nodes = False

    # -- life

    async def listen(self) -> None:
        """Listen to other nodes. Raises StoreError."""
        incarnation = self._lease.incarnation
        own = self._names.node_subject(self.node, incarnation)
        self.links.subject = f"{self._names.prefix}.line.{self.node}.{incarnation}."
        self._subscriptions = [
            await self._connection.subscribe(own, self.host.on_message),
            await self._connection.subscribe(self.links.subject + "*", self.links.on_message),
        ]
        await self._connection.flush()
        if not self._watches_nodes:
            self._watches_nodes = True
            self._tasks.start(self._watch_nodes())

    async def _watch_nodes(self) -> None:
        """Tell the clients that follow the list of sessions when a node is lost, or is back."""
        while True:
            alive = {(entry.node, entry.incarnation) for entry in self._alive()}
            changed = {node for node, _ in alive ^ self._alive_nodes}
            self._alive_nodes = alive
            for entry in self._book.index if changed else ():
                if entry.node in changed and entry.state != "idle":
                    self.gateway.overview.notify_elsewhere(entry.recorded)
            await self._connection.clock.sleep(self.links.probe)

    async def restart(self) -> None:
        """Listen under a new incarnation. Raises StoreError."""
        await self._unsubscribe()
        await self.listen()

    async def stop(self) -> None:
        """End all links."""
        self.host.close()
        self.links.end_all("this node stops")
        await self._unsubscribe()

    async def _unsubscribe(self) -> None:
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            await self._connection.unsubscribe(subscription)

    def end_all(self, code: int, reason: str) -> None:
        """End all connections of clients, here and at other nodes."""
        self.host.end_all(code, reason)
        for client in tuple(self.clients):
            client.connection.end(code, reason)

    # -- clients

    def open(self, connection: ClientConnection, rights: TokenRights, agent: str | None) -> RoutedClient:
        """Add a client. Raise NotFound for an agent that no node has or the token does not cover."""
        names = dict.fromkeys(
            (*self.gateway.agents, *(name for node in self._alive() for name in node.agents))
        )
        allowed = [name for name in names if rights.may_use(name)]
        name = agent if agent is not None else next(iter(allowed), None)
        if name is None or name not in allowed:
            raise NotFound(
                f"unknown agent {agent!r}" if agent else "this token covers no agent of this gateway"
            )
        client = RoutedClient(self, connection, rights, name)
        self.clients.append(client)
        return client

    def _agents_elsewhere(self) -> list[str]:
        names = dict.fromkeys(name for node in self._alive() for name in node.agents)
        return [name for name in names if name not in self.gateway.agents]

    def _on_index_change(self, entry: IndexEntry, exists: bool) -> None:
        """Tell the clients of this node about sessions of other nodes."""
        if exists and (feed := self._feeds.get(entry.log)) is not None:
            feed.note_end(entry.number)
        if entry.node == self.node:
            return
        if exists:
            self.gateway.overview.notify_elsewhere(entry.recorded)
        else:
            folders = (entry.summary.cwd, *entry.summary.additional_directories)
            self.gateway.overview.notify_removed(entry.agent, entry.session_id, folders)

    def forget(self, client: RoutedClient) -> None:
        if client in self.clients:
            self.clients.remove(client)

    def open_link(
        self, node: str, agent: str, connection_id: str, rights: TokenRights, client: RoutedClient
    ) -> ClientLink:
        """Open a link to another node. Raises RpcError."""
        entry = self._registry.find(node)
        if entry is None:
            raise _not_running(node)
        subject = self._names.node_subject(node, entry.incarnation)
        return self.links.open(node, subject, agent, connection_id, rights, client)

    # -- feeds

    def follow(self, session_id: str, attached: AttachedLog, client: FeedClient) -> FeedCursor:
        """Show a client the records of a session at another node, after those that it has."""
        feed = self._feeds.get(attached.log)
        if feed is None:
            feed = SessionFeed(
                self._book.jetstream, self._names, session_id, attached, self._tasks, self._forget_feed
            )
            self._feeds[attached.log] = feed
            feed.start()
        return feed.attach(client, attached)

    def _forget_feed(self, log: str) -> None:
        feed = self._feeds.pop(log, None)
        if feed is not None:
            self._ended_feed_gaps += feed.gaps

    @property
    def feed_gaps(self) -> int:
        """How often records were missed and read later."""
        return self._ended_feed_gaps + sum(feed.gaps for feed in self._feeds.values())

    # -- placement

    def knows(self, agent: str, session_id: str) -> bool:
        """Whether the list of sessions here names it, or no other node could."""
        if self._book.index.find(agent, session_id) is not None:
            return True
        return not any(entry.node != self.node for entry in self._registry)

    def lost_owner(self, agent: str, session_id: str, exclude: frozenset[str]) -> NodeEntry | None:
        """The node of a session that is silent, while its lease still keeps others from its sessions."""
        entry = self._book.index.find(agent, session_id)
        owner = None if entry is None else self._registry.find(entry.node)
        if entry is None or owner is None or (entry.node not in exclude and self._is_alive(entry.node)):
            return None
        return owner if owner.lives and owner.incarnation == entry.incarnation else None

    @property
    def lease_seconds(self) -> float:
        """How long the lease of a node lasts after its last sign of life."""
        return self._lease.times.lease

    def is_log_of(self, agent: str, session_id: str, log: str) -> bool:
        """Whether a log is the one of this session, as far as is known: a client sees what is in it."""
        entry = self._book.index.find_log(log)
        return entry is None or (entry.agent, entry.session_id) == (agent, session_id)

    async def refresh(self) -> None:
        """Read what other nodes have written to the list of sessions."""
        try:
            await self._book.index.refresh()
        except StoreError as error:
            LOG.warning("the list of sessions cannot be read now: %s", error)

    def later(self, then: Callable[[], None]) -> None:
        """Call back after the time between two probes."""
        self._connection.clock.call_later(self.links.probe, then)

    async def wait_until_sent(self, client: RoutedClient) -> None:
        """Return when the client has nearly everything that was sent to it."""
        while client.unsent > MAX_UNSENT_HISTORY and client in self.clients:
            await self._connection.clock.sleep(_SEND_PAUSE)

    def owner_of(self, agent: str, session_id: str) -> str | None:
        """The node of a session, if it runs and keeps it."""
        entry = self._book.index.find(agent, session_id)
        if entry is None or not self._is_alive(entry.node) or self._gives_up(entry):
            return None
        return entry.node

    async def hand_over(self, session: LiveSession) -> bool:
        """Give an idle session up, so that another node can open it. Return False if it is in use."""
        assert isinstance(session.log, ClusterLog)
        farewell = AttachmentFrame(b"", log=session.log, number=session.log.noted, moved=True)
        return await self.gateway.release_session(session, farewell)

    def is_draining(self, node: str) -> bool:
        """Whether a node takes no new sessions."""
        entry = self._lease.entry if node == self.node else self._registry.find(node)
        return entry is not None and entry.draining

    def _gives_up(self, entry: IndexEntry) -> bool:
        """Whether the node of a session leaves it to others: it is draining, and no turn runs."""
        return entry.state == "idle" and self.is_draining(entry.node)

    def is_running(self, agent: str, session_id: str) -> bool:
        """Whether a turn of a session runs, as far as is known here."""
        entry = self._book.index.find(agent, session_id)
        return entry is not None and entry.state != "idle"

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background."""
        self._tasks.start(work)

    def node_of_session(self, agent: str, session_id: str, exclude: frozenset[str]) -> str | None:
        """The node that has a session, or can take it over. None for an unknown session. Raises RpcError."""
        entry = self._book.index.find(agent, session_id)
        if entry is None:
            return None
        runs = entry.node not in exclude and (entry.node == self.node or self._is_alive(entry.node))
        if runs and not self._gives_up(entry):
            return entry.node
        candidates = [
            node
            for node in self._alive()
            if node.node not in exclude and not self.is_draining(node.node) and _can_take(node, entry)
        ]
        if candidates:
            return min(candidates, key=self._rank).node
        if runs:
            return entry.node
        raise self._cannot_open(entry)

    def _cannot_open(self, session: IndexEntry) -> NodeNotRunning:
        """Why no node can open a session now: where its folder is, what that node does, and what to do."""
        node, placement = session.node, session.placement
        owner = self._registry.find(node)
        remedy = f"start {node} again"
        if owner is None or not owner.lives:
            state = "is stopped"
        elif self._is_alive(node):
            state, remedy = "does not answer", "try again in a few seconds"
        else:
            state = f"looks lost (silent for {self._registry.since_change(node):.0f} s)"
        if not placement.volume:
            reason = f"the only one with its folder {session.summary.cwd}"
        elif not placement.home:
            reason = f"the only one with the sessions of agent {session.agent}"
        else:
            what = f"agent {session.agent}, volume {placement.volume} and home {placement.home}"
            reason = f"the only one with {what}"
        text = f"session {session.session_id} can only be read now: node {node}, {reason}, {state}; {remedy}"
        return NodeNotRunning(text, {"node": node})

    def node_for_session(self, agent: str, folders: Sequence[str], exclude: frozenset[str]) -> str:
        """The node for a new session. Raises RpcError."""
        node = self.node_for_new(agent, folders, exclude)
        if self.is_draining(node):
            raise RpcError(
                f"node {node} takes no new sessions, because it is about to stop, and no other node has "
                "the agent and the folder; try again later",
                {"node": node},
            )
        return node

    def node_for_new(self, agent: str, folders: Sequence[str], exclude: frozenset[str]) -> str:
        """The node for a new session, or for what concerns no session. Raises RpcError."""
        nodes = [node for node in self._alive() if node.node not in exclude and agent in node.agents]
        shared = [node for node in nodes if folders and volume_of(node.volumes, folders)]
        if not shared and agent in self.gateway.agents and self.node not in exclude:
            return self.node
        if not nodes:
            raise RpcError(f"no node of the cluster that runs now has agent {agent}")
        return min(shared or nodes, key=self._rank).node

    def node_of_request(self, inbox_id: str, otherwise: str) -> str:
        """The node whose agent asked a request of the inbox."""
        entry = self._book.index.find_log(inbox_id.partition(".")[0])
        return entry.node if entry is not None and self._is_alive(entry.node) else otherwise

    def stored(self, client: RoutedClient, session_id: str) -> StoredSession | None:
        """A session whose node does not run, for reading. Raises RpcError."""
        entry = self._book.index.find(client.agent, session_id)
        return None if entry is None else StoredSession(self._book, entry, client.rights, client)

    def log_of(self, agent: str, session_id: str) -> str:
        """The log of a session; empty for an unknown one."""
        entry = self._book.index.find(agent, session_id)
        return "" if entry is None else entry.log

    def folder_of(self, agent: str, session_id: str) -> str:
        """The working directory of a session."""
        entry = self._book.index.find(agent, session_id)
        return "" if entry is None else entry.summary.cwd

    def _is_alive(self, node: str) -> bool:
        return self._registry.is_alive(node, self._lease.times.silence)

    def _alive(self) -> list[NodeEntry]:
        return [entry for entry in self._registry if entry.node == self.node or self._is_alive(entry.node)]

    def _rank(self, node: NodeEntry) -> tuple[bool, int, bool, str]:
        turns = self.turns if node.node == self.node else node.turns
        return node.draining, turns, node.node != self.node, node.node

    @property
    def turns(self) -> int:
        """The running turns of this node."""
        return sum(session.running_turns for session in self.gateway.sessions)


def _show_state(session: LiveSession) -> None:
    if isinstance(session.log, ClusterLog):
        session.log.show_state(session.state)


def _can_take(node: NodeEntry, session: IndexEntry) -> bool:
    """Whether a node can take a session over: it has the agent, the folder and the agent's store."""
    placement = session.placement
    folders = (session.summary.cwd, *session.summary.additional_directories)
    return (
        session.agent in node.agents
        and bool(placement.volume and placement.home)
        and volume_of(node.volumes, folders) == placement.volume
        and node.volumes[placement.volume].id == placement.volume_id
        and node.homes.get(session.agent) == placement.home
    )


def _not_running(node: str) -> NodeNotRunning:
    return NodeNotRunning(f"node {node} does not run now; start it", {"node": node})
