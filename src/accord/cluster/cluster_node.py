"""Runs this gateway as a node of a cluster: server or servers, streams, lease and session logs, in order."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from logging import getLogger
from pathlib import Path
from typing import Final

import msgspec

from accord import __version__
from accord.clock import SYSTEM_CLOCK, Clock, OwnedTasks, within
from accord.cluster.audit_stream import ClusterAudit
from accord.cluster.book import ClusterBook
from accord.cluster.cluster_router import ClusterRouter
from accord.cluster.connection import NatsConnection, connect
from accord.cluster.jetstream import JetStream
from accord.cluster.link_message import DrainAnswer
from accord.cluster.log_writer import SessionMoved
from accord.cluster.nodes import (
    ClusterDirectory,
    NodeEntry,
    NodeLease,
    NodeRegistry,
    home_id,
    new_incarnation,
)
from accord.cluster.placement import placement_of, read_volumes
from accord.cluster.server import USER, lock_folder, start_leaf, start_server
from accord.cluster.settings import ClusterSettings, check_leaf_name, shown_server
from accord.cluster.shared_access import SharedAccess, shared_access
from accord.cluster.shared_inbox import SharedInbox
from accord.cluster.streams import ClusterStreams, prepare_streams
from accord.errors import StoreError
from accord.gateway.access.access_contracts import AuditSink
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.gateway import Gateway
from accord.gateway.live_sessions import LiveSession
from accord.gateway.metrics import Metric
from accord.paths import data_dir
from accord.safe_text import visible
from accord.schema import Notice
from accord.schema.updates import NoticeSeverity

LOG = getLogger("accord.cluster")

_SERVICE_RESTART: Final = 1012
_STOP_SECONDS: Final = 2.0
_DRAIN_PAUSE: Final = 0.1
_FLAG_SECONDS: Final = 2.0
"""How long a drain waits until other nodes know of it. Without servers they learn it later."""
_OBEY_SECONDS: Final = 5.0
"""How long an agent may take to end the turn of a session that another node has."""


class ClusterNode:
    """A running node. It keeps the session logs of one gateway, and stops its agents when it must."""

    def __init__(
        self,
        name: str,
        streams: ClusterStreams,
        registry: NodeRegistry,
        lease: NodeLease,
        book: ClusterBook,
        tasks: OwnedTasks,
        access: SharedAccess | None,
    ) -> None:
        self.name: str = name
        self.streams: ClusterStreams = streams
        self.registry: NodeRegistry = registry
        self.fence: NodeLease = lease
        self.book: ClusterBook = book
        self.router: ClusterRouter | None = None
        """Set while this node serves clients."""
        self.access: SharedAccess | None = access
        self.inbox: SharedInbox | None = None
        self.servers: tuple[str, ...] = self.connection.settings.servers
        """The addresses of the settings."""
        self._audit: ClusterAudit | None = None
        self._gateway: Gateway | None = None
        self._tasks = tasks
        self._clock: Clock = streams.jetstream.connection.clock
        self._drained = asyncio.Event()
        lease.on_fenced = self._on_fenced
        book.listener = self

    @property
    def connection(self) -> NatsConnection:
        return self.streams.jetstream.connection

    @property
    def notes(self) -> list[str]:
        """Lines for the start's output."""
        servers = ", ".join(map(shown_server, self.servers))
        leaf = "" if self.connection.settings.leaf is None else ", as a leaf node"
        return [f"Node {self.name} of the cluster at {servers}{leaf}.", *self.streams.notes]

    def audit_sink(self, log: AuditLog) -> AuditSink:
        """Where the gateway records what was done: the log of this machine, copied to the cluster."""
        if self.access is None:
            return log
        self._audit = ClusterAudit(log, self.streams, self.name, self._tasks)
        self._audit.start()
        return self._audit

    async def stop_audit(self) -> None:
        """Stop copying the audit log."""
        if self._audit is not None:
            await self._audit.stop()

    @property
    def unready(self) -> str:
        """Why clients should use another node now; empty if there is no reason."""
        if self._gateway is not None and self._gateway.stopping:
            return "draining"
        if not self.connection.is_connected:
            return "no NATS server is connected"
        if not self.fence.is_held:
            return "this node has no lease"
        if self.access is not None and not self.access.tokens.is_current:
            return "it is not known which tokens are valid"
        return ""

    def metrics(self) -> list[Metric]:
        """The numbers of the cluster for `/metrics`."""
        counts, router = self.streams.jetstream.append_counts, self.router
        moved = gaps = links = 0
        if router is not None:
            moved, gaps = router.moved_sessions, router.feed_gaps
            links = len(router.links) + len(router.host)
        return [
            Metric(f"accord_cluster_{name}", kind, help_text, value)
            for name, kind, help_text, value in (
                (
                    "lease_age_seconds",
                    "gauge",
                    "Seconds since the last renewal of the lease.",
                    self._lease_age,
                ),
                ("fenced_total", "counter", "How often this node lost its lease.", self.fence.fenced_count),
                ("nodes", "gauge", "Nodes in the registry.", len(tuple(self.registry))),
                ("sessions", "gauge", "Sessions of all nodes.", len(self.book.index)),
                ("appends_total", "counter", "Messages appended to session logs.", counts.appends),
                ("append_seconds_total", "counter", "Seconds that these appends took.", counts.seconds),
                *(
                    (
                        f'append_retries_total{{code="{code}"}}',
                        "counter",
                        "Appends that were sent again.",
                        number,
                    )
                    for code, number in sorted({"unavailable": 0, **counts.retries}.items())
                ),
                ("takeovers_total", "counter", "Sessions claimed from lost nodes.", self.book.takeovers),
                ("moved_total", "counter", "Open sessions that went on at another node.", moved),
                ("feed_gaps_total", "counter", "Records that were missed and read later.", gaps),
                ("links", "gauge", "Links to clients of other nodes, and of clients to them.", links),
                (
                    "uncommitted_bytes",
                    "gauge",
                    "Bytes of records not committed.",
                    self.book.uncommitted_bytes,
                ),
                (
                    "nats_reconnects_total",
                    "counter",
                    "Connections to NATS servers after the first.",
                    self.connection.reconnects,
                ),
                (
                    "slow_consumer_total",
                    "counter",
                    "Times that messages were dropped because this node read too slowly.",
                    self.connection.dropped_messages,
                ),
            )
        ]

    @property
    def _lease_age(self) -> float:
        """Not infinite, which a node without any lease has."""
        return min(self.fence.age, 1e9)

    def attach(self, gateway: Gateway) -> None:
        """Act on this gateway when the lease ends or a log cannot be written."""
        self._gateway = gateway

    async def serve(self, gateway: Gateway, folders: tuple[str, ...] | None = None) -> ClusterRouter:
        """Serve the sessions of all nodes to the clients of this one, and its sessions to theirs."""
        self.attach(gateway)
        authorize = _refuse_links if self.access is None else self.access.rights_of
        router = ClusterRouter(
            gateway, self.book, self.registry, self.fence, self._tasks, authorize, folders=folders
        )
        await router.listen()
        self.router = router
        if self.inbox is not None:
            gateway.overview.share_inbox(self.inbox)
        self.fence.count_turns = lambda: router.turns
        self.fence.on_revived = self._on_revived
        router.host.on_drain = self._on_drain
        return router

    async def stop_serving(self) -> None:
        """End the links to other nodes."""
        if self.router is not None:
            await self.router.stop()

    async def drain(self, drain: bool = True) -> None:
        """Take no new sessions and prompts, and give each session up as soon as no turn runs.

        With False, take sessions again.
        """
        if self._gateway is None or drain == self.fence.entry.draining:
            return
        self._gateway.stopping = drain
        changing = self._tasks.start(self.fence.change(draining=drain))
        await within(self._clock, _FLAG_SECONDS, changing)
        if drain:
            LOG.info("this node gives its sessions up")
            self._drained.clear()
            self._tasks.start(self._hand_over())

    async def wait_until_drained(self, seconds: float) -> bool:
        """Wait until this node has given all sessions up, so long at most; return whether it has."""
        waiting = asyncio.ensure_future(self._drained.wait())
        try:
            return await within(self._clock, seconds, waiting)
        finally:
            waiting.cancel()

    async def _hand_over(self) -> None:
        gateway, router = self._gateway, self.router
        while gateway is not None and router is not None and self.fence.entry.draining:
            for session in gateway.sessions:
                if not session.is_busy:
                    await router.hand_over(session)
            if not len(gateway.sessions):
                self._drained.set()
            await self._clock.sleep(_DRAIN_PAUSE)

    def _on_drain(self, drain: bool) -> DrainAnswer:
        gateway = self._gateway
        self._tasks.start(self.drain(drain))
        sessions = 0 if gateway is None else len(gateway.sessions)
        return DrainAnswer(sessions, 0 if self.router is None else self.router.turns)

    def _on_revived(self) -> None:
        if self.router is not None:
            self._tasks.start(self._listen_again(self.router))

    async def _listen_again(self, router: ClusterRouter) -> None:
        try:
            await router.restart()
        except StoreError as error:
            LOG.error("other nodes cannot reach the sessions of this node: %s", error)

    def _on_fenced(self, reason: str) -> None:
        """Kill all agents and close all connections: another node may have the sessions."""
        LOG.error("this node stops its agents and gives its sessions up: %s", reason)
        self.book.give_up(reason)
        gateway = self._gateway
        if gateway is None:
            return
        for agent in gateway.agents.values():
            agent.kill()
        for session in gateway.sessions:
            session.needs_claim, session.owns_log = True, False
        text = "this node lost its lease; connect again"
        if self.router is not None:
            self.router.end_all(_SERVICE_RESTART, text)
        for client in tuple(gateway.clients):
            client.connection.end(_SERVICE_RESTART, text)

    # -- what the logs report

    def log_paused(self, agent: str, session_id: str, paused: bool) -> None:
        hosted = None if self._gateway is None else self._gateway.agents.get(agent)
        if hosted is not None and hosted.upstream is not None:  # the session may be closed
            hosted.upstream.set_paused(session_id, paused)

    def log_waits(self, agent: str, session_id: str, waits: bool) -> None:
        if waits:
            LOG.warning("session %s: the NATS servers do not answer; its frames wait", session_id)
            self._show(agent, session_id, "warning", "The storage waits", "The NATS servers do not answer.")
        else:
            self._show(agent, session_id, "info", "The storage answers again.", "")

    def log_failed(self, agent: str, session_id: str, error: StoreError) -> None:
        session = self._session(agent, session_id)
        if session is None or self._gateway is None:
            return
        session.needs_claim, session.owns_log = True, False
        self._gateway.cancel(session, str(error))
        if isinstance(error, SessionMoved):
            self._tasks.start(self._close_moved(self._gateway, session))
        self._show(agent, session_id, "error", "The session cannot be written here", str(error))

    async def _close_moved(self, gateway: Gateway, session: LiveSession) -> None:
        """Close a session that another node has; kill an agent that does not end its turn."""
        deadline = self._clock.now() + _OBEY_SECONDS
        while session.running_turns and self._clock.now() < deadline:
            await self._clock.sleep(_DRAIN_PAUSE)
        if session.running_turns:
            LOG.error("agent %s does not end a turn that another node took over", session.agent.name)
            session.agent.kill()
        elif session.needs_claim:
            await gateway.close_session(session)

    def _session(self, agent: str, session_id: str) -> LiveSession | None:
        return None if self._gateway is None else self._gateway.sessions.find(agent, session_id)

    def _show(self, agent: str, session_id: str, severity: NoticeSeverity, title: str, text: str) -> None:
        """Show a notice to the attached clients at once: it does not depend on the log."""
        session = self._session(agent, session_id)
        if session is None or self._gateway is None:
            return
        self._gateway.show_notice(session, Notice(severity=severity, title=title, description=text))


@asynccontextmanager
async def run_node(
    settings: ClusterSettings, agents: Sequence[str], clock: Clock = SYSTEM_CLOCK
) -> AsyncGenerator[ClusterNode]:
    """Join the cluster for the block. Raises UsageError and StoreError with one clear line."""
    async with AsyncExitStack() as stack:
        name = settings.node_name
        volumes = read_volumes(settings.volumes)
        folder = _data_folder(stack, name)
        password: str | None = None
        servers = settings.servers
        settings = msgspec.structs.replace(settings, node=name)
        if settings.leaf is not None:
            check_leaf_name(name)
            server = await start_leaf(settings, folder, clock)
            stack.push_async_callback(server.aclose)
            password, settings = server.password, server.settings_of(settings)
        elif not servers:
            server = await start_server(clock=clock)
            stack.push_async_callback(server.aclose)
            password = server.password
            settings = msgspec.structs.replace(
                settings,
                servers=(server.url,),
                user=USER,
                replicas=1,
                log_bytes=min(settings.log_bytes, server.log_bytes(settings.shards)),
                monitors=(server.monitor_url,),
            )
        connection = await connect(settings, name, password=password, clock=clock)
        stack.push_async_callback(connection.aclose)
        streams = await prepare_streams(JetStream(connection), settings)
        tasks = OwnedTasks(clock, grace=_STOP_SECONDS)
        stack.push_async_callback(tasks.end)
        registry = NodeRegistry(streams, tasks)
        await registry.start()
        stack.push_async_callback(registry.stop)
        entry = NodeEntry(
            name,
            new_incarnation(),
            home_id(folder),
            agents=tuple(agents),
            version=__version__,
            volumes=volumes,
            homes=settings.homes,
            labels=settings.labels,
            front=settings.front,
        )
        lease = NodeLease(registry, entry, settings.times, tasks, clock=clock)
        await lease.start()
        stack.push_async_callback(lease.release)
        directory = ClusterDirectory(registry, lease, clock, tasks)
        book = ClusterBook(streams, name, fence=lease, may_claim=directory.may_claim)
        book.placement = lambda agent, folders: placement_of(volumes, settings.homes, agent, folders)
        book.incarnation_of = lambda node: registry.living_incarnation(node, settings.times.silence)
        await book.start()
        streams.notes += _volume_notes(entry, registry)
        access: SharedAccess | None = None
        if servers:  # a server of its own has no other nodes
            access = await stack.enter_async_context(shared_access(streams, settings.times.deadline))
        node = ClusterNode(name, streams, registry, lease, book, tasks, access)
        node.servers = servers or node.servers
        stack.push_async_callback(node.stop_audit)
        if access is not None:
            node.inbox = SharedInbox(streams, lease, registry, book.index, tasks)
            await node.inbox.start()
            stack.push_async_callback(node.inbox.stop)
        yield node


async def _refuse_links(credential: str, peer: str) -> TokenRights:
    raise RequestRefused(403, "This node has a NATS server of its own and serves no clients of other nodes.")


def _volume_notes(own: NodeEntry, registry: NodeRegistry) -> list[str]:
    """Say which volumes are not the same as those of other nodes: sessions there do not move."""
    return [
        f"Volume {name} is not the one of node {node.node} ({volume.path} with id {volume.id}, there "
        f"{visible(other.path)} with id {visible(other.id)}): sessions in it do not move between these nodes."
        for node in registry
        for name, other in node.volumes.items()
        if (volume := own.volumes.get(name)) is not None and volume != other and node.node != own.node
    ]


def _data_folder(stack: AsyncExitStack, name: str) -> Path:
    """The folder of this node, locked: another process with it would be the same node. Raises UsageError."""
    folder = data_dir() / "cluster-nodes" / name
    taken = (
        f"node {name!r} runs already on this machine; give this one another name with --node, or with "
        '"node" in the cluster settings'
    )
    stack.callback(os.close, lock_folder(folder, taken))
    return folder
