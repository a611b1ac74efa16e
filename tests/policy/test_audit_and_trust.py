"""The audit log of decisions, and the trust in project files."""

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.policy.project import Project

from accord.errors import UsageError
from accord.policy import (
    ActionRequest,
    AuditFailed,
    DecisionLog,
    Policy,
    SessionDirectories,
    TrustStore,
    UserAnswer,
    redacted,
)


def test_a_decision_is_one_json_line_in_a_private_file(project: Project, tmp_path: Path):
    audit = DecisionLog(tmp_path / "audit" / "decisions.jsonl")
    first, second = project.run("npm test"), project.read(".env", mode="plan")
    audit.record(first, project.decide(first), UserAnswer("allow_once"), session="s1")
    audit.record(second, project.decide(second), UserAnswer())
    lines = [json.loads(line) for line in audit.path.read_text().splitlines()]
    assert lines[0].pop("time").endswith("+00:00")
    assert lines[0] == {
        "version": 1,
        "session": "s1",
        "tool": "bash",
        "kind": "execute",
        "category": "execute",
        "mode": "ask",
        "cwd": str(project.root),
        "command": "npm test",
        "effect": "ask",
        "rule": "mode ask",
        "reason": "`npm test` needs your permission",
        "answer": "allow_once",
    }
    assert (lines[1]["paths"], lines[1]["rule"], lines[1]["answer"]) == ([".env"], "secret", "no")
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(audit.path.parent.stat().st_mode) == 0o700


def test_audit_log_and_trust_are_in_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))
    assert DecisionLog().path == tmp_path / "data" / "decisions.jsonl"
    assert TrustStore().folder == tmp_path / "data" / "trust"


def test_an_audit_log_that_others_can_read_is_made_private(project: Project, tmp_path: Path):
    path = tmp_path / "decisions.jsonl"
    path.write_text("")
    path.chmod(0o644)
    request = project.run("ls")
    DecisionLog(path).record(request, project.decide(request))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_concurrent_writers_lose_no_entry(project: Project, tmp_path: Path):
    request = project.run("ls")
    decision = project.decide(request)

    def write(number: int) -> None:
        DecisionLog(tmp_path / "decisions.jsonl").record(request, decision, session=str(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(200)))
    sessions = {
        json.loads(line)["session"] for line in (tmp_path / "decisions.jsonl").read_text().splitlines()
    }
    assert sessions == {str(number) for number in range(200)}


def test_an_audit_entry_that_cannot_be_written_is_an_error(project: Project, tmp_path: Path):
    request = project.run("ls")
    (tmp_path / "folder").mkdir()
    with pytest.raises(AuditFailed, match="could not be written"):
        DecisionLog(tmp_path / "folder").record(request, project.decide(request))
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuditFailed):
        DecisionLog(tmp_path / "link").record(request, project.decide(request))
    assert not (tmp_path / "elsewhere").exists()


def test_an_audit_log_inside_the_project_is_refused(project: Project):
    request = project.run("ls")
    with pytest.raises(UsageError, match="inside the session's folders"):
        DecisionLog(project.root / "decisions.jsonl").record(request, project.decide(request))
    assert not (project.root / "decisions.jsonl").exists()


def test_a_session_in_the_home_folder_can_write_its_audit_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / ".accord-home"))
    request = ActionRequest(
        directories=SessionDirectories.of(tmp_path),
        tool="list_files",
        category="read-only",
        mode="full-access",
    )
    DecisionLog().record(request, Policy().decide(request))
    assert DecisionLog().path.is_relative_to(tmp_path)
    for category, path in (("read-only", DecisionLog().path), ("write", TrustStore().folder / "x")):
        touching = replace(request, category=category, paths=(path,))
        assert Policy().decide(touching).effect == "ask"  # in every mode


def test_unusual_text_is_one_audit_line(project: Project, tmp_path: Path):
    audit = DecisionLog(tmp_path / "decisions.jsonl")
    request = project.run("ls \ud800\n\0\x1b[31m")
    audit.record(request, project.decide(request))
    assert len(audit.path.read_text().splitlines()) == 1


def test_a_secret_in_its_own_word_of_a_command_is_redacted(project: Project, tmp_path: Path):
    audit = DecisionLog(tmp_path / "decisions.jsonl")
    request = replace(project.run("x"), command=("mysql", "--password", "hunter2", "db"))
    audit.record(request, project.decide(request))
    assert json.loads(audit.path.read_text())["command"] == ["mysql", "--password", "***", "db"]


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("API_KEY=abc123 npm test", "abc123"),
        ("export GITHUB_TOKEN='a b c'", "a b c"),
        ("curl -H 'Authorization: Bearer abcdef' x", "abcdef"),
        ("mysql --password=hunter2 -u me", "hunter2"),
        ("mysql --password hunter2", "hunter2"),
        ("AUTH=hunter2 npm test", "hunter2"),
        ("http POST example.com key=hunter2", "hunter2"),
        ("curl -u me:hunter2 example.com", "hunter2"),
        ("curl 'https://example.com/x?sig=hunter2'", "hunter2"),
        ("git clone https://me:hunter2@example.com/x", "hunter2"),
        ("echo sk-abcdefghijklmnopqrstuvwx", "sk-abcdefghijklmnopqrstuvwx"),
        ("x ghp_abcdefghijklmnopqrstuvwxyz012345", "ghp_abcdefghijklmnopqrstuvwxyz012345"),
        ("AKIAABCDEFGHIJKLMNOP", "AKIAABCDEFGHIJKLMNOP"),
    ],
)
def test_keys_are_redacted(text: str, hidden: str):
    assert hidden not in redacted(text)
    assert "***" in redacted(text)


def test_ordinary_text_is_not_redacted():
    for text in (
        "git commit -m 'token refresh'",
        "npm test -- --keyword x",
        "ls tokens",
        "cat a.py | head -5",
    ):
        assert redacted(text) == text


def test_trust_covers_one_content_of_one_path(tmp_path: Path):
    trust = TrustStore(tmp_path / "data" / "trust")
    file, other = tmp_path / "acp.json", tmp_path / "other.json"
    assert not trust.is_trusted(file, b"{}")
    trust.trust(file, b"{}")
    assert trust.is_trusted(file, "{}")
    assert not trust.is_trusted(file, b"{} ")
    assert not trust.is_trusted(other, b"{}")
    trust.trust(file, b"[]")
    assert (trust.is_trusted(file, b"[]"), trust.is_trusted(file, b"{}")) == (True, False)
    trust.forget(file)
    assert not trust.is_trusted(file, b"[]")
    trust.forget(file)


def test_trust_is_stored_privately_and_persists(tmp_path: Path):
    TrustStore(tmp_path / "trust").trust(tmp_path / "x", b"y")
    assert TrustStore(tmp_path / "trust").is_trusted(tmp_path / "x", b"y")
    (entry,) = (tmp_path / "trust").iterdir()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "trust").stat().st_mode) == 0o700


def test_trust_follows_links_and_spellings_of_a_path(tmp_path: Path):
    trust = TrustStore(tmp_path / "trust")
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    trust.trust(tmp_path / "link" / "x", b"1")
    assert trust.is_trusted(tmp_path / "a" / ".." / "a" / "x", b"1")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"null", b"\xff", b'{"path": 1, "sha256": 2}', b'{"path": "x"}']
)
def test_a_damaged_trust_entry_is_not_trusted(tmp_path: Path, content: bytes):
    trust = TrustStore(tmp_path / "trust")
    trust.trust(tmp_path / "x", b"1")
    (entry,) = trust.folder.iterdir()
    entry.write_bytes(content)
    assert not trust.is_trusted(tmp_path / "x", b"1")


def test_a_trust_entry_moved_to_another_name_is_not_trusted(tmp_path: Path):
    trust = TrustStore(tmp_path / "trust")
    trust.trust(tmp_path / "x", b"1")
    trust.trust(tmp_path / "y", b"2")
    places = {entry.name: entry.read_bytes() for entry in trust.folder.iterdir()}
    first, second = places
    os.replace(trust.folder / first, trust.folder / second)
    assert not trust.is_trusted(tmp_path / "x", b"1")
    assert not trust.is_trusted(tmp_path / "y", b"2")
