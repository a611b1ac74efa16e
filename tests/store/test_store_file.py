"""The SQLite file of a store: access rights, formats, damage, and one-line errors."""

import os
import re
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.patience import PATIENCE
from tests.store.store_contract import ManualClock, append_texts, chunk, logged_texts

from accord.errors import NotFound, StoreError, UsageError
from accord.session import SessionOpened, TurnEnded, TurnStarted
from accord.store import open_store
from accord.store.database import MIGRATIONS, upgrade, version_of
from accord.store.sqlite_store import SqliteStore

GUIDE = Path(__file__).parents[2] / "docs" / "store.md"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "sessions.db"


def refusal(attempt: Callable[[], object], path: Path) -> str:
    """Return the error text after checking that it is one line with the path."""
    with pytest.raises(StoreError) as caught:
        attempt()
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_closed_store_leaves_no_lease_in_the_file(path: Path) -> None:
    """Another process opens the session at once, without asking whether the owner of a lease is alive."""
    store = SqliteStore(path)
    for name in ("s1", "s2"):
        store.create(name, "/home/me")
        store.journal(name).append(chunk("one"))
        store.commit()

    def leases() -> list[str]:
        connection = sqlite3.connect(path)
        try:
            return [name for (name,) in connection.execute("SELECT session FROM leases ORDER BY session")]
        finally:
            connection.close()

    assert leases() == ["s1", "s2"]
    store.close()
    assert leases() == []
    assert list(path.with_name(path.name + "-owners").iterdir()) == []


def test_a_new_file_that_another_process_keeps_locked_is_refused(path: Path) -> None:
    path.parent.mkdir()
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        assert "locked for too long" in refusal(lambda: SqliteStore(path, busy_seconds=0.05), path)
        other.execute("ROLLBACK")
    finally:
        other.close()
    SqliteStore(path).close()


def test_a_new_file_that_another_process_locks_for_a_moment_is_opened(path: Path) -> None:
    path.parent.mkdir()
    other = sqlite3.connect(path, isolation_level=None)
    errors: list[BaseException] = []

    def open_store_file() -> None:
        try:
            SqliteStore(path, busy_seconds=PATIENCE).close()
        except StoreError as error:
            errors.append(error)

    opening = threading.Thread(target=open_store_file)
    try:
        other.execute("BEGIN IMMEDIATE")
        opening.start()
        opening.join(0.3)  # gives it the time to find the lock; the result does not depend on that
        other.execute("ROLLBACK")
    finally:
        other.close()
        opening.join()
    assert errors == []


def test_a_deleted_session_leaves_the_database_file_while_the_store_is_open(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        append_texts(store, "s1", "a private text")
    with SqliteStore(path) as store:
        assert b"a private text" in path.read_bytes()
        assert store.delete("s1")
        join_checkpoint()
        assert b"a private text" not in path.read_bytes()


def test_the_file_of_a_dead_owner_is_removed_by_the_next_writer(path: Path) -> None:
    owners = path.with_name(path.name + "-owners")
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        owners.mkdir(exist_ok=True)
        (owners / "1-dead").touch()
        with store.journal("s1"):
            (alive,) = owners.iterdir()
            assert alive.name.startswith(f"{os.getpid()}-")


def test_many_bytes_are_moved_to_the_database_file_soon(path: Path) -> None:
    """The write-ahead log is moved by its size, not only by the number of commits."""
    with SqliteStore(path, checkpoint_pages=100, now=ManualClock().now) as store:
        store.create("s1", "/home/me")
        journal = store.journal("s1")
        before = path.stat().st_size
        journal.append(chunk("x" * 1_000_000))
        store.commit()
        join_checkpoint()
        assert path.stat().st_size > before + 1_000_000


def join_checkpoint() -> None:
    """Wait for a checkpoint that is running."""
    for thread in threading.enumerate():
        if thread.name == "accord-store-checkpoint":
            thread.join()


# -- access rights ---------------------------------------------------------------------------------------


def test_files_and_folders_are_private_to_the_user(path: Path) -> None:
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


def test_opening_a_store_makes_its_file_private(path: Path) -> None:
    with SqliteStore(path):
        pass
    path.chmod(0o644)
    with SqliteStore(path):
        assert mode(path) == 0o600


def test_open_store_creates_the_file_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    with open_store() as store:
        assert store.path == tmp_path / "home" / "data" / "sessions.db"
        assert mode(store.path.parent) == 0o700
    with open_store(str(tmp_path / "other.db")) as store:
        assert store.path == tmp_path / "other.db"


# -- which files open ------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"hello, this is no database\n" * 100, b"\x00" * 5000, b"x"])
def test_a_file_that_is_not_a_database_is_refused_unchanged(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    path.chmod(0o644)
    assert "is not a session store: move it away, or give another path" in refusal(
        lambda: SqliteStore(path), path
    )
    assert path.read_bytes() == content
    assert mode(path) == 0o644


def test_the_database_of_another_program_is_refused_unchanged(path: Path) -> None:
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


def test_the_error_for_an_unusable_path_names_the_path(path: Path, tmp_path: Path) -> None:
    path.mkdir(parents=True)
    refusal(lambda: SqliteStore(path), path)
    (tmp_path / "file").touch()
    refusal(lambda: SqliteStore(tmp_path / "file" / "x.db"), tmp_path / "file" / "x.db")


def test_a_newer_format_is_refused_with_advice_to_update(path: Path) -> None:
    with SqliteStore(path):
        pass
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    text = refusal(lambda: SqliteStore(path), path)
    assert f"newer Accord (format 99, this one knows {len(MIGRATIONS)}): update Accord" in text


# -- older formats ---------------------------------------------------------------------------------------


def test_an_older_format_is_upgraded_with_all_its_sessions(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        append_texts(store, "s1", "one")
    connection = sqlite3.connect(path, isolation_level=None)
    later = [*MIGRATIONS, ["ALTER TABLE heads ADD COLUMN colour TEXT"], ["UPDATE heads SET colour = 'red'"]]
    upgrade(connection, later)
    upgrade(connection, later)
    assert version_of(connection) == len(MIGRATIONS) + 2
    assert connection.execute("SELECT session, colour FROM heads").fetchall() == [("s1", "red")]
    connection.close()
    backup = path.with_name(f"{path.name}.format-{len(MIGRATIONS)}")
    assert backup.stat().st_mode & 0o777 == 0o600
    with SqliteStore(backup) as store:
        assert logged_texts(store, "s1") == ["one"]
    assert not list(path.parent.glob(".backup-*"))


def test_a_failed_upgrade_leaves_the_file_unchanged(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        append_texts(store, "s1", "one")
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        upgrade(connection, [*MIGRATIONS, ["DROP TABLE heads", "CREATE TABLE nonsense"]])
    assert version_of(connection) == len(MIGRATIONS)
    connection.close()
    with SqliteStore(path) as store:
        assert logged_texts(store, "s1") == ["one"]
        assert store.summary("s1").cwd == "/home/me"


# -- damage ----------------------------------------------------------------------------------------------


def read_everything(store: SqliteStore) -> None:
    """Call every method that reads."""
    for summary in store.list(limit=1000, archived="include").sessions:
        for attempt in (store.read, store.events):
            for _ in attempt(summary.session_id):
                pass
        store.last(summary.session_id)
        store.newest(summary.cwd)
    store.rebuild()


def test_a_damaged_file_gives_results_or_a_one_line_error(path: Path) -> None:
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
                read_everything(store)
        except (StoreError, NotFound) as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all("\n" not in text for text in refused)


def test_a_missing_record_is_reported(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        append_texts(store, "s1", "one", "two", "three")
        connection = sqlite3.connect(path)
        connection.execute("DELETE FROM records WHERE key & 4294967295 = 3")
        connection.commit()
        connection.close()
        with pytest.raises(StoreError, match="record 3"):
            logged_texts(store, "s1")
        assert logged_texts(store, "s1", 3) == ["three"]


# -- failed writes ---------------------------------------------------------------------------------------


async def test_records_that_could_not_be_written_are_kept_and_written_later(path: Path) -> None:
    with SqliteStore(path, busy_seconds=0.01) as store:
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
        assert logged_texts(store, "s1") == ["one", "three"]


def test_a_full_disk_is_reported_and_committed_records_are_kept(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        journal = store.journal("s1")
        journal.append(chunk("one"))
        journal.commit()
        limit = store._database.connection.execute("PRAGMA page_count").fetchone()[0]
        store._database.connection.execute(f"PRAGMA max_page_count = {limit + 2}")
        journal.append(chunk("x" * 100_000))
        assert "is full: free some space" in refusal(journal.commit, path)
        with SqliteStore(path) as other:
            assert logged_texts(other, "s1") == ["one"]
        store._database.connection.execute("PRAGMA max_page_count = 1000000")
        journal.commit()
        assert len(logged_texts(store, "s1")) == 2


def test_a_store_rejects_other_threads_and_calls_after_close(path: Path) -> None:
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


def test_durable_stores_sync_to_disk_at_every_commit(path: Path) -> None:
    for durable, level in ((False, 1), (True, 2)):
        with SqliteStore(path, durable=durable) as store:
            assert store._database.connection.execute("PRAGMA synchronous").fetchone() == (level,)
            assert store._database.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# -- file content ----------------------------------------------------------------------------------------


def test_a_fork_copies_no_records(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s1", "/home/me")
        with store.journal("s1") as journal:
            journal.append(*[chunk("x" * 10_000) for _ in range(200)])
        rows = store._database.connection.execute("SELECT sum(length(data)) FROM records").fetchone()[0]
        for number in range(20):
            store.fork(f"f{number - 1}" if number else "s1", f"f{number}")
        grown = store._database.connection.execute("SELECT sum(length(data)) FROM records").fetchone()[0]
        assert grown - rows < 5_000
        assert len(logged_texts(store, "f19")) == 200


def test_deleted_texts_are_removed_from_the_file(path: Path) -> None:
    clock = ManualClock()
    with SqliteStore(path, now=clock.now) as store:
        store.create("s1", "/home/me")
        with store.journal("s1") as journal:
            journal.append(chunk("the fork keeps this"), chunk("SECRET-A"), chunk("SECRET-B"))
            journal.commit()
            journal.append(chunk("SECRET-C " * 1000))
        store.fork("s1", "f1", up_to=2)
        store.set_title("s1", "SECRET-D")
        store.delete("s1")
        assert logged_texts(store, "f1") == ["the fork keeps this"]
    content = b"".join(file.read_bytes() for file in path.parent.rglob("*") if file.is_file())
    assert b"the fork keeps this" in content
    assert b"SECRET" not in content
    with SqliteStore(path) as store:
        store.delete("f1")
        assert store._database.connection.execute("SELECT count(*) FROM records").fetchone() == (0,)
        assert store._database.connection.execute("SELECT count(*) FROM logs").fetchone() == (0,)


def test_the_write_ahead_log_is_checkpointed_while_the_store_is_open(path: Path) -> None:
    with SqliteStore(path, checkpoint_pages=20) as store:
        store.create("s1", "/home/me")
        before = path.stat().st_size
        with store.journal("s1") as journal:
            for number in range(60):
                journal.append(chunk(str(number) * 2000))
                journal.commit()
        store._checkpoints.close()
        assert path.stat().st_size > before, "the database file must grow while the store is open"
        assert len(logged_texts(store, "s1")) == 60


# -- documentation ---------------------------------------------------------------------------------------


def test_the_code_blocks_of_the_store_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    names["store"].close()
    assert "Done. | left open: []" in capsys.readouterr().out
    assert (tmp_path / "data" / "sessions.db").exists()
