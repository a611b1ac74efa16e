"""The log rows, and the branches they belong to.

Imported on first use.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter
from sqlite3 import Connection
from typing import Final, NamedTuple

from msgspec import ValidationError, convert

from accord.errors import StoreError
from accord.store.database import SEQ_BITS
from accord.store.journal import PendingRecords
from accord.store.records import RecordGroup, json_array, payloads_in

ROW_LIMIT: Final = 256 * 1024
"""A row ends before it exceeds this many bytes. A longer record has its own row."""

PAGE_LIMIT: Final = 128 * 1024
"""A page ends after the row that makes it exceed this many bytes."""

_SEQ_MASK: Final = (1 << SEQ_BITS) - 1

# A damaged file may hold any type in a column: rows are checked where they are read.
_LastRow = tuple[int, int]
_RecordRow = tuple[int, int, int, str, bytes]


def key_of(log: int, seq: int) -> int:
    """The key of a record."""
    return log << SEQ_BITS | seq


def last_seq(connection: Connection, log: int) -> int | None:
    """The sequence number of the last record in a log, without the records of its base."""
    row = connection.execute(
        "SELECT key, length FROM records WHERE key > ? AND key <= ? ORDER BY key DESC LIMIT 1",
        (key_of(log, 0), key_of(log, _SEQ_MASK)),
    ).fetchone()
    if row is None:
        return None
    key, length = convert(row, _LastRow)
    return (key & _SEQ_MASK) + length - 1


def write_records(
    connection: Connection, log: int, first: int, time: int, entries: list[PendingRecords]
) -> int:
    """Insert records in as few rows as possible. Returns their size in bytes."""
    rows: list[tuple[int, int, int, str, bytes]] = []
    written = 0
    for kind, group in groupby(entries, attrgetter("kind")):
        for payloads in _split_rows([payload for entry in group for payload in entry.payloads]):
            data = json_array(payloads)
            rows.append((key_of(log, first), len(payloads), time, kind, data))
            first += len(payloads)
            written += len(data) - len(payloads) - 1  # without brackets and commas
    connection.executemany("INSERT INTO records (key, length, time, kind, data) VALUES (?, ?, ?, ?, ?)", rows)
    return written


def _split_rows(payloads: list[bytes]) -> Iterator[list[bytes]]:
    if sum(map(len, payloads)) <= ROW_LIMIT:
        yield payloads
        return
    row: list[bytes] = []
    size = 0
    for payload in payloads:
        if row and size + len(payload) > ROW_LIMIT:
            yield row
            row, size = [], 0
        row.append(payload)
        size += len(payload)
    yield row


def read_records(
    fetch: Callable[[int, int], list[RecordGroup]], log: int, first: int, last: int
) -> Iterator[list[RecordGroup]]:
    """The rows that hold these records, page by page and in sequence.

    `fetch` returns a page of rows by their keys.
    """
    seq = first
    while seq <= last:
        groups = fetch(key_of(log, seq), key_of(log, last))
        if not groups or not groups[0].first <= seq < groups[0].first + groups[0].length:
            raise _missing_record(seq)
        seq = groups[0].first
        for group in groups:
            if group.first != seq:
                raise _missing_record(seq)
            seq += group.length
        yield groups


def _missing_record(seq: int) -> StoreError:
    return StoreError(f"record {seq} of a session log is missing: it was deleted meanwhile, or is damaged")


def record_page(connection: Connection, first: int, last: int) -> list[RecordGroup]:
    """The rows from the one that holds the first key, up to `PAGE_LIMIT` bytes."""
    groups: list[RecordGroup] = []
    size = 0
    rows = connection.execute(
        "SELECT key, length, time, kind, data FROM records WHERE key >= "
        "coalesce((SELECT max(key) FROM records WHERE key <= ? AND key > ?), ?) AND key <= ? ORDER BY key",
        (first, first & ~_SEQ_MASK, first, last),
    )
    for key, length, time, kind, data in rows:
        if (
            type(data) is not bytes
            or type(length) is not int
            or type(time) is not int
            or type(kind) is not str
        ):
            raise ValidationError("a column has a value of another type")
        groups.append(RecordGroup(key & _SEQ_MASK, length, time, kind, data))
        size += len(data)
        if size > PAGE_LIMIT:
            break
    rows.close()
    return groups


def trim_records(connection: Connection, log: int, last: int) -> None:
    """Delete the records of a log after `last`."""
    connection.execute(
        "DELETE FROM records WHERE key > ? AND key <= ?", (key_of(log, last), key_of(log, _SEQ_MASK))
    )
    row = connection.execute(
        "SELECT key, length, time, kind, data FROM records "
        "WHERE key > ? AND key <= ? ORDER BY key DESC LIMIT 1",
        (key_of(log, 0), key_of(log, last)),
    ).fetchone()
    if row is None:
        return
    key, length, time, kind, data = convert(row, _RecordRow)
    remaining = last - (key & _SEQ_MASK) + 1
    if remaining < length:
        payloads = payloads_in([RecordGroup(key & _SEQ_MASK, length, time, kind, data)])
        connection.execute(
            "UPDATE records SET length = ?, data = ? WHERE key = ?",
            (remaining, json_array(payloads[:remaining]), key),
        )


def remove_records(connection: Connection, log: int) -> None:
    """Delete all records of a log."""
    connection.execute(
        "DELETE FROM records WHERE key > ? AND key <= ?", (key_of(log, 0), key_of(log, _SEQ_MASK))
    )


class LogBranch(NamedTuple):
    """One log: its number, the log it branched off, and the last record it reads from there.

    A fork is a log that starts after a record of its base and reads the records of the base up to there as
    its own. Deleting a session deletes its log when no fork reads it; records that no fork reads are deleted
    at once.
    """

    log: int
    base: int | None
    base_last: int


class LogSegment(NamedTuple):
    """A range of records of one log."""

    log: int
    first: int
    last: int


def branch_of_session(connection: Connection, session_id: str) -> LogBranch | None:
    row = connection.execute(
        "SELECT log, base, base_last FROM logs WHERE session = ?", (session_id,)
    ).fetchone()
    return None if row is None else convert(row, LogBranch)


def branch_last_seq(connection: Connection, branch: LogBranch) -> int:
    """The sequence number of the last record, its own or that of its base."""
    seq = last_seq(connection, branch.log)
    return branch.base_last if seq is None else seq


def branch_segments(connection: Connection, branch: LogBranch, after: int) -> list[LogSegment]:
    """The segments that make up a log after a sequence number, oldest first."""
    segments = [LogSegment(branch.log, max(after, branch.base_last) + 1, branch_last_seq(connection, branch))]
    while branch.base is not None and branch.base_last > after:
        last = branch.base_last
        branch = _branch_of_log(connection, branch.base)
        segments.append(LogSegment(branch.log, max(after, branch.base_last) + 1, last))
    return [segment for segment in reversed(segments) if segment.first <= segment.last]


def create_log(
    connection: Connection,
    session_id: str,
    source: LogBranch | None,
    seq: int,
    parent: str | None,
    format: int,
) -> int:
    """Create a log, with the records of another one up to a sequence number. Returns its number."""
    while source is not None and seq <= source.base_last:
        source = None if source.base is None else _branch_of_log(connection, source.base)
    base = None if source is None else source.log
    row = connection.execute(
        "INSERT INTO logs (session, base, base_last, parent, parent_seq, format) "
        "VALUES (?, ?, ?, ?, ?, ?) RETURNING log",
        (session_id, base, seq, parent, None if parent is None else seq, format),
    ).fetchone()
    return row[0]


def delete_log(connection: Connection, branch: LogBranch) -> None:
    """Delete the log of a deleted session, and its bases, as far as no fork reads them."""
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


def _branch_of_log(connection: Connection, log: int) -> LogBranch:
    row = connection.execute("SELECT log, base, base_last FROM logs WHERE log = ?", (log,)).fetchone()
    return convert(row, LogBranch)


def _orphan(connection: Connection, log: int) -> LogBranch | None:
    row = connection.execute(
        "SELECT log, base, base_last FROM logs WHERE log = ? AND session IS NULL", (log,)
    ).fetchone()
    return None if row is None else convert(row, LogBranch)
