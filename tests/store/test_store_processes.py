"""Several processes on one file: they share it, one writes to a session at a time, and the dead hold nothing."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.store.hand import Hand
from tests.store.store_contract import said, say

from accord.errors import SessionInUse
from accord.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def test_a_session_open_in_another_process_is_refused_by_name_and_pid(path: Path) -> None:
    with SqliteStore(path) as store, Hand(path) as hand:
        store.create("s1", "/home/me")
        pid = hand.do("open")
        assert hand.do("journal", "s1") is None
        with pytest.raises(SessionInUse, match=rf"session s1 is open for writing in process {pid} since 20"):
            store.journal("s1")
        with pytest.raises(SessionInUse):
            store.delete("s1")
        lease = store.writer("s1")
        assert lease is not None
        assert (lease.pid, lease.ours) == (pid, False)
        assert hand.do("say", "s1", "one") is None
        assert said(store, "s1") == ["one"]
        assert store.fork("s1", "f1").session_id == "f1", "a fork of it can be had at any time"
        assert hand.do("let go", "s1") is None
        say(store, "s1", "two")
        with store.journal("s1"):
            kind, text = hand.do("journal", "s1")
            assert kind == "SessionInUse"
            assert "\n" not in text
        assert hand.do("journal", "s1") is None


def test_what_a_killed_process_held_is_taken_over(path: Path) -> None:
    owners = path.with_name("sessions.db-owners")
    with SqliteStore(path) as store, Hand(path) as hand:
        store.create("s1", "/home/me")
        store.create("s2", "/home/me")
        hand.do("journal", "s1")
        hand.do("journal", "s2")
        hand.do("say", "s1", "one", "two")
        assert len(list(owners.iterdir())) == 1
        hand.kill()
        assert store.writer("s1") is None
        say(store, "s1", "three")
        assert said(store, "s1") == ["one", "two", "three"]
        assert store.delete("s2")
        assert len(list(owners.iterdir())) == 1, "only this store's own is left"
    assert list(owners.iterdir()) == []


def test_processes_write_to_different_sessions_at_once(path: Path) -> None:
    texts = [str(number) for number in range(150)]
    with SqliteStore(path) as store, ExitStack() as stack:
        hands = [stack.enter_context(Hand(path)) for _ in range(3)]
        for number, hand in enumerate(hands):
            store.create(f"s{number}", "/home/me")
            hand.tell("journal", f"s{number}")
            hand.tell("say", f"s{number}", *texts)
        with store.journal(store.create("mine", "/home/me").session_id) as journal:
            for text in texts:
                journal.record("note", text)
                journal.commit()
        for hand in hands:
            assert (hand.hear(), hand.hear()) == (None, None)
        for number in range(3):
            assert said(store, f"s{number}") == texts
        assert [record.value for record in store.read("mine", 1)] == texts


def test_processes_may_make_the_file_at_the_same_moment(path: Path) -> None:
    with ExitStack() as stack:
        hands = [stack.enter_context(Hand(path)) for _ in range(4)]
        for number, hand in enumerate(hands):
            hand.tell("create", f"s{number}", "/home/me")
        for hand in hands:
            assert "Head(" in hand.hear()
    with SqliteStore(path) as store:
        assert sorted(head.session_id for head in store.list().heads) == ["s0", "s1", "s2", "s3"]


def test_title_and_archive_of_a_session_another_process_writes_to(path: Path) -> None:
    with SqliteStore(path) as store, Hand(path) as hand:
        store.create("s1", "/home/me")
        with store.journal("s1") as journal:
            journal.record("note", 1)
            journal.commit()
            assert hand.do("set_title", "s1", "Mine") == "Mine"
            hand.do("archive", "s1")
            journal.record("note", 2)
        assert [record.kind for record in store.read("s1")] == [
            "session",
            "note",
            "session",
            "session",
            "note",
        ]
        assert (store.head("s1").title, store.head("s1").archived) == ("Mine", True)
