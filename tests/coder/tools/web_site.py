"""A web server with handwritten responses."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Site:
    """A server with handwritten responses."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Serve] = {}
        self.asked: list[bytes] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def page(self, path: str, body: bytes | str, kind: str = "text/html", **more: Any) -> None:
        data = body if isinstance(body, bytes) else body.encode()
        headers = {"content-type": kind, "content-length": str(len(data)), **more}
        self.pages[path] = self.head(200, **headers) + data

    @staticmethod
    def head(status: int, **headers: str) -> bytes:
        lines = [
            f"HTTP/1.1 {status} OK",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        return "\r\n".join((*lines, "", "")).encode()

    def redirect(self, path: str, to: str) -> None:
        self.pages[path] = self.head(302, location=to, content_length="0")

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            if length := re.search(rb"content-length: (\d+)", request.lower()):
                request += await reader.readexactly(int(length[1]))
            self.asked.append(request)
            target = request.split()[1].decode()
            page = self.pages.get(target, self.pages.get(target.partition("?")[0]))
            answer = self.head(404, content_length="0") if page is None else page
            if isinstance(answer, bytes):
                writer.write(answer)
            else:
                await answer(writer)
            await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
