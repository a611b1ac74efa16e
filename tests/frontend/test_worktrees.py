"""Git worktrees for sessions."""

import os
import subprocess
from pathlib import Path

import pytest

from accord.errors import UsageError
from accord.frontend.worktrees import (
    close_worktree,
    find_worktree,
    open_worktree,
    remove_worktree,
    state_of,
)
from accord.store import open_store, store_path


def _git(folder: Path | str, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    folder = tmp_path / "my project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("print(1)\n")
    (folder / ".gitignore").write_text("*.local\n.env\nbuild/\n")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "Test"), ("user.email", "test@example.com")):
        _git(folder, "config", name, value)
    _git(folder, "add", "-A")
    _git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_a_session_works_on_a_branch_of_its_own_in_the_same_subfolder(project: Path) -> None:
    (project / "src" / "app.py").write_text("print(2)\n")
    opened = open_worktree(str(project / "src"), "fix")
    worktree = opened.worktree
    assert (worktree.branch, opened.created) == ("accord/fix", True)
    assert opened.cwd == os.path.join(worktree.path, "src")
    assert Path(opened.cwd, "app.py").read_text() == "print(1)\n"
    assert opened.notes == (f"1 uncommitted file of {project} did not come along",)
    assert _git(opened.cwd, "branch", "--show-current").strip() == "accord/fix"
    again = open_worktree(str(project), "fix")
    assert (again.worktree, again.created) == (worktree, False)
    first, second = (open_worktree(str(project), None).worktree.name for _ in range(2))
    assert first != second


def test_an_unused_worktree_goes_and_a_used_one_stays_until_it_is_merged(project: Path) -> None:
    unused = open_worktree(str(project), "unused").worktree
    assert close_worktree(unused) == "removed the worktree unused: no changes"
    assert not os.path.exists(unused.path)
    assert "accord/unused" not in _git(project, "branch")

    used = open_worktree(str(project), "used").worktree
    Path(used.path, "new.py").write_text("new\n")
    assert close_worktree(used).startswith("kept the worktree used with 1 uncommitted file; go on with")
    _git(used.path, "add", "-A")
    _git(used.path, "commit", "--quiet", "-m", "work")
    assert state_of(used).text == "1 new commit"
    assert used.merge_command == f"git -C '{project}' merge accord/used"
    assert close_worktree(used).endswith(used.merge_command)
    assert "stays; merge it with" in remove_worktree(used)  # the folder goes, the commits do not
    _git(project, "merge", "--quiet", "accord/used")
    assert (project / "new.py").exists()
    reopened = open_worktree(str(project), "used")
    assert reopened.notes == ("accord/used has the commits of an earlier worktree of this name",)
    assert "is removed, too" in remove_worktree(reopened.worktree)


def test_uncommitted_work_is_refused_or_saved_on_the_branch(project: Path) -> None:
    worktree = open_worktree(str(project), "work").worktree
    Path(worktree.path, "src", "app.py").write_text("print(3)\n")
    Path(worktree.path, "untracked.py").write_text("new\n")
    with pytest.raises(UsageError, match=r"2 uncommitted files.*--save"):
        remove_worktree(worktree)
    assert Path(worktree.path, "untracked.py").exists()
    assert "stays" in remove_worktree(worktree, save=True)
    assert _git(project, "show", "accord/work:untracked.py") == "new\n"
    assert _git(project, "show", "accord/work:src/app.py") == "print(3)\n"


def test_commits_without_a_branch_are_not_removed(project: Path) -> None:
    worktree = open_worktree(str(project), "work").worktree
    _git(worktree.path, "checkout", "--quiet", "--detach")
    _git(worktree.path, "commit", "--quiet", "--allow-empty", "-m", "lost")
    with pytest.raises(UsageError, match="no branch has its commits"):
        remove_worktree(find_worktree("work", str(project)), save=True)


def test_a_worktree_with_a_running_session_stays(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worktree = open_worktree(str(project), "busy").worktree
    with open_store(store_path("client")) as store:
        store.create("demo/1", worktree.path, agent="demo")
        with store.journal("demo/1"):
            monkeypatch.setattr(os, "getpid", lambda: 1)
            with pytest.raises(UsageError, match="a session runs there in process"):
                remove_worktree(worktree)


def test_chosen_ignored_files_are_copied_and_secrets_only_if_approved(project: Path, tmp_path: Path) -> None:
    (project / ".worktreeinclude").write_text("*.local\n.env\nsrc/app.py\n")
    (project / "settings.local").write_text("a=1\n")
    (project / ".env").write_text("KEY=1\n")
    (project / "build").mkdir()
    (project / "build" / "out.o").write_text("x")
    (tmp_path / "outside").write_text("outside\n")
    (project / "link.local").symlink_to(tmp_path / "outside")
    opened = open_worktree(str(project), "one")
    there = Path(opened.worktree.path)
    assert (there / "settings.local").read_text() == "a=1\n"
    assert not (there / ".env").exists()
    assert not (there / "build").exists()
    assert not (there / "link.local").exists()
    assert opened.notes[1:] == (
        "not copied, because they may hold secrets: .env",
        "not copied, because it is a link: link.local",
        "copied 1 ignored file that .worktreeinclude names",
    )
    asked: list[str] = []
    approved = open_worktree(str(project), "two", lambda files: not asked.extend(files))
    assert asked == [".env"]
    assert Path(approved.worktree.path, ".env").read_text() == "KEY=1\n"


@pytest.mark.parametrize("name", ["../up", "-x", "a b", "a..b", "x.lock", "a" * 65])
def test_names_that_are_no_folder_and_branch_are_refused(project: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--worktree="):
        open_worktree(str(project), name)


def test_without_a_repository_or_commit_the_reason_is_said(project: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match="not in a git repository"):
        open_worktree(str(empty), None)
    _git(empty, "init", "--quiet")
    with pytest.raises(UsageError, match="no commit yet"):
        open_worktree(str(empty), None)
