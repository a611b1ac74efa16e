"""Changes of files that were canceled before a thread began them are not done."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from accord.coder.files.exact_disk import ExactDisk, resolve_path
from accord.testing.fake_clock import settle


def remove(disk: ExactDisk, folder: Path) -> Awaitable[None]:
    return disk.remove(resolve_path("a.txt", str(folder)))


def move(disk: ExactDisk, folder: Path) -> Awaitable[None]:
    return disk.move(resolve_path("a.txt", str(folder)), resolve_path("new/b.txt", str(folder)))


def write(disk: ExactDisk, folder: Path) -> Awaitable[None]:
    return disk.write(resolve_path("new/b.txt", str(folder)), b"x", None)


def make_folder(disk: ExactDisk, folder: Path) -> Awaitable[None]:
    return disk.make_folder(resolve_path("new/b.txt", str(folder)))


@pytest.mark.parametrize("change", [remove, move, write, make_folder])
async def test_a_canceled_change_that_waits_for_a_thread_is_not_done(
    change: Callable[[ExactDisk, Path], Awaitable[None]], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("a")
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    free = threading.Event()
    busy = loop.run_in_executor(None, free.wait)
    changing = asyncio.ensure_future(change(ExactDisk(), tmp_path))
    await settle()
    changing.cancel()
    await asyncio.wait((changing,))
    free.set()
    await busy
    await loop.run_in_executor(None, int)  # after the change had its turn
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
