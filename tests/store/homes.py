"""The homes of the store contract: one for each implementation."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.store.store_contract import Hands, Home

from accord.store import MemoryStore, Shelf, Store
from accord.store.sqlite import SqliteStore


class MemoryHome:
    def __init__(self, closing: ExitStack) -> None:
        self.hands = Hands()
        self._shelf = Shelf()
        self._closing = closing

    def open(self) -> Store:
        store = MemoryStore(self._shelf, now=self.hands.now)
        self._closing.callback(store.close)
        return store


class SqliteHome:
    def __init__(self, path: Path, closing: ExitStack) -> None:
        self.hands = Hands()
        self.path = path
        self._closing = closing

    def open(self) -> SqliteStore:
        return self._closing.enter_context(SqliteStore(self.path, now=self.hands.now))


@contextmanager
def home_of(kind: str, folder: Path) -> Generator[Home]:
    with ExitStack() as closing:
        yield MemoryHome(closing) if kind == "memory" else SqliteHome(folder / "sessions.db", closing)


HOMES = ("memory", "sqlite")
