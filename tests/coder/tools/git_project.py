"""A real repository for tests, and the policy's answer to a command in it."""

import os
import subprocess
from pathlib import Path

from tests.coder.tools.harness import ToolHarness
from tests.patience import PATIENCE

from accord.policy import ActionRequest, Mode, Policy, SessionDirectories

ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": "ada@example.com"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}


class GitProject:
    """A folder with a repository, the bash tool and the policy."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.marker = root.parent / "marker"
        if not (root / ".git").exists():
            self.git("init", "-q", "-b", "main", ".")

    def git(self, *words: str, folder: Path | None = None) -> str:
        """Run git as the user does."""
        command = ["git", "-c", "protocol.file.allow=always", *words]
        done = subprocess.run(
            command,
            cwd=folder or self.root,
            env=ENV,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        return done.stdout

    def plain(self, line: str) -> str:
        """Run a line as it is, without Accord."""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.root,
            env=ENV,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        return done.stdout + done.stderr

    def commit(self, message: str, **files: str) -> None:
        for name, text in files.items():
            self.write(name, text)
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-m", message)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name: str, body: str = "cat") -> str:
        """Create a program outside the project that leaves a mark when it runs."""
        path = self.root.parent / name
        path.write_text(f"#!/bin/sh\ntouch {self.marker}\n{body}\n")
        path.chmod(0o700)
        return str(path)

    def verdict(self, line: str, mode: Mode = "read-only", *, sandboxed: bool = False) -> str:
        request = ActionRequest(
            directories=SessionDirectories.of(self.root),
            category="execute",
            kind="execute",
            command=line,
            mode=mode,
            sandboxed=sandboxed,
        )
        return Policy().decide(request).effect

    async def run(self, line: str) -> str:
        """Run a line with the bash tool."""
        return (await ToolHarness(self.root, environment=ENV).use("bash", command=line)).text
