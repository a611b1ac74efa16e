"""One direction of a connection that is being recorded: bytes as they come, from one descriptor to another.

Each pump has a thread and uses plain blocking calls, so that no flag of a descriptor that others share is changed, and
nothing stands between a read and its write but telling the recorder. It reads on only when all it read is written: who
is slow is felt at the other end as without us. An end, or a reader that left, is passed on at once.
"""

import contextlib
import os
import select
import threading
from collections.abc import Callable
from typing import Final

READ_SIZE: Final = 64 * 1024

_BROKEN: Final = 0 if not hasattr(select, "poll") else select.POLLERR | select.POLLHUP | select.POLLNVAL


class Pump:
    """From `source` to `target`; both are closed at the end, `target` only if it is `ours` to close.

    `told` gets every read before it is written, `over` whether it ended because nobody reads the target any more.
    """

    def __init__(
        self,
        source: int,
        target: int,
        *,
        told: Callable[[bytes], None],
        over: Callable[[bool], None],
        ours: bool = True,
    ) -> None:
        self._source = source
        self._target = target
        self._told = told
        self._over = over
        self._ours = ours
        self._last = threading.Event()
        self._lock = threading.Lock()
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="accord-pump", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Pass on what is there already, then end: whoever still holds the source is not waited for."""
        self._last.set()
        with self._lock:
            if self._wake >= 0:
                os.write(self._wake, b"!")

    def _run(self) -> None:
        broken = False
        try:
            while self._readable():
                try:
                    data = os.read(self._source, READ_SIZE)
                except (BlockingIOError, InterruptedError):
                    continue
                if not data:
                    break
                self._told(data)
                self._write(data)
        except OSError:
            broken = True  # a reset, a terminal that hung up, a reader that left: an end like any other
        finally:
            # The source goes too: who writes into it is to learn that nobody reads any more.
            for fd in (self._target, self._source) if self._ours else (self._source,):
                with contextlib.suppress(OSError):
                    os.close(fd)
            with self._lock:
                os.close(self._woken)
                os.close(self._wake)
                self._wake = -1
            self._over(broken)

    def _readable(self) -> bool:
        """Wait for something to read; False when nothing is left to wait for."""
        if not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._target, 0)
        if not self._last.is_set():
            poll.register(self._woken, select.POLLIN)
        while True:
            ready = dict(poll.poll(0 if self._last.is_set() else None))
            if ready.get(self._target, 0) & _BROKEN:
                raise BrokenPipeError
            if self._source in ready:
                return True
            if self._last.is_set():
                return False

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._target, rest) :]
            except BlockingIOError:  # somebody made it so
                select.select((), (self._target,), ())
