"""Session logs in JetStream as the gateway uses them: new, claimed, read, listed, released and deleted."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.cluster.nats_servers import RunningServer, jetstream_of
from tests.gateway.book_contract import CHECKS, listed
from tests.patience import PATIENCE

from accord.cluster.book import ClusterBook
from accord.cluster.cluster_log import ClusterLog
from accord.cluster.log_writer import LogFull, SessionMoved
from accord.cluster.settings import ClusterSettings
from accord.cluster.streams import prepare_streams
from accord.errors import InvalidRequest, SessionInUse, StoreError
from accord.gateway.contracts import Fenced
from accord.schema import AgentMessageChunk, SessionInfoUpdate, TextContent
from accord.session import Event, MessageChanged, TurnEnded, TurnStarted
from accord.testing.fake_clock import settle


class FakeFence:
    """A lease that a test can end."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.ended = False

    def check(self) -> None:
        if self.ended:
            raise Fenced("the lease of this node has ended")


class Events:
    """Notes what a book reports."""

    def __init__(self) -> None:
        self.failures: asyncio.Queue[StoreError] = asyncio.Queue()

    def log_paused(self, agent: str, session_id: str, paused: bool) -> None: ...
    def log_waits(self, agent: str, session_id: str, waits: bool) -> None: ...
    def log_failed(self, agent: str, session_id: str, error: StoreError) -> None:
        self.failures.put_nowait(error)


class Cluster:
    """One set of sessions, and books of nodes in it."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self.dead: set[str] = set()
        """Incarnations that are gone."""
        self._stack = AsyncExitStack()

    async def book(self, node: str = "n1", incarnation: str = "aa") -> ClusterBook:
        jetstream = await self._stack.enter_async_context(jetstream_of(self.settings, node))
        streams = await prepare_streams(jetstream, self.settings)

        async def may_claim(node: str, incarnation: str) -> bool:
            return incarnation in self.dead

        book = ClusterBook(streams, node, fence=FakeFence(incarnation), may_claim=may_claim)
        self._stack.push_async_callback(book.aclose)
        await book.start()
        return book

    async def aclose(self) -> None:
        await self._stack.aclose()


@pytest.fixture
async def cluster(server: RunningServer) -> AsyncGenerator[Cluster]:
    cluster = Cluster(server.settings())
    yield cluster
    await cluster.aclose()


def _text(text: str) -> AgentMessageChunk:
    return AgentMessageChunk(content=TextContent(text=text))


def _new(book: ClusterBook, session_id: str = "s1", agent: str = "a") -> ClusterLog:
    return book.open_log(agent, session_id, "/project", new=True)


async def _committed(book: ClusterBook, log: ClusterLog) -> None:
    book.commit()
    done: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
    log.when(log.noted, done.set_result)
    error = await asyncio.wait_for(done, PATIENCE)
    if error is not None:
        raise error


async def _until(book: ClusterBook, is_true: Callable[[], bool]) -> None:
    """Wait until the index of a node says so."""
    changed = asyncio.Event()
    book.index.on_change = lambda *_: changed.set()
    while not is_true():
        changed.clear()
        await asyncio.wait_for(changed.wait(), PATIENCE)


async def _read(log: ClusterLog, after: int = 0) -> list[Event]:
    reader = log.reader(after)
    events: list[Event] = []
    while page := await reader.page():
        assert len(page) <= 256
        events += page
    return events


def _texts(events: list[Event]) -> str:
    """What the agent said."""
    return "".join(
        event.text
        for event in events
        if isinstance(event, AgentMessageChunk)
        or (isinstance(event, MessageChanged) and event.kind == "agent")
    )


async def test_records_are_read_back_by_every_node(cluster: Cluster) -> None:
    book, other = await cluster.book(), await cluster.book("n2", "bb")
    log = _new(book)
    assert (log.epoch, log.committed) == (1, 0)
    log.append(TurnStarted([TextContent(text="hello")]), by="line-1")
    for number in range(600):
        log.append_one(_text(f"{number},"))
    log.note("gateway.asked", {"id": "1"})
    log.append(TurnEnded())
    assert book.uncommitted
    await _committed(book, log)
    assert not book.uncommitted
    expected = "".join(f"{number}," for number in range(600))
    assert _texts(await _read(log)) == expected
    assert len(await _read(log, after=log.noted)) == 0

    # Another node finds it in the index and reads the same. It cannot write while the owner lives.
    await _until(other, lambda: other.find("a", "s1") is not None)
    theirs = other.open_log("a", "s1", "/project")
    assert theirs.id == log.id
    assert _texts(await _read(theirs)) == expected
    with pytest.raises(SessionInUse, match="session s1 is open at node n1"):
        await theirs.claim()
    theirs.append(_text("not mine"))
    assert theirs.committed < theirs.noted
    assert _texts(await _read(log)) == expected


async def test_a_joining_client_also_gets_what_is_not_committed_yet(cluster: Cluster) -> None:
    book = await cluster.book()
    log = _new(book)
    log.append(_text("a"))
    await _committed(book, log)
    reader = log.reader()
    assert _texts(await reader.page()) == "a"
    log.append(_text("b"))
    book.commit()
    log.append(_text("c"))
    assert _texts(await reader.page()) == "bc"
    assert await reader.page() == []
    await _committed(book, log)
    assert await reader.page() == []
    log.append(_text("d"))
    await _committed(book, log)
    assert _texts(await reader.page()) == "d"


async def test_a_successor_closes_what_a_killed_owner_left_open(cluster: Cluster) -> None:
    first = await cluster.book()
    log = _new(first)
    log.append(TurnStarted([TextContent(text="go")]), _text("half"))
    await _committed(first, log)
    cluster.dead.add("aa")

    second = await cluster.book("n2", "bb")
    taken = second.open_log("a", "s1", "/project")
    closing = await taken.claim()
    assert [type(event) for event in closing] == [TurnEnded]
    await _committed(second, taken)
    assert taken.epoch == 2
    assert await taken.claim() == []

    events = Events()
    first.listener = events
    log.append(_text("too late"))
    with pytest.raises(StoreError, match="another node writes to session log"):
        await _committed(first, log)
    await asyncio.wait_for(events.failures.get(), PATIENCE)
    assert _texts(await _read(taken)) == "half"


async def test_a_stopped_node_releases_its_sessions(cluster: Cluster) -> None:
    first = await cluster.book()
    log = _new(first)
    log.append(_text("mine"))
    await first.aclose()
    assert log.committed == log.noted
    second = await cluster.book("n2", "bb")
    taken = second.open_log("a", "s1", "/project")
    assert await taken.claim() == []
    assert taken.epoch == 2
    assert _texts(await _read(taken)) == "mine"


async def test_a_session_that_comes_back_keeps_the_title_of_the_other_node(cluster: Cluster) -> None:
    first, second = await cluster.book(), await cluster.book("n2", "bb")
    log = _new(first)
    await _committed(first, log)
    log.close()
    await _until(second, lambda: second.find("a", "s1") is not None)
    taken = second.open_log("a", "s1", "/project")
    await taken.claim()
    taken.append(SessionInfoUpdate(title="Second"))
    await _committed(second, taken)
    taken.close()
    await _until(first, lambda: [found.summary.title for found in listed(first)] == ["Second"])
    await first.open_log("a", "s1", "/project").claim()
    assert [found.summary.title for found in listed(first)] == ["Second"]
    await _until(second, lambda: [entry.node for entry in second.index] == ["n1"])
    assert [found.summary.title for found in listed(second)] == ["Second"]


async def test_the_list_shows_titles_and_the_latest_first(cluster: Cluster) -> None:
    book, other = await cluster.book(), await cluster.book("n2", "bb")
    for name in ("one", "two"):
        log = _new(book, name)
        log.append(SessionInfoUpdate(title=f"Title {name}"))
        await _committed(book, log)
    one = book.open_log("a", "one", "/project")
    one.append(TurnStarted([TextContent(text="again")]))
    await _committed(book, one)
    assert [recorded.session_id for recorded in listed(book, "a", "/project/")] == ["one", "two"]
    assert listed(book, "b") == []
    assert listed(book, cwd="/elsewhere") == []
    titles = [("one", "Title one"), ("two", "Title two")]
    await _until(other, lambda: [(one.session_id, one.summary.title) for one in listed(other)] == titles)
    restarted = await cluster.book("n3", "cc")
    assert {found.session_id for found in listed(restarted)} == {"one", "two"}


async def test_a_session_with_a_used_id_sets_the_earlier_one_aside(cluster: Cluster) -> None:
    """Some agents count their sessions from 1 at each start."""
    book = await cluster.book()
    early = _new(book, "1")
    early.append(_text("early"))
    await _committed(book, early)
    early.close()
    late = _new(book, "1")
    late.append(_text("late"))
    await _committed(book, late)
    created = early.summary.created if early.summary else 0
    assert {found.session_id for found in listed(book)} == {"1", f"1~{created}"}
    assert _texts(await _read(book.open_log("a", "1", "/project"))) == "late"
    aside = book.open_log("a", f"1~{created}", "/project")
    assert _texts(await _read(aside)) == "early"


async def test_two_nodes_cannot_create_the_same_session(cluster: Cluster) -> None:
    book, other = await cluster.book(), await cluster.book("n2", "bb")
    log = _new(book, "same")
    theirs = _new(other, "same")
    outcomes = await asyncio.gather(_committed(book, log), _committed(other, theirs), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "SessionMoved"]


async def test_a_deleted_session_is_gone_everywhere(cluster: Cluster) -> None:
    book, other = await cluster.book(), await cluster.book("n2", "bb")
    log = _new(book)
    log.append(_text("secret"))
    await _committed(book, log)
    await _until(other, lambda: other.find("a", "s1") is not None)
    with pytest.raises(SessionInUse, match="open at node n1; delete it there"):
        await other.delete("a", "s1")
    assert await book.delete("a", "s1")
    assert not await book.delete("a", "s1")
    await _until(other, lambda: other.find("a", "s1") is None)
    assert await book.jetstream.last(log._address.stream, log._address.subject) is None
    log.append(_text("after"))
    with pytest.raises(StoreError, match="was deleted"):
        await _committed(book, log)
    again = _new(book)
    again.append(_text("new"))
    await _committed(book, again)
    assert _texts(await _read(again)) == "new"


async def test_a_deletion_waits_for_the_append_that_is_under_way(cluster: Cluster) -> None:
    """The servers may store an append after a purge that was sent later: a record would stay."""
    book = await cluster.book()
    log = _new(book)
    await _committed(book, log)
    append, purge = book.jetstream.append, book.jetstream.purge
    order: list[str] = []
    sent, stored = asyncio.Event(), asyncio.Event()

    async def append_late(subject: str, *arguments: Any, **options: Any) -> int:
        if ".log." in subject:
            sent.set()
            await stored.wait()
            order.append("append")
        return await append(subject, *arguments, **options)

    async def noted_purge(stream: str, subject: str) -> int:
        order.append("purge")
        return await purge(stream, subject)

    book.jetstream.append = append_late  # type: ignore[method-assign]
    book.jetstream.purge = noted_purge  # type: ignore[method-assign]
    log.append(_text("late"))
    book.commit()
    await asyncio.wait_for(sent.wait(), PATIENCE)
    deleting = asyncio.ensure_future(book.delete("a", "s1"))
    await settle()
    assert order == []
    stored.set()
    assert await asyncio.wait_for(deleting, PATIENCE)
    assert (order[0], order[-1]) == ("append", "purge")
    assert await book.jetstream.last(log._address.stream, log._address.subject) is None


async def test_a_session_that_another_node_deleted_is_not_shown_again_by_its_late_owner(
    cluster: Cluster,
) -> None:
    late, other = await cluster.book(), await cluster.book("n2", "bb")
    events = Events()
    late.listener = events
    log = _new(late)
    log.append(_text("one"))
    await _committed(late, log)
    cluster.dead.add("aa")
    await other.index.refresh()
    assert await other.delete("a", "s1")
    await _until(late, lambda: late.find("a", "s1") is None)
    log.append(SessionInfoUpdate(title="late"))
    late.commit()
    assert isinstance(await asyncio.wait_for(events.failures.get(), PATIENCE), SessionMoved)
    log.append(SessionInfoUpdate(title="later"))
    assert late.find("a", "s1") is None


async def test_a_claim_of_a_session_that_is_being_deleted_leaves_nothing(cluster: Cluster) -> None:
    book, other = await cluster.book(), await cluster.book("n2", "bb")
    log = _new(book)
    log.append(_text("one"))
    await log.release()
    await other.index.refresh()
    late = other.open_log("a", "s1", "/project")
    assert await book.index.remove("a", "s1", log.id)
    with pytest.raises(StoreError, match="session s1 was deleted"):
        await late.claim()
    assert not late.writable
    assert await other.jetstream.last(late.stream, f"{cluster.settings.prefix}.log.00.{late.id}") is None
    assert other.find("a", "s1") is None


async def test_a_node_without_its_lease_opens_and_writes_nothing(cluster: Cluster) -> None:
    book = await cluster.book()
    log = _new(book)
    await _committed(book, log)
    assert isinstance(book.fence, FakeFence)
    book.fence.ended = True
    log.append(_text("no"))
    with pytest.raises(StoreError, match="the lease of this node has ended"):
        await _committed(book, log)
    with pytest.raises(InvalidRequest, match="cannot be opened here now"):
        _new(book, "s2")


async def test_frames_of_a_log_that_was_given_up_are_not_sent(cluster: Cluster) -> None:
    book = await cluster.book("n1")
    log = _new(book)
    await _committed(book, log)
    book.give_up("the lease ended")
    log.append(_text("never written"))
    assert book.uncommitted
    with pytest.raises(StoreError, match="gave the session up"):
        await _committed(book, log)


async def test_a_delete_that_is_canceled_as_the_lease_ends_leaves_no_error_behind(
    cluster: Cluster,
) -> None:
    book = await cluster.book()
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(str(context)))
    _new(book)
    deleting = asyncio.ensure_future(book.delete("a", "s1"))
    await asyncio.sleep(0)  # it waits for the append of the first records
    deleting.cancel()
    book.give_up("the lease ended")
    await asyncio.wait((deleting,))
    await settle()
    del deleting
    gc.collect()
    assert reported == []


async def test_a_full_stream_is_reported_and_the_rest_stays_readable(server: RunningServer) -> None:
    cluster = Cluster(server.settings(log_bytes=20_000))
    try:
        book = await cluster.book()
        events = Events()
        book.listener = events
        log = _new(book)
        log.append(_text("short"))
        await _committed(book, log)
        log.append(_text("x" * 30_000))
        with pytest.raises(LogFull, match="is full, so the session is read-only"):
            await _committed(book, log)
        assert isinstance(await asyncio.wait_for(events.failures.get(), PATIENCE), LogFull)
        assert _texts(await _read(log)) == "short"
        assert [one.session_id for one in listed(book)] == ["s1"]
        log = _new(book, "s2")
        log.append(_text("x" * 30_000))
        with pytest.raises(LogFull, match="is full"):
            await _committed(book, log)
        await book.tasks.wait()
        assert [one.session_id for one in listed(book)] == ["s1"]  # a session without any record is not shown
    finally:
        await cluster.aclose()


async def test_a_closed_log_can_be_opened_again(cluster: Cluster) -> None:
    book = await cluster.book()
    log = _new(book)
    log.append(_text("a"))
    log.close()
    again = book.open_log("a", "s1", "/project")
    await again.claim()
    again.append(_text("b"))
    await _committed(book, again)
    assert again.epoch == 2
    assert _texts(await _read(again)) == "ab"


class ClusterBackend:
    """Each book is a node of its own; all of them live."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._books: list[ClusterBook] = []

    async def open(self) -> ClusterBook:
        number = len(self._books)
        book = await self._cluster.book(f"n{number}", f"i{number}")
        self._books.append(book)
        return book

    async def settle(self) -> None:
        for book in self._books:
            await book.index.refresh()


@pytest.mark.parametrize("check", CHECKS)
async def test_contract(check: str, cluster: Cluster) -> None:
    await CHECKS[check](ClusterBackend(cluster))
