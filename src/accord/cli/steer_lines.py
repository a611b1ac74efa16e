"""`accord run --steer`: sends each line of stdin to the running turn. Imported on first use."""

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

from accord.client import ClientSession
from accord.errors import AccordError, UsageError

_MAX_LINE_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 64 * 1024


class SteeringLines:
    """Reads stdin during the turn, except while the user is asked something at the terminal."""

    def __init__(self, stdin: int, note: Callable[[str], None]) -> None:
        self._stdin = stdin
        self._note = note
        self._session: ClientSession | None = None
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._partial = b""
        self._pauses = 0
        self._may_read = threading.Event()
        """Whether a thread may read stdin, where the loop cannot watch it."""
        self._thread: threading.Thread | None = None
        self._ended = False

    @contextmanager
    def paused(self) -> Generator[None]:
        """Leave stdin to a question."""
        self._pauses += 1
        self._stop_watching()
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and self._session is not None:
                self._watch()

    @contextmanager
    def sent_to(self, session: ClientSession) -> Generator[None]:
        """Send the lines while the block runs. Raises UsageError if the agent takes no messages."""
        if not session.agent.can_steer:
            raise UsageError(f"--steer: {session.agent.name} takes no messages during a turn")
        self._session = session
        task = asyncio.create_task(self._send(session))
        self._watch()
        try:
            yield
        finally:
            self._session = None
            task.cancel()
            self._stop_watching()

    async def _send(self, session: ClientSession) -> None:
        while (line := await self._lines.get()) is not None:
            self._note(f"sending: {line}")
            try:
                if not await session.steer(line):
                    self._note(f"not sent, because no turn is running: {line}")
            except AccordError as error:
                self._note(f"not sent: {line} ({error})")

    def _watch(self) -> None:
        if self._ended:
            return
        try:
            self._loop.add_reader(self._stdin, self._ready)
        except PermissionError:  # a regular file, which is always ready
            while not self._ended:
                self._ready()
        except NotImplementedError:  # a loop that cannot watch a console, as on Windows
            self._may_read.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._read_in_thread, daemon=True)
                self._thread.start()

    def _stop_watching(self) -> None:
        self._may_read.clear()
        with suppress(NotImplementedError):
            self._loop.remove_reader(self._stdin)

    def _ready(self) -> None:
        self._receive(self._read())

    def _read(self) -> bytes:
        try:
            return os.read(self._stdin, _READ_BYTES)
        except OSError:
            return b""

    def _read_in_thread(self) -> None:
        """Read line by line, but begin no read while a question is open."""
        data = b"\n"
        while data:
            self._may_read.wait()
            data = self._read()
            try:
                self._loop.call_soon_threadsafe(self._receive, data)
            except RuntimeError:  # the run is over
                return

    def _receive(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + (data or b"\n")).split(b"\n")
        self._partial = self._partial[:_MAX_LINE_BYTES]
        for line in lines:
            if text := line.decode(errors="replace").strip():
                self._lines.put_nowait(text)
        if not data:
            self._ended = True
            self._stop_watching()
