"""The tables of a store's file, as the steps that lead to them: a file's version is the number of steps it has taken.

`records` is the log: one row for the records that one commit added to one session and that are of one kind. Its key is
the number of the log in the upper half and the first sequence number of the row in the lower, so that a log lies together.
`logs` says which log belongs to which session and where it branched off; a log whose session was deleted stays as
long as forks read it. `heads` is folded from these two, and `leases` says which process writes to a session.
"""

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

APPLICATION_ID: Final = 0x41434C47  # "ACLG"
"""In the header of the file: tells a store from other programs' databases."""

SEQ_BITS: Final = 32

_FIRST: Final = (
    """
    CREATE TABLE logs (
        log INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT UNIQUE,
        base INTEGER,
        base_last INTEGER NOT NULL,
        parent TEXT,
        parent_seq INTEGER,
        format INTEGER NOT NULL
    )
    """,
    "CREATE INDEX logs_by_base ON logs (base, base_last)",
    """
    CREATE TABLE records (
        key INTEGER PRIMARY KEY,
        length INTEGER NOT NULL,
        time INTEGER NOT NULL,
        kind TEXT NOT NULL,
        data BLOB NOT NULL
    )
    """,
    """
    CREATE TABLE heads (
        log INTEGER PRIMARY KEY,
        session TEXT NOT NULL UNIQUE,
        cwd TEXT NOT NULL,
        folder TEXT NOT NULL,
        agent TEXT NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        title TEXT,
        title_set INTEGER NOT NULL,
        additional_directories TEXT NOT NULL,
        archived INTEGER NOT NULL
    )
    """,
    "CREATE INDEX heads_by_time ON heads (updated, log)",
    "CREATE INDEX heads_by_folder ON heads (folder, updated, log)",
    """
    CREATE TABLE leases (
        session TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        pid INTEGER NOT NULL,
        since INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
)

STEPS: Final[Sequence[Sequence[str]]] = (_FIRST,)
"""What leads from each version to the next. Steps are only ever added."""


def version_of(connection: Connection) -> int | None:
    """The version of the file: 0 for a new one, None for one of another program."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id == APPLICATION_ID:
        return version
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return None if application_id or version or tables else 0


def upgrade(connection: Connection, steps: Sequence[Sequence[str]] = STEPS) -> None:
    """Take the steps that the file lacks, all of them or none."""
    if version_of(connection) == len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection)  # another process may have been faster
        if version is not None:
            for step in steps[version:]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
