"""The session list, and the transactions that change log and list together.

Imported on first use.
"""

from itertools import chain
from sqlite3 import Connection
from typing import Any, Final

from msgspec import ValidationError, convert, json

from accord.errors import UsageError
from accord.schema.codec import encode
from accord.store import log_table
from accord.store.contract import CursorPosition, SessionPage, SessionQuery, cursor_of
from accord.store.journal import PendingRecord
from accord.store.log_table import LogBranch
from accord.store.records import SESSION
from accord.store.session_summary import (
    FORMAT,
    ForkParent,
    SessionPatch,
    SessionSummary,
    begin,
    fold,
    folder_of,
    forked,
    news_in,
    no_session,
)

# MERGED store.catalogue: The list of sessions: the `heads` table, kept current with every commit and folded anew from the log on demand.

_COLUMNS: Final = (
    "log, session, cwd, folder, agent, created, updated, title, title_set, additional_directories, archived"
)
_SELECT: Final = (
    "SELECT heads.log, heads.session, cwd, agent, created, updated, title, title_set, additional_directories, "
    "archived, parent, parent_seq, format FROM heads JOIN logs ON logs.log = heads.log "
)


def put_summary(connection: Connection, log: int, head: SessionSummary) -> None:
    """Show a session like this from now on."""
    connection.execute(
        f"INSERT OR REPLACE INTO heads ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            log,
            head.session_id,
            head.cwd,
            folder_of(head.cwd),
            head.agent,
            head.created,
            head.updated,
            head.title,
            head.title_set,
            json.encode(head.additional_directories).decode(),
            head.archived,
        ),
    )


def summary_of_log(connection: Connection, log: int) -> SessionSummary:
    """What is shown of the session that has this log."""
    return _head(connection.execute(_SELECT + "WHERE heads.log = ?", (log,)).fetchone())


def summary_of_session(connection: Connection, session_id: str) -> SessionSummary | None:
    """What is shown of a session."""
    row = connection.execute(_SELECT + "WHERE heads.session = ?", (session_id,)).fetchone()
    return None if row is None else _head(row)


def remove_summary(connection: Connection, log: int) -> None:
    """Show this session no more."""
    connection.execute("DELETE FROM heads WHERE log = ?", (log,))


def summary_page(
    connection: Connection, asked: SessionQuery, below: CursorPosition | None, limit: int
) -> SessionPage:
    """Some of the sessions asked for, those used last first."""
    conditions = ["1"]
    values: list[Any] = []
    if asked.folder is not None:
        conditions.append("folder = ?")
        values.append(asked.folder)
    if asked.agent is not None:
        conditions.append("agent = ?")
        values.append(asked.agent)
    if asked.archived != "include":
        conditions.append("archived = ?")
        values.append(asked.archived == "only")
    if below is not None:
        conditions.append("(updated, heads.log) < (?, ?)")
        values += below
    rows = connection.execute(
        f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY updated DESC, heads.log DESC LIMIT ?",
        (*values, limit + 1),
    ).fetchall()
    heads = [_head(row) for row in rows[:limit]]
    more = (
        cursor_of(asked, CursorPosition(heads[-1].updated, rows[limit - 1][0])) if len(rows) > limit else None
    )
    return SessionPage(tuple(heads), more)


def rebuild_summaries(connection: Connection) -> None:
    """Fold every head anew from its log."""
    connection.execute("DELETE FROM heads")
    rows = connection.execute(
        "SELECT log, session, base, base_last, parent, parent_seq FROM logs WHERE session IS NOT NULL"
    ).fetchall()
    for log, session_id, base, base_last, parent, parent_seq in rows:
        branch = log_table.LogBranch(log, base, base_last)
        came_from = None if parent is None else ForkParent(parent, parent_seq)
        put_summary(connection, log, _folded(connection, branch, session_id, came_from))


def _folded(
    connection: Connection, branch: log_table.LogBranch, session_id: str, parent: ForkParent | None
) -> SessionSummary:
    own = log_table.read_records(
        lambda low, high: log_table.record_page(connection, low, high),
        branch.log,
        branch.base_last + 1,
        log_table.branch_last_seq(connection, branch),
    )
    pages = chain.from_iterable(own)
    first = next(pages, None)
    patch = None if first is None else next(iter(news_in(first)), None)
    if first is None or not isinstance(patch, SessionPatch):
        raise ValidationError("the first record of a log is the store's own")
    head = begin(session_id, first.time, patch, parent)
    for run in pages:
        head = fold(head, run.time, news_in(run))
    return head


def _head(row: Any) -> SessionSummary:
    _, session, cwd, agent, created, updated, title, title_set, roots, archived, parent, seq, format = row
    return convert(
        {
            "session_id": session,
            "cwd": cwd,
            "agent": agent,
            "created": created,
            "updated": updated,
            "title": title,
            "title_set": title_set == 1,
            "additional_directories": json.decode(roots),
            "archived": archived == 1,
            "parent": None if parent is None else {"session_id": parent, "seq": seq},
            "format": format,
        },
        SessionSummary,
    )


# MERGED store.ledger: What changes the log and the list together: beginning, adding to, forking and deleting a session, each within the caller's
# transaction.


def branch_of(connection: Connection, session_id: str) -> LogBranch:
    """The log of a session. Raises NotFound."""
    branch = log_table.branch_of_session(connection, session_id)
    if branch is None:
        raise no_session(session_id)
    return branch


def create_session(
    connection: Connection,
    session_id: str,
    time: int,
    patch: SessionPatch,
    source: LogBranch | None = None,
    parent: ForkParent | None = None,
) -> SessionSummary:
    """Begin a session, on its own or as a fork."""
    if log_table.branch_of_session(connection, session_id) is not None:
        raise UsageError(f"there is a session {session_id} already")
    seq, name = (0, None) if parent is None else (parent.seq, parent.session_id)
    log = log_table.grow(connection, session_id, source, seq, name, FORMAT)
    log_table.write_records(connection, log, seq + 1, time, [patch_entry(patch)])
    head = begin(session_id, time, patch, parent)
    put_summary(connection, log, head)
    return head


def fork_session(
    connection: Connection,
    source: str,
    session_id: str,
    time: int,
    up_to: int | None,
    asked: SessionPatch,
) -> SessionSummary:
    """Begin a session with the records of another; what is not asked for comes from that one."""
    branch = branch_of(connection, source)
    head = summary_of_log(connection, branch.log)
    last = log_table.branch_last_seq(connection, branch)
    seq = last if up_to is None else up_to
    if not 0 <= seq <= last:
        raise UsageError(f"session {source} cannot be forked at record {seq}: it has {last}")
    patch = forked(head, asked)
    return create_session(connection, session_id, time, patch, branch, ForkParent(head.session_id, seq))


def append_records(connection: Connection, branch: LogBranch, time: int, entries: list[PendingRecord]) -> int:
    """Add records that the head must hear of; returns when it says that the session was last updated."""
    log_table.write_records(
        connection, branch.log, log_table.branch_last_seq(connection, branch) + 1, time, entries
    )
    before = summary_of_log(connection, branch.log)
    head = fold(before, time, [entry.news for entry in entries])
    if head is not before:
        put_summary(connection, branch.log, head)
    return head.updated


def delete_session(connection: Connection, branch: LogBranch) -> None:
    """Remove a session; what forks read of it stays."""
    remove_summary(connection, branch.log)
    log_table.cut(connection, branch)


def patch_entry(patch: SessionPatch) -> PendingRecord:
    """The store's own record."""
    return PendingRecord(SESSION, encode(patch), patch)
