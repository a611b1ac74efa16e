"""Text files within the roots: reading by lines, writing whole.

The text that comes back is the file: line ends and a byte order mark are kept, and a file that is not UTF-8 is refused
rather than repaired, so that writing a text back never damages what was read. A write replaces the file in one step
(readers see the old text or the new one), keeps its mode, and goes to the target of a link inside the roots.
"""

import errno
import os
import threading
from pathlib import Path
from typing import Final, Protocol

from accord.errors import InternalError, InvalidParams, NotFound, RpcError
from accord.workspace.disk import Disk
from accord.workspace.folder import Folder
from accord.workspace.lines import TooLong, check_count, lines_of, read_lines
from accord.workspace.replacing import replace_file
from accord.workspace.roots import AnyPath, Roots, shown

DEFAULT_MAX_BYTES: Final = 50 * 1024 * 1024
# What the caller can do something about; anything else is the machine's trouble.
_CALLERS_FAULT: Final = frozenset(
    (
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.EINVAL,
        errno.ENAMETOOLONG,
    )
)


class Buffers(Protocol):
    """Texts that are open in an editor and may differ from the disk. Called on the event loop, with resolved paths."""

    def read(self, path: Path) -> str | None:
        """The text as the user sees it, or None where the file is not open."""
        ...

    def write(self, path: Path, text: str) -> bool:
        """Take the text over (and save it, if that is the editor's way); False leaves it to the disk."""
        ...


class TextFiles:
    """Reads and writes text files for one session."""

    def __init__(
        self,
        roots: Roots,
        *,
        buffers: Buffers | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        missing_is_empty: bool = False,
    ) -> None:
        """`max_bytes` bounds what one read returns; `missing_is_empty` is for agents that read what they will create."""
        self.roots = roots
        self._buffers = buffers
        self._max_bytes = max_bytes
        self._missing_is_empty = missing_is_empty
        self._disk = Disk()

    async def read_text(self, path: AnyPath, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file, or `limit` lines of it from `line` on (the first is 1; 0 counts as 1; "" past the end).

        Raises OutsideRoots, NotFound, or InvalidParams for what is no readable UTF-8 text of bearable size.
        """
        check_count("line", line)
        check_count("limit", limit)
        async with self._disk.place(str(path)) as place:
            if self._buffers is not None:
                text = self._buffers.read(await place.run(lambda _: self.roots.resolve(path)))
                if text is not None:
                    return lines_of(text, line, limit)
            return await place.run(lambda stop: self._read(path, line, limit, stop))

    async def write_text(self, path: AnyPath, content: str) -> None:
        """Make `content` the whole text of the file; it and its folders are created where they are missing.

        Raises OutsideRoots, or InvalidParams for what may not be written.
        """
        data = _encode(path, content)
        async with self._disk.place(str(path)) as place:
            if self._buffers is not None:
                target = await place.run(lambda _: self.roots.resolve(path))
                if self._buffers.write(target, content):
                    return
            await place.run(lambda stop: self._write(path, data, stop))

    def _read(self, path: AnyPath, line: int | None, limit: int | None, stop: threading.Event) -> str:
        try:
            descriptor = self.roots.reach(path, Folder.open_file)
        except FileNotFoundError:
            if self._missing_is_empty:
                return ""
            raise NotFound(f"{shown(path)} does not exist", {"uri": _uri(path)}) from None
        except OSError as error:
            raise _refusal("read", path, error) from None
        try:
            if line is None and limit is None and os.fstat(descriptor).st_size > self._max_bytes:
                raise TooLong
            data = read_lines(descriptor, line, limit, self._max_bytes, stop)
            return data.decode()
        except TooLong:
            raise InvalidParams(
                f"{shown(path)} is too large: {os.fstat(descriptor).st_size} bytes, and one answer holds at most "
                f"{self._max_bytes}; ask for fewer lines with line and limit"
            ) from None
        except UnicodeDecodeError as error:
            raise InvalidParams(
                f"{shown(path)} is not text: byte {error.object[error.start]:#04x} is not UTF-8 "
                f"(at {error.start} of what was asked for)"
            ) from None
        except OSError as error:
            raise _refusal("read", path, error) from None
        finally:
            os.close(descriptor)

    def _write(self, path: AnyPath, data: bytes, stop: threading.Event) -> None:
        try:
            self.roots.reach(path, lambda folder, name: replace_file(folder, name, data, stop), create=True)
        except FileNotFoundError as error:
            # Folders inside a root are made; the root itself is not ours to make.
            raise NotFound(
                f"cannot write {shown(path)}: its root folder does not exist", {"uri": _uri(path)}
            ) from error
        except OSError as error:
            raise _refusal("write", path, error) from None


def _encode(path: AnyPath, content: str) -> bytes:
    if not isinstance(content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidParams(f"content must be a string, not {type(content).__name__}")
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise InvalidParams(
            f"cannot write {shown(path)}: the text has half a character (a lone surrogate) at position {error.start}"
        ) from None


def _uri(path: AnyPath) -> str:
    return Path(path).as_uri()


def _refusal(verb: str, path: AnyPath, error: OSError) -> RpcError:
    kind = InvalidParams if error.errno in _CALLERS_FAULT else InternalError
    return kind(f"cannot {verb} {shown(path)}: {error.strerror or error}")
