"""Kills the agent with SIGKILL at 200 moments. The log must have everything the client received.

Moments are counted in lines that the client has received, since the start or since the prompt. What the agent
is doing at that moment is left to chance.
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
from tests.repetitions import repetitions
from tests.store.store_process import ROOT

from accord.schema.codec import decode
from accord.schema.updates import SessionNotification
from accord.session import TurnEnded
from accord.store.records import EVENT, INTERRUPTED, as_event, event_payload
from accord.store.sqlite_store import SqliteStore

RUNS = repetitions(200)
WORKERS = 2
"""Number of parallel runs, each with its own store and folder."""
RUNS_PER_SESSION = 10
SESSIONS_PER_STORE = 5

PROMPTS = (
    "think: so much to do then list then plan: one; two",
    "read a.py and list src and search beta",
    "write notes.txt: hello then read notes.txt then replace hello with bye in notes.txt",
    "plan: look; change then write deep/er/x.txt: {seed} then list deep",
    "run touch made-{seed}.txt; echo made then read a.py",
    "delegate: list src then think: done",
    "What is this?",
)


class ForkServer:
    """The parent process that forks agents."""

    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent.makefile("rb")
        self._socket = parent

    def fork_agent(self, *words: str) -> tuple[int, int, int]:
        """Fork an agent. Returns its pid and our ends of its pipes, to write to and to read from."""
        (child_in, our_in), (our_out, child_out) = os.pipe(), os.pipe()
        socket.send_fds(self._socket, ["\0".join(words).encode()], [child_in, child_out])
        os.close(child_in)
        os.close(child_out)
        return int(self._receive()), our_in, our_out

    def close(self) -> None:
        """Close the connection, which ends the parent process."""
        self._parent.close()
        self._socket.close()

    def wait_gone(self) -> None:
        """Wait until the agent is gone."""
        assert self._receive() == b"gone"

    def _receive(self) -> bytes:
        line = self._parent.readline()
        assert line, "the fork server is gone"
        return line.strip()


class Killed(Exception):
    """The kill moment has come."""


class AgentRun:
    """One agent and its client, which kills it after a number of lines."""

    def __init__(self, fork_server: ForkServer, store: Path, folder: Path) -> None:
        self.folder = folder
        self._fork_server = fork_server
        self._pid, self._to, out = fork_server.fork_agent("--store", str(store))
        self._from = os.fdopen(out, "rb")
        self._left: int | None = None
        self._asked = 0
        self.told: list[bytes] = []
        """The updates received, encoded as in the log."""
        self.ended = 0
        """Number of turns whose response was received."""
        self._replayed: list[Any] | None = None

    def kill_after(self, lines: int) -> None:
        """Set the number of lines after which to kill."""
        self._left = lines

    def call(self, method: str, **params: Any) -> Any:
        """Send a request and return its result. Raises Killed when the kill moment comes first."""
        self._asked += 1
        self._send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        while True:
            if self._left == 0:
                raise Killed
            message = self._receive()
            if self._left is not None:
                self._left -= 1
            if message is None:
                raise AssertionError("the agent ended by itself")
            if "method" not in message and message["id"] == self._asked:
                assert "result" in message, message
                return message["result"]

    def load(self, session: str) -> list[Any]:
        """Load a session and return the updates sent before the response."""
        self._replayed = []
        self.call("session/load", sessionId=session, cwd=str(self.folder), mcpServers=[])
        replayed, self._replayed = self._replayed, None
        return replayed

    def prompt(self, session: str, text: str) -> str:
        """Run a turn and return its stop reason."""
        result = self.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
        self.ended += 1
        return result["stopReason"]

    def kill(self) -> None:
        """Kill the agent and read what it wrote before."""
        os.kill(self._pid, signal.SIGKILL)
        while self._receive() is not None:
            pass
        self._from.close()
        os.close(self._to)
        self._fork_server.wait_gone()

    def _receive(self) -> Any:
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
                self.told.append(event_payload(event))
        elif message.get("method") == "session/request_permission":
            allowed = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
            self._send({"jsonrpc": "2.0", "id": message["id"], "result": allowed})
        return message

    def _send(self, message: Any) -> None:
        try:
            os.write(self._to, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            pass  # the agent is dead, and its last request was read only now


@contextmanager
def fork_server(home: Path) -> Generator[ForkServer]:
    ours, theirs = socket.socketpair()
    variables = {
        name: value for name, value in {**os.environ, **environment(home)}.items() if value is not None
    }
    command = [sys.executable, "-m", "tests.coder.process.fork_server", str(theirs.fileno())]
    with subprocess.Popen(command, cwd=ROOT, env=variables, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        agents = ForkServer(ours)
        try:
            yield agents
        finally:
            agents.close()
    assert process.returncode == 0


@pytest.mark.timeout(1200)
def test_every_update_sent_before_a_kill_is_in_the_log(home: Path, tmp_path: Path) -> None:
    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text("[sandbox]\nenabled = false\n")  # probing it takes longest
    with ThreadPoolExecutor(WORKERS) as pool:
        counts = list(pool.map(lambda seed: run_and_kill(home, tmp_path / str(seed), seed), range(WORKERS)))
    assert sum(counts, Counter()).total() == RUNS
    assert min(sum(counts, Counter()).values()) > RUNS // 10, "too few kills while opening or in turns"


def run_and_kill(home: Path, place: Path, seed: int) -> Counter[str]:
    """Run agents one after another on the same sessions, and count the moments of their kills."""
    random = Random(seed)
    project = place / "project"
    (project / "src").mkdir(parents=True)
    (project / "a.py").write_text("beta\n")
    session: str | None = None
    store, moments = place, Counter[str]()
    with fork_server(home) as agents:
        for number in range(RUNS // WORKERS):
            if number % RUNS_PER_SESSION == 0:
                session = None
            if number % (RUNS_PER_SESSION * SESSIONS_PER_STORE) == 0:
                store = place / f"{number}.db"
            run = AgentRun(agents, store, project)
            early = number % 4 == 3
            if early:
                run.kill_after(random.choice([0, 1, 2, random.randrange(40)]))
            try:
                run.call("initialize", protocolVersion=1)
                if session is None:
                    session = run.call("session/new", cwd=str(project), mcpServers=[])["sessionId"]
                else:
                    check_replay(run.load(session))
                    assert run.prompt(session, "think: I go on") == "end_turn"
                if not early:
                    run.kill_after(random.randrange(45))
                while session is not None:
                    assert run.prompt(session, random.choice(PROMPTS).format(seed=number)) == "end_turn"
            except Killed:
                moments["opening" if early else "turn"] += 1
            run.kill()
            if session is not None:
                check_log(store, session, run)
    return moments


def check_replay(updates: list[Any]) -> None:
    """Check that a replayed session has no open tool call."""
    for update in updates:
        if update["sessionUpdate"] == "tool_call":
            assert update["status"] in ("completed", "failed"), update


def check_log(path: Path, session: str, run: AgentRun) -> None:
    """Check that the log opens, has no gaps, and has every received update in order."""
    with SqliteStore(path) as store:
        records = list(store.read(session))
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    events = [record for record in records if record.kind == EVENT]
    logged = iter([record.data for record in events])
    missing = [told for told in run.told if told not in logged]
    assert missing == []
    ends = [event for event in (record.event for record in events) if isinstance(event, TurnEnded)]
    sound = [end for end in ends if end.raw_reason != INTERRUPTED]
    assert len(sound) >= run.ended
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
