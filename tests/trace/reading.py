"""Recordings as the tests look at them."""

from pathlib import Path

from accord.trace.lines import Entry, Start, read_line


def entries_in(file: Path) -> list[Entry]:
    return [found for line in file.read_bytes().splitlines() if isinstance(found := read_line(line), Entry)]


def starts_in(file: Path) -> list[Start]:
    return [found for line in file.read_bytes().splitlines() if isinstance(found := read_line(line), Start)]
