"""Runs `accord` commands to their end."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.patience import PATIENCE


def run_accord(
    *words: str | Path,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes | None = None,
    new_session: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Run `accord WORDS` to its end, without a terminal."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli", *map(str, words)],
        input=data,
        stdin=subprocess.DEVNULL if data is None else None,
        capture_output=True,
        cwd=cwd,
        env=dict(os.environ if env is None else env),
        start_new_session=new_session,
        timeout=PATIENCE,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
