"""The page's files, out of one folder. They hold no secret, so that they need no token; only the host and the asking page count."""

import re
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

from accord.gateway.access.refusals import Refused
from accord.gateway.front.exchange import Exchange, Headers
from accord.gateway.front.premises import Premises
from accord.gateway.front.reply import answer

FOLDER: Final = Path(__file__).parent.parent / "page"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Scripts and styles only from our own files; the page reads off xterm.js's screen instead of letting it make style elements."""
_MISSING: Final = (
    "<!doctype html><title>Accord</title><p>The page is not part of this installation: "
    "<code>make web</code> builds it from a checkout with Node. The gateway itself works.\n"
)
_KINDS: Final = {
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
_HASHED: Final = re.compile(r".+[-.][A-Za-z0-9_-]{8,}\.[a-z0-9]+")
"""A name with the hash of its content in it never changes its content."""
_LARGEST: Final = 32 * 1024 * 1024
_HELD: Final = 256


class _File(Struct, frozen=True):
    stamp: tuple[int, int]
    body: bytes
    tag: str


class Page:
    """Serves the files; each is read again when it has changed."""

    def __init__(self, premises: Premises, folder: Path | None) -> None:
        self._premises = premises
        self._folder = (folder or FOLDER).resolve()
        self._files: dict[Path, _File] = {}

    def handle(self, exchange: Exchange) -> None:
        """One request. Raises Refused."""
        request = exchange.request
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "Use GET here.", {"Allow": "GET, HEAD"})
        self._premises.door.check(request)
        name = request.path.removeprefix("/") or "index.html"
        path = self._path(name)
        file = self._read(path) if path is not None else None
        if path is None or file is None:
            if name == "index.html":
                self._answer(exchange, 200, _MISSING.encode(), _KINDS[".html"], [])
                return
            raise Refused(404, "There is no such page here.")
        hashed = name.startswith("assets/") and _HASHED.fullmatch(path.name)
        caching = "public, max-age=31536000, immutable" if hashed else "no-cache"
        headers = [("Cache-Control", caching), ("ETag", file.tag)]
        if file.tag in [tag.strip() for tag in (request.header("if-none-match") or "").split(",")]:
            self._answer(exchange, 304, b"", None, headers)
        else:
            self._answer(
                exchange, 200, file.body, _KINDS.get(path.suffix, "application/octet-stream"), headers
            )

    def _answer(
        self, exchange: Exchange, status: int, body: bytes, kind: str | None, headers: Headers
    ) -> None:
        own = [
            ("Content-Security-Policy", POLICY),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Permissions-Policy", "camera=(), microphone=(), geolocation=()"),
            *headers,
        ]
        answer(self._premises, exchange, status, body, kind, own)

    def _path(self, name: str) -> Path | None:
        """The file in the folder, never one outside of it, links followed."""
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
            facts = path.stat()
            stamp = facts.st_mtime_ns, facts.st_size
            known = self._files.get(path)
            if known is not None and known.stamp == stamp:
                return known
            if not path.is_file() or facts.st_size > _LARGEST:
                return None
            body = path.read_bytes()
        except (OSError, ValueError):
            return None
        if len(self._files) >= _HELD:
            self._files.clear()
        file = self._files[path] = _File(stamp, body, f'"{sha256(body).hexdigest()[:32]}"')
        return file
