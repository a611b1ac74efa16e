"""The review of a session over the gateway: what it shows, what it changes, and who may do it."""

import os
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.access.test_audit_events import audit_events
from tests.gateway.gateway_harness import DrivenClient, GatewayHarness, gateway_harness, open_session

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog

LINES = [f"line {number}\n" for number in range(1, 31)]
CHANGED = "".join(["line 1\n", "two\n", *LINES[2:]])
SESSION = {"sessionId": "s1"}

GH = """#!/bin/sh
printf '%s\\n' "$PWD" "$@" > "$GH_CALL"
cat > "$GH_CALL.body"
echo "Creating a pull request" >&2
echo https://example.com/pull/7
"""


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository in which an agent has changed one line since the last commit."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "app.py").write_text("".join(LINES))
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "Test"), ("user.email", "test@example.com")):
        git(folder, "config", name, value)
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "first")
    (folder / "app.py").write_text(CHANGED)
    return folder


@asynccontextmanager
async def changed_session(
    audit: AuditLog, project: Path
) -> AsyncGenerator[tuple[GatewayHarness, DrivenClient]]:
    """A session whose last turn reported the change."""
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, project)
        turn = client.prompt("s1", "change it")
        prompt = await harness.agent.until_method("session/prompt")
        diff = {
            "type": "diff",
            "path": str(project / "app.py"),
            "oldText": "".join(LINES),
            "newText": CHANGED,
        }
        call = {"toolCallId": "c1", "title": "Edit", "kind": "edit", "status": "completed", "content": [diff]}
        harness.agent.tell("s1", {"sessionUpdate": "tool_call", **call})
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        await client.updates_until(turn)
        yield harness, client


async def first_hunk(client: DrivenClient) -> dict[str, Any]:
    return (await client.call("_accord/review", SESSION))["files"][0]["hunks"][0]


async def test_the_changes_of_the_last_turn_are_listed_by_file_and_hunk(
    audit: AuditLog, project: Path
) -> None:
    async with changed_session(audit, project) as (_, client):
        review = await client.call("_accord/review", SESSION)
        (file,) = review["files"]
        assert (review["scope"], review["git"]["branch"]) == ("turn", "main")
        assert (file["name"], file["added"], file["removed"]) == ("app.py", 1, 1)
        assert file["hunks"][0]["lines"][:3] == [[" ", 1, "line 1"], ["-", 2, "line 2"], ["+", 2, "two"]]


async def test_without_changes_of_the_session_what_is_not_committed_is_shown(
    audit: AuditLog, project: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, project)
        review = await client.call("_accord/review", SESSION)
        assert (review["scope"], review["files"][0]["name"]) == ("uncommitted", "app.py")
        assert (await client.call("_accord/review", {**SESSION, "scope": "session"}))["files"] == []


async def test_outside_of_a_repository_there_is_nothing_to_commit(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        assert await client.call("_accord/review", SESSION) == {"scope": "turn", "files": []}
        error = await client.error("_accord/review", {**SESSION, "scope": "uncommitted"})
        assert "not in a git repository" in error["message"]


async def test_a_change_is_reverted_and_brought_back(audit: AuditLog, project: Path) -> None:
    async with changed_session(audit, project) as (_, client):
        hunk = (await first_hunk(client))["id"]
        await client.call("_accord/review/revert", {**SESSION, "scope": "turn", "hunk": hunk})
        assert (project / "app.py").read_text() == "".join(LINES)
        assert (await client.call("_accord/review", {**SESSION, "scope": "turn"}))["files"] == []
        await client.call("_accord/review/revert", {**SESSION, "hunk": hunk, "undo": True})
        assert (project / "app.py").read_text() == CHANGED
        again = await client.error("_accord/review/revert", {**SESSION, "hunk": hunk, "undo": True})
        assert "not reverted here" in again["message"]


async def test_a_file_that_has_changed_since_is_not_reverted(audit: AuditLog, project: Path) -> None:
    async with changed_session(audit, project) as (_, client):
        hunk = (await first_hunk(client))["id"]
        (project / "app.py").write_text("mine\n")
        error = await client.error("_accord/review/revert", {**SESSION, "hunk": hunk})
        assert "no longer" in error["message"]
        assert (project / "app.py").read_text() == "mine\n"


async def test_comments_become_one_prompt_with_the_lines_that_they_are_about(
    audit: AuditLog, project: Path
) -> None:
    async with changed_session(audit, project) as (_, client):
        comments = [{"hunk": (await first_hunk(client))["id"], "line": 2, "text": "Write a number."}]
        result = await client.call("_accord/review/comment", {**SESSION, "comments": comments})
        assert "app.py, line 2:\n> -line 2\n> +two\nWrite a number." in result["prompt"]
        gone = [{"hunk": "0", "line": 2, "text": "?"}]
        error = await client.error("_accord/review/comment", {**SESSION, "comments": gone})
        assert "no longer there" in error["message"]


async def test_a_commit_has_only_the_named_files_and_runs_the_hooks_of_the_user(
    audit: AuditLog, project: Path
) -> None:
    (project / "other.txt").write_text("mine\n")
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\ntouch hook-ran\n")
    hook.chmod(0o755)
    async with changed_session(audit, project) as (_, client):
        params = {**SESSION, "message": "-Change two", "paths": [str(project / "app.py")]}
        commit = (await client.call("_accord/review/commit", params))["commit"]
        assert git(project, "show", "--name-only", "--format=%h %s", commit).split("\n")[:3] == [
            f"{commit} -Change two",
            "",
            "app.py",
        ]
        assert (project / "hook-ran").exists()
        outside = {**SESSION, "message": "x", "paths": [str(project.parent / "secret")]}
        assert "outside" in (await client.error("_accord/review/commit", outside))["message"]


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of `gh`, and the file with what it was called with."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gh").write_text(GH)
    (programs / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GH_CALL", str(tmp_path / "call"))
    return tmp_path / "call"


async def test_a_pull_request_pushes_a_new_branch_and_calls_gh(
    audit: AuditLog, project: Path, gh: Path
) -> None:
    remote = project.parent / "remote.git"
    git(project.parent, "init", "--quiet", "--bare", str(remote))
    git(project, "remote", "add", "origin", str(remote))
    async with changed_session(audit, project) as (_, client):
        facts = (await client.call("_accord/review", SESSION))["git"]
        assert facts["pullRequest"] == {"needsBranch": True}
        asked = {**SESSION, "title": "Write two", "body": "Because."}
        assert "main branch" in (await client.error("_accord/review/pull_request", asked))["message"]
        error = await client.error("_accord/review/pull_request", {**asked, "branch": "--force"})
        assert "not a name" in error["message"]
        result = await client.call("_accord/review/pull_request", {**asked, "branch": "write-two"})
        assert result == {"url": "https://example.com/pull/7"}
        assert gh.read_text().splitlines() == [
            str(project),
            *("pr", "create", "--title=Write two", "--body-file=-", "--head=write-two"),
        ]
        assert gh.with_name("call.body").read_text() == "Because."
        assert git(remote, "branch", "--list", "write-two").strip() == "write-two"
        assert not git(remote, "branch", "--list", "main").strip()


async def test_without_gh_a_pull_request_is_not_offered(
    audit: AuditLog, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    program = shutil.which("git")
    assert program is not None
    (programs / "git").symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    async with changed_session(audit, project) as (_, client):
        assert "pullRequest" not in (await client.call("_accord/review", SESSION))["git"]
        error = await client.error("_accord/review/pull_request", {**SESSION, "title": "x"})
        assert "needs `gh`" in error["message"]


ALL_METHODS = {
    "_accord/review": {},
    "_accord/review/revert": {"hunk": "0"},
    "_accord/review/comment": {"comments": []},
    "_accord/review/commit": {"message": "x", "paths": []},
    "_accord/review/pull_request": {"title": "x"},
}


@pytest.mark.parametrize("method", ALL_METHODS)
async def test_a_read_only_token_may_not_review(audit: AuditLog, project: Path, method: str) -> None:
    async with changed_session(audit, project) as (harness, _):
        reader = await harness.client(TokenRights("t2", "reader", read_only=True))
        await reader.load("s1", str(project))
        error = await reader.error(method, {**SESSION, **ALL_METHODS[method]})
        assert error["code"] == -32003


@pytest.mark.parametrize("method", ALL_METHODS)
async def test_a_session_that_the_client_has_not_opened_is_not_found(
    audit: AuditLog, project: Path, method: str
) -> None:
    async with changed_session(audit, project) as (harness, _):
        guest = await harness.client(TokenRights("t2", "guest", folders=(str(project.parent / "else"),)))
        assert (await guest.error(method, {**SESSION, **ALL_METHODS[method]}))["code"] == -32002


async def test_a_token_of_folders_commits_without_hooks_and_opens_no_pull_request(
    audit: AuditLog, project: Path, gh: Path
) -> None:
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\ntouch hook-ran\n")
    hook.chmod(0o755)
    async with changed_session(audit, project) as (harness, _):
        guest = await harness.client(TokenRights("t2", "guest", folders=(str(project),)))
        await guest.load("s1", str(project))
        params = {**SESSION, "message": "Change two", "paths": [str(project / "app.py")]}
        await guest.call("_accord/review/commit", params)
        assert not (project / "hook-ran").exists()
        error = await guest.error("_accord/review/pull_request", {**SESSION, "title": "x", "branch": "b"})
        assert error["code"] == -32003
        assert not gh.exists()
        git(project, "config", "filter.own.clean", "./clean")
        (project / "app.py").write_text("more\n")
        error = await guest.error("_accord/review/commit", params)
        assert "filter.own.clean" in error["message"]


async def test_a_token_of_folders_does_not_commit_to_a_repository_that_begins_above(
    audit: AuditLog, project: Path
) -> None:
    inner = project / "inner"
    inner.mkdir()
    (inner / "new.txt").write_text("new\n")
    async with gateway_harness(audit=audit) as harness:
        guest = await harness.client(TokenRights("t2", "guest", folders=(str(inner),)))
        await open_session(harness, guest, inner)
        params = {**SESSION, "message": "x", "paths": [str(inner / "new.txt")]}
        assert (await guest.error("_accord/review/commit", params))["code"] == -32003
        assert git(project, "log", "--format=%s").split() == ["first"]


async def test_reverts_are_audited_and_reading_is_not(tmp_path: Path, project: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    async with changed_session(audit, project) as (_, client):
        hunk = (await first_hunk(client))["id"]
        await client.call("_accord/review/revert", {**SESSION, "hunk": hunk})
    methods = [event[2] for event in audit_events(audit) if len(event) > 2]
    assert [method for method in methods if method.startswith("_accord/")] == ["_accord/review/revert"]
