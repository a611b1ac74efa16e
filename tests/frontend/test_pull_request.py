"""Pull requests with a program in place of `gh`."""

import os
import subprocess
from pathlib import Path

import pytest

from accord.errors import UsageError
from accord.frontend.git_command import Git
from accord.frontend.pull_request import create_pull_request, needs_branch


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "Test"), ("user.email", "test@example.com")):
        _git(folder, "config", name, value)
    _git(folder, "add", "-A")
    _git(folder, "commit", "--quiet", "-m", "first")
    return folder


def _gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gh").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


def test_without_a_remote_nothing_is_pushed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _gh(tmp_path, monkeypatch, "exit 0")
    with pytest.raises(UsageError, match="no remote to push to"):
        create_pull_request(Git.require(str(project)), "Title", branch="work")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'HTTP 401: bad credentials; run gh auth login' >&2; exit 1", "run gh auth login"),
        ("exit 4", "exit code 4"),
        ("echo created", "printed no address"),
    ],
)
def test_a_failure_of_gh_is_one_line(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    _git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    _git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    _gh(tmp_path, monkeypatch, script)
    git = Git.require(str(project))
    assert needs_branch(git)
    with pytest.raises(UsageError, match=message) as caught:
        create_pull_request(git, "Title", branch="work")
    assert "\n" not in str(caught.value)
    assert not needs_branch(git)


@pytest.mark.parametrize("branch", ["main", "a b", "-x", "a..b"])
def test_the_main_branch_and_invalid_names_are_refused(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, branch: str
) -> None:
    _gh(tmp_path, monkeypatch, "exit 0")
    with pytest.raises(UsageError, match=r"main branch|not a name"):
        create_pull_request(Git.require(str(project)), "Title", branch=branch)
    assert _git(project, "branch", "--list").split() == ["*", "main"]
