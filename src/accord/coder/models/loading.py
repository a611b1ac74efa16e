"""Importing the provider libraries, which takes a second or more: in a thread, once, while the agent already answers."""

import asyncio
import threading
from importlib import import_module
from typing import Final

from accord.coder.heavy import IMPORTING
from accord.coder.models.config import Kind
from accord.errors import MissingExtra

_MODULES: Final[dict[Kind, str]] = {
    "openai-responses": "pydantic_ai.models.openai",
    "openai-chat": "pydantic_ai.models.openai",
    "anthropic": "pydantic_ai.models.anthropic",
    "google": "pydantic_ai.models.google",
}
_ADAPTER: Final = "accord.coder.models.live.asking"
_WARMING: Final = "accord.coder.models.live.warming"


def preload(kind: Kind) -> None:
    """Import everything that the first request to such a server needs. Raises MissingExtra."""
    try:
        for module in (_MODULES[kind], _ADAPTER):
            import_module(module)
    except ImportError as error:
        if (error.name or "").startswith("accord."):
            raise
        raise MissingExtra("agent", f"speaking to models ({kind})") from None


class _Load:
    """One import in the background."""

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self._done = threading.Event()
        self._failure: Exception | None = None
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name=f"accord-preload-{kind}", daemon=True).start()

    def _run(self) -> None:
        try:
            with IMPORTING:
                preload(self._kind)
                import_module(_WARMING).warm(self._kind)
        except Exception as error:  # noqa: BLE001  (the top of a thread: told to whoever waits)
            self._failure = error
        with self._lock:
            self._done.set()
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            try:
                loop.call_soon_threadsafe(_settle, future)
            except RuntimeError:
                continue  # that loop is closed

    async def wait(self) -> None:
        with self._lock:
            future: asyncio.Future[None] | None = None
            if not self._done.is_set():
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiting.append((loop, future))
        if future is not None:
            await future
        if self._failure is not None:
            raise self._failure


_LOADS: Final[dict[Kind, _Load]] = {}


def preload_in_background(kind: Kind) -> None:
    """Begin to import, if nobody has. The thread never holds up the end of the program."""
    if kind not in _LOADS:
        _LOADS[kind] = _Load(kind)


async def loaded(kind: Kind) -> None:
    """Return when everything is imported. Raises MissingExtra."""
    preload_in_background(kind)
    await _LOADS[kind].wait()


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
