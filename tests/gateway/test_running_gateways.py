"""The list of running gateways has no file of a gateway that was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.serve.gateway_process import running_gateway
from tests.patience import PATIENCE

from accord.gateway.running_gateways import announce, list_running_gateways, running_folder

_ANNOUNCE = """
from accord.gateway.running_gateways import announce
with announce("http://127.0.0.1:1"):
    print(flush=True)
    input()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def announced(home: Path) -> "subprocess.Popen[bytes]":
    """A process that is listed as a gateway."""
    process = subprocess.Popen(
        [sys.executable, "-c", _ANNOUNCE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "ACCORD_HOME": str(home)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    return process


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate(timeout=PATIENCE)


def test_a_new_gateway_removes_the_files_of_killed_ones(home: Path) -> None:
    with running_gateway(home) as first:
        (file,) = running_folder().iterdir()
        first.signal(signal.SIGKILL)
    assert file.exists()
    with running_gateway(home) as second:
        (other,) = running_folder().iterdir()
        assert other != file
        (gateway,) = list_running_gateways()
        assert gateway.url == second.url
    assert list(running_folder().iterdir()) == []


def test_a_running_gateway_and_other_files_are_kept(home: Path) -> None:
    running = announced(home)
    dead = announced(home)
    kill(dead)
    (running_folder() / "notes.txt").touch()
    with announce("http://127.0.0.1:2"):
        assert {gateway.pid for gateway in list_running_gateways()} == {running.pid, os.getpid()}
        names = {path.name for path in running_folder().iterdir()}
        assert names == {f"{running.pid}.json", f"{os.getpid()}.json", "notes.txt"}
    kill(running)


def test_a_gateway_that_starts_while_others_clean_up_stays_listed(home: Path) -> None:
    """The cleaning removes unlocked files, also one that was created a moment ago."""
    cleaner = "from accord.gateway.running_gateways import list_running_gateways as l\nwhile True: l()"
    environment = {**os.environ, "ACCORD_HOME": str(home)}
    cleaners = [subprocess.Popen([sys.executable, "-c", cleaner], env=environment) for _ in range(2)]
    try:
        for number in range(300):
            with announce(f"http://127.0.0.1:{number}"):
                assert [gateway.pid for gateway in list_running_gateways()] == [os.getpid()]
    finally:
        for process in cleaners:
            process.kill()
            process.wait(PATIENCE)
