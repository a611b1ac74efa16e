"""Starts programs under `accord trace record`, the way a client does."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

RECORD = [sys.executable, "-m", "accord.cli", "trace", "record"]
ROOT = Path(__file__).parents[2]
AGENT = [sys.executable, str(ROOT / "examples/agent.py")]
CLIENT = [sys.executable, str(ROOT / "examples/client.py")]


def python(code: str) -> list[str]:
    return [sys.executable, "-SEc", code]


def start_recorder(file: Path, command: Sequence[str], *flags: str, **more: Any) -> "subprocess.Popen[bytes]":
    """Start a recorder with pipes on all three descriptors."""
    options: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "bufsize": 0,
        **more,
    }
    words = [*RECORD, "-o", str(file), *flags, "--", *command]
    return cast("subprocess.Popen[bytes]", subprocess.Popen(words, **options))


def run_recorder(
    file: Path, command: Sequence[str], data: bytes = b"", *flags: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command under the recorder to its end."""
    return subprocess.run(
        [*RECORD, "-o", str(file), *flags, "--", *command],
        input=data,
        capture_output=True,
        check=False,
    )


def wait_for_fifo_writers(fifo: Path) -> None:
    """Wait until no process has the FIFO open for writing."""
    fd = os.open(fifo, os.O_RDONLY)
    try:
        while os.read(fd, 100):
            pass
    finally:
        os.close(fd)
