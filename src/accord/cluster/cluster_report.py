"""What `accord cluster status` and `accord cluster check` show: nodes, streams and what weakens a promise.

Reads only: nothing is created or changed.
"""

import asyncio
from collections import Counter
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from accord.cluster.connection import NatsRefused, NatsUnavailable
from accord.cluster.jetstream import STREAM_NOT_FOUND, Bucket, BucketEntry, JetStream, with_retries
from accord.cluster.nodes import decoded_node
from accord.cluster.settings import ClusterSettings, shown_server
from accord.cluster.streams import (
    ONE_REPLICA,
    StreamNames,
    check_stream,
    check_sync,
    log_config,
    read_formats,
    stream_names,
    wanted_streams,
)
from accord.errors import StoreError, UsageError

FULL_PERCENT: Final = 80
"""A stream that has so much of its limit is reported."""
_ALIVE_RENEWALS: Final = 3


class _State(Struct, frozen=True):
    messages: int = 0
    bytes: int = 0


class _Peer(Struct, frozen=True):
    name: str = ""
    current: bool = False
    offline: bool = False
    lag: int = 0


class _Raft(Struct, frozen=True):
    leader: str = ""
    replicas: tuple[_Peer, ...] = ()


class _Info(Struct, frozen=True):
    config: dict[str, Any]
    state: _State = _State()
    cluster: _Raft | None = None
    ts: str = ""


class StreamReport(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One stream or bucket."""

    name: str
    leader: str = ""
    """The NATS server that orders its writes; empty while there is none."""
    replicas: int = 1
    current_replicas: int = 1
    messages: int = 0
    bytes: int = 0
    max_bytes: int | None = None

    @property
    def percent(self) -> int:
        """How much of its limit it has."""
        return 0 if not self.max_bytes else self.bytes * 100 // self.max_bytes


class NodeReport(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One node and its lease."""

    node: str
    state: str
    """`alive`, `draining`, `silent` or `taken over`."""
    renewed_seconds: float | None = None
    """How long ago the lease was renewed, by the clocks of the NATS servers."""
    agents: tuple[str, ...] = ()
    version: str = ""
    sessions: int = 0
    labels: dict[str, str] = {}


class ClusterReport(Struct, frozen=True, rename="camel"):
    """The state of a cluster."""

    prefix: str
    servers: tuple[str, ...]
    server_version: str
    nodes: list[NodeReport]
    streams: list[StreamReport]
    sessions: int
    findings: list[str]
    """What weakens or breaks a promise, one line each."""


async def read_report(jetstream: JetStream, settings: ClusterSettings) -> ClusterReport:
    """Read the state of the cluster. Raises UsageError with one clear line."""
    names = StreamNames(settings.prefix)
    try:
        formats = await read_formats(Bucket(jetstream, names.bucket("meta")))
    except NatsRefused as error:
        if error.code != STREAM_NOT_FOUND:
            raise UsageError(f"the cluster cannot be read: {error}") from None
        raise UsageError(
            f"there is no cluster with the prefix {settings.prefix!r} at these servers; "
            "`accord serve --cluster` creates it"
        ) from None
    except NatsUnavailable as error:
        raise UsageError(f"{error}; a majority of the NATS servers must run") from None
    findings: list[str] = []
    wanted = wanted_streams(settings, formats)
    wanted += await _leaf_streams(jetstream, settings, {config["name"] for config in wanted}, findings)
    infos = await asyncio.gather(*(_info(jetstream, config["name"], findings) for config in wanted))
    streams: list[StreamReport] = []
    for config, info in zip(wanted, infos, strict=True):
        if info is not None:
            streams.append(_stream_report(info, findings))
            findings += [finding.text for finding in check_stream(config, info.config)]
    if any(stream.replicas == 1 for stream in streams):
        findings.append(ONE_REPLICA)
    sessions = await _owned_sessions(Bucket(jetstream, names.bucket("index")), findings)
    nodes = await _nodes(jetstream, names, settings, sessions, findings)
    findings += await asyncio.to_thread(check_sync, settings.monitors)
    return ClusterReport(
        settings.prefix,
        tuple(map(shown_server, settings.servers)),
        jetstream.connection.server_version,
        nodes,
        streams,
        sum(sessions.values()),
        findings,
    )


async def _leaf_streams(
    jetstream: JetStream, settings: ClusterSettings, known: set[str], findings: list[str]
) -> list[dict[str, Any]]:
    """The wanted configs of the log streams that leaf nodes have created."""
    names = StreamNames(settings.prefix)
    try:
        found = await stream_names(jetstream, names.log_subject("*", "*"))
    except StoreError as error:
        findings.append(f"The log streams of leaf nodes cannot be listed: {error}.")
        return []
    return [log_config(names, names.shard_of(name), settings) for name in found if name not in known]


async def _info(jetstream: JetStream, name: str, findings: list[str]) -> _Info | None:
    try:
        answer = await with_retries(lambda: jetstream.api(f"STREAM.INFO.{name}"), jetstream, seconds=3)
        return msgspec.json.decode(answer, type=_Info)
    except StoreError as error:
        findings.append(f"Stream {name} cannot be read: {error}.")
    except msgspec.MsgspecError as error:
        findings.append(f"The NATS server described stream {name} in an unknown way ({error}).")
    return None


def _stream_report(info: _Info, findings: list[str]) -> StreamReport:
    name, limit = info.config["name"], info.config.get("max_bytes", -1)
    replicas: int = info.config.get("num_replicas", 1)
    raft = info.cluster or _Raft()
    behind = [peer.name for peer in raft.replicas if peer.offline or not peer.current]
    current = replicas - len(behind) if replicas > 1 else 1
    report = StreamReport(
        name,
        raft.leader,
        replicas,
        current,
        info.state.messages,
        info.state.bytes,
        None if limit < 0 else limit,
    )
    if replicas > 1 and not raft.leader:
        findings.append(f"Stream {name} has no leader: nothing can be written to it.")
    if behind:
        findings.append(f"Stream {name} is not current at {', '.join(behind)}.")
    if report.percent >= FULL_PERCENT:
        findings.append(
            f"Stream {name} has {report.percent} % of its limit ({report.max_bytes} bytes); raise max_bytes "
            "or delete sessions: a full stream makes its sessions read-only."
        )
    return report


async def _owned_sessions(index: Bucket, findings: list[str]) -> dict[str, int]:
    """How many sessions each node has written to last."""

    class Owned(Struct):
        node: str

    nodes: dict[str, str] = {}
    try:
        async for entry in index.entries():
            if entry.value is not None:
                nodes[entry.key] = msgspec.json.decode(entry.value, type=Owned).node
    except (StoreError, msgspec.MsgspecError) as error:
        findings.append(f"The session index cannot be read: {error}.")
    return Counter(nodes.values())


async def _nodes(
    jetstream: JetStream,
    names: StreamNames,
    settings: ClusterSettings,
    sessions: dict[str, int],
    findings: list[str],
) -> list[NodeReport]:
    bucket = Bucket(jetstream, names.bucket("nodes"))
    nodes: list[NodeReport] = []
    found: dict[str, BucketEntry] = {}
    try:
        # A node that renews its lease meanwhile is read twice.
        found = {entry.key: entry async for entry in bucket.entries()}
    except StoreError as error:
        findings.append(f"The registry of nodes cannot be read: {error}.")
    for entry in found.values():
        if entry.value is None:
            continue
        node = decoded_node(entry)
        if node is None:
            findings.append(f"The registry entry of node {entry.key} is damaged.")
            continue
        age = await _age(jetstream, bucket, entry)
        silent = age is not None and age > settings.times.renew * _ALIVE_RENEWALS
        working = "draining" if node.draining else "alive"
        state = "taken over" if not node.lives else "silent" if silent else working
        owned = sessions.get(node.node, 0)
        nodes.append(NodeReport(node.node, state, age, node.agents, node.version, owned, node.labels))
    versions = {node.version for node in nodes if node.state == "alive"}
    if len(versions) > 1:
        findings.append(f"The nodes run different versions: {', '.join(sorted(versions))}.")
    return sorted(nodes, key=lambda node: node.node)


async def _age(jetstream: JetStream, bucket: Bucket, entry: BucketEntry) -> float | None:
    """Seconds since an entry was written, by the clocks of the NATS servers."""
    try:
        answer = await jetstream.api(f"STREAM.INFO.{bucket.stream}")
        written = entry.written
        now = msgspec.json.decode(answer, type=_Info).ts
        if not now or not written:
            return None
        return max(0.0, (_time(now) - _time(written)).total_seconds())
    except (StoreError, ValueError):
        return None


def _time(text: str) -> datetime:
    """A time of the NATS servers, which have nanoseconds."""
    return datetime.fromisoformat(text)
