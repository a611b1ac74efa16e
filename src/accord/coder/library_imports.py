"""Imports pydantic-ai and mcp in a background thread, once, under one lock."""

import asyncio
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Final

from accord.coder.user_config import Kind
from accord.errors import MissingExtra

if TYPE_CHECKING:
    from accord.coder.mcp.server_connection import ServerConnection


# MERGED coder.heavy: The lock under which large libraries are imported in threads.
#
# Several of them share parts that import each other in circles. Two threads in such a circle would get half of a module.

IMPORTING: Final = threading.Lock()


# MERGED coder.models.loading: Importing the provider libraries, which takes a second or more: in a thread, once, while the agent already answers.

_MODULES: Final[dict[Kind, str]] = {
    "openai-responses": "pydantic_ai.models.openai",
    "openai-chat": "pydantic_ai.models.openai",
    "anthropic": "pydantic_ai.models.anthropic",
    "google": "pydantic_ai.models.google",
}
_ADAPTER: Final = "accord.coder.models.provider_request"
_WARMING: Final = "accord.coder.models.provider_connection"


def preload_provider(kind: Kind) -> None:
    """Import everything that the first request to such a server needs. Raises MissingExtra."""
    try:
        for module in (_MODULES[kind], _ADAPTER):
            import_module(module)
    except ImportError as error:
        if (error.name or "").startswith("accord."):
            raise
        raise MissingExtra("agent", f"speaking to models ({kind})") from None


class _ProviderLoad:
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
                preload_provider(self._kind)
                import_module(_WARMING).warm_up(self._kind)
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


_LOADS: Final[dict[Kind, _ProviderLoad]] = {}


def preload_provider_in_background(kind: Kind) -> None:
    """Begin to import, if nobody has. The thread never holds up the end of the program."""
    if kind not in _LOADS:
        _LOADS[kind] = _ProviderLoad(kind)


async def provider_loaded(kind: Kind) -> None:
    """Return when everything is imported. Raises MissingExtra."""
    preload_provider_in_background(kind)
    await _LOADS[kind].wait()


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


# MERGED coder.mcp.loading: Importing the `mcp` package, which takes most of a second: in a thread, once, while the agent already answers.

_MCP_MODULE: Final = "accord.coder.mcp.server_connection"


class _McpLoad:
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
                import_module(_MCP_MODULE)
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


_MCP_LOAD: Final = _McpLoad()


def preload_mcp_in_background() -> None:
    """Begin to import, if nobody has. The thread never holds up the end of the program."""
    _MCP_LOAD.begin()


async def mcp_loaded() -> None:
    """Return when everything is imported. Raises MissingExtra."""
    await _MCP_LOAD.wait()


async def server_connection_type() -> "type[ServerConnection]":
    """The connection to a server, once it can be used."""
    await _MCP_LOAD.wait()
    from accord.coder.mcp.server_connection import ServerConnection

    return ServerConnection
