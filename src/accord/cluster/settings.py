"""The settings of a cluster node: the object `cluster` of `serve.json`, and `--cluster`."""

import re
import socket
from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from accord.errors import UsageError

DEFAULT_PREFIX: Final = "acc"
_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z"
_SCHEMES: Final = ("nats", "tls", "ws", "wss")
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")

SubjectToken = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,128}\Z")]
"""A part of a NATS subject that another node has chosen: no wildcard, no dot, no space, no end of line."""
NodeName = Annotated[str, Meta(pattern=_NAME)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]


class LeaseTimes(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The times of a node's lease, in seconds. All nodes of a cluster use the same."""

    renew: Seconds = 3.0
    """Between renewals."""
    deadline: Seconds = 15.0
    """A node that could not renew for this long stops its agents."""
    lease: Seconds = 20.0
    """Another node takes over after this long without a renewal."""

    @property
    def silence(self) -> float:
        """A node without a renewal for this long gets no new clients, and is shown as lost."""
        return self.renew * 2 + 1


class ClusterSettings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """How this gateway takes part in a cluster."""

    node: NodeName | None = None
    """The stable name of this node; by default the host name."""
    front: bool = False
    """Serve the agents of other nodes, and none of this machine."""
    servers: tuple[str, ...] = ()
    """Addresses of NATS servers; without any, a child process is started."""
    leaf: Annotated[str, Meta(pattern=_NAME)] | None = None
    """The JetStream domain of a hub: `servers` are its ports for leaf nodes, and this machine dials out."""
    prefix: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9]{0,15}$")] = DEFAULT_PREFIX
    """Begins the names of all streams, buckets and subjects: one prefix per set of sessions."""
    replicas: Literal[1, 3, 5] | None = None
    """How many NATS servers keep each record; by default 3, and 1 with the child server."""
    shards: Annotated[int, Meta(ge=1, le=64)] = 16
    """How many streams hold session logs. Read only when the streams are created."""
    log_bytes: Annotated[int, Meta(ge=10_000)] = 1024**3
    """The limit of each log stream. A full stream refuses records; it never drops any. Read only when the
    streams are created."""
    monitors: tuple[str, ...] = ()
    """The monitoring addresses of the NATS servers, to check their `sync_interval`."""
    credentials: str | None = None
    """A `.creds` file. It needs `pip install nats-py[nkeys]`."""
    user: str | None = None
    """The name of this node's user at the NATS servers."""
    password_file: str | None = None
    """The file with the password of `user`."""
    tls_ca: str | None = None
    """A PEM file: the authority of the servers; by default those of the system."""
    tls_cert: str | None = None
    """A PEM file: the certificate of this node, for servers that want one."""
    tls_key: str | None = None
    """A PEM file: the key of this certificate."""
    insecure: bool = False
    """Allow servers on other machines without TLS."""
    times: LeaseTimes = LeaseTimes()
    """The [times](#clustertimes) of a lease."""
    volumes: dict[NodeName, str] = {}
    """Folders that several nodes have at the same path, by the name of the volume."""
    homes: dict[str, NodeName] = {}
    """By agent: the name of its own session store. Nodes that share the store use the same name."""
    labels: dict[str, str] = {}
    """Shown with the node, for operators."""

    @property
    def node_name(self) -> str:
        """The name of this node: `node`, or made of the host name."""
        if self.node is not None:
            return self.node
        name = "".join(char if char.isalnum() and char.isascii() else "-" for char in socket.gethostname())
        return name.strip("-")[:63] or "node"

    def checked(self) -> "ClusterSettings":
        """Check what the types cannot say. Raises UsageError."""
        for server in self.servers:
            check_server(server)
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError("cluster: tlsCert and tlsKey need each other")
        if (self.user is None) != (self.password_file is None):
            raise UsageError("cluster: user and passwordFile need each other")
        if self.front and not self.servers:
            raise UsageError("cluster: a front needs the NATS servers of other nodes; name them as servers")
        if self.leaf is not None and not self.servers:
            raise UsageError("cluster: leaf needs the leaf node ports of the hub; name them as servers")
        if self.leaf is not None and self.node is not None:
            check_leaf_name(self.node)
        times = self.times
        if not times.renew * 2 < times.deadline < times.lease:
            raise UsageError(
                f"cluster: the times must satisfy 2 x renew < deadline < lease, not {times.renew:g}, "
                f"{times.deadline:g}, {times.lease:g}"
            )
        return self

    @property
    def uses_tls(self) -> bool:
        """Whether the connection must be encrypted.

        Always, but on this machine or with `insecure`; and also there if an address or a file says so.
        """
        if self.tls_ca is not None or self.tls_cert is not None:
            return True
        if any(urlsplit(server).scheme in ("tls", "wss") for server in self.servers):
            return True
        return not self.insecure and not all(is_local(server) for server in self.servers)


def check_leaf_name(node: str) -> None:
    """Raise UsageError for a name that is one of a log stream: a leaf node has a stream of its own."""
    if node.isdigit():
        raise UsageError(f"cluster: the name {node!r} of a leaf node needs a letter")


def check_server(server: str) -> None:
    """Raise UsageError unless this is the address of a NATS server. Shows no password."""
    try:
        parts = urlsplit(server)
        valid = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        shown = shown_server(server)
        raise UsageError(f"--cluster {shown!r} is not an address of a NATS server; use nats://HOST:PORT")


def shown_server(server: str) -> str:
    """The address without user and password."""
    return re.sub(r"(?<=://)[^/@]*@", "", server)


def is_local(server: str) -> bool:
    """Whether an address is on this machine."""
    return urlsplit(server).hostname in _LOOPBACK


def read_cluster_settings(value: object, where: str) -> ClusterSettings:
    """The settings of a JSON object. Raises UsageError, which names the file and the member."""
    node: Any = cast("dict[str, Any]", value).get("node") if isinstance(value, dict) else None
    if isinstance(node, str) and re.match(_NAME, node) is None:
        raise UsageError(
            f"{node!r} is no name for a node of a cluster; use letters, digits, - and _, at most 63, and a "
            "letter or digit first"
        )
    try:
        return msgspec.convert(value, ClusterSettings).checked()
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: cluster: {error}") from None
