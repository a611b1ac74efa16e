"""Writers killed with SIGKILL: all reported commits are in the log, in order, and the session loads."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from random import Random

import pytest
from tests.store.store_process import ROOT

from accord.schema import AgentMessageChunk
from accord.session import text_of
from accord.store import repair
from accord.store.sqlite_store import SqliteStore

RUNS = 64
FILES = 8
MOST_LINES = 40


class CrashWriters:
    """Runs writers until they are killed, and tracks what they reported as committed."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.committed: dict[str, int] = {}
        self.uncertain: set[str] = set()

    def run_and_kill(self, path: Path, seed: int, lines: int) -> None:
        """Start one writer and kill it after it has reported this many lines."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path} {seed}\n".encode())
        self._process.stdin.flush()
        _, pid = self._read()
        for _ in range(lines):
            self._apply(self._read())
        os.kill(int(pid), signal.SIGKILL)
        while (words := self._read()) != ["gone"]:
            self._apply(words)

    def _read(self) -> list[str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.endswith(b"\n"), "the parent of the writers has ended"
        return line.decode().split()

    def _apply(self, words: list[str]) -> None:
        match words:
            case ["committed", name, count]:
                self.committed[name] = int(count)
            case ["deleting", name]:
                del self.committed[name]
                self.uncertain.add(name)
            case ["deleted", name]:
                self.uncertain.discard(name)
            case _:
                raise AssertionError(words)


@pytest.fixture
def writers() -> Generator[CrashWriters]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.store.crash_writer"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield CrashWriters(process)
        process.communicate()


def test_committed_records_survive_a_kill_at_any_moment(writers: CrashWriters, tmp_path: Path) -> None:
    random = Random(9)  # the exact moment of the kill depends on the machine
    path = tmp_path
    for run in range(RUNS):
        if run % (RUNS // FILES) == 0:
            path = tmp_path / f"{run}.db"
            writers.committed, writers.uncertain = {}, set()
        writers.run_and_kill(path, run, random.choice([0, 1, 2, random.randrange(MOST_LINES)]))
        check(path, writers)


def check(path: Path, writers: CrashWriters) -> None:
    with SqliteStore(path) as store:
        listed = store.list(limit=1000, archived="include")
        names = {summary.session_id for summary in listed.sessions}
        assert names >= writers.committed.keys()
        for name in names:
            events = list(store.events(name))
            texts = [text_of(event).strip() for event in events if isinstance(event, AgentMessageChunk)]
            assert texts == [str(number) for number in range(len(texts))]
            assert len(texts) >= writers.committed.get(name, 0)
            records = list(store.read(name))
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
            assert sum(record.kind == "model" for record in records) == len(texts), (
                "a commit must be written completely or not at all"
            )
            state, closing = repair(events)
            assert state.turn == "idle"
            assert all(call.finished for call in state.tool_calls.values())
            with store.journal(name) as journal:
                journal.append(*closing)
        store.rebuild()
        # The repair above changed the times; everything else matches the list.
        again = {
            summary.session_id: summary for summary in store.list(limit=1000, archived="include").sessions
        }
        assert again.keys() == names
        for summary in listed.sessions:
            assert (again[summary.session_id].title, again[summary.session_id].parent) == (
                summary.title,
                summary.parent,
            )
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
