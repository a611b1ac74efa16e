"""Random scripts for a turn that is stopped: what the agent asks for, what the user answers, and when.

Every write and every command leaves a file with a name of its own.
"""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tests.client.raw_agent import YES_NO
from tests.repetitions import ALL

from accord.testing.raw_peer import RawPeer
from accord.wire.envelope import Message

Step = tuple[str, int]
"""What to do, with a number: which folder to write to, which question to answer, how long to wait."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("write", "run", "permit", "read", "yes", "yes", "yes", "no", "wait", "wait")),
        st.integers(0, 6),
    ),
    max_size=14,
)

random_turns = settings(
    deadline=None,
    max_examples=60 if ALL else 20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass
class TurnScript:
    """Plays the agent's part of a script and keeps what it asked for."""

    peer: RawPeer
    folder: Path
    sessions: tuple[str, ...] = ("s1",)
    """The sessions that the requests name, in turn."""
    requests: dict[Any, str] = field(default_factory=dict[Any, str])
    """By request id: the method, and the file that the request leaves."""
    files: dict[Any, str] = field(default_factory=dict[Any, str])

    def ask(self, what: str, number: int) -> Any:
        """Send one request of the agent and return its id."""
        name = f"{what}{len(self.requests)}"
        target = self.folder / f"new{number}" / name if number > 4 else self.folder / name
        params: dict[str, Any]
        match what:
            case "write":
                method, params = "fs/write_text_file", {"path": str(target), "content": "x" * 40_000}
            case "run":
                target = self.folder / name
                line = 'touch "$0"; while :; do sleep 60; done'
                method, params = "terminal/create", {"command": "sh", "args": ["-c", line, str(target)]}
            case "read":
                method, params = "fs/read_text_file", {"path": str(self.folder / "seen.txt")}
            case _:
                call = {"toolCallId": name, "title": name, "kind": "execute"}
                method, params = "session/request_permission", {"toolCall": call, "options": YES_NO}
        session = self.sessions[number % len(self.sessions)]
        id = self.peer.ask(method, {"sessionId": session, **params})
        self.requests[id] = method
        self.files[id] = target.name
        return id

    def answers(self, messages: list[Message]) -> dict[Any, Message]:
        """The client's answers among these messages, by request id."""
        return {
            message["id"]: message
            for message in messages
            if "method" not in message and message.get("id") in self.requests
        }

    async def all_answered(self) -> None:
        """Wait until every request is answered."""
        while len(self.answers(self.peer.received)) < len(self.requests):
            await self.peer.next()

    def done(self) -> set[str]:
        """The files that were written and the commands that were started until now, by the file's name."""
        return files_in(self.folder) | started_commands(self.folder)

    def check_nothing_after(self, received: int, done: set[str]) -> None:
        """Check that nothing was started, written or allowed after the stop.

        `received` counts the messages that the agent had received by then, and `done` is what was done.
        """
        for id, answer in self.answers(self.peer.received[received:]).items():
            if self.requests[id] == "session/request_permission":
                assert answer["result"] == {"outcome": {"outcome": "cancelled"}}, answer
            elif "result" in answer:
                assert self.files[id] in done, f"{self.requests[id]} was done after the stop: {answer}"
        assert files_in(self.folder) <= done, "something was written or started later"


def files_in(folder: Path) -> set[str]:
    """The names of all files and folders below a folder, without unfinished files."""
    return {path.name for path in folder.rglob("*") if not path.name.startswith(".accord-")}


def started_commands(folder: Path) -> set[str]:
    """The names of the files that running commands of this process name as their last word."""
    if os.path.isdir("/proc/self"):
        lines = [_command_line(pid) for pid in os.listdir("/proc") if pid.isdecimal()]
    else:
        listed = subprocess.run(["ps", "-A", "-o", "command="], capture_output=True, text=True, check=True)
        lines = listed.stdout.splitlines()
    return {line.rpartition("/")[2] for line in lines if f" {folder}/run" in line}


def _command_line(pid: str) -> str:
    """The command line of a child of this process. It is empty while a program is being loaded."""
    line = b""
    try:
        while not line:
            state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
            if parent != str(os.getpid()) or state in "ZX":
                return ""
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""  # it has just ended
    return line.rstrip(b"\0").replace(b"\0", b" ").decode()
