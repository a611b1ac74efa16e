"""Importing the `mcp` package, which takes most of a second: in a thread, once, while the agent already answers."""

import asyncio
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Final

from accord.coder.heavy import IMPORTING
from accord.errors import MissingExtra

if TYPE_CHECKING:
    from accord.coder.mcp.live import link

_LINK: Final = "accord.coder.mcp.live.link"


class _Load:
    """The import in the background, and who waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._done = False
        self._failure: Exception | None = None
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def begin(self) -> None:
        with self._lock:
            if self._begun:
                return
            self._begun = True
        threading.Thread(target=self._run, name="accord-preload-mcp", daemon=True).start()

    def _run(self) -> None:
        try:
            with IMPORTING:
                import_module(_LINK)
        except Exception as error:  # noqa: BLE001  (the top of a thread: told to whoever waits)
            self._failure = error
        with self._lock:
            self._done = True
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            try:
                loop.call_soon_threadsafe(_settle, future)
            except RuntimeError:
                continue  # that loop is closed

    async def wait(self) -> None:
        self.begin()
        future: asyncio.Future[None] | None = None
        with self._lock:
            if not self._done:
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiting.append((loop, future))
        if future is not None:
            await future
        if isinstance(self._failure, ImportError) and not (self._failure.name or "").startswith("accord."):
            raise MissingExtra("mcp", "speaking to MCP servers") from self._failure
        if self._failure is not None:
            raise self._failure


_LOAD: Final = _Load()


def preload_in_background() -> None:
    """Begin to import, if nobody has. The thread never holds up the end of the program."""
    _LOAD.begin()


async def loaded() -> None:
    """Return when everything is imported. Raises MissingExtra."""
    await _LOAD.wait()


async def live_link() -> "type[link.Link]":
    """The connection to a server, once it can be used."""
    await _LOAD.wait()
    from accord.coder.mcp.live.link import Link

    return Link


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
