"""The log rows, and the branches they belong to.

Imported on first use.
"""

from collections.abc import Callable, Iterator
from sqlite3 import Connection
from typing import Final, NamedTuple

from msgspec import ValidationError, convert

from accord.errors import StoreError
from accord.store.database import SEQ_BITS
from accord.store.journal import PendingRecord
from accord.store.records import RecordGroup, array_of, raws_in

# MERGED store.runs: The rows of the log: written a commit at a time, read a bounded page at a time, always in sequence.

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


def write_records(
    connection: Connection, log: int, first: int, time: int, entries: list[PendingRecord]
) -> int:
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


def read_records(
    fetch: Callable[[int, int], list[RecordGroup]], log: int, first: int, last: int
) -> Iterator[list[RecordGroup]]:
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


def record_page(connection: Connection, first: int, last: int) -> list[RecordGroup]:
    """The rows from the one that holds the first key on, until there are enough bytes."""
    found: list[RecordGroup] = []
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
        found.append(RecordGroup(key & _SEQ, length, time, kind, data))
        size += len(data)
        if size > PAGE_LIMIT:
            break
    rows.close()
    return found


def trim_records(connection: Connection, log: int, last: int) -> None:
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
        raws = raws_in([RecordGroup(key & _SEQ, length, time, kind, data)])
        connection.execute(
            "UPDATE records SET length = ?, data = ? WHERE key = ?", (keep, array_of(raws[:keep]), key)
        )


def remove_records(connection: Connection, log: int) -> None:
    """Remove all records of a log."""
    connection.execute("DELETE FROM records WHERE key > ? AND key <= ?", (key_of(log, 0), key_of(log, _SEQ)))


# MERGED store.branches: Which log belongs to which session, and where logs branch off each other.
#
# A fork is a log of its own that begins behind a record of another one and reads that one's records as its own first. Deleting a
# session takes its log away only once no fork reads it; what no fork reads goes at once.


class LogBranch(NamedTuple):
    """One log: its number, and up to where it reads the log that it branched off."""

    log: int
    base: int | None
    base_last: int


class LogSegment(NamedTuple):
    """A stretch of one log."""

    log: int
    first: int
    last: int


def branch_of_session(connection: Connection, session_id: str) -> LogBranch | None:
    """The log of a session."""
    row = connection.execute(
        "SELECT log, base, base_last FROM logs WHERE session = ?", (session_id,)
    ).fetchone()
    return None if row is None else convert(row, LogBranch)


def branch_last_seq(connection: Connection, branch: LogBranch) -> int:
    """The sequence number of the last record that a log has, its own or not."""
    own = last_seq(connection, branch.log)
    return branch.base_last if own is None else own


def branch_segments(connection: Connection, branch: LogBranch, after: int) -> list[LogSegment]:
    """The stretches that make up a log behind a sequence number, the oldest first."""
    found = [LogSegment(branch.log, max(after, branch.base_last) + 1, branch_last_seq(connection, branch))]
    while branch.base is not None and branch.base_last > after:
        below = branch.base_last
        branch = _of_log(connection, branch.base)
        found.append(LogSegment(branch.log, max(after, branch.base_last) + 1, below))
    return [part for part in reversed(found) if part.first <= part.last]


def grow(
    connection: Connection,
    session_id: str,
    source: LogBranch | None,
    seq: int,
    parent: str | None,
    format: int,
) -> int:
    """Begin a log, with the records of another up to a sequence number; returns its number."""
    while source is not None and seq <= source.base_last:
        source = None if source.base is None else _of_log(connection, source.base)
    base = None if source is None else source.log
    row = connection.execute(
        "INSERT INTO logs (session, base, base_last, parent, parent_seq, format) VALUES (?, ?, ?, ?, ?, ?) RETURNING log",
        (session_id, base, seq, parent, None if parent is None else seq, format),
    ).fetchone()
    return row[0]


def cut(connection: Connection, branch: LogBranch) -> None:
    """The session of this log is gone: remove of it, and of the logs below it, what nobody reads any more."""
    connection.execute("UPDATE logs SET session = NULL WHERE log = ?", (branch.log,))
    orphan: LogBranch | None = branch
    while orphan is not None:
        (read_up_to,) = connection.execute(
            "SELECT max(base_last) FROM logs WHERE base = ?", (orphan.log,)
        ).fetchone()
        if read_up_to is not None:
            trim_records(connection, orphan.log, read_up_to)
            return
        remove_records(connection, orphan.log)
        connection.execute("DELETE FROM logs WHERE log = ?", (orphan.log,))
        orphan = None if orphan.base is None else _orphan(connection, orphan.base)


def _of_log(connection: Connection, log: int) -> LogBranch:
    row = connection.execute("SELECT log, base, base_last FROM logs WHERE log = ?", (log,)).fetchone()
    return convert(row, LogBranch)


def _orphan(connection: Connection, log: int) -> LogBranch | None:
    row = connection.execute(
        "SELECT log, base, base_last FROM logs WHERE log = ? AND session IS NULL", (log,)
    ).fetchone()
    return None if row is None else convert(row, LogBranch)
