"""A key in the agent's command line is never stored and never printed."""

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.accord_command import run_accord
from tests.cli.agent_process import environment
from tests.cli.run.run_harness import RunHarness, odd_agent
from tests.tui.chat import running_chat

from accord.frontend.recording import RecordedSessions
from accord.session import SessionState
from accord.store import open_store

KEY = "sk-live-0123456789abcdefghijkl"
PLAIN = "correcthorsebattery"  # a key without the form of one
WRAPPER = ["env", f"DEMO_API_KEY={KEY}", f"TEAM={PLAIN}"]
NAME = "env 'DEMO_API_KEY=[redacted]' 'TEAM=[redacted]'"


@pytest.fixture
def harness(tmp_path: Path) -> RunHarness:
    return RunHarness(tmp_path)


def wrapped(behavior: str, *more: str) -> list[str]:
    return ["--", *WRAPPER, *odd_agent(behavior, *more)[1:]]


def accord(harness: RunHarness, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return run_accord(*words, stdin=stdin, cwd=harness.cwd, env=environment(harness.home))


def assert_clean(*texts: str) -> None:
    for text in texts:
        assert KEY not in text
        assert PLAIN not in text


def assert_files_clean(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            assert_clean(file.read_bytes().decode(errors="replace"))


def test_a_run_stores_and_prints_no_key_of_its_command(harness: RunHarness) -> None:
    ran = harness.run("hello", *wrapped("environment", "DEMO_API_KEY"))
    assert ran.code == 0, ran.err
    assert KEY in ran.out  # the agent itself got the key, and says so in this test
    for behavior in ("fails", "wants-auth", "dies"):
        failed = harness.run("hello", "--format", "json", *wrapped(behavior))
        assert_clean(failed.out, failed.err)
    with closing(sqlite3.connect(harness.home / "data" / "client.db")) as connection:
        names = {name for (name,) in connection.execute("SELECT agent FROM heads")}
        keys = {name for (name,) in connection.execute("SELECT session FROM heads")}
    assert all(name.startswith(NAME) for name in names | keys)


def test_no_listing_prints_the_key(harness: RunHarness) -> None:
    assert harness.run("hello", *wrapped("echo")).code == 0
    for words in (
        ("list", "--recorded"),
        ("list", "--recorded", "--json"),
        ("list", *wrapped("echo")),
        ("show", "--recorded", "s1"),
        ("export", "--recorded", "s1", "--format", "json"),
        ("show", "s1", *wrapped("echo")),
    ):
        done = accord(harness, "sessions", *words)
        assert done.returncode == 0, (words, done.stderr)
        assert_clean(done.stdout, done.stderr)
    found = json.loads(accord(harness, "sessions", "list", "--json", "--recorded", *wrapped("echo")).stdout)
    assert [session["sessionId"] for session in found] == ["s1"]
    assert_files_clean(harness.home)


def test_the_same_command_continues_its_recorded_session(harness: RunHarness) -> None:
    agent = ["--", "env", 'CAPABILITIES={"loadSession": true}', *wrapped("echo")[1:]]
    assert harness.run("hello", *agent).code == 0
    again = harness.run("again", "--continue", *agent)
    assert again.code == 0, again.err


def test_an_added_agent_is_listed_without_the_key(harness: RunHarness) -> None:
    added = accord(harness, "agents", "add", "mine", *wrapped("echo"))
    assert added.returncode == 0, added.stderr
    outputs = [added.stdout]
    for words in (["list"], ["list", "--json"], ["show", "mine"], ["show", "mine", "--json"]):
        outputs.append(accord(harness, "agents", *words).stdout)
        assert "redacted" in outputs[-1]
    assert_clean(*outputs)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "hello", "--", f"DEMO_API_KEY={KEY}", "agent"],
        ["chat", "--", f"DEMO_API_KEY={KEY}", "agent"],
        ["check", "agent", *WRAPPER, "agent"],
        ["trace", "record", *WRAPPER, "agent"],
        ["trace", "record", "--", *WRAPPER, "no-such-agent"],
        ["run", "hello", "--", *WRAPPER, "no-such-agent"],
    ],
)
def test_no_error_message_quotes_the_key(harness: RunHarness, words: list[str]) -> None:
    done = accord(harness, *words)
    assert done.returncode in (2, 3, 127), done.stderr
    assert_clean(done.stdout, done.stderr)
    assert_files_clean(harness.home)


async def test_the_chat_shows_and_stores_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from accord.cli.agent_choice import choose_agent

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    command = tuple(wrapped("greets")[1:])
    configured = choose_agent(None, command, str(tmp_path), trust=False)
    assert_clean(repr(configured.name))
    async with running_chat(tmp_path, find=lambda _: configured) as chat:
        await chat.wait_ready()
        await chat.send("hello")
        await chat.wait_for_text("greets: hello")
        assert_clean(chat.screen, chat.text, chat.app.title, str(chat.app.sub_title))
    assert_files_clean(tmp_path / "home")


def test_an_older_store_is_cleaned_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    old = f"env DEMO_API_KEY={KEY} TEAM={PLAIN} agent"
    path = tmp_path / "data" / "client.db"
    path.parent.mkdir(parents=True)
    with open_store(path) as store:
        for number in (1, 2):
            store.create(f"{old}/s{number}", "/project", agent=old)
            store.journal(f"{old}/s{number}").append(*SessionState(f"s{number}", cwd="/project").snapshot())
        store.fork(f"{old}/s1", f"{old}/fork")
        store.delete(f"{old}/s2")
        store.create("claude/s3", "/project", agent="claude")
    records = RecordedSessions.open()
    name = f"{NAME} agent"
    found = {(recorded.agent, recorded.session_id) for recorded in records.list("/project")}
    assert found == {(name, "s1"), (name, "fork"), ("claude", "s3")}
    fork = records.find("fork", agent=name)
    assert fork is not None
    assert fork.summary.parent is not None
    assert fork.summary.parent.session_id == f"{name}/s1"
    assert list(records.events(fork))
    records.store.rebuild()  # the names in the logs are clean too
    assert {recorded.agent for recorded in records.list()} == {name, "claude"}
    records.close()
    assert_files_clean(tmp_path)


def test_a_session_in_use_is_shown_without_the_key_and_cleaned_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    old = f"env DEMO_API_KEY={KEY} agent"
    path = tmp_path / "data" / "client.db"
    path.parent.mkdir(parents=True)
    with open_store(path) as writer:
        writer.create(f"{old}/s1", "/project", agent=old)
        journal = writer.journal(f"{old}/s1")
        records = RecordedSessions.open()
        assert [(item.agent, item.session_id) for item in records.list()] == [
            ("env 'DEMO_API_KEY=[redacted]' agent", "s1")
        ]
        records.close()
        journal.append(*SessionState("s1", cwd="/project").snapshot())
        journal.close()
    RecordedSessions.open().close()
    assert_files_clean(tmp_path)
