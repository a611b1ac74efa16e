"""Files with the content of a conversation can be read only by their owner, whatever the umask."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.agent_process import environment
from tests.cli.run.run_harness import RunHarness, odd_agent
from tests.tui.chat import running_chat

from accord.frontend.agent_config import ConfiguredAgent
from accord.tui.export import export
from accord.tui.list_screen import TextInputScreen


@pytest.fixture
def harness(tmp_path: Path) -> RunHarness:
    return RunHarness(tmp_path)


def accord(harness: RunHarness, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "accord.cli", *words],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, umask=0o022,
        cwd=harness.cwd, env=environment(harness.home),
    )  # fmt: skip


def modes(folder: Path) -> dict[str, str]:
    return {file.name: oct(stat.S_IMODE(file.stat().st_mode)) for file in folder.rglob("*") if file.is_file()}


def test_exports_traces_and_reports_are_private(harness: RunHarness) -> None:
    assert accord(harness, "run", "hello", *odd_agent("echo")).returncode == 0
    trace = ["--", sys.executable, "-m", "accord.cli", "trace", "record", "-o", "trace.jsonl"]
    assert accord(harness, "run", "hello", *trace, *odd_agent("echo")).returncode == 0
    for words in (
        ["sessions", "export", "--recorded", "s1", "-a", " ".join(odd_agent("echo")[1:]), "-o", "s.md"],
        ["trace", "show", "trace.jsonl", "--html", "trace.html"],
        ["trace", "replay", "trace.jsonl", "--as-client", "--report", "replay.json", *odd_agent("echo")],
        ["check", "agent", "--only", "15", "--junit", "r.xml", "--html", "r.html", *odd_agent("echo")],
    ):
        done = accord(harness, *words)
        assert done.returncode in (0, 1), (words, done.stderr)
    private = ("s.md", "trace.jsonl", "trace.html", "replay.json", "r.xml", "r.html")
    assert modes(harness.cwd) == dict.fromkeys(private, "0o600")
    assert set(modes(harness.home).values()) == {"0o600"}


def test_an_existing_report_keeps_the_mode_that_its_owner_chose(harness: RunHarness) -> None:
    report = harness.cwd / "r.xml"
    report.touch()
    report.chmod(0o644)
    done = accord(harness, "check", "agent", "--only", "15", "--junit", "r.xml", *odd_agent("echo"))
    assert done.returncode in (0, 1), done.stderr
    assert modes(harness.cwd) == {"r.xml": "0o644"}


async def test_an_export_of_the_chat_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    agent = ConfiguredAgent(name="odd", origin="user", command=tuple(odd_agent("greets")[1:]))
    previous = os.umask(0o022)
    try:
        async with running_chat(tmp_path, find=lambda _: agent) as chat:
            await chat.wait_ready()
            await chat.send("hello")
            await chat.wait_for_text("greets: hello")
            export(chat.app)
            await chat.wait_until(lambda: isinstance(chat.app.screen, TextInputScreen))
            await chat.pilot.press("enter")
            (file,) = await chat.wait_until(lambda: list(tmp_path.glob("*.md")))
    finally:
        os.umask(previous)
    assert oct(stat.S_IMODE(file.stat().st_mode)) == "0o600"
