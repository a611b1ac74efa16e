"""Which log belongs to which session, and where logs branch off each other.

A fork is a log of its own that begins behind a record of another one and reads that one's records as its own first. Deleting a
session takes its log away only once no fork reads it; what no fork reads goes at once.
"""

from sqlite3 import Connection
from typing import NamedTuple

from msgspec import convert

from accord.store import runs


class Branch(NamedTuple):
    """One log: its number, and up to where it reads the log that it branched off."""

    log: int
    base: int | None
    base_last: int


class Part(NamedTuple):
    """A stretch of one log."""

    log: int
    first: int
    last: int


def of_session(connection: Connection, session_id: str) -> Branch | None:
    """The log of a session."""
    row = connection.execute(
        "SELECT log, base, base_last FROM logs WHERE session = ?", (session_id,)
    ).fetchone()
    return None if row is None else convert(row, Branch)


def last_seq(connection: Connection, branch: Branch) -> int:
    """The sequence number of the last record that a log has, its own or not."""
    own = runs.last_seq(connection, branch.log)
    return branch.base_last if own is None else own


def parts(connection: Connection, branch: Branch, after: int) -> list[Part]:
    """The stretches that make up a log behind a sequence number, the oldest first."""
    found = [Part(branch.log, max(after, branch.base_last) + 1, last_seq(connection, branch))]
    while branch.base is not None and branch.base_last > after:
        below = branch.base_last
        branch = _of_log(connection, branch.base)
        found.append(Part(branch.log, max(after, branch.base_last) + 1, below))
    return [part for part in reversed(found) if part.first <= part.last]


def grow(
    connection: Connection, session_id: str, source: Branch | None, seq: int, parent: str | None, format: int
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


def cut(connection: Connection, branch: Branch) -> None:
    """The session of this log is gone: remove of it, and of the logs below it, what nobody reads any more."""
    connection.execute("UPDATE logs SET session = NULL WHERE log = ?", (branch.log,))
    orphan: Branch | None = branch
    while orphan is not None:
        (read_up_to,) = connection.execute(
            "SELECT max(base_last) FROM logs WHERE base = ?", (orphan.log,)
        ).fetchone()
        if read_up_to is not None:
            runs.trim(connection, orphan.log, read_up_to)
            return
        runs.remove(connection, orphan.log)
        connection.execute("DELETE FROM logs WHERE log = ?", (orphan.log,))
        orphan = None if orphan.base is None else _orphan(connection, orphan.base)


def _of_log(connection: Connection, log: int) -> Branch:
    row = connection.execute("SELECT log, base, base_last FROM logs WHERE log = ?", (log,)).fetchone()
    return convert(row, Branch)


def _orphan(connection: Connection, log: int) -> Branch | None:
    row = connection.execute(
        "SELECT log, base, base_last FROM logs WHERE log = ? AND session IS NULL", (log,)
    ).fetchone()
    return None if row is None else convert(row, Branch)
