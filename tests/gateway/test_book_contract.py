"""Runs the contract of the gateway's logs against every implementation on one machine."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.gateway.book_contract import CHECKS, new_log, rest

from accord.gateway.contracts import Book
from accord.gateway.session_log import FileBook
from accord.schema import Diff, ToolCall
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


async def test_other_tasks_run_between_large_records_of_a_log(tmp_path: Path) -> None:
    """A record of half a megabyte takes about a millisecond, so only a few are read without a pause."""
    with ExitStack() as closing:
        book = await LocalBackend("sqlite", tmp_path, closing).open()
        log = await new_log(book)
        text = "a line of some length\n" * 25_000
        log.append(*(ToolCall(f"c{number}", "Write", content=[Diff("/a", text)]) for number in range(40)))
        steps = 0

        async def count() -> None:
            nonlocal steps
            while True:
                steps += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        try:
            assert len(await rest(log.reader())) == 40
        finally:
            counting.cancel()
        assert steps > 5, f"the log was read in {steps} steps"
