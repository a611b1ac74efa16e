"""The store contract as checks that every implementation runs.

A `StoreBackend` holds the logs. Each store that it opens behaves like a separate process.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Protocol

import pytest

from accord.errors import InvalidParams, NotFound, SessionInUse, UsageError
from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CurrentModeUpdate,
    Diff,
    Notice,
    PermissionOption,
    Plan,
    PlanEntry,
    SessionInfoUpdate,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallUpdate,
    Unknown,
    UsageUpdate,
    UserMessageChunk,
)
from accord.session import (
    Event,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    SessionOpened,
    SessionState,
    TurnEnded,
    TurnStarted,
    text_of,
)
from accord.store import EVENT, SESSION, ForkParent, SessionSummary, Store


class ManualClock:
    """A clock for all stores of a backend. It moves only when a test advances it."""

    def __init__(self) -> None:
        self.at = 1_700_000_000_000_000

    def now(self) -> int:
        return self.at

    def advance(self, seconds: float = 1.0) -> None:
        self.at += int(seconds * 1_000_000)


class StoreBackend(Protocol):
    """Holds the logs that several stores share."""

    @property
    def clock(self) -> ManualClock: ...

    def open(self) -> Store:
        """Open a store on these logs. The backend closes it at the end of the test."""
        ...


Check = Callable[[StoreBackend], Awaitable[None] | None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Add a check to the contract under its own name."""
    CHECKS[getattr(function, "__name__", "")] = function
    return function


def chunk(text: str) -> AgentMessageChunk:
    return AgentMessageChunk(TextContent(text), "m1")


def append_texts(store: Store, session_id: str, *texts: str) -> None:
    with store.journal(session_id) as journal:
        for text in texts:
            journal.append(chunk(text))
            journal.commit()


def logged_texts(store: Store, session_id: str, after: int = 0) -> list[str]:
    return [text_of(event) for event in store.events(session_id, after)]


def ids(heads: tuple[SessionSummary, ...]) -> list[str]:
    return [summary.session_id for summary in heads]


@contextmanager
def no_session(session_id: str) -> Generator[None]:
    with pytest.raises(NotFound) as caught:
        yield
    assert caught.value.data == {"sessionId": session_id}


# -- the log ---------------------------------------------------------------------------------------------


@check
def records_are_numbered_without_gaps_and_keep_kind_time_and_payload(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    backend.clock.advance()
    with store.journal("s1") as journal:
        journal.append(chunk("one"), chunk("two"))
        journal.record("coder.message", {"role": "user", "parts": [1, None, "ü"]})
        journal.append(chunk("three"))
        journal.commit()
        backend.clock.advance()
        journal.record("coder.note", "a", ["b"])
    records = list(store.read("s1"))
    assert [record.seq for record in records] == [1, 2, 3, 4, 5, 6, 7]
    assert [record.kind for record in records] == [
        SESSION,
        EVENT,
        EVENT,
        "coder.message",
        EVENT,
        "coder.note",
        "coder.note",
    ]
    assert [record.time - records[0].time for record in records] == [0, *[1_000_000] * 4, *[2_000_000] * 2]
    assert records[3].value == {"role": "user", "parts": [1, None, "ü"]}
    assert [record.value for record in records[5:]] == ["a", ["b"]]
    assert records[4].event == chunk("three")
    assert logged_texts(store, "s1") == ["one", "two", "three"]
    assert store.last("s1") == 7


@check
def events_are_read_back_unchanged(backend: StoreBackend) -> None:
    live = SessionState()
    appended: list[Event] = [
        SessionOpened("s1", "/home/me", ["/home/lib"]),
        TurnStarted([TextContent("do it")]),
        UserMessageChunk(TextContent("do it")),
        AgentThoughtChunk(TextContent("hm"), "t1"),
        PermissionAsked(
            "p1", [PermissionOption("y", "Yes", "allow_once")], ToolCallUpdate("c0", title="Try")
        ),
        PermissionAnswered("p1"),
        UsageUpdate(10, 100),
        Unknown("_vendor/odd", {"sessionUpdate": "_vendor/odd", "deep": [{"a": None}]}),
        ModeChanged("ask"),
        TurnEnded("end_turn", "end_turn"),
    ]
    store = backend.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        for event in appended:
            journal.append(event)
            live.apply(event)
    assert list(store.events("s1")) == appended
    assert [record.event for record in store.read("s1", after=1)] == appended
    again = SessionState()
    for event in backend.open().events("s1"):
        again.apply(event)
    assert again.snapshot() == live.snapshot()


@check
def wire_updates_are_logged_as_session_events(backend: StoreBackend) -> None:
    live = SessionState("s1")
    updates = [
        ToolCall("c1", "Edit", kind="edit", status="pending", raw_input={"path": "a"}),
        ToolCallChange("c1", status="in_progress", content=[Diff("/a", "new", "old")]),
        ToolCallChange("c1", status="completed"),
        Plan([PlanEntry("step", "high", "pending")]),
        CurrentModeUpdate("plan"),
        chunk("done"),
    ]
    store = backend.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(*updates)
        for update in updates:
            # Events that passed through a state carry the whole call; the log stores only the change.
            journal.append(live.apply(update))
    events = list(store.events("s1"))
    assert events[: len(updates)] == events[len(updates) :]
    again = SessionState("s1")
    for event in events[: len(updates)]:
        again.apply(event)
    assert again.snapshot() == live.snapshot()
    assert again.tool_calls["c1"].status == "completed"


@check
def later_changes_to_a_content_block_do_not_change_the_log(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    block = TextContent("before")
    with store.journal("s1") as journal:
        journal.append(AgentMessageChunk(block))
        block.text = "after"
    assert logged_texts(store, "s1") == ["before"]


@check
def notices_are_not_logged(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(Notice("info", "Saved"))
        assert not store.dirty
        journal.append(Notice("info", "Saved"), chunk("hello"))
    assert logged_texts(store, "s1") == ["hello"]


@check
def record_rejects_reserved_and_invalid_kinds(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        for kind in (EVENT, SESSION, "", "Upper", "has space", "x" * 65):
            with pytest.raises(UsageError):
                journal.record(kind, {})
        with pytest.raises(UsageError):
            journal.append(Unknown("odd", "no object"))
        assert not store.dirty
    assert store.last("s1") == 1


@check
def read_starts_after_the_given_record_and_ends_at_the_last(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(*[chunk(str(number)) for number in range(5)])
        journal.commit()
        journal.append(*[chunk(str(number)) for number in range(5, 8)])
    for after in range(-1, 12):
        assert [record.seq for record in store.read("s1", after)] == list(range(max(after, 0) + 1, 10))
        assert logged_texts(store, "s1", after) == [str(number) for number in range(8)][max(after - 1, 0) :]


@check
def a_long_log_is_read_in_order_as_of_the_start_of_the_read(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        for start in range(0, 3000, 60):
            journal.append(
                *[chunk(f"{number} {'x' * (number % 7) * 400}") for number in range(start, start + 60)]
            )
            journal.commit()
        reading = store.events("s1")
        first = text_of(next(reading))
        journal.append(chunk("later"))
        journal.commit()
        texts = [first, *[text_of(event) for event in reading]]
    assert [text.split(" ")[0] for text in texts] == [str(number) for number in range(3000)]
    assert logged_texts(store, "s1", 3001) == ["later"]


@check
def a_huge_record_is_read_back_whole(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    texts = ["small", "y" * 3_000_000, "small too", "z" * 700_000]
    with store.journal("s1") as journal:
        journal.append(*[chunk(text) for text in texts])
    assert logged_texts(store, "s1") == texts


@check
def unusual_texts_are_read_back(backend: StoreBackend) -> None:
    store = backend.open()
    texts = ["", "\x00\x1b[31m", "日本語 👋", '"]},{', "\u2028", "\ud800 alone"]
    store.create("s ü\x00/%", "/home/ü ", additional_directories=["/a'b"])
    with store.journal("s ü\x00/%") as journal:
        journal.append(*[chunk(text) for text in texts])
    assert logged_texts(backend.open(), "s ü\x00/%") == [*texts[:-1], "\ufffd alone"]
    summary = store.summary("s ü\x00/%")
    assert (summary.cwd, summary.additional_directories) == ("/home/ü ", ("/a'b",))
    store.create("\ud800", "/home/\ud800")
    assert store.newest("/home/\ud800") == store.summary("\ud800")
    with no_session("\ud801x"):
        store.summary("\ud801x")


# -- commits ---------------------------------------------------------------------------------------------


@check
def other_stores_see_only_committed_records(backend: StoreBackend) -> None:
    store, other = backend.open(), backend.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(chunk("one"))
        assert store.dirty
        assert logged_texts(other, "s1") == []
        journal.commit()
        assert not store.dirty
        assert logged_texts(other, "s1") == ["one"]
        journal.append(chunk("two"))
        assert logged_texts(store, "s1") == ["one", "two"], "a store must read its own uncommitted records"
    journal.close()
    with pytest.raises(UsageError):
        journal.append(chunk("three"))
    assert logged_texts(other, "s1") == ["one", "two"]


@check
async def all_appends_of_one_event_loop_iteration_are_one_commit(backend: StoreBackend) -> None:
    store, other = backend.open(), backend.open()
    store.create("s1", "/home/me")
    store.create("s2", "/home/me")
    first, second = store.journal("s1"), store.journal("s2")
    first.append(chunk("one"))
    second.append(chunk("uno"))
    first.append(chunk("two"))
    assert (logged_texts(other, "s1"), logged_texts(other, "s2")) == ([], [])
    await asyncio.sleep(0)
    assert (logged_texts(other, "s1"), logged_texts(other, "s2")) == (["one", "two"], ["uno"])
    first.append(chunk("three"))
    await asyncio.sleep(0)
    assert logged_texts(other, "s1") == ["one", "two", "three"]


@check
def closing_a_store_commits_and_releases_its_sessions(backend: StoreBackend) -> None:
    store, other = backend.open(), backend.open()
    store.create("s1", "/home/me")
    journal = store.journal("s1")
    journal.append(chunk("one"))
    store.close()
    store.close()
    assert journal.closed
    append_texts(other, "s1", "two")
    assert logged_texts(other, "s1") == ["one", "two"]


# -- writers ---------------------------------------------------------------------------------------------


@check
def only_one_store_at_a_time_writes_to_a_session(backend: StoreBackend) -> None:
    store, other = backend.open(), backend.open()
    store.create("s1", "/home/me")
    store.create("s2", "/home/me")
    assert store.writer("s1") is None
    journal = store.journal("s1")
    with pytest.raises(SessionInUse, match="s1"):
        other.journal("s1")
    with pytest.raises(SessionInUse, match="s1"):
        other.delete("s1")
    mine, theirs = store.writer("s1"), other.writer("s1")
    assert (store.writers(), other.writers()) == ({"s1": mine}, {"s1": theirs})
    assert mine is not None
    assert theirs is not None
    assert (mine.ours, theirs.ours, theirs.since) == (True, False, backend.clock.at)
    append_texts(other, "s2", "other sessions are free")
    journal.append(chunk("one"))
    journal.close()
    assert store.writer("s1") is None
    append_texts(other, "s1", "two")
    assert logged_texts(store, "s1") == ["one", "two"]


@check
def one_store_can_open_a_session_for_writing_twice(backend: StoreBackend) -> None:
    store, other = backend.open(), backend.open()
    store.create("s1", "/home/me")
    first = store.journal("s1")
    second = store.journal("s1")
    first.append(chunk("one"))
    second.append(chunk("two"))
    first.close()
    with pytest.raises(SessionInUse):
        other.journal("s1")
    second.append(chunk("three"))
    second.close()
    append_texts(other, "s1", "four")
    assert logged_texts(other, "s1") == ["one", "two", "three", "four"]


@check
def title_and_archive_can_change_while_another_store_writes(backend: StoreBackend) -> None:
    store, other = backend.open(), backend.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(chunk("one"))
        journal.commit()
        other.set_title("s1", "Mine")
        other.archive("s1")
        journal.append(chunk("two"), SessionInfoUpdate("Generated"), TurnEnded("end_turn"))
    summary = other.summary("s1")
    assert (summary.title, summary.title_set, summary.archived) == ("Mine", True, True)
    assert [record.seq for record in store.read("s1")] == list(range(1, 8))
    assert logged_texts(store, "s1")[:2] == ["one", "two"]


# -- unknown and duplicate ids ---------------------------------------------------------------------------


@check
def an_unknown_session_raises_not_found_with_its_id(backend: StoreBackend) -> None:
    store = backend.open()
    for attempt in (
        lambda: store.summary("nope"),
        lambda: store.last("nope"),
        lambda: store.read("nope"),
        lambda: store.events("nope"),
        lambda: store.journal("nope"),
        lambda: store.archive("nope"),
        lambda: store.unarchive("nope"),
        lambda: store.set_title("nope", "x"),
        lambda: store.fork("nope", "new"),
    ):
        with no_session("nope"):
            attempt()
    assert store.writer("nope") is None
    assert store.list().sessions == ()


@check
def a_session_id_can_be_used_only_once(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    with pytest.raises(UsageError, match="s1"):
        backend.open().create("s1", "/home/you")
    with pytest.raises(UsageError, match="s1"):
        store.fork("s1", "s1")
    assert store.summary("s1").cwd == "/home/me"


# -- the list --------------------------------------------------------------------------------------------


@check
def the_list_starts_with_the_most_recently_used_sessions(backend: StoreBackend) -> None:
    store = backend.open()
    for name in ("a", "b", "c"):
        store.create(name, "/home/me")
        backend.clock.advance()
    assert ids(store.list().sessions) == ["c", "b", "a"]
    with store.journal("a") as journal:
        journal.append(TurnStarted([TextContent("again")]))
    assert ids(store.list().sessions) == ["a", "c", "b"]
    assert ids(backend.open().list().sessions) == ["a", "c", "b"]
    assert store.list().next_cursor is None
    newest = store.newest("/home/me")
    assert newest is not None
    assert newest.session_id == "a"
    info = newest.info()
    assert (info.session_id, info.cwd, info.archived) == ("a", "/home/me", False)
    assert info.updated_at == "2023-11-14T22:13:23.000+00:00"


@check
def the_list_can_be_filtered_by_folder_and_agent(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("a", "/home/me/one")
    store.create("b", "/home/me/two/")
    store.create("c", "/home/me/two", agent="claude")
    assert ids(store.list("/home/me/one").sessions) == ["a"]
    assert ids(store.list("/home/me/two").sessions) == ["c", "b"]
    assert ids(store.list("/home/me/./two/").sessions) == ["c", "b"]
    assert ids(store.list("/home/me/two", agent="").sessions) == ["b"]
    assert ids(store.list(agent="claude").sessions) == ["c"]
    assert store.list("/home/me").sessions == ()
    assert store.list("/nonexistent").sessions == ()
    assert store.newest("/home/me") is None
    found = store.newest("/home/me/two", agent="")
    assert found is not None
    assert found.session_id == "b"


@check
def the_list_can_leave_out_sessions_without_a_prompt(backend: StoreBackend) -> None:
    store = backend.open()
    for name in ("empty", "titled", "prompted"):
        store.create(name, "/home/me")
    backend.clock.advance()
    store.set_title("titled", "Mine")
    store.journal("prompted").append(TurnStarted([TextContent("hello")]))
    store.commit()
    store.fork("prompted", "forked")
    assert set(ids(store.list(used_only=True).sessions)) == {"titled", "prompted", "forked"}
    assert len(store.list().sessions) == 4
    first = store.list(used_only=True, limit=1)
    with pytest.raises(InvalidParams, match="Unknown cursor"):
        store.list(cursor=first.next_cursor)
    store.rebuild()
    assert set(ids(store.list(used_only=True).sessions)) == {"titled", "prompted", "forked"}


@check
def pages_hold_every_session_once_while_new_sessions_are_created(backend: StoreBackend) -> None:
    store, other = backend.open(), backend.open()
    for number in range(25):
        store.create(f"s{number}", "/home/me" if number % 2 else "/home/you")
        if number % 3:
            backend.clock.advance()  # some sessions get the same time
    for cwd, expected in ((None, 25), ("/home/me", 12)):
        before = ids(store.list(cwd, limit=1000).sessions)
        assert len(before) == expected
        seen: list[str] = []
        page = store.list(cwd, limit=4)
        while True:
            assert len(page.sessions) <= 4
            seen += ids(page.sessions)
            other.create(f"new {cwd} {len(seen)}", cwd or "/home/me")
            if page.next_cursor is None:
                break
            page = store.list(cwd, limit=4, cursor=page.next_cursor)
        assert seen == before
        for number in range(4, 29, 4):
            store.delete(f"new {cwd} {number}")
        store.delete(f"new {cwd} {expected}")


@check
def listing_does_not_change_the_sessions(backend: StoreBackend) -> None:
    store = backend.open()
    for name in ("a", "b"):
        store.create(name, "/home/me")
        backend.clock.advance()
    before = store.list()
    backend.clock.advance(3600)
    assert store.list() == before
    assert backend.open().list() == before


@check
def a_cursor_is_valid_only_for_the_query_that_returned_it(backend: StoreBackend) -> None:
    store = backend.open()
    for number in range(4):
        store.create(f"s{number}", "/home/me")
    cursor = store.list("/home/me", limit=2).next_cursor
    assert cursor is not None
    assert ids(backend.open().list("/home/me", limit=2, cursor=cursor).sessions) == ["s1", "s0"]
    mangled = cursor[:-2] + ("A" if cursor[-2] != "A" else "B") + cursor[-1]
    for garbage in ("", "garbage", "ü", "2", "0", cursor + "=", cursor[1:], mangled, "A" * 100_000, "\ud800"):
        with pytest.raises(InvalidParams, match="cursor") as caught:
            store.list("/home/me", cursor=garbage)
        assert len(str(caught.value)) < 200
    for other in (
        lambda: store.list(cursor=cursor),
        lambda: store.list("/home/you", cursor=cursor),
        lambda: store.list("/home/me", archived="include", cursor=cursor),
        lambda: store.list("/home/me", agent="x", cursor=cursor),
    ):
        with pytest.raises(InvalidParams, match="cursor"):
            other()
    for limit in (0, -1, 1001):
        with pytest.raises(UsageError):
            store.list(limit=limit)


@check
def archived_sessions_are_hidden_and_can_be_restored(backend: StoreBackend) -> None:
    store = backend.open()
    for name in ("a", "b", "c"):
        store.create(name, "/home/me")
        backend.clock.advance()
    append_texts(store, "b", "kept")
    before = store.summary("b")
    backend.clock.advance()
    store.archive("b")
    store.archive("b")
    assert store.summary("b").archived
    assert store.summary("b").updated == before.updated
    assert ids(store.list().sessions) == ["c", "a"]
    assert ids(store.list(archived=None).sessions) == ["c", "a"]
    assert ids(store.list(archived="include").sessions) == ["b", "c", "a"]
    assert ids(store.list("/home/me", archived="only").sessions) == ["b"]
    assert logged_texts(store, "b") == ["kept"]
    page = store.list(archived="include", limit=2)
    assert ids(store.list(archived="include", limit=2, cursor=page.next_cursor).sessions) == ["a"]
    store.unarchive("b")
    store.unarchive("b")
    assert store.summary("b") == before
    for odd in ("zzz", "", "Exclude"):
        with pytest.raises(InvalidParams, match="archived"):
            store.list(archived=odd)


@check
def a_title_set_by_the_user_is_not_replaced_by_a_generated_one(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    assert store.summary("s1").title is None
    with store.journal("s1") as journal:
        journal.append(SessionInfoUpdate("Fix  the\ntest"))
        assert store.summary("s1").title == "Fix the test"
        journal.append(SessionInfoUpdate("Better"))
        assert store.summary("s1").title == "Better"
        journal.append(SessionInfoUpdate(None))
        assert store.summary("s1").title is None
        assert store.set_title("s1", "  My\ttitle \x1b ") == "My title"
        journal.append(SessionInfoUpdate("Generated"), SessionInfoUpdate(None))
    summary = backend.open().summary("s1")
    assert (summary.title, summary.title_set) == ("My title", True)
    assert store.set_title("s1", "Mine again") == "Mine again"
    assert len(store.set_title("s1", "x" * 5000)) == 200
    for empty in ("", "  \n ", "\x00"):
        with pytest.raises(InvalidParams, match="title"):
            store.set_title("s1", empty)
    assert store.summary("s1").title == "x" * 200


@check
def only_turns_and_messages_change_the_updated_time(backend: StoreBackend) -> None:
    store = backend.open()
    created = store.create("s1", "/home/me")
    assert created.created == created.updated == backend.clock.at
    with store.journal("s1") as journal:
        backend.clock.advance(60)
        journal.append(SessionOpened("s1"), UsageUpdate(1, 2), SessionInfoUpdate("Title"))
        journal.record("coder.note", 1)
        store.set_title("s1", "Mine")
        store.archive("s1")
        assert store.summary("s1").updated == created.updated, (
            "opening, settings and titles must not change the time"
        )
        journal.append(TurnStarted([TextContent("go")]))
        started = backend.clock.at
        assert store.summary("s1").updated == started
        backend.clock.advance(0.4)
        journal.append(chunk("quick"))
        assert store.summary("s1").updated == started, (
            "within a turn the time changes at most once per second"
        )
        backend.clock.advance(0.7)
        journal.append(chunk("slow"))
        assert store.summary("s1").updated == backend.clock.at
        backend.clock.advance(0.1)
        journal.append(chunk("last"), TurnEnded("end_turn"))
        assert store.summary("s1").updated == backend.clock.at
        ended = backend.clock.at
        backend.clock.advance(-600)
        journal.append(chunk("the clock went back"), TurnStarted())
    assert store.summary("s1").updated == ended
    assert store.summary("s1").created == created.created


@check
def the_head_has_the_most_recent_additional_directories(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me", additional_directories=["/lib", "/etc"])
    assert store.summary("s1").additional_directories == ("/lib", "/etc")
    with store.journal("s1") as journal:
        journal.append(SessionOpened("s1"))
        assert store.summary("s1").additional_directories == ("/lib", "/etc")
        journal.append(SessionOpened("s1", "/home/me", ["/opt"]))
        assert store.summary("s1").additional_directories == ("/opt",)
        journal.append(SessionOpened("s1", "/home/me", []))
    assert backend.open().summary("s1").additional_directories == ()


# -- forks and deletion ----------------------------------------------------------------------------------


@check
def a_fork_copies_the_history_and_then_diverges(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me", additional_directories=["/lib"], agent="claude")
    append_texts(store, "s1", "one", "two")
    store.set_title("s1", "Mine")
    store.archive("s1")
    before = store.summary("s1")
    backend.clock.advance()
    fork = store.fork("s1", "f1")
    assert (fork.cwd, fork.agent, fork.title, fork.title_set) == ("/home/me", "claude", "Mine", False)
    assert (fork.additional_directories, fork.archived) == ((), False)
    assert (fork.created, fork.updated) == (backend.clock.at, backend.clock.at)
    assert fork.parent == ForkParent("s1", 5)
    append_texts(store, "f1", "fork")
    append_texts(store, "s1", "source")
    assert logged_texts(store, "f1") == ["one", "two", "fork"]
    assert logged_texts(store, "s1") == ["one", "two", "source"]
    assert [record.seq for record in store.read("f1")] == list(range(1, 8))
    assert logged_texts(store, "f1", 2) == ["two", "fork"]
    assert logged_texts(store, "f1", 6) == ["fork"]
    assert store.summary("s1").parent is None
    assert (store.summary("s1").title_set, store.summary("s1").created) == (True, before.created)
    other = store.fork("s1", "f2", cwd="/home/you", additional_directories=["/opt"])
    assert (other.cwd, other.additional_directories) == ("/home/you", ("/opt",))


@check
def a_fork_can_start_after_any_record(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(*[chunk(str(number)) for number in range(6)])
    store.fork("s1", "mid", up_to=4)
    assert logged_texts(store, "mid") == ["0", "1", "2"]
    append_texts(store, "mid", "a", "b")
    store.fork("mid", "early", up_to=3)
    store.fork("mid", "late", up_to=7)
    store.fork("mid", "empty", up_to=0)
    for name in ("early", "late", "empty"):
        append_texts(store, name, name)
    assert logged_texts(store, "early") == ["0", "1", "early"]
    assert logged_texts(store, "late") == ["0", "1", "2", "a", "b", "late"]
    assert logged_texts(store, "empty") == ["empty"]
    assert store.summary("early").parent == ForkParent("mid", 3)
    for name in ("s1", "mid", "early", "late", "empty"):
        records = list(store.read(name))
        assert [record.seq for record in records] == list(range(1, store.last(name) + 1))
    for odd in (-1, 8, 100):
        with pytest.raises(UsageError, match=str(odd)):
            store.fork("mid", "new", up_to=odd)


@check
def deleting_a_session_keeps_its_forks_complete(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    append_texts(store, "s1", "one", "two", "three")
    store.fork("s1", "f1", up_to=3)
    append_texts(store, "f1", "four")
    store.fork("f1", "f2")
    append_texts(store, "f2", "five")
    assert store.delete("s1")
    assert logged_texts(backend.open(), "f1") == ["one", "two", "four"]
    assert store.delete("f1")
    assert logged_texts(backend.open(), "f2") == ["one", "two", "four", "five"]
    assert ids(store.list().sessions) == ["f2"]
    store.create("s1", "/home/again")
    append_texts(store, "s1", "anew")
    assert logged_texts(store, "s1") == ["anew"]
    assert logged_texts(store, "f2") == ["one", "two", "four", "five"]
    store.rebuild()
    assert sorted(ids(store.list().sessions)) == ["f2", "s1"]
    assert store.delete("f2")
    assert logged_texts(store, "s1") == ["anew"]


@check
def a_deleted_session_is_gone_and_deleting_it_again_returns_false(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me")
    store.create("s2", "/home/me")
    journal = store.journal("s1")
    journal.append(chunk("gone"))
    other = store.journal("s2")
    other.append(chunk("stays"))
    assert store.delete("s1")
    assert not store.delete("s1")
    assert not store.delete("nope")
    assert journal.closed
    journal.close()
    with pytest.raises(UsageError):
        journal.append(chunk("too late"))
    with no_session("s1"):
        store.summary("s1")
    assert ids(store.list(archived="include").sessions) == ["s2"]
    assert logged_texts(store, "s2") == ["stays"]
    store.create("s1", "/home/you")
    assert (logged_texts(store, "s1"), store.last("s1")) == ([], 1)


@check
def sessions_are_never_deleted_automatically(backend: StoreBackend) -> None:
    store = backend.open()
    for number in range(120):
        store.create(f"s{number}", "/home/me")
        backend.clock.advance(86_400 * 30)
    assert len(store.list(limit=1000).sessions) == 120


@check
def the_list_can_be_rebuilt_from_the_logs(backend: StoreBackend) -> None:
    store = backend.open()
    store.create("s1", "/home/me", additional_directories=["/lib"], agent="claude")
    with store.journal("s1") as journal:
        for number in range(8):
            backend.clock.advance(0.3)
            journal.append(TurnStarted() if number % 4 == 0 else chunk(str(number)))
            journal.record("coder.note", number)
            journal.append(SessionInfoUpdate(f"Title {number}"))
            journal.commit()
        journal.append(SessionOpened("s1", "/elsewhere", ["/opt"]), Unknown("x", {"sessionUpdate": 5}))
    store.fork("s1", "f1", up_to=4, cwd="/home/you")
    backend.clock.advance()
    append_texts(store, "f1", "x")
    store.set_title("f1", "Fork")
    store.set_title("s1", "Mine")
    store.create("s2", "/home/me")
    store.archive("s2")
    store.create("s3", "/home/me")
    store.fork("s3", "f3")
    store.delete("s3")
    before = store.list(archived="include")
    assert len(before.sessions) == 4
    store.rebuild()
    assert store.list(archived="include") == before
    assert backend.open().list(archived="include") == before
