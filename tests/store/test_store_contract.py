"""Runs the store contract against every implementation."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.store.store_contract import CHECKS, ManualClock, StoreBackend

from accord.store import MemoryStore, SharedMemory, Store
from accord.store.sqlite_store import SqliteStore

KINDS = ("memory", "sqlite")


class MemoryBackend:
    def __init__(self, closing: ExitStack) -> None:
        self.clock = ManualClock()
        self._memory = SharedMemory()
        self._closing = closing

    def open(self) -> Store:
        store = MemoryStore(self._memory, now=self.clock.now)
        self._closing.callback(store.close)
        return store


class SqliteBackend:
    def __init__(self, path: Path, closing: ExitStack) -> None:
        self.clock = ManualClock()
        self.path = path
        self._closing = closing

    def open(self) -> SqliteStore:
        return self._closing.enter_context(SqliteStore(self.path, now=self.clock.now))


@contextmanager
def store_backend(kind: str, folder: Path) -> Generator[StoreBackend]:
    with ExitStack() as closing:
        yield MemoryBackend(closing) if kind == "memory" else SqliteBackend(folder / "sessions.db", closing)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", KINDS)
async def test_contract(kind: str, check: str, tmp_path: Path) -> None:
    with store_backend(kind, tmp_path) as backend:
        result = CHECKS[check](backend)
        if result is not None:
            await result
