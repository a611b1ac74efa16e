"""The files below a folder, in order, without those that git ignores and without git's own."""

import asyncio
import os
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from accord.clock import Clock, within
from accord.errors import MissingExtra
from accord.workspace.finding import git_paths

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
        for path in git_paths(folder, depth):
            if stop.is_set():
                return
            try:
                yield Found(path.replace(os.sep, "/"), os.lstat(os.path.join(folder, path)))
            except OSError:
                continue  # gone in the meantime
    except ImportError:
        raise MissingExtra("agent", "looking through folders") from None


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
