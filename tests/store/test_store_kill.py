"""kill -9 at any moment: everything that was reported as committed is in the log, in order, and the session loads."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from random import Random

import pytest
from tests.store.hand import ROOT

from accord.schema import AgentMessageChunk
from accord.session import text_of
from accord.store import repair
from accord.store.sqlite import SqliteStore

RUNS = 64
FILES = 8
MOST_LINES = 40


class Mortals:
    """Writers that live until killed, and what they are known to have committed."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.said: dict[str, int] = {}
        self.uncertain: set[str] = set()

    def live_and_die(self, path: Path, seed: int, lines: int) -> None:
        """One writer; it is killed when it has said so many lines, wherever it may be by then."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path} {seed}\n".encode())
        self._process.stdin.flush()
        _, pid = self._hear()
        for _ in range(lines):
            self._take(self._hear())
        os.kill(int(pid), signal.SIGKILL)
        while (words := self._hear()) != ["gone"]:
            self._take(words)

    def _hear(self) -> list[str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.endswith(b"\n"), "the writers' parent is gone"
        return line.decode().split()

    def _take(self, words: list[str]) -> None:
        match words:
            case ["said", name, count]:
                self.said[name] = int(count)
            case ["deleting", name]:
                del self.said[name]
                self.uncertain.add(name)
            case ["deleted", name]:
                self.uncertain.discard(name)
            case _:
                raise AssertionError(words)


@pytest.fixture
def mortals() -> Generator[Mortals]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.store.mortal"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield Mortals(process)
        process.communicate()


def test_nothing_that_was_committed_is_lost(mortals: Mortals, tmp_path: Path) -> None:
    random = Random(9)  # the moment itself is the machine's choice
    path = tmp_path
    for run in range(RUNS):
        if run % (RUNS // FILES) == 0:
            path = tmp_path / f"{run}.db"
            mortals.said, mortals.uncertain = {}, set()
        mortals.live_and_die(path, run, random.choice([0, 1, 2, random.randrange(MOST_LINES)]))
        check(path, mortals)


def check(path: Path, mortals: Mortals) -> None:
    with SqliteStore(path) as store:
        listed = store.list(limit=1000, archived="include")
        names = {head.session_id for head in listed.heads}
        assert names >= mortals.said.keys()
        for name in names:
            events = list(store.events(name))
            texts = [text_of(event).strip() for event in events if isinstance(event, AgentMessageChunk)]
            assert texts == [str(number) for number in range(len(texts))]
            assert len(texts) >= mortals.said.get(name, 0)
            records = list(store.read(name))
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
            assert sum(record.kind == "model" for record in records) == len(texts), (
                "a commit is whole or not at all"
            )
            state, closing = repair(events)
            assert state.turn == "idle"
            assert all(call.finished for call in state.tool_calls.values())
            with store.journal(name) as journal:
                journal.append(*closing)
        store.rebuild()
        # The repair above moved the times on; all else is as the list had it.
        again = {head.session_id: head for head in store.list(limit=1000, archived="include").heads}
        assert again.keys() == names
        for head in listed.heads:
            assert (again[head.session_id].title, again[head.session_id].parent) == (head.title, head.parent)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
