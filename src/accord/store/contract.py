"""The contract of a store: session logs that are appended to, read, listed, forked and deleted.

The rules any implementation keeps (tests/store/store_contract.py runs them against each):
* a log only grows; its records are numbered from 1 without gaps, and are read in that order, each exactly once;
* what was committed is there for everybody, whatever becomes of the process that wrote it;
* one process writes to a session at a time, several to different ones, any number read;
* a fork has the records of its source up to the branch, for good, whatever becomes of the source;
* everything a list shows is folded from the log: `rebuild` changes nothing;
* nothing is deleted but by `delete`.

Everything here is synchronous: a call takes tens of microseconds where it writes a turn's records, and reading goes on page by
page as the caller asks for more. A store belongs to one thread. Every method may raise StoreError, which names the file
and says what to do; the others are named below.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from accord.session import Event
from accord.store.heads import Head
from accord.store.journal import Journal
from accord.store.records import LogRecord


class Page(Struct, frozen=True):
    """Some of the sessions asked for; without a cursor, the last of them."""

    heads: tuple[Head, ...]
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
    ) -> Head:
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

    def head(self, session_id: str) -> Head:
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
    ) -> Page:
        """Sessions of a folder, or of all, those used last first; `archived` is exclude, include or only. Sessions that begin
        while somebody pages neither shift nor double anything. Raises InvalidParams for a cursor that is not from this very
        question, and for an unknown filter.
        """
        ...

    def newest(self, cwd: str, *, agent: str | None = None) -> Head | None:
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
    ) -> Head:
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
