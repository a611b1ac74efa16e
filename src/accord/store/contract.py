"""The store contract, pages and cursors.

Every implementation keeps these rules (tests/store/store_contract.py checks each of them):

* a log only grows; its records are numbered from 1 without gaps and read in that order, each exactly once;
* committed records survive the end of the process that wrote them, and every process can read them;
* one process writes to a session at a time; several may write to different sessions, any number may read;
* a fork keeps the records of its source up to the branch, even if the source is deleted;
* the session list is computed from the logs alone: `rebuild` changes nothing;
* only `delete` deletes.

Imported on first use.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, cast, get_args
from zlib import crc32

from msgspec import MsgspecError, Struct, json

from accord.errors import InvalidParams, UsageError
from accord.session import Event
from accord.store.journal import Journal
from accord.store.records import LogRecord
from accord.store.session_summary import SessionSummary, normalized_folder, storable_text


class SessionPage(Struct, frozen=True):
    """One page of a session list. The last page has no cursor."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


class Lease(Struct, frozen=True):
    """The right of one process to write to a session."""

    pid: int
    since: int
    """In microseconds since 1970."""
    ours: bool
    """Whether this store holds it."""


class Store(Protocol):
    """Session logs: append, read, list, fork and delete.

    All methods are synchronous: a commit takes tens of microseconds, and `read` and `events` fetch page by
    page. A store belongs to one thread. Every method may raise StoreError, which names the file and says what
    to do. The docstrings name the other errors.
    """

    # -- writing ---------------------------------------------------------------------------------------------

    def create(
        self, session_id: str, cwd: str, *, additional_directories: Iterable[str] = (), agent: str = ""
    ) -> SessionSummary:
        """Create a session. Raises UsageError if the id is taken."""
        ...

    def journal(self, session_id: str) -> Journal:
        """Open a session for writing. One store may open several journals of a session.

        Raises NotFound, and SessionInUse while another living process writes to the session.
        """
        ...

    def commit(self) -> None:
        """Write everything appended to any journal in one transaction. Costs nothing if there is nothing."""
        ...

    @property
    def dirty(self) -> bool:
        """Whether there are records that are not committed yet."""
        ...

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, session_id: str, after: int = 0) -> Iterator[LogRecord]:
        """The records after a sequence number, up to the last one committed now. Raises NotFound."""
        ...

    def events(self, session_id: str, after: int = 0) -> Iterator[Event]:
        """The events after a sequence number; faster than `read`. Raises NotFound."""
        ...

    def last(self, session_id: str) -> int:
        """The sequence number of the last record. Raises NotFound."""
        ...

    # -- the list --------------------------------------------------------------------------------------------

    def summary(self, session_id: str) -> SessionSummary:
        """The list entry of a session. Raises NotFound."""
        ...

    def list(
        self,
        cwd: str | None = None,
        *,
        agent: str | None = None,
        archived: str | None = "exclude",
        used_only: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> SessionPage:
        """A page of the sessions of one folder or of all folders, most recently used first.

        `archived` is exclude, include or only. `used_only` leaves out sessions without a prompt.
        Sessions created between two pages neither shift nor repeat entries. Raises InvalidParams for an
        unknown filter and for a cursor of a different query.
        """
        ...

    def newest(self, cwd: str, *, agent: str | None = None) -> SessionSummary | None:
        """The most recently used session of this folder that is not archived."""
        ...

    def writer(self, session_id: str) -> Lease | None:
        """The lease of the process that writes to a session now; None if the session is free."""
        ...

    def writers(self) -> dict[str, Lease]:
        """The leases of all sessions that a process writes to now, by session id."""
        ...

    def rebuild(self) -> None:
        """Compute the session list again from the logs."""
        ...

    # -- changing --------------------------------------------------------------------------------------------

    def fork(
        self,
        source: str,
        session_id: str,
        *,
        cwd: str | None = None,
        additional_directories: Iterable[str] = (),
        up_to: int | None = None,
    ) -> SessionSummary:
        """Create a session that starts with the records of another one, all of them or up to a sequence
        number.

        The fork inherits the title as a generated one. Raises NotFound for the source, and UsageError for a
        taken id or a number that is not in the log.
        """
        ...

    def set_title(self, session_id: str, title: str) -> str:
        """Set the title that the user chose, also while another process writes to the session.

        Returns the stored title.

        Raises NotFound, and InvalidParams for an empty title.
        """
        ...

    def archive(self, session_id: str) -> None:
        """Hide a session from the default list. May be repeated. Raises NotFound."""
        ...

    def unarchive(self, session_id: str) -> None:
        """Show a session in the default list again. Raises NotFound."""
        ...

    def delete(self, session_id: str) -> bool:
        """Delete a session and invalidate its open journals. Returns whether it existed. Forks stay complete.

        Raises SessionInUse while another process writes to it.
        """
        ...

    def close(self) -> None:
        """Commit and release every session. May be called twice."""
        ...


Archived: TypeAlias = Literal["exclude", "include", "only"]

PAGE_LIMIT: Final[int] = 1000
_MAX_SHOWN_CURSOR: Final = 60
_MAX_NUMBER: Final = (1 << 63) - 1


class CursorPosition(NamedTuple):
    """The sort key of a session in the list. At equal times the session created last comes first."""

    updated: int
    number: int


class SessionQuery(NamedTuple):
    """The filters of a session list."""

    folder: str | None
    agent: str | None
    archived: Archived
    used_only: bool

    @property
    def checksum(self) -> int:
        """A number that differs between queries."""
        return crc32(json.encode(self))


def session_query(
    cwd: str | None, agent: str | None, archived: str | None, used_only: bool, limit: int
) -> SessionQuery:
    """Check the arguments of `Store.list`.

    Raises InvalidParams for an unknown filter, UsageError for a bad limit.
    """
    if archived is None:
        archived = "exclude"
    if archived not in get_args(Archived):
        raise InvalidParams(f"archived: not one of exclude, include, only: {archived!r}")
    if not 1 <= limit <= PAGE_LIMIT:
        raise UsageError(f"a page has 1 to {PAGE_LIMIT} sessions, not {limit}")
    return SessionQuery(
        None if cwd is None else normalized_folder(cwd),
        None if agent is None else storable_text(agent),
        cast(Archived, archived),
        used_only,
    )


def cursor_after(query: SessionQuery, position: CursorPosition) -> str:
    """The opaque cursor of the page that follows this session.

    A cursor holds the position of the last session of its page, so that new sessions shift nothing, and a
    checksum over the query, so that it is valid for this query only.
    """
    body = json.encode(tuple(position))
    signed = b"%08x." % crc32(body, query.checksum) + body
    return urlsafe_b64encode(signed).decode().rstrip("=")


def cursor_at(updated: int, cwd: str | None, *, agent: str | None, archived: Archived) -> str:
    """The cursor of the sessions that were last used at this time (in microseconds since 1970) or earlier."""
    return cursor_after(session_query(cwd, agent, archived, False, 1), CursorPosition(updated, _MAX_NUMBER))


def parse_cursor(query: SessionQuery, cursor: str) -> CursorPosition:
    """The position that a cursor holds.

    Raises InvalidParams unless `cursor_after` made it for the same query.
    """
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        position = CursorPosition(*json.decode(text.partition(b".")[2], type=tuple[int, int]))
    except (ValueError, MsgspecError):
        raise _unknown_cursor(cursor) from None
    if cursor_after(query, position) != cursor:
        raise _unknown_cursor(cursor)
    return position


def _unknown_cursor(cursor: str) -> InvalidParams:
    shown = cursor if len(cursor) <= _MAX_SHOWN_CURSOR else cursor[:_MAX_SHOWN_CURSOR] + "..."
    return InvalidParams(f"Unknown cursor: {shown!r}")
