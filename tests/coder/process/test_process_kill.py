"""kill -9 at two hundred moments: whatever a client has heard is in the log, the session loads, and the work goes on.

Moments are counted by the lines that the client has heard, since the start or since the prompt; what the agent does meanwhile is
the machine's choice.
"""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.coder.process.editor import environment
from tests.store.store_process import ROOT

from accord.schema.codec import decode
from accord.schema.updates import SessionNotification
from accord.session import TurnEnded
from accord.store.records import EVENT, as_event, payload_of
from accord.store.repairing import INTERRUPTED
from accord.store.sqlite import SqliteStore

LIVES = 200
ROWS = 2
"""So many live at the same time, each with a store and a folder of its own."""
LIVES_OF_A_SESSION = 10
SESSIONS_OF_A_STORE = 5

PROMPTS = (
    "think: so much to do then list then plan: one; two",
    "read a.py and list src and search beta",
    "write notes.txt: hello then read notes.txt then replace hello with bye in notes.txt",
    "plan: look; change then write deep/er/x.txt: {seed} then list deep",
    "run touch made-{seed}.txt; echo made then read a.py",
    "delegate: list src then think: done",
    "What is this?",
)


class Nursery:
    """Where agents come from."""

    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent.makefile("rb")
        self._socket = parent

    def bear(self, *words: str) -> tuple[int, int, int]:
        """An agent: its number, and the ends of its pipes to write to and to read from."""
        (child_in, our_in), (our_out, child_out) = os.pipe(), os.pipe()
        socket.send_fds(self._socket, ["\0".join(words).encode()], [child_in, child_out])
        os.close(child_in)
        os.close(child_out)
        return int(self._hear()), our_in, our_out

    def close(self) -> None:
        """No more agents."""
        self._parent.close()
        self._socket.close()

    def bury(self) -> None:
        """Return when it is gone."""
        assert self._hear() == b"gone"

    def _hear(self) -> bytes:
        line = self._parent.readline()
        assert line, "the parent of the agents is gone"
        return line.strip()


class Killed(Exception):
    """The moment has come."""


class Life:
    """One agent and its client, who kills it when it has heard so many lines."""

    def __init__(self, nursery: Nursery, store: Path, folder: Path) -> None:
        self.folder = folder
        self._nursery = nursery
        self._pid, self._to, out = nursery.bear("--store", str(store))
        self._from = os.fdopen(out, "rb")
        self._left: int | None = None
        self._asked = 0
        self.told: list[bytes] = []
        """The updates that were heard and have to be in the log, as the log writes them."""
        self.ended = 0
        """Turns whose answer was heard."""
        self._replayed: list[Any] | None = None

    def die_after(self, lines: int) -> None:
        """Set the moment."""
        self._left = lines

    def call(self, method: str, **params: Any) -> Any:
        """Ask, and return the result. Raises Killed when the moment comes first."""
        self._asked += 1
        self._send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        while True:
            if self._left == 0:
                raise Killed
            message = self._hear()
            if self._left is not None:
                self._left -= 1
            if message is None:
                raise AssertionError("the agent ended by itself")
            if "method" not in message and message["id"] == self._asked:
                assert "result" in message, message
                return message["result"]

    def take_up(self, session: str) -> list[Any]:
        """Load a session: what is told of it before the answer."""
        self._replayed = []
        self.call("session/load", sessionId=session, cwd=str(self.folder), mcpServers=[])
        replayed, self._replayed = self._replayed, None
        return replayed

    def prompt(self, session: str, text: str) -> str:
        """A turn: its stop reason."""
        result = self.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
        self.ended += 1
        return result["stopReason"]

    def kill(self) -> None:
        """The end. What was written before it is still heard."""
        os.kill(self._pid, signal.SIGKILL)
        while self._hear() is not None:
            pass
        self._from.close()
        os.close(self._to)
        self._nursery.bury()

    def _hear(self) -> Any:
        line = self._from.readline()
        if not line.endswith(b"\n"):
            return None
        message = json.loads(line)
        if message.get("method") == "session/update":
            if self._replayed is not None:
                self._replayed.append(message["params"]["update"])
            else:
                event = as_event(decode(SessionNotification, json.dumps(message["params"]).encode()).update)
                assert event is not None
                self.told.append(payload_of(event))
        elif message.get("method") == "session/request_permission":
            allowed = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
            self._send({"jsonrpc": "2.0", "id": message["id"], "result": allowed})
        return message

    def _send(self, message: Any) -> None:
        try:
            os.write(self._to, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            pass  # it is dead already, and what it asked before is only heard now


@contextmanager
def nursery(home: Path) -> Generator[Nursery]:
    ours, theirs = socket.socketpair()
    variables = {
        name: value for name, value in {**os.environ, **environment(home)}.items() if value is not None
    }
    command = [sys.executable, "-m", "tests.coder.process.mortals", str(theirs.fileno())]
    with subprocess.Popen(command, cwd=ROOT, env=variables, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        agents = Nursery(ours)
        try:
            yield agents
        finally:
            agents.close()
    assert process.returncode == 0


@pytest.mark.timeout(240)
def test_nothing_that_was_told_is_lost(home: Path, tmp_path: Path) -> None:
    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text("[sandbox]\nenabled = false\n")  # trying it takes longest
    with ThreadPoolExecutor(ROWS) as pool:
        rows = list(pool.map(lambda seed: live_and_die(home, tmp_path / str(seed), seed), range(ROWS)))
    assert sum(rows, Counter()).total() == LIVES
    assert min(sum(rows, Counter()).values()) > LIVES // 10, "both while it opens and in the middle of turns"


def live_and_die(home: Path, place: Path, seed: int) -> Counter[str]:
    """A row of agents, each of which takes up what the one before it left; when they died."""
    random = Random(seed)
    project = place / "project"
    (project / "src").mkdir(parents=True)
    (project / "a.py").write_text("beta\n")
    session: str | None = None
    store, moments = place, Counter[str]()
    with nursery(home) as agents:
        for number in range(LIVES // ROWS):
            if number % LIVES_OF_A_SESSION == 0:
                session = None
            if number % (LIVES_OF_A_SESSION * SESSIONS_OF_A_STORE) == 0:
                store = place / f"{number}.db"
            life = Life(agents, store, project)
            early = random.random() < 0.25
            if early:
                life.die_after(random.choice([0, 1, 2, random.randrange(40)]))
            try:
                life.call("initialize", protocolVersion=1)
                if session is None:
                    session = life.call("session/new", cwd=str(project), mcpServers=[])["sessionId"]
                else:
                    check_told(life.take_up(session))
                    assert life.prompt(session, "think: I go on") == "end_turn"
                if not early:
                    life.die_after(random.randrange(45))
                while session is not None:
                    assert life.prompt(session, random.choice(PROMPTS).format(seed=number)) == "end_turn"
            except Killed:
                moments["opening" if early else "turn"] += 1
            life.kill()
            if session is not None:
                check_log(store, session, life)
    return moments


def check_told(updates: list[Any]) -> None:
    """A session that is told has nothing open."""
    for update in updates:
        if update["sessionUpdate"] == "tool_call":
            assert update["status"] in ("completed", "failed"), update


def check_log(path: Path, session: str, life: Life) -> None:
    """The log opens, is whole, and has everything that was heard, in that order."""
    with SqliteStore(path) as store:
        records = list(store.read(session))
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    events = [record for record in records if record.kind == EVENT]
    logged = iter([record.data for record in events])
    missing = [told for told in life.told if told not in logged]
    assert missing == []
    ends = [event for event in (record.event for record in events) if isinstance(event, TurnEnded)]
    sound = [end for end in ends if end.raw_reason != INTERRUPTED]
    assert len(sound) >= life.ended
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
