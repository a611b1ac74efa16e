"""The files below a folder, in order, without those that git ignores and without git's own."""

import asyncio
import os
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from accord.clock import Clock, within
from accord.errors import MissingExtra

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """A file or folder below the one that was walked through."""

    path: str
    """Relative, with slashes."""
    status: os.stat_result
    """Of itself, where it is a link."""

    @property
    def is_folder(self) -> bool:
        """Whether others may be below it."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a plain file."""
        return stat.S_ISREG(self.status.st_mode)


def walk(folder: str, stop: threading.Event, *, depth: int | None = None) -> Iterator[Found]:
    """Everything below the folder that git would look at, hidden files included; links are not followed.

    Blocking, for a thread; ends early once `stop` is set. Names that are no valid text are left out.
    """
    try:
        import rignore
    except ImportError:
        raise MissingExtra("agent", "looking through folders") from None

    entries = iter(
        rignore.walk(
            Path(folder),
            ignore_hidden=False,
            require_git=False,
            follow_links=False,
            overrides=["!.git"],
            max_depth=depth,
        )
    )
    while not stop.is_set():
        try:
            path = str(next(entries))
        except StopIteration:
            return
        except (ValueError, OSError):
            continue  # a name that is no text, or a folder that may not be entered
        relative = os.path.relpath(path, folder)
        if relative == os.curdir:
            continue
        try:
            yield Found(relative.replace(os.sep, "/"), os.lstat(path))
        except OSError:
            continue  # gone in the meantime


async def in_time(work: Callable[[threading.Event], T], seconds: float, clock: Clock) -> tuple[T, bool]:
    """Do the work in a thread. When the time is over, or nobody waits any more, it is told to stop by the event it was
    given; what it has by then is its result. Also says whether it came to its end."""
    stop = threading.Event()
    running = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        complete = await within(clock, seconds, running)
        stop.set()
        return await running, complete
    finally:
        stop.set()
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
