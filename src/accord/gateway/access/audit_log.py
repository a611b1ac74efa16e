"""The audit log: which token did what, when, and what was decided. JSON lines in the user data (0600),
without the content of conversations.

Each line has a number (`seq`), the hash of the line before it (`prev`) and its own hash (`hash`), so that
`verify_audit_log` finds a changed, removed or inserted line. The lock file repeats the number and the hash of
the last line, so that lines removed at the end are noticed. All processes that write to the log hold the lock
while they write, and so continue one chain, also across rotated files.

The log is rotated by size, by the first process that notices. A full or missing disk never stops the
gateway: lines that could not be written are counted, and the next line that is written reports the number.

Each line has the `version` of its format. A log of a newer Accord is not continued, because its chain may be
another one.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec
from msgspec import Struct

from accord.errors import AccordError, UsageError
from accord.file_format import FileFormat, NewerFormat
from accord.gateway.access.access_tokens import TokenRights
from accord.paths import data_dir
from accord.private_files import locked, open_log, private_folder

MAX_BYTES: Final = 16 * 1024 * 1024
ROTATED_FILES: Final = 5
_MAX_TEXT: Final = 200
_MAX_COMMAND: Final = 1000
_MAX_LINE: Final = 64 * 1024
"""More bytes than any line has."""
_HEAD_BYTES: Final = 256
_FORMAT: Final = FileFormat()

AuditValue = str | int | float | bool | None


def audit_file() -> Path:
    return data_dir() / "gateway" / "audit.jsonl"


class AuditLink(Struct, frozen=True):
    """A line of the log by its number and hash."""

    seq: int
    hash: str


class _Head(AuditLink, frozen=True):
    """The last line that was written, as the lock file has it."""

    size: int
    """The size of the log with this line."""
    version: int = _FORMAT.version


_HASHED_LINE: Final = re.compile(rb'(\{.*),"hash":"([0-9a-f]{64})"\}', re.DOTALL)


class _Position(Struct):
    """The members of a line that place it in the chain."""

    seq: int
    prev: str


class _LineVersion(Struct):
    """The version of a line. It is read first, because a newer line may differ in everything else."""

    version: int = 1


class _AuditLine(NamedTuple):
    """One line of the chain."""

    seq: int
    prev: str
    hash: str
    hash_fits: bool


def _read_line(line: bytes, path: Path) -> _AuditLine | None:
    """Return the place of a line in the chain; None if it is not a line with a hash. Raises NewerFormat."""
    try:
        _FORMAT.check(max(1, msgspec.json.decode(line, type=_LineVersion).version), path)
        match = _HASHED_LINE.fullmatch(line)
        if match is None:
            return None
        position = msgspec.json.decode(line, type=_Position)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    digest = match[2].decode()
    return _AuditLine(position.seq, position.prev, digest, _hash(match[1] + b"}") == digest)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class AuditLog:
    """Writes the log. Several processes may write to the same file."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        rotated_files: int = ROTATED_FILES,
        now: Callable[[], float] = time.time,
        on_error: Callable[[str], None] | None = None,
    ) -> None:
        self.path: Path = audit_file() if path is None else path
        self.missing_lines: int = 0
        """Number of lines that could not be written since the last one that was."""
        self._max_bytes = max_bytes
        self._rotated_files = rotated_files
        self._now = now
        self._on_error = on_error

    def record(self, rights: TokenRights | None, event: str, **values: AuditValue) -> None:
        """Write one line. Never raises.

        Values are names, ids, numbers, paths and commands without secrets, never the text of a conversation.
        """
        line: dict[str, AuditValue] = {
            "version": _FORMAT.version,
            "time": datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds"),
            "event": event,
        }
        if rights is not None:
            line |= {"token": rights.token, "name": rights.name, "peer": rights.peer}
        for name, value in values.items():
            if value is not None:
                limit = _MAX_COMMAND if name in ("command", "path") else _MAX_TEXT
                line[name] = _short_text(value, limit) if isinstance(value, str) else value
        if self.missing_lines:
            line["missingBefore"] = self.missing_lines
        try:
            private_folder(self.path.parent)
            with locked(_lock_file(self.path)) as lock:
                self._append(line, lock)
        except (OSError, NewerFormat) as error:
            self._write_failed(error)
        else:
            self.missing_lines = 0

    def check(self) -> None:
        """Check that the log can be continued. Raises NewerFormat."""
        if self.path.exists():
            with suppress(OSError), locked(_lock_file(self.path)) as lock:
                self._last_link(_read_head(lock, self.path))

    def _append(self, line: dict[str, AuditValue], lock: int) -> None:
        """Append a line and keep its number and hash in the lock file. The caller holds the lock."""
        last, size = self._last_link(_read_head(lock, self.path))
        if size >= self._max_bytes:
            self._rotate()
            size = 0
        body = msgspec.json.encode(line | {"seq": last.seq + 1, "prev": last.hash})
        digest = _hash(body)
        data = b'%s,"hash":"%s"}\n' % (body[:-1], digest.encode())
        descriptor = open_log(self.path)
        try:
            if os.write(descriptor, data) != len(data):
                os.ftruncate(descriptor, size)
                raise OSError("the disk is full")
        finally:
            os.close(descriptor)
        head = _Head(last.seq + 1, digest, size + len(data))
        os.lseek(lock, 0, os.SEEK_SET)
        os.write(lock, msgspec.json.encode(head).ljust(_HEAD_BYTES))

    def _last_link(self, head: _Head | None) -> tuple[AuditLink, int]:
        """Return the line that the next one continues, and the size of the log.

        That is the last line of the file. If the head is a later one, lines were removed: the chain continues
        with the head, so that the gap stays visible.
        """
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                if head is not None and head.size == size:
                    return head, size
                file.seek(max(0, size - _MAX_LINE))
                tail = file.read()
        except FileNotFoundError:
            size, tail = 0, b""
        if tail and not tail.endswith(b"\n"):  # a process was killed while it wrote this line
            incomplete = len(tail) - (tail.rfind(b"\n") + 1)
            size, tail = size - incomplete, tail[:-incomplete]
            os.truncate(self.path, size)
        last = _read_line(tail.splitlines()[-1], self.path) if tail else None
        if head is not None and (last is None or last.seq < head.seq):
            return head, size
        if last is not None:
            return AuditLink(last.seq, last.hash), size
        # The chain begins, perhaps after lines of a version without hashes: its first line covers them.
        return AuditLink(0, _hash(self.path.read_bytes() if size else b"")), size

    def _rotate(self) -> None:
        """Rename `audit.jsonl` to `audit.jsonl.1` and so on; the oldest file is removed."""
        for number in range(self._rotated_files, 0, -1):
            source = _numbered(self.path, number - 1)
            if source.exists():
                os.replace(source, _numbered(self.path, number))

    def _write_failed(self, error: Exception) -> None:
        self.missing_lines += 1
        if self.missing_lines == 1 and self._on_error is not None:
            self._on_error(
                f"{self.path}: the audit log cannot be written ({error}); the gateway goes on without it"
            )


def _short_text(text: str, limit: int) -> str:
    """Return a text that can be written: half surrogate pairs are escaped, and an ellipsis ends a cut one."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return text.encode(errors="backslashreplace").decode()


def _numbered(path: Path, number: int) -> Path:
    return path if number == 0 else path.with_name(f"{path.name}.{number}")


def _lock_file(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _read_head(lock: int, path: Path) -> _Head | None:
    """Return the last line that was written, if the lock file names it. Raises NewerFormat."""
    os.lseek(lock, 0, os.SEEK_SET)
    try:
        data = os.read(lock, _HEAD_BYTES)
        _FORMAT.check(max(1, msgspec.json.decode(data, type=_LineVersion).version), path)
        return msgspec.json.decode(data, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class AuditReader:
    """Reads the lines of the log after a number, in order, also while it is written and rotated."""

    def __init__(self, path: Path, after: int, *, rotated_files: int = ROTATED_FILES) -> None:
        self._path = path
        self._rotated_files = rotated_files
        self._last = after
        self._file: BinaryIO | None = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self, limit: int) -> list[tuple[AuditLink, bytes]]:
        """Return the next lines, at most `limit`; empty if there are no more now. Raises OSError."""
        while True:
            if self._file is None and not self._open():
                return []
            assert self._file is not None
            lines = self._read_lines(self._file, limit)
            if lines or not self._is_rotated(self._file):
                return lines
            self.close()

    def _read_lines(self, file: BinaryIO, limit: int) -> list[tuple[AuditLink, bytes]]:
        lines: list[tuple[AuditLink, bytes]] = []
        while len(lines) < limit:
            place = file.tell()
            text = file.readline(_MAX_LINE)
            if not text.endswith(b"\n"):  # the end, or a line that is being written
                file.seek(place)
                break
            try:
                line = _read_line(text[:-1], self._path)
            except NewerFormat:
                continue
            if line is not None and line.seq > self._last:
                self._last = line.seq
                lines.append((AuditLink(line.seq, line.hash), text[:-1]))
        return lines

    def _is_rotated(self, file: BinaryIO) -> bool:
        try:
            return not os.path.samestat(os.fstat(file.fileno()), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _open(self) -> bool:
        """Open the oldest file that has a line after the last one; return whether there is one."""
        for number in range(self._rotated_files, -1, -1):
            with suppress(FileNotFoundError):
                file = _numbered(self._path, number).open("rb")
                last = self._last
                if number == 0 or self._read_lines(file, 1):
                    self._last = last
                    file.seek(0)
                    self._file = file
                    return True
                file.close()
        return False


class AuditBroken(AccordError):
    """The audit log was changed. The message names the first broken line."""


class VerifiedAudit(Struct, frozen=True):
    """What `verify_audit_log` found in an intact log."""

    files: int
    lines: int
    """Lines of the chain."""
    unhashed: int
    """Lines before the chain begins, written by a version without hashes. Nothing is known about them."""
    first: int
    """The number of the first line; more than 1 if older files were removed by rotation."""
    last: AuditLink | None
    has_head: bool
    """Whether the lock file names the last line. Without it, lines removed at the end are not noticed."""


def verify_audit_log(
    path: Path | None = None, *, rotated_files: int = ROTATED_FILES, expect: str | None = None
) -> VerifiedAudit:
    """Check the chain of the log and its rotated files, oldest first.

    `expect` is the hash of a line that must be in the log. Raises AuditBroken and UsageError.
    """
    path = audit_file() if path is None else path
    check = _ChainCheck(expect)
    lock_file = _lock_file(path)
    files: dict[int, tuple[BinaryIO, int]] = {}
    """By number: the open file and its size."""
    with ExitStack() as opened:
        try:
            # The lock is held only to open the files, because running gateways wait for it.
            with locked(lock_file) if lock_file.exists() else nullcontext() as lock:
                head = None if lock is None else _read_head(lock, path)
                for number in range(rotated_files, -1, -1):
                    with suppress(FileNotFoundError):
                        file = opened.enter_context(_numbered(path, number).open("rb"))
                        files[number] = file, os.fstat(file.fileno()).st_size
            for number, (file, size) in files.items():
                check.read_file(
                    _numbered(path, number), file, size, is_oldest_possible=number == rotated_files
                )
        except OSError as error:
            raise UsageError(f"cannot read the audit log {path} ({error.strerror})") from None
    if not files and head is None:
        raise UsageError(f"there is no audit log at {path}; `accord serve` writes it")
    check.compare_head(path, head)
    if expect is not None and not check.found_expected:
        raise AuditBroken(f"{path}: no line has the hash {expect}; the line was removed or changed")
    return VerifiedAudit(len(files), check.lines, check.unhashed, check.first, check.last, head is not None)


class _ChainCheck:
    """Follows the chain through the files."""

    def __init__(self, expect: str | None) -> None:
        self.lines: int = 0
        self.unhashed: int = 0
        self.first: int = 0
        self.last: AuditLink | None = None
        self.found_expected: bool = False
        self._expect = expect
        self._incomplete: str | None = None

    def read_file(self, path: Path, file: BinaryIO, size: int, *, is_oldest_possible: bool) -> None:
        """Check the first `size` bytes of a file. Before the oldest possible one, rotation may have removed
        others.
        """
        unhashed = hashlib.sha256()
        for number, text in enumerate(file, 1):
            size -= len(text)
            if size < 0:  # written since the file was opened
                break
            place = f"{path} line {number}"
            if self._incomplete is not None:
                raise AuditBroken(f"{self._incomplete} is incomplete")
            if not text.endswith(b"\n"):
                self._incomplete = place
                continue
            line = _read_line(text[:-1], path)
            if line is None and self.last is None:
                self.unhashed += 1
                unhashed.update(text)
                continue
            if line is None:
                raise AuditBroken(f"{place} has no hash; it was inserted or changed")
            if not line.hash_fits:
                raise AuditBroken(f"{place} was changed: its hash does not fit")
            if self.last is not None:
                _check_successor(place, self.last, line)
            elif line.seq == 1 and line.prev != unhashed.hexdigest():
                raise AuditBroken(f"{place}: the lines before it were changed")
            elif line.seq != 1 and not (is_oldest_possible and number == 1):
                raise AuditBroken(f"{place}: the lines before it were removed; it is number {line.seq}")
            self.first = self.first or line.seq
            self.lines += 1
            self.last = AuditLink(line.seq, line.hash)
            self.found_expected |= line.hash == self._expect

    def compare_head(self, path: Path, head: _Head | None) -> None:
        """Check that the log reaches the last line that was written."""
        seq = 0 if self.last is None else self.last.seq
        if head is not None and head.seq > seq:
            raise AuditBroken(
                f"{path}: the last lines were removed; it ends with number {seq}, "
                f"and number {head.seq} was written"
            )
        if head is not None and self.last is not None and head.seq == seq and head.hash != self.last.hash:
            raise AuditBroken(f"{path}: the last line, number {seq}, was replaced")


def _check_successor(place: str, last: AuditLink, line: _AuditLine) -> None:
    if line.seq > last.seq + 1:
        raise AuditBroken(
            f"{place}: lines before it were removed; it is number {line.seq}, after number {last.seq}"
        )
    if line.seq != last.seq + 1 or line.prev != last.hash:
        raise AuditBroken(
            f"{place} does not continue the line before it; lines were removed, inserted or moved"
        )
