"""Copies the audit log of this machine to the stream `ACC_AUDIT`, in order and without losing a line.

The local file is written first and never waits for the servers. A task sends what the stream does not have
yet, also after an outage or a restart. A file beside the log remembers how far it came. A line can be sent
twice after a crash; its hash shows that.
"""

import asyncio
import os
from contextlib import suppress
from logging import DEBUG, WARNING, getLogger
from pathlib import Path
from typing import Final

import msgspec

from accord.clock import OwnedTasks
from accord.cluster.connection import NatsRefused
from accord.cluster.jetstream import MESSAGE_ID
from accord.cluster.streams import ClusterStreams
from accord.errors import StoreError
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLink, AuditLog, AuditReader, AuditValue
from accord.private_files import private_folder, try_lock, write_atomically

LOG = getLogger("accord.cluster")

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_PAGE_LINES: Final = 256


class ClusterAudit:
    """Writes the local audit log and copies it to the cluster: `AuditSink` of the gateway."""

    def __init__(self, log: AuditLog, streams: ClusterStreams, node: str, tasks: OwnedTasks) -> None:
        self.log: AuditLog = log
        self._jetstream = streams.jetstream
        self._subject = f"{streams.names.prefix}.audit.{node}"
        self._clock = streams.jetstream.connection.clock
        self._tasks = tasks
        self._more = asyncio.Event()
        self._place_file = log.path.with_name(f"{log.path.name}.sent-{streams.names.prefix}")
        self._lock: int | None = None
        self._reading: asyncio.Future[list[tuple[AuditLink, bytes]]] | None = None
        self._reader: AuditReader | None = None
        self._unsent: list[tuple[AuditLink, bytes]] = []
        self._sender: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to copy, with what an earlier process left."""
        self._more.set()
        self._sender = self._tasks.start(self._send_lines())

    async def stop(self) -> None:
        """Stop copying. What is left is copied after the next start."""
        if self._sender is not None:
            await self._tasks.end((self._sender,))
        if self._reading is not None:  # its thread outlives a cancel, and would open the file again
            await asyncio.wait((self._reading,))
        if self._reader is not None:
            self._reader.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def record(self, rights: TokenRights | None, event: str, **values: AuditValue) -> None:
        self.log.record(rights, event, **values)
        self._more.set()

    async def _send_lines(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await self._more.wait()
            self._more.clear()
            try:
                await self._send_new_lines()
                pause = _FIRST_PAUSE
            except (StoreError, OSError) as error:
                level = WARNING if isinstance(error, NatsRefused) and pause == _FIRST_PAUSE else DEBUG
                LOG.log(level, "the audit log is copied to the cluster later: %s", error)
                self._more.set()
                await self._clock.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def _send_new_lines(self) -> None:
        if self._lock is None:
            # Gateways that share the file share its chain: one of them copies it.
            private_folder(self._place_file.parent)
            self._lock = try_lock(f"{self._place_file}.lock", create=True)
            if self._lock is None:
                raise BlockingIOError("another gateway of this machine copies it")
        if self._reader is None:
            self._reader = AuditReader(self.log.path, _read_place(self._place_file).seq)
        while self._unsent or (await self._read_page()):
            link, line = self._unsent[0]
            await self._jetstream.append(self._subject, line, {MESSAGE_ID: link.hash})
            del self._unsent[0]
            if not self._unsent:
                write_atomically(self._place_file, msgspec.json.encode(link))

    async def _read_page(self) -> bool:
        assert self._reader is not None
        self._reading = asyncio.ensure_future(asyncio.to_thread(self._reader.read, _PAGE_LINES))
        self._unsent = await asyncio.shield(self._reading)
        return bool(self._unsent)


def _read_place(path: Path) -> AuditLink:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=AuditLink)
    return AuditLink(0, "")
