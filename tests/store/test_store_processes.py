"""Several processes on one file: one writer per session, and a killed process holds no lease."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.store.store_contract import append_texts, logged_texts
from tests.store.store_process import StoreProcess

from accord.errors import SessionInUse
from accord.store.sqlite_store import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def test_opening_a_session_of_another_process_fails_with_its_pid(path: Path) -> None:
    with SqliteStore(path) as store, StoreProcess(path) as process:
        store.create("s1", "/home/me")
        pid = process.call("open")
        assert process.call("journal", "s1") is None
        with pytest.raises(SessionInUse, match=rf"session s1 is open for writing in process {pid} since 20"):
            store.journal("s1")
        with pytest.raises(SessionInUse):
            store.delete("s1")
        lease = store.writer("s1")
        assert lease is not None
        assert (lease.pid, lease.ours) == (pid, False)
        assert process.call("say", "s1", "one") is None
        assert logged_texts(store, "s1") == ["one"]
        assert store.fork("s1", "f1").session_id == "f1", "a session in use can still be forked"
        assert process.call("close", "s1") is None
        append_texts(store, "s1", "two")
        with store.journal("s1"):
            kind, text = process.call("journal", "s1")
            assert kind == "SessionInUse"
            assert "\n" not in text
        assert process.call("journal", "s1") is None


def test_sessions_of_a_killed_process_can_be_opened(path: Path) -> None:
    owners = path.with_name("sessions.db-owners")
    with SqliteStore(path) as store, StoreProcess(path) as process:
        store.create("s1", "/home/me")
        store.create("s2", "/home/me")
        process.call("journal", "s1")
        process.call("journal", "s2")
        process.call("say", "s1", "one", "two")
        assert len(list(owners.iterdir())) == 1
        process.kill()
        assert store.writer("s1") is None
        append_texts(store, "s1", "three")
        assert logged_texts(store, "s1") == ["one", "two", "three"]
        assert store.delete("s2")
        assert len(list(owners.iterdir())) == 1, "only the lease of this store must be left"
    assert list(owners.iterdir()) == []


def test_processes_write_to_different_sessions_at_the_same_time(path: Path) -> None:
    texts = [str(number) for number in range(150)]
    with SqliteStore(path) as store, ExitStack() as stack:
        processes = [stack.enter_context(StoreProcess(path)) for _ in range(3)]
        for number, process in enumerate(processes):
            store.create(f"s{number}", "/home/me")
            process.send("journal", f"s{number}")
            process.send("say", f"s{number}", *texts)
        with store.journal(store.create("mine", "/home/me").session_id) as journal:
            for text in texts:
                journal.record("note", text)
                journal.commit()
        for process in processes:
            assert (process.receive(), process.receive()) == (None, None)
        for number in range(3):
            assert logged_texts(store, f"s{number}") == texts
        assert [record.value for record in store.read("mine", 1)] == texts


def test_processes_can_create_the_file_at_the_same_time(path: Path) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(StoreProcess(path)) for _ in range(4)]
        for number, process in enumerate(processes):
            process.send("create", f"s{number}", "/home/me")
        for process in processes:
            assert "SessionSummary(" in process.receive()
    with SqliteStore(path) as store:
        assert sorted(summary.session_id for summary in store.list().sessions) == ["s0", "s1", "s2", "s3"]


def test_another_process_keeps_the_write_ahead_log_of_an_open_store(path: Path) -> None:
    """Closing a second store of this process, too, must not release the locks of the first."""
    with SqliteStore(path) as store:
        append_texts(store, store.create("s1", "/home/me").session_id, "one")
        SqliteStore(path).close()
        with StoreProcess(path) as process:
            assert process.call("open")
        assert path.with_name("sessions.db-wal").exists(), "the other process has removed the log in use"
        append_texts(store, "s1", "two")
    with SqliteStore(path) as store:
        assert logged_texts(store, "s1") == ["one", "two"]


def test_title_and_archive_change_while_another_process_writes(path: Path) -> None:
    with SqliteStore(path) as store, StoreProcess(path) as process:
        store.create("s1", "/home/me")
        with store.journal("s1") as journal:
            journal.record("note", 1)
            journal.commit()
            assert process.call("set_title", "s1", "Mine") == "Mine"
            process.call("archive", "s1")
            journal.record("note", 2)
        assert [record.kind for record in store.read("s1")] == [
            "session",
            "note",
            "session",
            "session",
            "note",
        ]
        assert (store.summary("s1").title, store.summary("s1").archived) == ("Mine", True)
