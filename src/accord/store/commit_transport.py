"""Log first, then tell: a transport that lets frames go only once what was logged before them is committed.

It wraps the transport of a connection. Frames sent while the store is dirty wait for the end of that turn of the event loop;
then there is one commit for all of them. While nothing was logged, frames pass straight through.
"""

import asyncio
from logging import getLogger
from typing import Final, Protocol

from accord.errors import StoreError
from accord.wire.transport import Receiver, Transport

LOG = getLogger("accord.store")

HELD: Final = 64 * 1024
"""A turn that sends more bytes than this is committed, and let go, in the middle."""


class CommitSource(Protocol):
    """What of a store matters here."""

    @property
    def dirty(self) -> bool: ...

    def commit(self) -> None: ...


class CommitTransport:
    """A transport behind a store. If a commit fails, frames go out all the same, lest nobody hears of it: the failure is logged,
    and raised where the next record is appended.
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
            asyncio.get_running_loop().call_soon(self._let_go)
        else:
            self._transport.send(frame)

    @property
    def unsent(self) -> int:
        return self._transport.unsent + self._size

    async def drain(self) -> None:
        self._let_go()
        await self._transport.drain()

    def pause(self) -> None:
        self._transport.pause()

    def resume(self) -> None:
        self._transport.resume()

    async def aclose(self) -> None:
        self._let_go()
        await self._transport.aclose()

    def _hold(self, frame: bytes) -> None:
        self._held.append(frame)
        self._size += len(frame)
        if self._size > HELD:
            self._let_go()

    def _let_go(self) -> None:
        if not self._held:
            return
        try:
            self._store.commit()
        except StoreError as error:
            LOG.error("%s", error)
        held, self._held, self._size = self._held, [], 0
        for frame in held:
            self._transport.send(frame)
