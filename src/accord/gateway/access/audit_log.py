"""The audit log: which token did what, when, and what was decided. JSON lines without content, in the user
data (0600).

The log is rotated by size, by the first process that notices. A full or missing disk never stops the
gateway: lines that could not be written are counted, and the next line that is written reports the number.
"""

import os
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.running_gateways import locked
from accord.paths import data_dir, private_folder

MAX_BYTES: Final = 16 * 1024 * 1024
ROTATED_FILES: Final = 5
_MAX_TEXT: Final = 200

AuditValue = str | int | float | bool | None


def audit_file() -> Path:
    return data_dir() / "gateway" / "audit.jsonl"


class AuditLog:
    """Writes the log. Several gateways may write to the same file."""

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
        self._descriptor: int | None = None
        self._line_incomplete = False

    def record(self, rights: TokenRights | None, event: str, **values: AuditValue) -> None:
        """Write one line. Never raises.

        Values are names, ids and numbers, never text that a user or an agent wrote.
        """
        line: dict[str, AuditValue] = {
            "time": datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds"),
            "event": event,
        }
        if rights is not None:
            line |= {"token": rights.token, "name": rights.name, "peer": rights.peer}
        for name, value in values.items():
            if value is not None:
                line[name] = value[:_MAX_TEXT] if isinstance(value, str) else value
        if self.missing_lines:
            line["missingBefore"] = self.missing_lines
        try:
            self._append(msgspec.json.encode(line) + b"\n")
        except (OSError, UnicodeEncodeError) as error:
            self._write_failed(error)
        else:
            self.missing_lines = 0

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _append(self, line: bytes) -> None:
        descriptor = self._open_file()
        data = b"\n" + line if self._line_incomplete else line
        self._line_incomplete = True  # after a partial write, the next line starts with a line end
        if os.write(descriptor, data) == len(data):
            self._line_incomplete = False
        else:
            raise OSError("partial write")

    def _open_file(self) -> int:
        """Return the descriptor of the log. Reopens the file if another process rotated or removed it."""
        if self._descriptor is not None:
            opened = os.fstat(self._descriptor)
            try:
                current = os.stat(self.path)
            except FileNotFoundError:
                current = None
            if current is None or current.st_ino != opened.st_ino or current.st_dev != opened.st_dev:
                self.close()
            elif opened.st_size >= self._max_bytes:
                self._rotate()
        if self._descriptor is None:
            private_folder(self.path.parent)
            flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
            self._descriptor = os.open(self.path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
            status = os.fstat(self._descriptor)
            if stat.S_IMODE(status.st_mode) & 0o077:
                os.chmod(self.path, 0o600)
            if status.st_size >= self._max_bytes:
                self._rotate()
                return self._open_file()
        return self._descriptor

    def _rotate(self) -> None:
        """Rename `audit.jsonl` to `audit.jsonl.1` and so on; the oldest file is removed."""
        self.close()
        with locked(self.path.with_name(self.path.name + ".lock")):
            try:
                if self.path.stat().st_size < self._max_bytes:
                    return  # another process has rotated it
            except FileNotFoundError:
                return
            for number in range(self._rotated_files, 0, -1):
                source = self._numbered(number - 1)
                if source.exists():
                    os.replace(source, self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")

    def _write_failed(self, error: Exception) -> None:
        self.missing_lines += 1
        if self.missing_lines == 1 and self._on_error is not None:
            self._on_error(
                f"{self.path}: the audit log cannot be written ({error}); the gateway goes on without it"
            )
        try:
            self.close()
        except OSError:
            self._descriptor = None
