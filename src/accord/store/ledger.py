"""What changes the log and the list together: beginning, adding to, forking and deleting a session, each within the caller's
transaction.
"""

from sqlite3 import Connection

from accord.errors import UsageError
from accord.schema.codec import encode
from accord.store import branches, catalogue, runs
from accord.store.branches import Branch
from accord.store.heads import FORMAT, Head, Parent, SessionPatch, begin, fold, forked, no_session
from accord.store.journal import Entry
from accord.store.records import SESSION


def branch_of(connection: Connection, session_id: str) -> Branch:
    """The log of a session. Raises NotFound."""
    branch = branches.of_session(connection, session_id)
    if branch is None:
        raise no_session(session_id)
    return branch


def create(
    connection: Connection,
    session_id: str,
    time: int,
    patch: SessionPatch,
    source: Branch | None = None,
    parent: Parent | None = None,
) -> Head:
    """Begin a session, on its own or as a fork."""
    if branches.of_session(connection, session_id) is not None:
        raise UsageError(f"there is a session {session_id} already")
    seq, name = (0, None) if parent is None else (parent.seq, parent.session_id)
    log = branches.grow(connection, session_id, source, seq, name, FORMAT)
    runs.write(connection, log, seq + 1, time, [note(patch)])
    head = begin(session_id, time, patch, parent)
    catalogue.put(connection, log, head)
    return head


def fork(
    connection: Connection,
    source: str,
    session_id: str,
    time: int,
    up_to: int | None,
    asked: SessionPatch,
) -> Head:
    """Begin a session with the records of another; what is not asked for comes from that one."""
    branch = branch_of(connection, source)
    head = catalogue.of_log(connection, branch.log)
    last = branches.last_seq(connection, branch)
    seq = last if up_to is None else up_to
    if not 0 <= seq <= last:
        raise UsageError(f"session {source} cannot be forked at record {seq}: it has {last}")
    patch = forked(head, asked)
    return create(connection, session_id, time, patch, branch, Parent(head.session_id, seq))


def add(connection: Connection, branch: Branch, time: int, entries: list[Entry]) -> int:
    """Add records that the head must hear of; returns when it says that the session was last updated."""
    runs.write(connection, branch.log, branches.last_seq(connection, branch) + 1, time, entries)
    before = catalogue.of_log(connection, branch.log)
    head = fold(before, time, [entry.news for entry in entries])
    if head is not before:
        catalogue.put(connection, branch.log, head)
    return head.updated


def delete(connection: Connection, branch: Branch) -> None:
    """Remove a session; what forks read of it stays."""
    catalogue.remove(connection, branch.log)
    branches.cut(connection, branch)


def note(patch: SessionPatch) -> Entry:
    """The store's own record."""
    return Entry(SESSION, encode(patch), patch)
