"""Runs the contract of the gateway's logs against every implementation on one machine."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.gateway.book_contract import CHECKS

from accord.gateway.contracts import Book
from accord.gateway.session_log import FileBook
from accord.store import MemoryStore, SharedMemory
from accord.store.sqlite_store import SqliteStore


class LocalBackend:
    """Logs in memory or in a file."""

    def __init__(self, kind: str, folder: Path, closing: ExitStack) -> None:
        self._kind = kind
        self._path = folder / "gateway.db"
        self._memory = SharedMemory()
        self._closing = closing

    async def open(self) -> Book:
        store = MemoryStore(self._memory) if self._kind == "memory" else SqliteStore(self._path)
        self._closing.callback(store.close)
        return FileBook(store)

    async def settle(self) -> None:
        """Nothing to wait for: all books read the same store."""


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_contract(kind: str, check: str, tmp_path: Path) -> None:
    with ExitStack() as closing:
        await CHECKS[check](LocalBackend(kind, tmp_path, closing))
