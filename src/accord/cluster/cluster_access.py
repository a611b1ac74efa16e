"""What commands do with a cluster without being one of its nodes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from accord.cluster.cluster_backup import BackupManifest, back_up, restore
from accord.cluster.cluster_repair import RebuildReport, rebuild_index
from accord.cluster.cluster_report import ClusterReport, read_report
from accord.cluster.connection import NatsUnavailable, NoResponders, connect
from accord.cluster.jetstream import Bucket, JetStream, with_retries
from accord.cluster.link_message import BadLinkMessage, DrainAnswer, DrainNode, encode_link, read_drain_answer
from accord.cluster.nodes import NodeEntry, decoded_node
from accord.cluster.server import start_leaf
from accord.cluster.settings import ClusterSettings
from accord.cluster.shared_access import SharedAccess, shared_access
from accord.cluster.streams import DEFAULT_REPLICAS, ClusterStreams, StreamNames, prepare_streams
from accord.errors import StoreError, UsageError

"""Shown by the NATS servers."""
_POLL_SECONDS: Final = 0.3
_HUB_SECONDS: Final = 5.0


@asynccontextmanager
async def cluster_access(settings: ClusterSettings) -> AsyncGenerator[SharedAccess]:
    """Use the tokens and logins of a cluster for the block. Raises UsageError, StoreError."""
    async with _jetstream(settings) as jetstream:
        streams = await prepare_streams(jetstream, settings)
        async with shared_access(streams) as access:
            yield access
            await access.settle()


@asynccontextmanager
async def cluster_streams(settings: ClusterSettings) -> AsyncGenerator[ClusterStreams]:
    """Use the streams of a cluster for the block; missing ones are created. Raises UsageError."""
    async with _jetstream(settings) as jetstream:
        yield await prepare_streams(jetstream, settings)


async def save_backup(settings: ClusterSettings, folder: Path) -> BackupManifest:
    """Write all streams of a cluster to a new folder. Raises UsageError, StoreError."""
    async with _jetstream(settings) as jetstream:
        return await back_up(jetstream, settings.prefix, folder)


async def restore_backup(settings: ClusterSettings, folder: Path) -> tuple[BackupManifest, RebuildReport]:
    """Create a cluster from a backup and complete its index. Raises UsageError, StoreError."""
    async with _jetstream(settings) as jetstream:
        replicas = settings.replicas or DEFAULT_REPLICAS
        manifest = await restore(jetstream, folder, settings.prefix, replicas)
        return manifest, await rebuild_index(await prepare_streams(jetstream, settings))


async def cluster_report(settings: ClusterSettings) -> ClusterReport:
    """Read the state of a cluster. Raises UsageError."""
    async with _jetstream(settings) as jetstream:
        return await read_report(jetstream, settings)


async def drain_node(
    settings: ClusterSettings,
    node: str,
    *,
    undo: bool,
    seconds: float,
    progress: Callable[[DrainAnswer], None],
) -> DrainAnswer:
    """Make a node give its sessions up, or take sessions again; return what it has in the end.

    Waits so long at most until its turns have ended. `progress` is called after each change. Raises
    UsageError.
    """
    async with _jetstream(settings) as jetstream:
        names = StreamNames(settings.prefix)
        entry = await _find_node(Bucket(jetstream, names.bucket("nodes")), node)
        clock = jetstream.connection.clock
        deadline = clock.now() + seconds
        subject = names.node_subject(entry.node, entry.incarnation)
        before: DrainAnswer | None = None
        while True:
            try:
                request = encode_link(DrainNode(not undo))
                answer = read_drain_answer((await jetstream.connection.request(subject, request)).data)
            except NoResponders:
                raise UsageError(f"node {node} does not run now, so it has nothing to give up") from None
            except (NatsUnavailable, BadLinkMessage) as error:
                raise UsageError(f"node {node} does not answer ({error}); try again") from None
            if undo or not answer.sessions or clock.now() > deadline:
                return answer
            if answer != before:
                progress(answer)
                before = answer
            await asyncio.sleep(_POLL_SECONDS)


async def _find_node(bucket: Bucket, node: str) -> NodeEntry:
    try:
        entries = [decoded_node(entry) async for entry in bucket.entries()]
    except StoreError as error:
        raise UsageError(f"the nodes of the cluster cannot be read: {error}") from None
    known = [entry for entry in entries if entry is not None]
    found = {entry.node: entry for entry in sorted(known, key=lambda entry: not entry.front)}
    if node not in found:
        names = ", ".join(sorted(found)) or "none"
        raise UsageError(f"there is no node {node!r} in this cluster; its nodes are: {names}")
    return found[node]


@asynccontextmanager
async def _jetstream(settings: ClusterSettings) -> AsyncGenerator[JetStream]:
    async with AsyncExitStack() as stack:
        password: str | None = None
        if settings.leaf is not None:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            server = await start_leaf(settings, folder)
            stack.push_async_callback(server.aclose)
            password, settings = server.password, server.settings_of(settings)
        connection = await connect(settings, settings.node_name, password=password)
        stack.push_async_callback(connection.aclose)
        jetstream = JetStream(connection)
        if settings.leaf is not None:  # what the hub serves reaches a leaf node a little later
            try:
                await with_retries(lambda: jetstream.api("INFO"), jetstream, seconds=_HUB_SECONDS)
            except StoreError as error:
                raise UsageError(f"the cluster cannot be read through the hub: {error}") from None
        yield jetstream
