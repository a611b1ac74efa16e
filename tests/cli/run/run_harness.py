"""Runs `accord run` as a process, with agents made for its tests."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.accord_command import run_accord
from tests.cli.agent_process import environment

ODD_AGENT = str(Path(__file__).with_name("odd_agent.py"))


@dataclass
class RunResult:
    """The exit code and output of a run."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of `--format json`."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        """The last line of `--format json`."""
        (*_, last) = self.events
        assert last["type"] == "result"
        return last


class RunHarness:
    """A project folder, and an Accord home of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.cwd = folder / "project"
        self.cwd.mkdir()

    def run(self, *words: str, stdin: str | bytes | None = None, **env: str) -> RunResult:
        """Run `accord run WORDS` to its end, without a terminal."""
        done = run_accord("run", *words, stdin=stdin, cwd=self.cwd, env=self.env(**env), new_session=True)
        return RunResult(done.returncode, done.stdout, done.stderr)

    def env(self, **more: str) -> dict[str, str]:
        """Return an environment without the settings of the user who runs the tests."""
        inherited = environment(self.home, **more)
        return {
            name: value
            for name, value in inherited.items()
            if name not in ("COLUMNS", "LINES", "FORCE_COLOR")
        }

    def settings(self, **servers: Any) -> None:
        """Write the user's `acp.json`."""
        file = self.home / "config" / "acp.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(servers))

    def script(self, *turns: list[dict[str, Any]]) -> list[str]:
        """Return the command of a scripted agent, with `--` before it."""
        file = self.home.parent / "script.json"
        file.write_text(json.dumps(list(turns)))
        return ["--", sys.executable, "-m", "accord.testing", str(file)]


def odd_agent(behavior: str, *more: str) -> list[str]:
    """Return the command of an agent with the given behavior, with `--` before it."""
    return ["--", sys.executable, ODD_AGENT, behavior, *more]


def alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
