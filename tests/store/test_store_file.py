"""The file of a store: who may read it, what opens and what is refused, and every failure as one clear line."""

import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.store.store_contract import Hands, chunk, said, say

from accord.errors import NotFound, StoreError, UsageError
from accord.session import SessionOpened, TurnEnded, TurnStarted
from accord.store import open_store
from accord.store.sqlite import SqliteStore
from accord.store.tables import STEPS, upgrade, version_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "sessions.db"


def refusal(attempt: Callable[[], object], path: Path) -> str:
    """What is said: one line, with the path."""
    with pytest.raises(StoreError) as caught:
        attempt()
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- whose it is ------------------------------------------------------------------------------------------------


def test_file_and_folders_are_the_users_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        with SqliteStore(path) as store:
            store.create("s1", "/home/me")
            with store.journal("s1"):
                files = list(path.parent.rglob("*"))
                names = {file.name for file in files}
                assert {"sessions.db", "sessions.db-wal", "sessions.db-shm", "sessions.db-owners"} < names
                assert {mode(file) for file in files if file.is_file()} == {0o600}
                assert {mode(file) for file in files if file.is_dir()} == {0o700}
                assert mode(path.parent) == 0o700
    finally:
        os.umask(before)


def test_a_file_that_others_may_read_is_closed_to_them(path: Path) -> None:
    with SqliteStore(path):
        pass
    path.chmod(0o644)
    with SqliteStore(path):
        assert mode(path) == 0o600


def test_the_users_own_store_is_made_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    with open_store() as store:
        assert store.path == tmp_path / "home" / "data" / "sessions.db"
        assert mode(store.path.parent) == 0o700
    with open_store(str(tmp_path / "other.db")) as store:
        assert store.path == tmp_path / "other.db"


# -- what opens and what does not -----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"hello, this is no database\n" * 100, b"\x00" * 5000, b"x"])
def test_another_file_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    path.chmod(0o644)
    assert "is no session store: move it away, or give another path" in refusal(
        lambda: SqliteStore(path), path
    )
    assert path.read_bytes() == content
    assert mode(path) == 0o644


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (id INTEGER)")
    connection.close()
    content = path.read_bytes()
    assert "of another program" in refusal(lambda: SqliteStore(path), path)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with SqliteStore(path) as store:
        assert store.create("s1", "/home/me").session_id == "s1"


def test_a_path_that_cannot_be_a_file_is_named(path: Path, tmp_path: Path) -> None:
    path.mkdir(parents=True)
    refusal(lambda: SqliteStore(path), path)
    (tmp_path / "file").touch()
    refusal(lambda: SqliteStore(tmp_path / "file" / "x.db"), tmp_path / "file" / "x.db")


def test_a_newer_format_is_refused_with_what_to_do(path: Path) -> None:
    with SqliteStore(path):
        pass
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    text = refusal(lambda: SqliteStore(path), path)
    assert f"newer Accord (format 99, this one knows {len(STEPS)}): update Accord" in text


# -- older formats ------------------------------------------------------------------------------------------------


def test_an_older_format_is_brought_up_to_date_with_all_its_sessions(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        say(store, "s1", "one")
    connection = sqlite3.connect(path, isolation_level=None)
    later = [*STEPS, ["ALTER TABLE heads ADD COLUMN colour TEXT"], ["UPDATE heads SET colour = 'red'"]]
    upgrade(connection, later)
    upgrade(connection, later)
    assert version_of(connection) == len(STEPS) + 2
    assert connection.execute("SELECT session, colour FROM heads").fetchall() == [("s1", "red")]
    connection.close()


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        say(store, "s1", "one")
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        upgrade(connection, [*STEPS, ["DROP TABLE heads", "CREATE TABLE nonsense"]])
    assert version_of(connection) == len(STEPS)
    connection.close()
    with SqliteStore(path) as store:
        assert said(store, "s1") == ["one"]
        assert store.head("s1").cwd == "/home/me"


# -- damage ---------------------------------------------------------------------------------------------------------


def use(store: SqliteStore) -> None:
    """Everything that reads."""
    for head in store.list(limit=1000, archived="include").heads:
        for attempt in (store.read, store.events):
            for _ in attempt(head.session_id):
                pass
        store.last(head.session_id)
        store.newest(head.cwd)
    store.rebuild()


def test_a_damaged_file_gives_results_or_one_clear_line_and_nothing_else(path: Path) -> None:
    with SqliteStore(path) as store:
        for number in range(3):
            store.create(f"s{number}", "/home/me", additional_directories=["/lib"])
            with store.journal(f"s{number}") as journal:
                journal.append(TurnStarted(), SessionOpened("s", "/home/me", ["/opt"]))
                for text in range(40):
                    journal.append(chunk(str(text) * 20))
                    journal.commit()
                journal.append(TurnEnded("end_turn"))
        store.fork("s1", "f1", up_to=20)
    sound = path.read_bytes()
    random = Random(7)
    refused: list[str] = []
    for trial in range(80):
        damaged = bytearray(sound if trial % 8 else sound[: random.randrange(512, len(sound))])
        for _ in range(random.choice([1, 3, 30])):
            damaged[random.randrange(100, len(damaged))] = random.randrange(256)
        path.write_bytes(damaged)
        for leftover in ("-wal", "-shm"):
            path.with_name(path.name + leftover).unlink(missing_ok=True)
        try:
            with SqliteStore(path) as store:
                use(store)
        except (StoreError, NotFound) as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all("\n" not in text for text in refused)


def test_a_record_that_is_missing_is_noticed(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        say(store, "s1", "one", "two", "three")
        connection = sqlite3.connect(path)
        connection.execute("DELETE FROM records WHERE key & 4294967295 = 3")
        connection.commit()
        connection.close()
        with pytest.raises(StoreError, match="record 3"):
            said(store, "s1")
        assert said(store, "s1", 3) == ["three"]


# -- when it cannot be written ------------------------------------------------------------------------------------------


async def test_what_cannot_be_written_is_kept_said_and_written_later(path: Path) -> None:
    with SqliteStore(path, busy=0.01) as store:
        store.create("s1", "/home/me")
        journal = store.journal("s1")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        journal.append(chunk("one"))
        assert "locked for too long" in refusal(store.commit, path)
        assert store.dirty
        assert "locked for too long" in refusal(lambda: journal.append(chunk("two")), path)
        other.execute("ROLLBACK")
        other.close()
        journal.append(chunk("three"))
        journal.commit()
        assert said(store, "s1") == ["one", "three"]


def test_a_full_disk_is_said_and_loses_nothing_that_was_committed(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        journal = store.journal("s1")
        journal.append(chunk("one"))
        journal.commit()
        limit = store._file.connection.execute("PRAGMA page_count").fetchone()[0]
        store._file.connection.execute(f"PRAGMA max_page_count = {limit + 2}")
        journal.append(chunk("x" * 100_000))
        assert "is full: free some space" in refusal(journal.commit, path)
        with SqliteStore(path) as other:
            assert said(other, "s1") == ["one"]
        store._file.connection.execute("PRAGMA max_page_count = 1000000")
        journal.commit()
        assert len(said(store, "s1")) == 2


def test_a_store_belongs_to_one_thread_and_ends_with_its_close(path: Path) -> None:
    store = SqliteStore(path)
    failures: list[BaseException] = []

    def elsewhere() -> None:
        try:
            store.list()
        except UsageError as error:
            failures.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(failures) == 1
    store.close()
    with pytest.raises(UsageError, match="closed"):
        store.list()


def test_durable_waits_for_the_disk_at_every_commit(path: Path) -> None:
    for durable, level in ((False, 1), (True, 2)):
        with SqliteStore(path, durable=durable) as store:
            assert store._file.connection.execute("PRAGMA synchronous").fetchone() == (level,)
            assert store._file.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# -- what lies in it ----------------------------------------------------------------------------------------------------


def test_a_fork_copies_nothing(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        with store.journal("s1") as journal:
            journal.append(*[chunk("x" * 10_000) for _ in range(200)])
        rows = store._file.connection.execute("SELECT sum(length(data)) FROM records").fetchone()[0]
        for number in range(20):
            store.fork(f"f{number - 1}" if number else "s1", f"f{number}")
        grown = store._file.connection.execute("SELECT sum(length(data)) FROM records").fetchone()[0]
        assert grown - rows < 5_000
        assert len(said(store, "f19")) == 200


def test_what_is_deleted_is_gone_from_the_file(path: Path) -> None:
    hands = Hands()
    with SqliteStore(path, now=hands.now) as store:
        store.create("s1", "/home/me")
        with store.journal("s1") as journal:
            journal.append(chunk("the fork keeps this"), chunk("SECRET-A"), chunk("SECRET-B"))
            journal.commit()
            journal.append(chunk("SECRET-C " * 1000))
        store.fork("s1", "f1", up_to=2)
        store.set_title("s1", "SECRET-D")
        store.delete("s1")
        assert said(store, "f1") == ["the fork keeps this"]
    content = b"".join(file.read_bytes() for file in path.parent.rglob("*") if file.is_file())
    assert b"the fork keeps this" in content
    assert b"SECRET" not in content
    with SqliteStore(path) as store:
        store.delete("f1")
        assert store._file.connection.execute("SELECT count(*) FROM records").fetchone() == (0,)
        assert store._file.connection.execute("SELECT count(*) FROM logs").fetchone() == (0,)


def test_the_write_ahead_log_is_moved_along_beside_the_writer(path: Path) -> None:
    with SqliteStore(path, checkpoint_pages=20) as store:
        store.create("s1", "/home/me")
        before = path.stat().st_size
        with store.journal("s1") as journal:
            for number in range(60):
                journal.append(chunk(str(number) * 2000))
                journal.commit()
        store._checkpoints.close()
        assert path.stat().st_size > before, "the file itself has grown while the store is open"
        assert len(said(store, "s1")) == 60
