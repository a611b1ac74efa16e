"""The world of a soak run: folders, stores, processes, and the checks after each round."""

import ctypes
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.patience import PATIENCE

from accord.frontend.recording import RecordedSessions
from accord.schema import AgentMessageChunk
from accord.session import TurnEnded, text_of
from accord.store.records import EVENT, INTERRUPTED
from accord.store.sqlite_store import SqliteStore

ROOT = Path(__file__).parent.parent.parent
_PR_SET_CHILD_SUBREAPER = 36
_CREDENTIALS = ("_API_KEY", "_BASE_URL", "_MODEL")


class Lost(AssertionError):
    """A check failed."""


def require(condition: object, message: str) -> None:
    """Raise Lost with the message unless the condition holds."""
    if not condition:
        raise Lost(message)


@dataclass
class Acknowledged:
    """What a client received of one session: it must be in the log."""

    updates: list[bytes] = field(default_factory=list[bytes])
    texts: list[str] = field(default_factory=list[str])
    turns: int = 0


class SoakWorld:
    """One home and one project for all rounds, and what clients were told so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.random = Random()
        self.home = folder / "home"
        self.project = folder / "project"
        self.scratch = folder / "tmp"
        self.acknowledged: dict[tuple[Path, str], Acknowledged] = {}
        for one in (self.home / "config", self.project / "src", self.scratch):
            one.mkdir(parents=True)
        (self.project / "a.py").write_text("beta\n")
        (self.project / "big.txt").write_text(
            "".join(f"line {number} of the text\n" for number in range(3000))
        )
        self._earlier_children = frozenset(_children())

    # -- stores ----------------------------------------------------------------------------------------------

    @property
    def agent_store(self) -> Path:
        return self.home / "data" / "sessions.db"

    @property
    def gateway_store(self) -> Path:
        return self.home / "data" / "gateway.db"

    @property
    def stores(self) -> list[Path]:
        return sorted((self.home / "data").rglob("*.db"))

    def told(self, store: Path, session: str) -> Acknowledged:
        """What clients were told of a session."""
        return self.acknowledged.setdefault((store, session), Acknowledged())

    def sessions(self, store: Path) -> list[str]:
        """The sessions of a store of which a client was told something."""
        return [session for path, session in self.acknowledged if path == store]

    # -- processes -------------------------------------------------------------------------------------------

    def environment(self, **more: str) -> dict[str, str]:
        """An environment without the settings of the user who runs the soak."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("ACCORD_") and not name.endswith(_CREDENTIALS)
        }
        user = self.folder / "user"
        user.mkdir(exist_ok=True)
        own = {"ACCORD_HOME": str(self.home), "HOME": str(user), "TMPDIR": str(self.scratch)}
        return {**kept, **own, "ACCORD_MODEL": "rehearsal", **more}

    def start(self, *words: str, **more: str) -> "subprocess.Popen[bytes]":
        """Start `accord WORDS` in the project with pipes."""
        pipe = subprocess.PIPE
        with (self.folder / "stderr.txt").open("wb") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "accord.cli", *words],
                stdin=pipe,
                stdout=pipe,
                stderr=errors,
                cwd=self.project,
                env=self.environment(**more),
                start_new_session=True,
            )

    def stderr(self) -> str:
        """What the program started last wrote to stderr."""
        return (self.folder / "stderr.txt").read_text("utf-8", errors="replace")

    def wait(self, process: "subprocess.Popen[bytes]", allowed: Iterable[int]) -> None:
        """Wait for the end of a program. Check its exit code, and that it printed no traceback."""
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Lost(f"{process.args} did not end") from None
        finally:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    try:
                        stream.close()
                    except BrokenPipeError:
                        pass
        require(code in set(allowed), f"exit code {code} instead of {sorted(allowed)}\n{self.stderr()}")
        require("Traceback" not in self.stderr(), self.stderr())

    # -- checks ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The checks after a round: no process, lock or file is left, and no log lost anything."""
        self._check_processes()
        if any(self.scratch.iterdir()):
            # A killed program cannot remove its files. The next one that runs a command does.
            self.wait(self.start("run", "--format", "quiet", "--permissions", "all", "run true"), (0,))
            self._check_processes()
        left = sorted(entry.name for entry in self.scratch.iterdir())
        require(not left, f"temporary files left: {left}")
        for path in self.stores:
            self._check_store(path)

    def check_everything(self) -> None:
        """Check every log that a client was ever told of."""
        for path, session in self.acknowledged:
            with SqliteStore(path) as store:
                self._check_session(store, path, session)

    def _own_children(self) -> list[int]:
        return [child for child in _children() if child not in self._earlier_children]

    def _check_processes(self) -> None:
        end = time.monotonic() + PATIENCE
        while children := self._own_children():
            for child in children:
                os.waitpid(child, os.WNOHANG)
            if time.monotonic() > end:
                names = [_command(child) for child in self._own_children()]
                for child in self._own_children():
                    os.kill(child, signal.SIGKILL)
                raise Lost(f"processes left: {names}")
            time.sleep(0.01)

    def _check_store(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        try:
            require(connection.execute("PRAGMA integrity_check").fetchone() == ("ok",), f"{path} is damaged")
        finally:
            connection.close()
        with SqliteStore(path) as store:
            for session in self.sessions(path)[-20:]:
                self._check_session(store, path, session)

    def _check_session(self, store: SqliteStore, path: Path, session: str) -> None:
        """Check the log and the lock of a session. It may be missing if no client was told anything of it."""
        told = self.told(path, session)
        key: str | None = session
        if path == self.gateway_store:
            recorded = RecordedSessions(store).find(session, agent="accord")
            key = None if recorded is None else recorded.summary.session_id
        if key is None:
            require(told == Acknowledged(), f"session {session} is missing in {path}")
            return
        require(store.writer(key) is None, f"the lock of session {session} is still held")
        check_log(store, key, told)


def check_log(store: SqliteStore, session: str, told: Acknowledged) -> None:
    """Check that a log has no gap, and everything that a client was told, in order."""
    records = list(store.read(session))
    numbers = [record.seq for record in records]
    require(numbers == list(range(1, len(records) + 1)), f"session {session} has a gap: {numbers}")
    events = [record for record in records if record.kind == EVENT]
    logged = iter([record.data for record in events])
    missing = [update for update in told.updates if update not in logged]
    require(not missing, f"session {session} lost {missing[:3]}")
    decoded = [record.event for record in events]
    texts = iter([text_of(event) for event in decoded if isinstance(event, AgentMessageChunk)])
    missing_texts = [text for text in told.texts if text not in texts]
    require(not missing_texts, f"session {session} lost {missing_texts[:3]}")
    ends = [event for event in decoded if isinstance(event, TurnEnded) and event.raw_reason != INTERRUPTED]
    require(len(ends) >= told.turns, f"session {session} has {len(ends)} of {told.turns} ended turns")


def descendants(pid: int) -> dict[int, str]:
    """The processes below a process, with their command lines."""
    below: dict[int, str] = {}
    for child in _children(pid):
        below[child] = _command(child)
        below |= descendants(child)
    return below


def adopt_orphans() -> None:
    """Become the parent of processes that are left behind, so that `check` finds them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children(pid: int | None = None) -> list[int]:
    found: list[int] = []
    for tasks in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"):
        try:
            found += [int(word) for word in tasks.read_text().split()]
        except OSError:
            pass  # it ended
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
