"""The streams and buckets of a cluster: created at the first start, and checked at each start.

Settings that could lose a record are refused. Settings that weaken a promise are reported.
"""

import asyncio
from collections.abc import Iterable
from logging import getLogger
from typing import Any, Final, NamedTuple
from urllib.request import urlopen

import msgspec
from msgspec import Struct

from accord.cluster.connection import NatsRefused, NatsUnavailable
from accord.cluster.jetstream import STREAM_NOT_FOUND, WRONG_SEQUENCE, Bucket, JetStream, with_retries
from accord.cluster.settings import ClusterSettings, shown_server
from accord.errors import UsageError
from accord.schema.codec import encode

LOG = getLogger("accord.cluster")

LOG_FORMAT: Final = 1
LINK_FORMAT: Final = 1
INDEX_FORMAT: Final = 1
DEFAULT_REPLICAS: Final = 3
WAIT_SECONDS: Final = 10.0
ONE_REPLICA: Final = "One NATS server keeps each record: a lost disk loses sessions."
_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
_DUPLICATE_WINDOW: Final = 30 * _SECOND
"""How long servers know the id of a message. One that is sent again later is found in the log."""
_NOT_CLUSTERED: Final = 10074
_NO_PEERS: Final = 10005
_NO_STORAGE: Final = frozenset({10002, 10023, 10047})
_MONITOR_SECONDS: Final = 3.0
_MAX_MONITOR_ANSWER: Final = 1024 * 1024

LOG_ID_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

LOSING: Final = {
    "retention": "would delete records",
    "discard": "would drop old records when it is full",
    "max_age": "would delete old records",
    "max_msgs": "would refuse or drop records by their number",
    "storage": "keeps records elsewhere",
    "subjects": "belongs to something else",
    "max_msgs_per_subject": "keeps another number of values",
    "allow_direct": "cannot be read from replicas",
    "allow_msg_ttl": "cannot forget deleted keys",
    "deny_delete": "allows deleting records",
    "allow_rollup_hdrs": "lets one message delete all others",
    "republish": "does not tell nodes about records",
}
"""The settings that an existing stream must have, and what another value does."""


def shard_of(log: str, shards: int) -> str:
    """The shard that holds a log: the last character of its id picks it."""
    return f"{LOG_ID_ALPHABET.index(log[-1]) % shards:02}"


class ClusterFormats(Struct, frozen=True):
    """The formats that a cluster uses, and the number of its log streams; the key `format` of `acc_meta`."""

    log: int = LOG_FORMAT
    link: int = LINK_FORMAT
    index: int = INDEX_FORMAT
    shards: int = 16


class StreamFinding(NamedTuple):
    """Something of a stream that is not as it should be."""

    text: str
    refused: bool
    """Whether a node must not use the stream."""


class LogAddress(Struct, frozen=True):
    """Where the log of a session is."""

    log: str
    stream: str
    subject: str


class StreamNames(NamedTuple):
    """The names of everything in one set of sessions."""

    prefix: str

    def log_stream(self, shard: str) -> str:
        """The stream of a shard: two digits, or the name of a leaf node."""
        return f"{self.prefix.upper()}_LOG_{shard}"

    def shard_of(self, stream: str) -> str:
        """The shard that a stream holds."""
        return stream.removeprefix(self.log_stream(""))

    def log_subject(self, shard: str, log: str) -> str:
        return f"{self.prefix}.log.{shard}.{log}"

    def feed_subject(self, shard: str, log: str) -> str:
        return f"{self.prefix}.feed.{shard}.{log}"

    def node_subject(self, node: str, incarnation: str) -> str:
        """Where one start of a node listens."""
        return f"{self.prefix}.node.{node}.{incarnation}"

    @property
    def audit_stream(self) -> str:
        return f"{self.prefix.upper()}_AUDIT"

    def bucket(self, name: str) -> str:
        return f"{self.prefix}_{name}"

    def bucket_feed(self, name: str) -> str:
        """The subject with the changes of a bucket."""
        return f"{self.prefix}.kv.{name}.>"


BUCKETS: Final[dict[str, dict[str, Any]]] = {
    "meta": {"max_msgs_per_subject": 8},
    "index": {},
    "nodes": {},
    "inbox": {},
    "tokens": {},
    "browsers": {"max_age": 30 * _DAY},
    "push": {},
    "tickets": {"max_age": 30 * _SECOND, "storage": "memory"},
}
"""The buckets, and how each differs from the others."""


class ClusterStreams:
    """The streams and buckets of one cluster, ready for use; created by `prepare_streams`."""

    def __init__(self, jetstream: JetStream, settings: ClusterSettings, formats: ClusterFormats) -> None:
        self.jetstream: JetStream = jetstream
        self.names: StreamNames = StreamNames(settings.prefix)
        self.formats: ClusterFormats = formats
        self._own_shard = "" if settings.leaf is None else settings.node or ""
        self.notes: list[str] = []
        """What weakens a promise, for the start's output and the log."""

    def bucket(self, name: str) -> Bucket:
        return Bucket(self.jetstream, self.names.bucket(name))

    def address(self, stream: str, log: str) -> LogAddress:
        return LogAddress(log, stream, self.names.log_subject(self.names.shard_of(stream), log))

    def stream_for(self, log: str) -> str:
        """The stream of a new log: the one of this leaf node, or the one that the id of the log picks."""
        return self.names.log_stream(self._own_shard or shard_of(log, self.formats.shards))

    async def log_streams(self) -> list[tuple[str, str]]:
        """All streams with session logs, also those of leaf nodes, and their subjects. Raises StoreError."""
        names = self.names
        found = await stream_names(self.jetstream, names.log_subject("*", "*"))
        return [(name, names.log_subject(names.shard_of(name), "*")) for name in sorted(found)]


async def prepare_streams(
    jetstream: JetStream, settings: ClusterSettings, *, seconds: float = WAIT_SECONDS
) -> ClusterStreams:
    """Create what is missing and check the rest. Raises UsageError with one clear line.

    Waits for so many seconds while the servers elect a leader.
    """
    replicas = settings.replicas or DEFAULT_REPLICAS
    names = StreamNames(settings.prefix)
    notes: list[str] = []
    try:
        notes += await _prepare(jetstream, _bucket_config(names, "meta", replicas, BUCKETS["meta"]), seconds)
        meta = Bucket(jetstream, names.bucket("meta"))
        formats = await with_retries(lambda: _agree_on_formats(meta, settings), jetstream, seconds=seconds)
        configs = wanted_streams(settings, formats)
        for found in await asyncio.gather(*(_prepare(jetstream, config, seconds) for config in configs[1:])):
            notes += found
    except (NatsUnavailable, NatsRefused) as error:
        raise UsageError(
            f"the streams of the cluster cannot be used: {error}; the NATS servers need JetStream, a "
            "majority of them must run, and this node needs its permissions (see the documentation)"
        ) from None
    streams = ClusterStreams(jetstream, settings, formats)
    if replicas == 1:
        notes.append(ONE_REPLICA)
    streams.notes = [*notes, *await asyncio.to_thread(check_sync, settings.monitors)]
    return streams


async def stream_names(jetstream: JetStream, subject: str) -> list[str]:
    """The names of all streams with messages of a subject. Raises StoreError."""
    names: list[str] = []
    while True:
        request = {"subject": subject, "offset": len(names)}
        answer = await with_retries(lambda request=request: jetstream.api("STREAM.NAMES", request), jetstream)
        page = msgspec.json.decode(answer, type=_NamesPage)
        names += page.streams or []
        if not page.streams or len(names) >= page.total:
            return names


class _NamesPage(Struct):
    total: int = 0
    streams: list[str] | None = None


def wanted_streams(settings: ClusterSettings, formats: ClusterFormats) -> list[dict[str, Any]]:
    """The configs of all streams of a cluster, beginning with that of the bucket `meta`."""
    names, replicas = StreamNames(settings.prefix), settings.replicas or DEFAULT_REPLICAS
    shards = [f"{shard:02}" for shard in range(formats.shards)]
    if settings.leaf is not None and settings.node is not None:
        shards.append(settings.node)
    return [
        *(_bucket_config(names, name, replicas, differences) for name, differences in BUCKETS.items()),
        *(log_config(names, shard, settings) for shard in shards),
        _audit_config(names, replicas),
    ]


def _common(name: str, subject: str, replicas: int) -> dict[str, Any]:
    return {
        "name": name,
        "subjects": [subject],
        "retention": "limits",
        "discard": "new",
        "max_age": 0,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_msgs_per_subject": -1,
        "storage": "file",
        "num_replicas": replicas,
        "allow_direct": True,
        "deny_delete": True,
        "allow_rollup_hdrs": False,
    }


def log_config(names: StreamNames, shard: str, settings: ClusterSettings) -> dict[str, Any]:
    """The wanted config of a stream with session logs."""
    source = names.log_subject(shard, "*")
    return {
        **_common(names.log_stream(shard), source, settings.replicas or DEFAULT_REPLICAS),
        "max_bytes": settings.log_bytes,
        "duplicate_window": _DUPLICATE_WINDOW,
        "republish": {"src": source, "dest": names.feed_subject(shard, "{{wildcard(1)}}")},
    }


def _bucket_config(
    names: StreamNames, name: str, replicas: int, differences: dict[str, Any]
) -> dict[str, Any]:
    bucket = names.bucket(name)
    source = f"$KV.{bucket}.>"
    return {
        **_common(f"KV_{bucket}", source, replicas),
        "max_msgs_per_subject": 1,
        "allow_msg_ttl": True,
        "republish": {"src": source, "dest": names.bucket_feed(name)},
        **differences,
    }


def _audit_config(names: StreamNames, replicas: int) -> dict[str, Any]:
    config = _common(names.audit_stream, f"{names.prefix}.audit.*", replicas)
    return {**config, "discard": "old", "max_age": 400 * _DAY}


async def _prepare(jetstream: JetStream, wanted: dict[str, Any], seconds: float) -> list[str]:
    """Create a stream, or check the existing one; return what to report."""
    name = wanted["name"]
    try:
        answer = await with_retries(lambda: jetstream.api(f"STREAM.INFO.{name}"), jetstream, seconds=seconds)
    except NatsRefused as error:
        if error.code != STREAM_NOT_FOUND:
            raise
        return await _create(jetstream, wanted, seconds)
    findings = check_stream(wanted, msgspec.json.decode(answer)["config"])
    for finding in findings:
        if finding.refused:
            raise UsageError(finding.text)
    return [finding.text for finding in findings]


async def _create(jetstream: JetStream, wanted: dict[str, Any], seconds: float) -> list[str]:
    name, replicas = wanted["name"], wanted["num_replicas"]

    async def create() -> None:
        try:
            await jetstream.api(f"STREAM.CREATE.{name}", wanted)
        except NatsRefused as error:
            if error.code == _NO_PEERS:
                raise _MissingPeers(str(error)) from None
            raise

    too_few = UsageError(
        f"the streams need {replicas} NATS servers with JetStream, and there are fewer; start them, "
        'or set "replicas": 1 in the cluster settings to accept that a lost disk loses sessions'
    )
    try:
        await with_retries(create, jetstream, seconds=seconds)
    except _MissingPeers:
        raise too_few from None
    except NatsRefused as error:
        if error.code == _NOT_CLUSTERED:
            raise too_few from None
        if error.code in _NO_STORAGE:
            raise UsageError(
                f"stream {name} with max_bytes {wanted['max_bytes']} does not fit into the storage of the "
                "NATS servers; lower logBytes in the cluster settings, or raise max_file_store there"
            ) from None
        raise
    return []


class _MissingPeers(NatsUnavailable):
    """The other servers are not known to this one; they may be about to start."""


def check_stream(wanted: dict[str, Any], found: dict[str, Any]) -> list[StreamFinding]:
    """Compare the config of an existing stream with the wanted one."""
    name = wanted["name"]
    findings = [
        StreamFinding(
            f"stream {name} {harm} ({key} is {_shown(found.get(key))}, not {_shown(wanted[key])}); "
            f"change it with `nats stream edit {name}`, or use another prefix",
            refused=True,
        )
        for key, harm in LOSING.items()
        if key in wanted and found.get(key, False if wanted[key] is False else None) != wanted[key]
    ]
    replicas = found.get("num_replicas", 1)
    if replicas < wanted["num_replicas"]:
        text = (
            f"stream {name} has {replicas} replicas, not {wanted['num_replicas']}; run `nats stream edit "
            f'{name} --replicas {wanted["num_replicas"]}`, or set "replicas": {replicas} in the settings'
        )
        findings.append(StreamFinding(text, refused=True))
    if wanted["max_bytes"] != -1 and found.get("max_bytes", -1) == -1:
        text = f"Stream {name} has no limit (max_bytes): it can fill the disk of the NATS servers."
        findings.append(StreamFinding(text, refused=False))
    return findings


def _shown(value: Any) -> str:
    return "unset" if value is None else encode(value).decode()


async def _agree_on_formats(meta: Bucket, settings: ClusterSettings) -> ClusterFormats:
    """Read the formats of the cluster, or set them. Raises UsageError if this version does not know them."""
    ours = ClusterFormats(shards=settings.shards)
    entry = await meta.get("format")
    if entry is None or entry.value is None:
        try:
            await meta.put("format", encode(ours), 0 if entry is None else entry.revision)
            return ours
        except NatsRefused as error:
            if error.code != WRONG_SEQUENCE:
                raise  # else another node was faster
    return await read_formats(meta)


async def read_formats(meta: Bucket) -> ClusterFormats:
    """Read the formats of the cluster. Raises UsageError if this version does not know them."""
    ours = ClusterFormats()
    entry = await meta.get("format")
    try:
        theirs = msgspec.json.decode(entry.value if entry and entry.value else b"", type=ClusterFormats)
    except msgspec.MsgspecError as error:
        raise UsageError(f"the key `format` of bucket {meta.name} is damaged ({error})") from None
    for name in ("log", "link", "index"):
        if getattr(theirs, name) != getattr(ours, name):
            raise UsageError(
                f"the cluster uses {name} format {getattr(theirs, name)}, and this version of Accord knows "
                f"{getattr(ours, name)}; run the same version on all nodes"
            )
    return theirs


def check_sync(monitors: Iterable[str]) -> list[str]:
    """Read `sync_interval` from the monitoring addresses; return what to report."""
    notes: list[str] = []
    for address in monitors:
        shown = shown_server(address)
        try:
            with urlopen(f"{address.rstrip('/')}/varz", timeout=_MONITOR_SECONDS) as answer:
                server = msgspec.json.decode(answer.read(_MAX_MONITOR_ANSWER))
            if not server["jetstream"]["config"].get("sync_always", False):
                notes.append(
                    f"The NATS server at {shown} does not have `sync_interval: always`: a power failure can "
                    "lose records that were shown."
                )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, msgspec.MsgspecError) as error:
            notes.append(f"Cannot read sync_interval of the NATS server at {shown} ({error}).")
    if not monitors:
        notes.append("Cannot check sync_interval of the NATS servers: the cluster settings name no monitors.")
    return notes
