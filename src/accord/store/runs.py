"""The rows of the log: written a commit at a time, read a bounded page at a time, always in sequence."""

from collections.abc import Callable, Iterator
from sqlite3 import Connection
from typing import Final

from msgspec import ValidationError, convert

from accord.errors import StoreError
from accord.store.journal import Entry
from accord.store.records import Run, array_of, raws_in
from accord.store.tables import SEQ_BITS

ROW_LIMIT: Final = 256 * 1024
"""A row is not continued beyond so many bytes; a longer record has one for itself."""

PAGE_LIMIT: Final = 512 * 1024
"""One page of reading ends behind the row that brings it beyond so many bytes."""

_SEQ: Final = (1 << SEQ_BITS) - 1

# What a damaged file has in a column may be of any type: rows are checked where they are read.
_Last = tuple[int, int]
_Row = tuple[int, int, int, str, bytes]


def key_of(log: int, seq: int) -> int:
    """Where a record lies."""
    return log << SEQ_BITS | seq


def last_seq(connection: Connection, log: int) -> int | None:
    """The sequence number of a log's last record of its own."""
    row = connection.execute(
        "SELECT key, length FROM records WHERE key > ? AND key <= ? ORDER BY key DESC LIMIT 1",
        (key_of(log, 0), key_of(log, _SEQ)),
    ).fetchone()
    if row is None:
        return None
    key, length = convert(row, _Last)
    return (key & _SEQ) + length - 1


def write(connection: Connection, log: int, first: int, time: int, entries: list[Entry]) -> int:
    """Add records, as few rows; returns how many bytes they have."""
    rows: list[tuple[int, int, int, str, bytes]] = []
    payloads: list[bytes] = []
    kind, size, written = entries[0].kind, 0, 0
    for entry in [*entries, None]:
        if entry is None or entry.kind != kind or (payloads and size + len(entry.data) > ROW_LIMIT):
            rows.append((key_of(log, first), len(payloads), time, kind, array_of(payloads)))
            first += len(payloads)
            written += size
            payloads, size = [], 0
        if entry is not None:
            kind = entry.kind
            payloads.append(entry.data)
            size += len(entry.data)
    connection.executemany("INSERT INTO records (key, length, time, kind, data) VALUES (?, ?, ?, ?, ?)", rows)
    return written


def read(fetch: Callable[[int, int], list[Run]], log: int, first: int, last: int) -> Iterator[list[Run]]:
    """The rows that hold these records, page by page and in sequence. `fetch` gets a page of rows by their keys."""
    seq = first
    while seq <= last:
        found = fetch(key_of(log, seq), key_of(log, last))
        if not found or not found[0].first <= seq < found[0].first + found[0].length:
            raise _missing(seq)
        seq = found[0].first
        for run in found:
            if run.first != seq:
                raise _missing(seq)
            seq += run.length
        yield found


def _missing(seq: int) -> StoreError:
    return StoreError(f"record {seq} of a session log is missing: it was deleted meanwhile, or is damaged")


def page(connection: Connection, first: int, last: int) -> list[Run]:
    """The rows from the one that holds the first key on, until there are enough bytes."""
    found: list[Run] = []
    size = 0
    rows = connection.execute(
        "SELECT key, length, time, kind, data FROM records WHERE key >= "
        "coalesce((SELECT max(key) FROM records WHERE key <= ? AND key > ?), ?) AND key <= ? ORDER BY key",
        (first, first & ~_SEQ, first, last),
    )
    for key, length, time, kind, data in rows:
        if (
            type(data) is not bytes
            or type(length) is not int
            or type(time) is not int
            or type(kind) is not str
        ):
            raise ValidationError("a column has a value of another type")
        found.append(Run(key & _SEQ, length, time, kind, data))
        size += len(data)
        if size > PAGE_LIMIT:
            break
    rows.close()
    return found


def trim(connection: Connection, log: int, last: int) -> None:
    """Remove the records of a log behind this one, for good."""
    connection.execute(
        "DELETE FROM records WHERE key > ? AND key <= ?", (key_of(log, last), key_of(log, _SEQ))
    )
    row = connection.execute(
        "SELECT key, length, time, kind, data FROM records WHERE key > ? AND key <= ? ORDER BY key DESC LIMIT 1",
        (key_of(log, 0), key_of(log, last)),
    ).fetchone()
    if row is None:
        return
    key, length, time, kind, data = convert(row, _Row)
    keep = last - (key & _SEQ) + 1
    if keep < length:
        raws = raws_in([Run(key & _SEQ, length, time, kind, data)])
        connection.execute(
            "UPDATE records SET length = ?, data = ? WHERE key = ?", (keep, array_of(raws[:keep]), key)
        )


def remove(connection: Connection, log: int) -> None:
    """Remove all records of a log."""
    connection.execute("DELETE FROM records WHERE key > ? AND key <= ?", (key_of(log, 0), key_of(log, _SEQ)))
