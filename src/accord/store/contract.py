"""The store contract, pages and cursors.

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
from accord.store.session_summary import SessionSummary, folder_of, plain

# MERGED store.contract: The contract of a store: session logs that are appended to, read, listed, forked and deleted.
#
# The rules any implementation keeps (tests/store/store_contract.py runs them against each):
# * a log only grows; its records are numbered from 1 without gaps, and are read in that order, each exactly once;
# * what was committed is there for everybody, whatever becomes of the process that wrote it;
# * one process writes to a session at a time, several to different ones, any number read;
# * a fork has the records of its source up to the branch, for good, whatever becomes of the source;
# * everything a list shows is folded from the log: `rebuild` changes nothing;
# * nothing is deleted but by `delete`.
#
# Everything here is synchronous: a call takes tens of microseconds where it writes a turn's records, and reading goes on page by
# page as the caller asks for more. A store belongs to one thread. Every method may raise StoreError, which names the file
# and says what to do; the others are named below.


class SessionPage(Struct, frozen=True):
    """Some of the sessions asked for; without a cursor, the last of them."""

    heads: tuple[SessionSummary, ...]
    next_cursor: str | None = None


class Lease(Struct, frozen=True):
    """Who writes to a session."""

    pid: int
    since: int
    """In microseconds since 1970."""
    ours: bool
    """Whether it is this store."""


class Store(Protocol):
    """Session logs."""

    # -- writing ------------------------------------------------------------------------------------------------

    def create(
        self, session_id: str, cwd: str, *, additional_directories: Iterable[str] = (), agent: str = ""
    ) -> SessionSummary:
        """Begin a session. Raises UsageError if the id is taken."""
        ...

    def journal(self, session_id: str) -> Journal:
        """Open a session for writing; a second journal of the same store writes beside the first. Raises NotFound, and
        SessionInUse while another process writes to it; a process that died holds nothing.
        """
        ...

    def commit(self) -> None:
        """Write what was appended to any journal, in one transaction; costs nothing if there is nothing."""
        ...

    @property
    def dirty(self) -> bool:
        """Whether something was appended and is not committed yet."""
        ...

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, session_id: str, after: int = 0) -> Iterator[LogRecord]:
        """The records behind a sequence number, up to the last one committed now. Raises NotFound."""
        ...

    def events(self, session_id: str, after: int = 0) -> Iterator[Event]:
        """The events among them; faster than `read`."""
        ...

    def last(self, session_id: str) -> int:
        """The sequence number of the last record. Raises NotFound."""
        ...

    # -- the list -----------------------------------------------------------------------------------------------

    def head(self, session_id: str) -> SessionSummary:
        """What a list shows of a session. Raises NotFound."""
        ...

    def list(
        self,
        cwd: str | None = None,
        *,
        agent: str | None = None,
        archived: str | None = "exclude",
        cursor: str | None = None,
        limit: int = 50,
    ) -> SessionPage:
        """Sessions of a folder, or of all, those used last first; `archived` is exclude, include or only. Sessions that begin
        while somebody pages neither shift nor double anything. Raises InvalidParams for a cursor that is not from this very
        question, and for an unknown filter.
        """
        ...

    def newest(self, cwd: str, *, agent: str | None = None) -> SessionSummary | None:
        """The session of this folder that was used last and is not archived."""
        ...

    def writer(self, session_id: str) -> Lease | None:
        """Who writes to a session right now, if anybody does."""
        ...

    def rebuild(self) -> None:
        """Fold the list anew from the logs."""
        ...

    # -- changing -----------------------------------------------------------------------------------------------

    def fork(
        self,
        source: str,
        session_id: str,
        *,
        cwd: str | None = None,
        additional_directories: Iterable[str] = (),
        up_to: int | None = None,
    ) -> SessionSummary:
        """Begin a session with the records of another, up to a sequence number or all; nothing is copied. The title comes along
        as a generated one. Raises NotFound for the source, UsageError for a taken id or a number that is not in the log.
        """
        ...

    def set_title(self, session_id: str, title: str) -> str:
        """Give a session the title the user chose, whoever writes to it; returns it as stored. Raises NotFound, and InvalidParams
        for an empty one.
        """
        ...

    def archive(self, session_id: str) -> None:
        """Hide a session from the ordinary list; again is fine. Raises NotFound."""
        ...

    def unarchive(self, session_id: str) -> None:
        """Show it again. Raises NotFound."""
        ...

    def delete(self, session_id: str) -> bool:
        """Remove a session for good, with its open journals; whether there was one. Forks of it stay whole. Raises SessionInUse
        while another process writes to it.
        """
        ...

    def close(self) -> None:
        """Commit, and let every session go. May be called twice."""
        ...


# MERGED store.cursor: Pages of a list: what is asked for, and the opaque cursor that says where the next page begins.
#
# A cursor names the last session of its page, so that sessions which begin in the meantime shift nothing, and the question
# it belongs to, so that it cannot go on with another one.

Archived: TypeAlias = Literal["exclude", "include", "only"]

PAGE_LIMIT: Final = 1000
_SHOWN: Final = 60


class CursorPosition(NamedTuple):
    """Where a session stands in the list: the newest first, and of equally new ones the one that began last."""

    updated: int
    number: int


class SessionQuery(NamedTuple):
    """What a list is asked for."""

    folder: str | None
    agent: str | None
    archived: Archived

    @property
    def mark(self) -> int:
        """A number that tells questions apart."""
        return crc32(json.encode(self))


def question(cwd: str | None, agent: str | None, archived: str | None, limit: int) -> SessionQuery:
    """Check what was asked. An unknown filter is refused, never read as another one."""
    if archived is None:
        archived = "exclude"
    if archived not in get_args(Archived):
        raise InvalidParams(f"archived: not one of exclude, include, only: {archived!r}")
    if not 1 <= limit <= PAGE_LIMIT:
        raise UsageError(f"a page has 1 to {PAGE_LIMIT} sessions, not {limit}")
    return SessionQuery(
        None if cwd is None else folder_of(cwd),
        None if agent is None else plain(agent),
        cast(Archived, archived),
    )


def cursor_of(asked: SessionQuery, place: CursorPosition) -> str:
    """The cursor behind this session."""
    return urlsafe_b64encode(_sealed(asked, place)).decode().rstrip("=")


def place_of(asked: SessionQuery, cursor: str) -> CursorPosition:
    """Where the next page begins. Raises InvalidParams for anything but a cursor of this very question."""
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        place = CursorPosition(*json.decode(text.partition(b".")[2], type=tuple[int, int]))
    except (ValueError, MsgspecError):
        raise _unknown(cursor) from None
    if cursor_of(asked, place) != cursor:
        raise _unknown(cursor)
    return place


def _sealed(asked: SessionQuery, place: CursorPosition) -> bytes:
    body = json.encode(tuple(place))
    return b"%08x." % crc32(body, asked.mark) + body


def _unknown(cursor: str) -> InvalidParams:
    shown = cursor if len(cursor) <= _SHOWN else cursor[:_SHOWN] + "..."
    return InvalidParams(f"Unknown cursor: {shown!r}")
