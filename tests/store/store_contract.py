"""What every store keeps, as checks that any implementation can run.

A `Home` is where the logs lie. Each store that it opens stands for a process of its own.
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
from accord.store import EVENT, SESSION, Head, Parent, Store


class Hands:
    """The hands of the clock that all stores of a home read: they move when told."""

    def __init__(self) -> None:
        self.at = 1_700_000_000_000_000

    def now(self) -> int:
        return self.at

    def move(self, seconds: float = 1.0) -> None:
        self.at += int(seconds * 1_000_000)


class Home(Protocol):
    """Where logs lie."""

    @property
    def hands(self) -> Hands: ...

    def open(self) -> Store:
        """A store on these logs; closed with the home at the latest."""
        ...


Check = Callable[[Home], Awaitable[None] | None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Add a check to the contract under its own name."""
    CHECKS[getattr(function, "__name__", "")] = function
    return function


def chunk(text: str) -> AgentMessageChunk:
    return AgentMessageChunk(TextContent(text), "m1")


def say(store: Store, session_id: str, *texts: str) -> None:
    with store.journal(session_id) as journal:
        for text in texts:
            journal.append(chunk(text))
            journal.commit()


def said(store: Store, session_id: str, after: int = 0) -> list[str]:
    return [text_of(event) for event in store.events(session_id, after)]


def ids(heads: tuple[Head, ...]) -> list[str]:
    return [head.session_id for head in heads]


@contextmanager
def no_session(session_id: str) -> Generator[None]:
    with pytest.raises(NotFound) as caught:
        yield
    assert caught.value.data == {"sessionId": session_id}


# -- the log ----------------------------------------------------------------------------------------------------


@check
def records_are_numbered_without_gaps_and_keep_kind_time_and_payload(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me")
    home.hands.move()
    with store.journal("s1") as journal:
        journal.append(chunk("one"), chunk("two"))
        journal.record("coder.message", {"role": "user", "parts": [1, None, "ü"]})
        journal.append(chunk("three"))
        journal.commit()
        home.hands.move()
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
    assert said(store, "s1") == ["one", "two", "three"]
    assert store.last("s1") == 7


@check
def events_come_back_as_they_were_told(home: Home) -> None:
    live = SessionState()
    told: list[Event] = [
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
    store = home.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        for event in told:
            journal.append(event)
            live.apply(event)
    assert list(store.events("s1")) == told
    assert [record.event for record in store.read("s1", after=1)] == told
    again = SessionState()
    for event in home.open().events("s1"):
        again.apply(event)
    assert again.snapshot() == live.snapshot()


@check
def updates_of_the_wire_are_logged_as_the_events_they_stand_for(home: Home) -> None:
    live = SessionState("s1")
    updates = [
        ToolCall("c1", "Edit", kind="edit", status="pending", raw_input={"path": "a"}),
        ToolCallChange("c1", status="in_progress", content=[Diff("/a", "new", "old")]),
        ToolCallChange("c1", status="completed"),
        Plan([PlanEntry("step", "high", "pending")]),
        CurrentModeUpdate("plan"),
        chunk("done"),
    ]
    store = home.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(*updates)
        for update in updates:
            # An event that went through a state carries the whole call: the log keeps the change alone.
            journal.append(live.apply(update))
    events = list(store.events("s1"))
    assert events[: len(updates)] == events[len(updates) :]
    again = SessionState("s1")
    for event in events[: len(updates)]:
        again.apply(event)
    assert again.snapshot() == live.snapshot()
    assert again.tool_calls["c1"].status == "completed"


@check
def what_is_logged_is_what_was_said_then_not_what_became_of_it(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me")
    block = TextContent("before")
    with store.journal("s1") as journal:
        journal.append(AgentMessageChunk(block))
        block.text = "after"
    assert said(store, "s1") == ["before"]


@check
def notices_are_of_the_moment_and_not_logged(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(Notice("info", "Saved"))
        assert not store.dirty
        journal.append(Notice("info", "Saved"), chunk("hello"))
    assert said(store, "s1") == ["hello"]


@check
def kinds_of_ones_own_may_not_pass_for_the_stores(home: Home) -> None:
    store = home.open()
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
def reading_begins_behind_any_record_and_ends_at_the_last(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(*[chunk(str(number)) for number in range(5)])
        journal.commit()
        journal.append(*[chunk(str(number)) for number in range(5, 8)])
    for after in range(-1, 12):
        assert [record.seq for record in store.read("s1", after)] == list(range(max(after, 0) + 1, 10))
        assert said(store, "s1", after) == [str(number) for number in range(8)][max(after - 1, 0) :]


@check
def a_long_log_is_read_whole_in_order_and_as_it_was_at_the_start(home: Home) -> None:
    store = home.open()
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
    assert said(store, "s1", 3001) == ["later"]


@check
def a_huge_record_is_a_record_like_others(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me")
    texts = ["small", "y" * 3_000_000, "small too", "z" * 700_000]
    with store.journal("s1") as journal:
        journal.append(*[chunk(text) for text in texts])
    assert said(store, "s1") == texts


@check
def odd_texts_survive(home: Home) -> None:
    store = home.open()
    texts = ["", "\x00\x1b[31m", "日本語 👋", '"]},{', "\u2028", "\ud800 alone"]
    store.create("s ü\x00/%", "/home/ü ", additional_directories=["/a'b"])
    with store.journal("s ü\x00/%") as journal:
        journal.append(*[chunk(text) for text in texts])
    assert said(home.open(), "s ü\x00/%") == [*texts[:-1], "\ufffd alone"]
    head = store.head("s ü\x00/%")
    assert (head.cwd, head.additional_directories) == ("/home/ü ", ("/a'b",))
    store.create("\ud800", "/home/\ud800")
    assert store.newest("/home/\ud800") == store.head("\ud800")
    with no_session("\ud801x"):
        store.head("\ud801x")


# -- commits ----------------------------------------------------------------------------------------------------


@check
def others_see_what_was_committed_and_nothing_else(home: Home) -> None:
    store, other = home.open(), home.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(chunk("one"))
        assert store.dirty
        assert said(other, "s1") == []
        journal.commit()
        assert not store.dirty
        assert said(other, "s1") == ["one"]
        journal.append(chunk("two"))
        assert said(store, "s1") == ["one", "two"], "a store always reads its own writes"
    journal.close()
    with pytest.raises(UsageError):
        journal.append(chunk("three"))
    assert said(other, "s1") == ["one", "two"]


@check
async def one_turn_of_the_loop_is_one_commit(home: Home) -> None:
    store, other = home.open(), home.open()
    store.create("s1", "/home/me")
    store.create("s2", "/home/me")
    first, second = store.journal("s1"), store.journal("s2")
    first.append(chunk("one"))
    second.append(chunk("uno"))
    first.append(chunk("two"))
    assert (said(other, "s1"), said(other, "s2")) == ([], [])
    await asyncio.sleep(0)
    assert (said(other, "s1"), said(other, "s2")) == (["one", "two"], ["uno"])
    first.append(chunk("three"))
    await asyncio.sleep(0)
    assert said(other, "s1") == ["one", "two", "three"]


@check
def closing_a_store_commits_and_lets_everything_go(home: Home) -> None:
    store, other = home.open(), home.open()
    store.create("s1", "/home/me")
    journal = store.journal("s1")
    journal.append(chunk("one"))
    store.close()
    store.close()
    assert journal.closed
    say(other, "s1", "two")
    assert said(other, "s1") == ["one", "two"]


# -- who writes -------------------------------------------------------------------------------------------------


@check
def one_store_writes_to_a_session_at_a_time(home: Home) -> None:
    store, other = home.open(), home.open()
    store.create("s1", "/home/me")
    store.create("s2", "/home/me")
    assert store.writer("s1") is None
    journal = store.journal("s1")
    with pytest.raises(SessionInUse, match="s1"):
        other.journal("s1")
    with pytest.raises(SessionInUse, match="s1"):
        other.delete("s1")
    mine, theirs = store.writer("s1"), other.writer("s1")
    assert mine is not None
    assert theirs is not None
    assert (mine.ours, theirs.ours, theirs.since) == (True, False, home.hands.at)
    say(other, "s2", "other sessions are free")
    journal.append(chunk("one"))
    journal.close()
    assert store.writer("s1") is None
    say(other, "s1", "two")
    assert said(store, "s1") == ["one", "two"]


@check
def one_store_may_open_a_session_twice(home: Home) -> None:
    store, other = home.open(), home.open()
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
    say(other, "s1", "four")
    assert said(other, "s1") == ["one", "two", "three", "four"]


@check
def title_and_archive_may_change_while_another_store_writes(home: Home) -> None:
    store, other = home.open(), home.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(chunk("one"))
        journal.commit()
        other.set_title("s1", "Mine")
        other.archive("s1")
        journal.append(chunk("two"), SessionInfoUpdate("Generated"), TurnEnded("end_turn"))
    head = other.head("s1")
    assert (head.title, head.title_set, head.archived) == ("Mine", True, True)
    assert [record.seq for record in store.read("s1")] == list(range(1, 8))
    assert said(store, "s1")[:2] == ["one", "two"]


# -- what there is not -------------------------------------------------------------------------------------------


@check
def an_unknown_session_is_named_in_the_protocols_error(home: Home) -> None:
    store = home.open()
    for attempt in (
        lambda: store.head("nope"),
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
    assert store.list().heads == ()


@check
def an_id_is_taken_once(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me")
    with pytest.raises(UsageError, match="s1"):
        home.open().create("s1", "/home/you")
    with pytest.raises(UsageError, match="s1"):
        store.fork("s1", "s1")
    assert store.head("s1").cwd == "/home/me"


# -- the list ---------------------------------------------------------------------------------------------------


@check
def the_list_shows_the_sessions_used_last_first(home: Home) -> None:
    store = home.open()
    for name in ("a", "b", "c"):
        store.create(name, "/home/me")
        home.hands.move()
    assert ids(store.list().heads) == ["c", "b", "a"]
    with store.journal("a") as journal:
        journal.append(TurnStarted([TextContent("again")]))
    assert ids(store.list().heads) == ["a", "c", "b"]
    assert ids(home.open().list().heads) == ["a", "c", "b"]
    assert store.list().next_cursor is None
    newest = store.newest("/home/me")
    assert newest is not None
    assert newest.session_id == "a"
    info = newest.info()
    assert (info.session_id, info.cwd, info.archived) == ("a", "/home/me", False)
    assert info.updated_at == "2023-11-14T22:13:23.000+00:00"


@check
def the_list_can_be_of_one_folder_or_one_agent(home: Home) -> None:
    store = home.open()
    store.create("a", "/home/me/one")
    store.create("b", "/home/me/two/")
    store.create("c", "/home/me/two", agent="claude")
    assert ids(store.list("/home/me/one").heads) == ["a"]
    assert ids(store.list("/home/me/two").heads) == ["c", "b"]
    assert ids(store.list("/home/me/./two/").heads) == ["c", "b"]
    assert ids(store.list("/home/me/two", agent="").heads) == ["b"]
    assert ids(store.list(agent="claude").heads) == ["c"]
    assert store.list("/home/me").heads == ()
    assert store.list("/nonexistent").heads == ()
    assert store.newest("/home/me") is None
    found = store.newest("/home/me/two", agent="")
    assert found is not None
    assert found.session_id == "b"


@check
def pages_hold_every_session_once_however_many_begin_meanwhile(home: Home) -> None:
    store, other = home.open(), home.open()
    for number in range(25):
        store.create(f"s{number}", "/home/me" if number % 2 else "/home/you")
        if number % 3:
            home.hands.move()  # some begin in the same moment
    for cwd, expected in ((None, 25), ("/home/me", 12)):
        before = ids(store.list(cwd, limit=1000).heads)
        assert len(before) == expected
        seen: list[str] = []
        page = store.list(cwd, limit=4)
        while True:
            assert len(page.heads) <= 4
            seen += ids(page.heads)
            other.create(f"new {cwd} {len(seen)}", cwd or "/home/me")
            if page.next_cursor is None:
                break
            page = store.list(cwd, limit=4, cursor=page.next_cursor)
        assert seen == before
        for number in range(4, 29, 4):
            store.delete(f"new {cwd} {number}")
        store.delete(f"new {cwd} {expected}")


@check
def listing_changes_nothing(home: Home) -> None:
    store = home.open()
    for name in ("a", "b"):
        store.create(name, "/home/me")
        home.hands.move()
    before = store.list()
    home.hands.move(3600)
    assert store.list() == before
    assert home.open().list() == before


@check
def a_cursor_is_the_stores_own_and_of_the_same_question(home: Home) -> None:
    store = home.open()
    for number in range(4):
        store.create(f"s{number}", "/home/me")
    cursor = store.list("/home/me", limit=2).next_cursor
    assert cursor is not None
    assert ids(home.open().list("/home/me", limit=2, cursor=cursor).heads) == ["s1", "s0"]
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
def archived_sessions_are_hidden_kept_and_brought_back(home: Home) -> None:
    store = home.open()
    for name in ("a", "b", "c"):
        store.create(name, "/home/me")
        home.hands.move()
    say(store, "b", "kept")
    before = store.head("b")
    home.hands.move()
    store.archive("b")
    store.archive("b")
    assert store.head("b").archived
    assert store.head("b").updated == before.updated
    assert ids(store.list().heads) == ["c", "a"]
    assert ids(store.list(archived=None).heads) == ["c", "a"]
    assert ids(store.list(archived="include").heads) == ["b", "c", "a"]
    assert ids(store.list("/home/me", archived="only").heads) == ["b"]
    assert said(store, "b") == ["kept"]
    page = store.list(archived="include", limit=2)
    assert ids(store.list(archived="include", limit=2, cursor=page.next_cursor).heads) == ["a"]
    store.unarchive("b")
    store.unarchive("b")
    assert store.head("b") == before
    for odd in ("zzz", "", "Exclude"):
        with pytest.raises(InvalidParams, match="archived"):
            store.list(archived=odd)


@check
def a_title_that_was_set_is_never_replaced_by_a_generated_one(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me")
    assert store.head("s1").title is None
    with store.journal("s1") as journal:
        journal.append(SessionInfoUpdate("Fix  the\ntest"))
        assert store.head("s1").title == "Fix the test"
        journal.append(SessionInfoUpdate("Better"))
        assert store.head("s1").title == "Better"
        journal.append(SessionInfoUpdate(None))
        assert store.head("s1").title is None
        assert store.set_title("s1", "  My\ttitle \x1b ") == "My title"
        journal.append(SessionInfoUpdate("Generated"), SessionInfoUpdate(None))
    head = home.open().head("s1")
    assert (head.title, head.title_set) == ("My title", True)
    assert store.set_title("s1", "Mine again") == "Mine again"
    assert len(store.set_title("s1", "x" * 5000)) == 200
    for empty in ("", "  \n ", "\x00"):
        with pytest.raises(InvalidParams, match="title"):
            store.set_title("s1", empty)
    assert store.head("s1").title == "x" * 200


@check
def a_session_is_updated_by_what_is_said_and_done_in_it(home: Home) -> None:
    store = home.open()
    created = store.create("s1", "/home/me")
    assert created.created == created.updated == home.hands.at
    with store.journal("s1") as journal:
        home.hands.move(60)
        journal.append(SessionOpened("s1"), UsageUpdate(1, 2), SessionInfoUpdate("Title"))
        journal.record("coder.note", 1)
        store.set_title("s1", "Mine")
        store.archive("s1")
        assert store.head("s1").updated == created.updated, "opening, settings and titles are no work"
        journal.append(TurnStarted([TextContent("go")]))
        started = home.hands.at
        assert store.head("s1").updated == started
        home.hands.move(0.4)
        journal.append(chunk("quick"))
        assert store.head("s1").updated == started, "the list follows a running turn by the second"
        home.hands.move(0.7)
        journal.append(chunk("slow"))
        assert store.head("s1").updated == home.hands.at
        home.hands.move(0.1)
        journal.append(chunk("last"), TurnEnded("end_turn"))
        assert store.head("s1").updated == home.hands.at
        ended = home.hands.at
        home.hands.move(-600)
        journal.append(chunk("the clock went back"), TurnStarted())
    assert store.head("s1").updated == ended
    assert store.head("s1").created == created.created


@check
def the_head_has_the_additional_directories_last_used(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me", additional_directories=["/lib", "/etc"])
    assert store.head("s1").additional_directories == ("/lib", "/etc")
    with store.journal("s1") as journal:
        journal.append(SessionOpened("s1"))
        assert store.head("s1").additional_directories == ("/lib", "/etc")
        journal.append(SessionOpened("s1", "/home/me", ["/opt"]))
        assert store.head("s1").additional_directories == ("/opt",)
        journal.append(SessionOpened("s1", "/home/me", []))
    assert home.open().head("s1").additional_directories == ()


# -- forks and deletion -------------------------------------------------------------------------------------------


@check
def a_fork_has_the_history_and_goes_its_own_way(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me", additional_directories=["/lib"], agent="claude")
    say(store, "s1", "one", "two")
    store.set_title("s1", "Mine")
    store.archive("s1")
    before = store.head("s1")
    home.hands.move()
    fork = store.fork("s1", "f1")
    assert (fork.cwd, fork.agent, fork.title, fork.title_set) == ("/home/me", "claude", "Mine", False)
    assert (fork.additional_directories, fork.archived) == ((), False)
    assert (fork.created, fork.updated) == (home.hands.at, home.hands.at)
    assert fork.parent == Parent("s1", 5)
    say(store, "f1", "fork")
    say(store, "s1", "source")
    assert said(store, "f1") == ["one", "two", "fork"]
    assert said(store, "s1") == ["one", "two", "source"]
    assert [record.seq for record in store.read("f1")] == list(range(1, 8))
    assert said(store, "f1", 2) == ["two", "fork"]
    assert said(store, "f1", 6) == ["fork"]
    assert store.head("s1").parent is None
    assert (store.head("s1").title_set, store.head("s1").created) == (True, before.created)
    other = store.fork("s1", "f2", cwd="/home/you", additional_directories=["/opt"])
    assert (other.cwd, other.additional_directories) == ("/home/you", ("/opt",))


@check
def a_fork_may_branch_off_anywhere(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(*[chunk(str(number)) for number in range(6)])
    store.fork("s1", "mid", up_to=4)
    assert said(store, "mid") == ["0", "1", "2"]
    say(store, "mid", "a", "b")
    store.fork("mid", "early", up_to=3)
    store.fork("mid", "late", up_to=7)
    store.fork("mid", "empty", up_to=0)
    for name in ("early", "late", "empty"):
        say(store, name, name)
    assert said(store, "early") == ["0", "1", "early"]
    assert said(store, "late") == ["0", "1", "2", "a", "b", "late"]
    assert said(store, "empty") == ["empty"]
    assert store.head("early").parent == Parent("mid", 3)
    for name in ("s1", "mid", "early", "late", "empty"):
        records = list(store.read(name))
        assert [record.seq for record in records] == list(range(1, store.last(name) + 1))
    for odd in (-1, 8, 100):
        with pytest.raises(UsageError, match=str(odd)):
            store.fork("mid", "new", up_to=odd)


@check
def deleting_the_source_leaves_its_forks_whole(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me")
    say(store, "s1", "one", "two", "three")
    store.fork("s1", "f1", up_to=3)
    say(store, "f1", "four")
    store.fork("f1", "f2")
    say(store, "f2", "five")
    assert store.delete("s1")
    assert said(home.open(), "f1") == ["one", "two", "four"]
    assert store.delete("f1")
    assert said(home.open(), "f2") == ["one", "two", "four", "five"]
    assert ids(store.list().heads) == ["f2"]
    store.create("s1", "/home/again")
    say(store, "s1", "anew")
    assert said(store, "s1") == ["anew"]
    assert said(store, "f2") == ["one", "two", "four", "five"]
    store.rebuild()
    assert sorted(ids(store.list().heads)) == ["f2", "s1"]
    assert store.delete("f2")
    assert said(store, "s1") == ["anew"]


@check
def deleting_removes_for_good_and_again_is_fine(home: Home) -> None:
    store = home.open()
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
        store.head("s1")
    assert ids(store.list(archived="include").heads) == ["s2"]
    assert said(store, "s2") == ["stays"]
    store.create("s1", "/home/you")
    assert (said(store, "s1"), store.last("s1")) == ([], 1)


@check
def nothing_is_ever_deleted_by_itself(home: Home) -> None:
    store = home.open()
    for number in range(120):
        store.create(f"s{number}", "/home/me")
        home.hands.move(86_400 * 30)
    assert len(store.list(limit=1000).heads) == 120


@check
def the_list_can_be_rebuilt_from_the_logs(home: Home) -> None:
    store = home.open()
    store.create("s1", "/home/me", additional_directories=["/lib"], agent="claude")
    with store.journal("s1") as journal:
        for number in range(8):
            home.hands.move(0.3)
            journal.append(TurnStarted() if number % 4 == 0 else chunk(str(number)))
            journal.record("coder.note", number)
            journal.append(SessionInfoUpdate(f"Title {number}"))
            journal.commit()
        journal.append(SessionOpened("s1", "/elsewhere", ["/opt"]), Unknown("x", {"sessionUpdate": 5}))
    store.fork("s1", "f1", up_to=4, cwd="/home/you")
    home.hands.move()
    say(store, "f1", "x")
    store.set_title("f1", "Fork")
    store.set_title("s1", "Mine")
    store.create("s2", "/home/me")
    store.archive("s2")
    store.create("s3", "/home/me")
    store.fork("s3", "f3")
    store.delete("s3")
    before = store.list(archived="include")
    assert len(before.heads) == 4
    store.rebuild()
    assert store.list(archived="include") == before
    assert home.open().list(archived="include") == before
