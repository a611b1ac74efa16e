"""Request routing, and the small endpoints: login, tickets, health, metrics, files of the page."""

import asyncio
import gzip
import re
from collections.abc import Callable, Coroutine
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct

from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.http.acp_endpoint import AcpEndpoint
from accord.gateway.http.http_exchange import (
    Headers,
    HttpExchange,
    answer_later,
    send_error,
    send_response,
)
from accord.gateway.http.push_endpoints import PushEndpoints
from accord.gateway.http.server_state import HttpServerState
from accord.schema.codec import encode

PAGE_FOLDER: Final = Path(__file__).parent.parent / "page"

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Scripts and styles come only from our own files.

The page reads xterm.js's screen itself, because xterm.js's renderer would create style elements.
"""
DIAGRAM_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Of the frame in which the page draws diagrams: they need inline styles. It can connect to nothing."""
_DIAGRAM_FRAME: Final = "diagram.html"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

_PAGE_NOT_BUILT: Final = (
    "<!doctype html><title>Accord</title><p>This installation does not include the page. "
    "To build it, run <code>make web</code> in a checkout with Node. Everything else works.\n"
)

_CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
    ".txt": "text/plain; charset=utf-8",
}

_HASHED_NAME: Final = re.compile(r".+[-.][A-Za-z0-9_-]{8,}\.[a-z0-9]+")
"""A file name with a hash of the content in it; such a file never changes."""
_MAX_FILE_BYTES: Final = 32 * 1024 * 1024
_MAX_CACHED_FILES: Final = 256
_COMPRESSED_TYPES: Final = frozenset((".html", ".js", ".css", ".svg", ".json", ".webmanifest"))
_MIN_COMPRESSED: Final = 1024


def _accepts_gzip(header: str) -> bool:
    """Whether a client accepts gzip, by its `Accept-Encoding`."""
    for item in header.lower().split(","):
        name, _, quality = item.partition(";")
        if name.strip() in ("gzip", "*"):
            return quality.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


class HttpRoutes:
    """Routes requests to endpoints, and turns their errors into responses."""

    def __init__(self, server_state: HttpServerState) -> None:
        self._server_state = server_state
        self._acp = AcpEndpoint(server_state)
        self._api = ApiEndpoints(server_state)
        self._page = PageFiles(server_state, server_state.config.page)

    def handle(self, exchange: HttpExchange) -> None:
        """Handle a request whose head was received."""
        server_state = self._server_state
        try:
            self._route(exchange)
        except Exception as error:  # noqa: BLE001 - request boundary: other requests share the socket
            send_error(server_state, exchange, error)

    def _route(self, exchange: HttpExchange) -> None:
        path = exchange.request.path
        if exchange.request.method == "OPTIONS":
            self._server_state.authenticator.check_origin(exchange.request)
            send_response(self._server_state, exchange, 204)
        elif path == "/acp":
            self._acp.handle(exchange, None)
        elif path.startswith("/acp/"):
            self._acp.handle(exchange, path.removeprefix("/acp/"))
        elif path in self._api.paths:
            self._api.handle(exchange)
        else:
            self._page.handle(exchange)


class ApiEndpoints:
    """The endpoints beside `/acp`, one method each. They raise RequestRefused."""

    def __init__(self, server_state: HttpServerState) -> None:
        self._server_state = server_state
        push = PushEndpoints(server_state)
        self.paths: dict[str, tuple[str, Callable[[HttpExchange], None]]] = {
            "/healthz": ("GET", self._health),
            "/health": ("GET", self._health),
            "/readyz": ("GET", self._ready),
            "/metrics": ("GET", self._metrics),
            "/api/login": ("POST", self._later(self._log_in)),
            "/api/logout": ("POST", self._later(self._log_out)),
            "/api/ticket": ("POST", self._later(self._ticket)),
            "/api/push": ("POST", push.subscribe),
            "/api/push/key": ("GET", push.key),
            "/api/push/remove": ("POST", push.remove),
            "/api/push/test": ("POST", push.test),
        }

    def handle(self, exchange: HttpExchange) -> None:
        """Handle a request for one of the paths."""
        verb, handler = self.paths[exchange.request.path]
        allowed = (verb, "HEAD") if verb == "GET" else (verb,)
        if exchange.request.method not in allowed:
            raise RequestRefused(405, f"Use {verb} here.", {"Allow": ", ".join((*allowed, "OPTIONS"))})
        handler(exchange)

    def _later(
        self, handler: Callable[[HttpExchange], Coroutine[Any, Any, None]]
    ) -> Callable[[HttpExchange], None]:
        """Run a handler that changes shared state in a task."""
        return lambda exchange: answer_later(self._server_state, exchange, handler(exchange))

    def _health(self, exchange: HttpExchange) -> None:
        """Needs no token and checks no host: a probe has neither, and learns nothing."""
        self._send_health(exchange, "stopping" if self._server_state.stopping else "")

    def _ready(self, exchange: HttpExchange) -> None:
        """Whether a balancer should send clients here. Like `_health`, it needs no token."""
        stopping = "stopping" if self._server_state.stopping else ""
        self._send_health(exchange, stopping or self._server_state.metrics.unready())

    def _send_health(self, exchange: HttpExchange, trouble: str) -> None:
        body = f"{trouble or 'ok'}\n".encode()
        send_response(
            self._server_state, exchange, 503 if trouble else 200, body, "text/plain; charset=utf-8"
        )

    def _metrics(self, exchange: HttpExchange) -> None:
        self._server_state.authenticate_user(exchange)
        send_response(
            self._server_state, exchange, 200, self._server_state.metrics.text().encode(), _PROMETHEUS
        )

    async def _log_in(self, exchange: HttpExchange) -> None:
        _, cookie = await self._server_state.authenticator.log_in(exchange.request)
        self._server_state.trust_socket(exchange.socket)
        send_response(self._server_state, exchange, 204, headers=[("Set-Cookie", cookie)])

    async def _log_out(self, exchange: HttpExchange) -> None:
        cookie = await self._server_state.authenticator.log_out(exchange.request)
        send_response(self._server_state, exchange, 204, headers=[("Set-Cookie", cookie)])

    async def _ticket(self, exchange: HttpExchange) -> None:
        ticket = await self._server_state.authenticator.issue_ticket(exchange.request)
        self._server_state.trust_socket(exchange.socket)
        send_response(self._server_state, exchange, 200, encode({"ticket": ticket}), "application/json")


class _File(Struct):
    version: tuple[int, int]
    body: bytes
    etag: str
    compressed: bytes = b""
    """Made when a client asks for it first; empty before."""

    @property
    def compressed_etag(self) -> str:
        return f'{self.etag[:-1]}-gzip"'


class PageFiles:
    """Serves the page's files from one folder; reads a file again when it has changed.

    They contain no secret, so they need no token. Only Host and Origin are checked.
    """

    def __init__(self, server_state: HttpServerState, folder: Path | None) -> None:
        self._server_state = server_state
        self._folder = (folder or PAGE_FOLDER).resolve()
        self._files: dict[Path, _File] = {}

    def handle(self, exchange: HttpExchange) -> None:
        """Handle one request. Raises RequestRefused."""
        request = exchange.request
        if request.method not in ("GET", "HEAD"):
            raise RequestRefused(405, "Use GET here.", {"Allow": "GET, HEAD"})
        name = request.path.removeprefix("/") or "index.html"
        is_asset = name.startswith("assets/")
        self._server_state.authenticator.check_origin(request, allow_sandbox=is_asset)
        path = self._path(name)
        file = self._read(path) if path is not None else None
        if path is None or file is None:
            if name == "index.html":
                self._answer(exchange, 200, _PAGE_NOT_BUILT.encode(), _CONTENT_TYPES[".html"], [])
                return
            raise RequestRefused(404, "Page not found.")
        is_hashed = is_asset and _HASHED_NAME.fullmatch(path.name)
        cache_control = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
        headers = [("Cache-Control", cache_control), ("Vary", "Accept-Encoding")]
        if is_asset:
            headers.append(("Access-Control-Allow-Origin", "*"))  # the frame of the diagrams has no origin
        compresses = path.suffix in _COMPRESSED_TYPES and len(file.body) >= _MIN_COMPRESSED
        compresses = compresses and _accepts_gzip(request.header("accept-encoding") or "")
        etag = file.compressed_etag if compresses else file.etag
        headers.append(("ETag", etag))
        kind = _CONTENT_TYPES.get(path.suffix, "application/octet-stream")
        if etag in [tag.strip() for tag in (request.header("if-none-match") or "").split(",")]:
            self._answer(exchange, 304, b"", None, headers)
        elif not compresses:
            self._answer(exchange, 200, file.body, kind, headers)
        elif file.compressed:
            self._answer(exchange, 200, file.compressed, kind, [*headers, ("Content-Encoding", "gzip")])
        else:
            answer = self._compress_and_answer(exchange, file, kind, headers)
            answer_later(self._server_state, exchange, answer)

    async def _compress_and_answer(
        self, exchange: HttpExchange, file: _File, kind: str, headers: Headers
    ) -> None:
        """Compress the file in a thread: a large one takes longer than the loop may be blocked."""
        file.compressed = await asyncio.to_thread(gzip.compress, file.body, mtime=0)
        self._answer(exchange, 200, file.compressed, kind, [*headers, ("Content-Encoding", "gzip")])

    def _answer(
        self, exchange: HttpExchange, status: int, body: bytes, kind: str | None, headers: Headers
    ) -> None:
        is_frame = exchange.request.path == f"/{_DIAGRAM_FRAME}"
        page_headers = [
            ("Content-Security-Policy", DIAGRAM_POLICY if is_frame else CONTENT_SECURITY_POLICY),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Permissions-Policy", "camera=(), microphone=(), geolocation=()"),
            *headers,
        ]
        send_response(self._server_state, exchange, status, body, kind, page_headers)

    def _path(self, name: str) -> Path | None:
        """Return the file in the folder; None for a path outside of it, with symlinks resolved."""
        parts = PurePosixPath(name).parts
        if not parts or any(part in ("..", "/") or part.startswith(".") or "\\" in part for part in parts):
            return None
        try:
            path = self._folder.joinpath(*parts).resolve()
        except (OSError, ValueError, RuntimeError):
            return None
        return path if path.is_relative_to(self._folder) else None

    def _read(self, path: Path) -> _File | None:
        try:
            stat = path.stat()
            version = stat.st_mtime_ns, stat.st_size
            cached = self._files.get(path)
            if cached is not None and cached.version == version:
                return cached
            if not path.is_file() or stat.st_size > _MAX_FILE_BYTES:
                return None
            body = path.read_bytes()
        except (OSError, ValueError):
            return None
        if len(self._files) >= _MAX_CACHED_FILES:
            self._files.clear()
        file = self._files[path] = _File(version, body, f'"{sha256(body).hexdigest()[:32]}"')
        return file
