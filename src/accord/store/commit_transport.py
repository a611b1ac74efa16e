"""A transport that holds frames back until the log is committed.

It wraps the transport of a connection. Frames sent while the store is dirty wait until the event loop runs
its next callbacks; one commit covers all of them. Frames are sent immediately while the store has nothing to
commit.
"""

import asyncio
from logging import getLogger
from typing import Final, Protocol

from accord.errors import StoreError
from accord.wire.transport import Receiver, Transport

LOG = getLogger("accord.store")

HELD_BYTES: Final[int] = 64 * 1024
"""Held frames are committed and sent at once when they exceed this size."""


class CommitSource(Protocol):
    """The part of a store that a `CommitTransport` uses."""

    @property
    def dirty(self) -> bool: ...

    def commit(self) -> None: ...


class CommitTransport:
    """Sends frames after the commit of everything logged before them.

    If a commit fails, the frames are sent anyway. The failure is logged, and the next append raises it.
    """

    def __init__(self, transport: Transport, store: CommitSource) -> None:
        self._transport = transport
        self._store = store
        self._held: list[bytes] = []
        self._size = 0

    def start(self, receiver: Receiver) -> None:
        self._transport.start(receiver)

    def send(self, frame: bytes) -> None:
        if self._held:
            self._hold(frame)
        elif self._store.dirty:
            self._hold(frame)
            asyncio.get_running_loop().call_soon(self._flush)
        else:
            self._transport.send(frame)

    @property
    def unsent(self) -> int:
        return self._transport.unsent + self._size

    async def drain(self) -> None:
        self._flush()
        await self._transport.drain()

    def pause(self) -> None:
        self._transport.pause()

    def resume(self) -> None:
        self._transport.resume()

    async def aclose(self) -> None:
        self._flush()
        await self._transport.aclose()

    def _hold(self, frame: bytes) -> None:
        self._held.append(frame)
        self._size += len(frame)
        if self._size > HELD_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        try:
            self._store.commit()
        except StoreError as error:
            LOG.error("%s", error)
        held, self._held, self._size = self._held, [], 0
        for frame in held:
            self._transport.send(frame)
