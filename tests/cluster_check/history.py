"""The histories of a run: what each client, node and agent did and saw, one JSON line each.

A line is written with one system call, so that a killed process loses none.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

Entry: TypeAlias = dict[str, Any]


class History:
    """One history file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, kind: str, **members: Any) -> None:
        """Add an entry, with its time by the clock of this machine."""
        entry = {"kind": kind, "t": round(time.monotonic(), 4), **members}
        os.write(self._file, json.dumps(entry).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read_histories(folder: Path, prefix: str) -> Iterator[tuple[str, list[Entry]]]:
    """The entries of all files with this prefix, by the name of the file."""
    for path in sorted(folder.glob(f"{prefix}*.jsonl")):
        yield path.stem, read_history(path)


def read_history(path: Path) -> list[Entry]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b"}")]
