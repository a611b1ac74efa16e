"""The private folder of one sandbox: its own home and temporary folder, and the few files its backend needs.

It lasts as long as the sandbox, so that what one command left in /tmp or in a cache is there for the next; then it is
removed. Only the user can enter it. Commands write to its home and temporary folder, so after the first of them
nothing here may be written by following names in there.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from accord.errors import UsageError
from accord.policy.sandbox.places import is_within

STUB: Final = "# Hidden: commands in Accord's sandbox do not see what this file holds.\n"
"""What is read where a secret file was; a comment in most formats, so that programs that read settings carry on."""

_PREFIX: Final = "accord-sandbox-"
_CLAIM: Final = "claim"


class Private:
    """A folder of its own under the system's temporary folder, or the user's cache; never inside what commands write to."""

    def __init__(self, writable: Sequence[str]) -> None:
        place = _place(writable)
        _sweep(place)
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        self._claim = _claim(os.path.join(self.path, "new"))
        os.rename(os.path.join(self.path, "new"), os.path.join(self.path, _CLAIM))
        self.home = os.path.join(self.path, "home")
        self.temp = os.path.join(self.path, "tmp")
        self._own = os.path.join(self.path, "own")
        for folder in (self.home, self.temp, self._own):
            os.mkdir(folder, 0o700)
        self.stub = self.keep(STUB.encode())

    def keep(self, content: bytes) -> str:
        """The path of a file with this content, which commands cannot change. The same content is kept once."""
        path = os.path.join(self._own, blake2b(content, digest_size=16).hexdigest())
        if not os.path.exists(path):
            with open(path, "xb", opener=_for_the_user) as file:
                file.write(content)
        return path

    def keep_words(self, words: Iterable[str]) -> str:
        """The path of a file with these words in it, each ended by NUL."""
        return self.keep(b"".join(_word(word) + b"\0" for word in words))

    def remove(self) -> None:
        """Delete the folder with everything in it. May be called twice."""
        if self._claim >= 0:
            _delete(self.path)
            os.close(self._claim)
            self._claim = -1


def _word(word: str) -> bytes:
    """A word as the system has it; one with NUL in it would be several, and the others options."""
    try:
        encoded = os.fsencode(word)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise UsageError(
            f"the sandbox cannot pass on {word[:40]!r}: it holds what no name or value of a process can"
        )
    return encoded


def _claim(path: str) -> int:
    """A file that stays locked as long as this process lives and the descriptor is open; -1 if another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return -1
    return descriptor


def _sweep(place: str) -> None:
    """Delete the folders of ours whose process ended without doing so."""
    if sys.platform == "win32":
        return
    for name in os.listdir(place):
        folder = os.path.join(place, name)
        try:
            left = name.startswith(_PREFIX) and os.lstat(folder).st_uid == os.getuid()
            if (
                left
                and os.path.isfile(claimed := os.path.join(folder, _CLAIM))
                and (lock := _claim(claimed)) >= 0
            ):
                _delete(folder)
                os.close(lock)
        except OSError:
            continue  # another of us was faster


def _delete(folder: str) -> None:
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)  # a tool may have left it read-only
    shutil.rmtree(folder, ignore_errors=True)


def _for_the_user(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _place(writable: Sequence[str]) -> str:
    from platformdirs import user_cache_dir

    for folder in (tempfile.gettempdir(), user_cache_dir("accord", appauthor=False)):
        real = os.path.realpath(folder)
        if not any(is_within(real, root) for root in writable):
            os.makedirs(real, mode=0o700, exist_ok=True)
            return real
    raise UsageError(
        f"no place for the sandbox's private folder: {', '.join(writable)} hold both {tempfile.gettempdir()} and the user's "
        "cache; set TMPDIR to a folder outside"
    )
