"""A home folder with secrets and a project, files outside, and ways to reach them from a sandbox."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

from accord.policy.sandbox.backend import Backend
from accord.policy.sandbox.sandbox import Sandbox

PYTHON = os.path.realpath(sys.executable)
SECRET = "the-secret-itself"
PRELUDE = """
import ctypes, os, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(action, *args):
    try: result = action(*args)
    except Exception as error: print("refused:", type(error).__name__, error)
    else: print("done:", result)
def write(path, mode="w"):
    with open(path, mode) as file: return file.write("intruder")
def read(path):
    with open(path, errors="replace") as file: return file.read()
"""


@dataclass
class Outcome:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


@dataclass
class SandboxHarness:
    """The files, and a sandbox that is created on first use with `options`."""

    base: Path
    backend: Backend
    options: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    _sandbox: Sandbox | None = None

    def __post_init__(self) -> None:
        self.home = self.base / "home"
        self.project = self.home / "src" / "project"
        self.outside_path = self.base / "outside"
        for folder in (self.project, self.outside_path, self.home / ".ssh", self.home / ".config" / "gcloud"):
            folder.mkdir(parents=True)
        self.victim = self.outside_path / "victim"
        self.victim.write_text("untouched")
        self.secrets = [
            self.home / ".ssh" / "id_ed25519",
            self.home / ".config" / "gcloud" / "access_tokens.db",
            self.home / ".netrc",
            self.home / "diary.txt",
            self.outside_path / "kept",
        ]
        for secret in self.secrets:
            secret.write_text(SECRET)
        (self.project / "main.py").write_text("print('hello')\n")

    @property
    def sandbox(self) -> Sandbox:
        if self._sandbox is None:
            path = os.pathsep.join((os.path.dirname(PYTHON), "/usr/local/bin:/usr/bin:/bin"))
            env = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **self.env}
            self._sandbox = Sandbox([self.project], env=env, backend=self.backend, **self.options)
        return self._sandbox

    def run(self, *argv: str, env: Mapping[str, str] | None = None, **options: Any) -> Outcome:
        """Run a command in the sandbox and wait for it."""
        confined = self.sandbox.wrap(argv, env=env)
        done = subprocess.run(
            confined.argv,
            env=confined.env,
            cwd=confined.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            **options,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def shell(self, line: str) -> Outcome:
        return self.run("/bin/sh", "-c", line)

    def attempt(self, code: str, *words: object) -> list[str]:
        """Run Python in the sandbox with `attempt(action, *args)` available. Return one `done` or `refused`
        line per attempt."""
        done = self.run(PYTHON, "-I", "-S", "-c", PRELUDE + code, *map(str, words))
        assert done.code == 0, done.err
        return done.out.splitlines()

    def close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()

    def untouched(self) -> bool:
        """Whether everything outside the project is unchanged."""
        outside = {path.name for path in self.outside_path.iterdir()} == {"victim", "kept"}
        home = {path.name for path in self.home.iterdir()} == {
            "src",
            ".ssh",
            ".config",
            ".netrc",
            "diary.txt",
        }
        parents = [path.name for path in (self.home / "src").iterdir()] == ["project"]
        return outside and home and parents and self.victim.read_text() == "untouched"


def refused(lines: list[str]) -> bool:
    """Whether there were attempts and all of them failed."""
    return bool(lines) and all(line.startswith("refused:") for line in lines)
