"""Imports httpx2 and mcp in background threads, each once, while the agent already answers."""

import asyncio
import threading
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from accord.coder.models.model_name import Kind
from accord.errors import MissingExtra

if TYPE_CHECKING:
    from accord.coder.mcp.server_connection import ServerConnection

IMPORT_LOCK: Final[threading.Lock] = threading.Lock()
"""Held during each import: the libraries share modules that import each other in circles, and a second thread
in such a circle would get a module that is only partly loaded."""

_FORMAT_MODULES: Final[dict[Kind, str]] = {
    "openai-responses": "accord.coder.models.openai_responses",
    "openai-chat": "accord.coder.models.openai_chat",
    "anthropic": "accord.coder.models.anthropic_messages",
    "google": "accord.coder.models.gemini",
}
_PROVIDER_REQUEST: Final = "accord.coder.models.provider_request"
_MCP_CONNECTION: Final = "accord.coder.mcp.server_connection"


def preload_provider(kind: Kind) -> None:
    """Import everything that the first request to such a server needs. Raises MissingExtra."""
    try:
        for module in (_PROVIDER_REQUEST, _FORMAT_MODULES[kind]):
            import_module(module)
    except ImportError as error:
        raise _missing_extra(error, "agent", f"speaking to models ({kind})") from None


def preload_provider_in_background(kind: Kind) -> None:
    """Start the import unless it has started. The thread does not delay the end of the program."""
    if kind not in _PROVIDER_IMPORTS:
        _PROVIDER_IMPORTS[kind] = _BackgroundImport(f"accord-preload-{kind}", lambda: _load_provider(kind))
    _PROVIDER_IMPORTS[kind].start()


async def provider_loaded(kind: Kind) -> None:
    """Wait until everything is imported. Raises MissingExtra."""
    preload_provider_in_background(kind)
    await _PROVIDER_IMPORTS[kind].wait()


def preload_mcp_in_background() -> None:
    """Start the import unless it has started. The thread does not delay the end of the program."""
    _MCP_IMPORT.start()


async def mcp_loaded() -> None:
    """Wait until everything is imported. Raises MissingExtra."""
    await _MCP_IMPORT.wait()


async def server_connection_type() -> "type[ServerConnection]":
    """The class `ServerConnection`, once its module is imported. Raises MissingExtra."""
    await mcp_loaded()
    from accord.coder.mcp.server_connection import ServerConnection

    return ServerConnection


class _BackgroundImport:
    """One import in a thread. Any number of event loops can wait for its end."""

    def __init__(self, thread_name: str, load: Callable[[], None]) -> None:
        self._thread_name = thread_name
        self._load = load
        self._lock = threading.Lock()
        self._started = False
        self._done = False
        self._failure: Exception | None = None
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def start(self) -> None:
        with self._lock:
            if self._started:
                return
            self._started = True
        threading.Thread(target=self._run, name=self._thread_name, daemon=True).start()

    async def wait(self) -> None:
        self.start()
        future: asyncio.Future[None] | None = None
        with self._lock:
            if not self._done:
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiters.append((loop, future))
        if future is not None:
            await future
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with IMPORT_LOCK:
                self._load()
        except Exception as error:  # noqa: BLE001 - the top of a thread: raised in `wait`
            self._failure = error
        with self._lock:
            self._done = True
            waiters, self._waiters = self._waiters, []
        for loop, future in waiters:
            try:
                loop.call_soon_threadsafe(_finish, future)
            except RuntimeError:
                continue  # that loop is closed


def _load_provider(kind: Kind) -> None:
    preload_provider(kind)
    import_module(_PROVIDER_REQUEST).ssl_context()


def _load_mcp() -> None:
    try:
        import_module(_MCP_CONNECTION)
    except ImportError as error:
        raise _missing_extra(error, "mcp", "speaking to MCP servers") from error


def _missing_extra(error: ImportError, extra: str, purpose: str) -> Exception:
    """The error to raise: a module of our own that cannot be imported is a defect, not a missing extra."""
    return error if (error.name or "").startswith("accord.") else MissingExtra(extra, purpose)


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


_PROVIDER_IMPORTS: Final[dict[Kind, _BackgroundImport]] = {}
_MCP_IMPORT: Final = _BackgroundImport("accord-preload-mcp", _load_mcp)
