"""The list of sessions: the `heads` table, kept current with every commit and folded anew from the log on demand."""

from itertools import chain
from sqlite3 import Connection
from typing import Any, Final

from msgspec import ValidationError, convert, json

from accord.store import branches, runs
from accord.store.contract import Page
from accord.store.cursor import Place, Question, cursor_of
from accord.store.heads import Head, Parent, SessionPatch, begin, fold, folder_of, news_in

_COLUMNS: Final = (
    "log, session, cwd, folder, agent, created, updated, title, title_set, additional_directories, archived"
)
_SELECT: Final = (
    "SELECT heads.log, heads.session, cwd, agent, created, updated, title, title_set, additional_directories, "
    "archived, parent, parent_seq, format FROM heads JOIN logs ON logs.log = heads.log "
)


def put(connection: Connection, log: int, head: Head) -> None:
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


def of_log(connection: Connection, log: int) -> Head:
    """What is shown of the session that has this log."""
    return _head(connection.execute(_SELECT + "WHERE heads.log = ?", (log,)).fetchone())


def of_session(connection: Connection, session_id: str) -> Head | None:
    """What is shown of a session."""
    row = connection.execute(_SELECT + "WHERE heads.session = ?", (session_id,)).fetchone()
    return None if row is None else _head(row)


def remove(connection: Connection, log: int) -> None:
    """Show this session no more."""
    connection.execute("DELETE FROM heads WHERE log = ?", (log,))


def page(connection: Connection, asked: Question, below: Place | None, limit: int) -> Page:
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
    more = cursor_of(asked, Place(heads[-1].updated, rows[limit - 1][0])) if len(rows) > limit else None
    return Page(tuple(heads), more)


def rebuild(connection: Connection) -> None:
    """Fold every head anew from its log."""
    connection.execute("DELETE FROM heads")
    rows = connection.execute(
        "SELECT log, session, base, base_last, parent, parent_seq FROM logs WHERE session IS NOT NULL"
    ).fetchall()
    for log, session_id, base, base_last, parent, parent_seq in rows:
        branch = branches.Branch(log, base, base_last)
        came_from = None if parent is None else Parent(parent, parent_seq)
        put(connection, log, _folded(connection, branch, session_id, came_from))


def _folded(connection: Connection, branch: branches.Branch, session_id: str, parent: Parent | None) -> Head:
    own = runs.read(
        lambda low, high: runs.page(connection, low, high),
        branch.log,
        branch.base_last + 1,
        branches.last_seq(connection, branch),
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


def _head(row: Any) -> Head:
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
        Head,
    )
