"""The contracts between the gateway and what keeps its state: session logs, the inbox, the fence.

One machine keeps everything in files (`accord.gateway.session_log`); a cluster keeps it in JetStream. Each
contract has one test that every implementation passes (tests/gateway/book_contract.py).

The rules of the logs:

* the records of a log are numbered from 1 without gaps, and every reader sees them in this order, each once;
* a frame is sent after the records that were appended before it are committed (`accord.gateway.outbox`);
* an answer reaches the agent after its record is committed (`SessionLog.when`), or not at all;
* one process writes to a log at a time. A writer that was replaced can add no record.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from accord.errors import AccordError, StoreError
from accord.frontend.recording import RecordedSession
from accord.schema import SessionUpdate
from accord.session import Event, SessionState
from accord.store import SessionSummary
from accord.store.records import unfinished

OnCommit: TypeAlias = Callable[[StoreError | None], None]
"""Called once: with None when the record is committed, or with the reason why it is not."""


HIDDEN_FROM_ALL: Final = "*"


class SessionOwner(Struct, frozen=True, omit_defaults=True):
    """Another process on this machine that writes to the log of a session."""

    pid: int
    since: str
    """An ISO time."""
    url: str | None = None
    """The address, if it is a gateway of this user on this machine."""

    def __str__(self) -> str:
        where = (
            f"process {self.pid}" if self.url is None else f"the gateway at {self.url} (process {self.pid})"
        )
        return f"{where} since {self.since}"


class SessionNode(Struct, frozen=True):
    """The node of a cluster that has a session, and what the session does there."""

    node: str
    state: str = "idle"
    """`running`, `waiting`, `idle`, or `lost`: the node is gone, and a turn was under way."""
    is_lost: bool = False
    """Whether the node does not run, as far as is known."""


class LogReader(Protocol):
    """Reads one log in pages, so that neither the loop is blocked nor a whole log is kept."""

    @property
    def state(self) -> SessionState:
        """The state after the records read so far. Complete once `page` has returned an empty page."""
        ...

    @property
    def in_history(self) -> bool:
        """Whether the latest page was of the history so far, not of what was appended since."""
        ...

    async def read_state(self) -> None:
        """Apply everything so far to `state`. Raises StoreError."""
        ...

    async def page(self) -> list[Event]:
        """Return the next events, at most 256: first the history so far as few events, with one for each
        terminal of the agent, then what was appended since. An empty page: everything is read.

        Nothing is appended between the check for an empty page and the return of the awaiting task's next
        step, so a caller that then attaches a client without awaiting misses nothing. A later call goes on
        with what was appended meanwhile. Raises StoreError.
        """
        ...


class SessionLog(Protocol):
    """The log of one session. Only `claim` raises."""

    @property
    def id(self) -> str:
        """The id of the log: unique in the book, without dots and spaces. It survives a rename."""
        ...

    @property
    def epoch(self) -> int:
        """The number of this writer's claim; larger than that of every earlier writer of this log."""
        ...

    @property
    def noted(self) -> int:
        """The number of the last record that was appended, committed or not."""
        ...

    @property
    def committed(self) -> int:
        """The number of the last record that is committed."""
        ...

    @property
    def summary(self) -> SessionSummary | None:
        """The entry of the session list; None if there is none."""
        ...

    def append(self, *items: Event | SessionUpdate, by: str = "") -> None:
        """Add events. `Book.commit` writes them.

        `by` is the id of the connection that must not get these records back: a client's own prompt. With
        `HIDDEN_FROM_ALL`, no attached client gets them.
        """
        ...

    def append_one(self, item: Event | SessionUpdate) -> None:
        """Like `append` for one event, on the hot path."""
        ...

    def note(self, kind: str, value: Any) -> None:
        """Add a record of the gateway's own kind, such as `gateway.answer`. Readers of events skip it."""
        ...

    def change_entry(self, *, title: str | None = None, archived: bool | None = None) -> None:
        """Change the title in the session list, or move the session to the archive or out of it.

        Raises UsageError for a title without characters, and StoreError.
        """
        ...

    def when(self, number: int, then: OnCommit) -> None:
        """Call `then` when the record with this number is committed, or known not to be.

        At once if that is known already, else in the order of the numbers. A record that failed is never
        reported as committed later. `then` must not raise.
        """
        ...

    async def claim(self) -> list[Event]:
        """Become the writer. Close what an earlier writer left open, such as a running turn and its tool
        calls, and return the events that this appended.

        Called once, before anything is appended to a log that existed before. Raises SessionInUse while
        another process or node writes to the log, and StoreError.
        """
        ...

    def reader(self, after: int = 0) -> LogReader:
        """Return a reader of the records after a number. The state then has nothing of those before it."""
        ...

    def close(self) -> None:
        """Stop writing, so that another process or node can. What was appended is committed first."""
        ...


async def close_open_items(log: SessionLog) -> list[Event]:
    """Close what an agent that ended left open. Return the events that this appended. Raises StoreError."""
    reader = log.reader()
    await reader.read_state()
    closing = unfinished(reader.state)
    log.append(*closing)
    return closing


class SessionNames(Protocol):
    """The ids of sessions in a cluster, where two agents that count their sessions use the same ones."""

    async def reserve(self, agent: str, own_id: str, cwd: str, additional_folders: Iterable[str]) -> str:
        """Create the log of a session that the agent has just created, and return the id for it.

        It is the agent's own one, or one with `~` in it if another node has a session with that id.
        Raises StoreError and InvalidRequest.
        """
        ...

    def own_id(self, agent: str, session_id: str) -> str:
        """Return the agent's own id of a session."""
        ...

    def renamed(self, agent: str) -> Mapping[str, str]:
        """Return the sessions of this node with another id than the agent's, by the agent's."""
        ...


class Book(Protocol):
    """The logs of all sessions of all agents. Finding and listing read a local catalog and never wait."""

    @property
    def names(self) -> SessionNames | None:
        """Names new sessions, in a cluster; None if agents do."""
        ...

    @property
    def uncommitted(self) -> bool:
        """Whether frames have to wait, because the commit of a log is under way.

        Always False on one machine, also after a failure: there, a log that cannot be written never stops a
        turn.
        """
        ...

    def open_log(
        self,
        agent: str,
        session_id: str,
        cwd: str,
        additional_folders: Iterable[str] = (),
        *,
        new: bool = False,
    ) -> SessionLog:
        """Return the log of a session, created if needed. Reads no records.

        `new`: the agent has just created the session. A log with the same id, of an agent that counts its
        sessions from 1 at each start, is kept under another id.

        Raises InvalidRequest if it cannot be written, for example because another process writes to it.
        """
        ...

    def find(self, agent: str, session_id: str) -> RecordedSession | None:
        """Return the stored session; None if there is none."""
        ...

    def pages(
        self, agent: str | None = None, cwd: str | None = None, before: int | None = None
    ) -> Iterator[Sequence[RecordedSession]]:
        """Yield the stored sessions in pages, most recently used first.

        `before`: only those that were last used at this time (in microseconds since 1970) or earlier. A
        page is read when it is asked for, so that the caller can let other tasks run between two.
        """
        ...

    def owners(self) -> dict[str, SessionOwner]:
        """Return which sessions another process of this machine writes to, by the id in the store."""
        ...

    def node_of(self, agent: str, session_id: str) -> SessionNode | None:
        """Return which node of the cluster has a session; None on one machine."""
        ...

    def require_unowned(self, agent: str, session_id: str) -> None:
        """Raise InvalidRequest, with the owner, if another process of this machine writes to the session."""
        ...

    def commit(self) -> None:
        """Write everything that was appended. On one machine it is done on return, else begun."""
        ...

    async def delete(self, agent: str, session_id: str) -> bool:
        """Delete a stored session; return whether it existed. Raises SessionInUse, StoreError."""
        ...

    async def aclose(self) -> None:
        """Commit, wait for it in bounded time, and release everything."""
        ...


class RecordMark(NamedTuple):
    """The place in a session's log that a frame belongs after."""

    log: SessionLog
    number: int


class InboxItem(Struct, frozen=True):
    """A request of an agent that waits for a user, as the inbox shows it."""

    id: str
    """The id of the log, the epoch of its writer and a number, with dots between them."""
    agent: str
    session_id: str
    folders: tuple[str, ...]
    """Of its session."""
    json: bytes
    """The entry for clients."""


class InboxShare(Protocol):
    """Shows the requests of this gateway at other nodes, and theirs here."""

    @property
    def on_change(self) -> Callable[[InboxItem, bool], None]:
        """Called with a request of another node, and whether it is pending."""
        ...

    @on_change.setter
    def on_change(self, callback: Callable[[InboxItem, bool], None]) -> None: ...

    def add(self, item: InboxItem) -> None:
        """Show a request at other nodes, soon. Its record is committed."""
        ...

    def remove(self, id: str) -> None:
        """Show a request no longer, soon."""
        ...

    def others(self) -> list[InboxItem]:
        """The requests of other nodes that can be answered."""
        ...


OPEN_AT_NODE: Final = "openAtNode"
"""In the data of an error: the node of a cluster that has the session and should be asked instead."""


class Fenced(AccordError):
    """This node has lost its right to act for a session."""


class Fence(Protocol):
    """Asked before everything that a node does for its sessions."""

    def check(self) -> None:
        """Raise Fenced if the node's lease has ended by its own clock, also right after a pause."""
        ...
