"""The session list, and the transactions that change log and list together.

The list is the `heads` table. Every commit updates it, and `rebuild_summaries` computes it from the logs.

Imported on first use.
"""

from itertools import chain
from sqlite3 import Connection
from typing import Any, Final

from msgspec import ValidationError, convert, json

from accord.errors import UsageError
from accord.schema.codec import encode
from accord.store import log_table
from accord.store.contract import CursorPosition, SessionPage, SessionQuery, cursor_after
from accord.store.journal import PendingRecords
from accord.store.log_table import LogBranch
from accord.store.records import SESSION
from accord.store.session_summary import (
    FORMAT,
    ForkParent,
    SessionPatch,
    SessionSummary,
    effects_in,
    first_summary,
    fork_patch,
    normalized_folder,
    session_not_found,
    updated_summary,
)
from accord.text_width import count_text

_COLUMNS: Final = (
    "log, session, cwd, folder, agent, created, updated, title, title_set, additional_directories, archived"
)
_SELECT: Final = (
    "SELECT heads.log, heads.session, cwd, agent, created, updated, title, title_set, "
    "additional_directories, archived, parent, parent_seq, format "
    "FROM heads JOIN logs ON logs.log = heads.log "
)


def put_summary(connection: Connection, log: int, summary: SessionSummary) -> None:
    """Insert or replace the list entry of a session."""
    connection.execute(
        f"INSERT OR REPLACE INTO heads ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            log,
            summary.session_id,
            summary.cwd,
            normalized_folder(summary.cwd),
            summary.agent,
            summary.created,
            summary.updated,
            summary.title,
            summary.title_set,
            json.encode(summary.additional_directories).decode(),
            summary.archived,
        ),
    )


def summary_of_log(connection: Connection, log: int) -> SessionSummary:
    """The list entry of the session that has this log."""
    return _summary(connection.execute(_SELECT + "WHERE heads.log = ?", (log,)).fetchone())


def summary_of_session(connection: Connection, session_id: str) -> SessionSummary | None:
    """The list entry of a session."""
    row = connection.execute(_SELECT + "WHERE heads.session = ?", (session_id,)).fetchone()
    return None if row is None else _summary(row)


def remove_summary(connection: Connection, log: int) -> None:
    """Delete the list entry of a session."""
    connection.execute("DELETE FROM heads WHERE log = ?", (log,))


def summary_page(
    connection: Connection, query: SessionQuery, after: CursorPosition | None, limit: int
) -> SessionPage:
    """One page of the sessions that match, most recently used first."""
    conditions = ["1"]
    values: list[Any] = []
    if query.folder is not None:
        conditions.append("folder = ?")
        values.append(query.folder)
    if query.agent is not None:
        conditions.append("agent = ?")
        values.append(query.agent)
    if query.archived != "include":
        conditions.append("archived = ?")
        values.append(query.archived == "only")
    if query.used_only:  # as `SessionSummary.is_used`
        conditions.append("(updated > created OR title IS NOT NULL OR parent IS NOT NULL)")
    if after is not None:
        conditions.append("(updated, heads.log) < (?, ?)")
        values += after
    rows = connection.execute(
        f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY updated DESC, heads.log DESC LIMIT ?",
        (*values, limit + 1),
    ).fetchall()
    summaries = [_summary(row) for row in rows[:limit]]
    next_cursor = (
        cursor_after(query, CursorPosition(summaries[-1].updated, rows[limit - 1][0]))
        if len(rows) > limit
        else None
    )
    return SessionPage(tuple(summaries), next_cursor)


def rebuild_summaries(connection: Connection) -> None:
    """Compute every list entry again from its log."""
    connection.execute("DELETE FROM heads")
    rows = connection.execute(
        "SELECT log, session, base, base_last, parent, parent_seq FROM logs WHERE session IS NOT NULL"
    ).fetchall()
    for log, session_id, base, base_last, parent, parent_seq in rows:
        branch = log_table.LogBranch(log, base, base_last)
        source = None if parent is None else ForkParent(parent, parent_seq)
        put_summary(connection, log, _computed_summary(connection, branch, session_id, source))


def _computed_summary(
    connection: Connection, branch: log_table.LogBranch, session_id: str, parent: ForkParent | None
) -> SessionSummary:
    pages = log_table.read_records(
        lambda low, high: log_table.record_page(connection, low, high),
        branch.log,
        branch.base_last + 1,
        log_table.branch_last_seq(connection, branch),
    )
    groups = chain.from_iterable(pages)
    first = next(groups, None)
    patch = None if first is None else next(iter(effects_in(first)), None)
    if first is None or not isinstance(patch, SessionPatch):
        raise ValidationError("the first record of a log is the store's own")
    summary = first_summary(session_id, first.time, patch, parent)
    for group in groups:
        summary = updated_summary(summary, group.time, effects_in(group))
    return summary


def _summary(row: Any) -> SessionSummary:
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


# Each of the following functions changes log and list together, within the transaction of the caller.


def branch_of(connection: Connection, session_id: str) -> LogBranch:
    """The log of a session. Raises NotFound."""
    branch = log_table.branch_of_session(connection, session_id)
    if branch is None:
        raise session_not_found(session_id)
    return branch


def create_session(
    connection: Connection,
    session_id: str,
    time: int,
    patch: SessionPatch,
    source: LogBranch | None = None,
    parent: ForkParent | None = None,
) -> SessionSummary:
    """Create a session, new or as a fork."""
    if log_table.branch_of_session(connection, session_id) is not None:
        raise UsageError(f"session {session_id} already exists")
    seq, name = (0, None) if parent is None else (parent.seq, parent.session_id)
    log = log_table.create_log(connection, session_id, source, seq, name, FORMAT)
    log_table.write_records(connection, log, seq + 1, time, [patch_record(patch)])
    summary = first_summary(session_id, time, patch, parent)
    put_summary(connection, log, summary)
    return summary


def fork_session(
    connection: Connection,
    source: str,
    session_id: str,
    time: int,
    up_to: int | None,
    requested: SessionPatch,
) -> SessionSummary:
    """Create a session with the records of another one.

    Values that `requested` does not set come from the source.
    """
    branch = branch_of(connection, source)
    summary = summary_of_log(connection, branch.log)
    last = log_table.branch_last_seq(connection, branch)
    seq = last if up_to is None else up_to
    if not 0 <= seq <= last:
        raise UsageError(
            f"session {source} cannot be forked at record {seq}: it has {count_text(last, 'record')}"
        )
    patch = fork_patch(summary, requested)
    return create_session(connection, session_id, time, patch, branch, ForkParent(summary.session_id, seq))


def append_records(
    connection: Connection, branch: LogBranch, first: int, time: int, entries: list[PendingRecords]
) -> int:
    """Append records that may change the summary. Returns the time of the session's last update."""
    log_table.write_records(connection, branch.log, first, time, entries)
    before = summary_of_log(connection, branch.log)
    summary = updated_summary(before, time, [entry.effect for entry in entries])
    if summary is not before:
        put_summary(connection, branch.log, summary)
    return summary.updated


def agent_names(connection: Connection) -> list[str]:
    """The names of all agents that have sessions."""
    return [name for (name,) in connection.execute("SELECT DISTINCT agent FROM heads")]


def sessions_of_agent(connection: Connection, agent: str) -> list[str]:
    """The ids of all sessions of an agent."""
    rows = connection.execute("SELECT session FROM heads WHERE agent = ?", (agent,))
    return [session_id for (session_id,) in rows]


def rename_agent(connection: Connection, before: str, after: str) -> None:
    """Replace the name of an agent in the list, in the logs, and at the start of its session ids."""
    for session_id in sessions_of_agent(connection, before):
        new_id = _free_id(connection, after + session_id.removeprefix(before), session_id)
        for statement in (
            "UPDATE heads SET session = ? WHERE session = ?",
            "UPDATE logs SET session = ? WHERE session = ?",
            "UPDATE logs SET parent = ? WHERE parent = ?",
            "UPDATE leases SET session = ? WHERE session = ?",
        ):
            connection.execute(statement, (new_id, session_id))
    connection.execute("UPDATE heads SET agent = ? WHERE agent = ?", (after, before))
    # Logs of deleted sessions stay as long as forks read them, so all logs are searched.
    old, new = (b'"agent":' + encode(name) for name in (before, after))
    rows = connection.execute(
        "SELECT key, data FROM records WHERE kind = ? AND instr(data, ?) > 0", (SESSION, old)
    ).fetchall()
    for key, data in rows:
        connection.execute("UPDATE records SET data = ? WHERE key = ?", (data.replace(old, new), key))


def _free_id(connection: Connection, wanted: str, session_id: str) -> str:
    """The wanted id, or one like it if another session has it."""
    free, number = wanted, 1
    while free != session_id and log_table.branch_of_session(connection, free) is not None:
        number += 1
        free = f"{wanted}~{number}"
    return free


def delete_session(connection: Connection, branch: LogBranch) -> None:
    """Delete a session. Records that forks read stay."""
    remove_summary(connection, branch.log)
    log_table.delete_log(connection, branch)


def patch_record(patch: SessionPatch) -> PendingRecords:
    """The record of a change of the list entry."""
    return PendingRecords(SESSION, [encode(patch)], patch)
