"""`accord worktrees`, and `--worktree` of `accord run`."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.accord_command import run_accord


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("# Demo\n")
    for words in (
        ("init", "--quiet", "--initial-branch=main"),
        ("config", "user.name", "Test"),
        ("config", "user.email", "test@example.com"),
        ("add", "-A"),
        ("commit", "--quiet", "-m", "first"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def test_a_run_works_in_a_worktree_that_is_listed_and_removed(project: Path, tmp_path: Path) -> None:
    env = {**os.environ, "ACCORD_HOME": str(tmp_path / "home")}

    def accord(*words: str, code: int = 0) -> tuple[str, str]:
        ran = run_accord(*words, cwd=project, env=env)
        assert ran.returncode == code, ran.stderr
        return ran.stdout, ran.stderr

    run = ("run", "-a", "accord", "--model", "rehearsal", "--permissions", "all")
    _, notes = accord(*run, "--worktree", "read", "README.md")  # the words are the prompt, not the name
    assert "accord run: removed the worktree " in notes
    _, notes = accord(*run, "--worktree=fix", "write notes.txt: hello")
    assert "accord run: made the worktree fix in " in notes
    assert "kept the worktree fix with 1 uncommitted file; go on with --worktree=fix" in notes
    assert not (project / "notes.txt").exists()

    listed, _ = accord("worktrees", "list")
    assert listed.splitlines()[0].split("  ")[:2] == ["fix", "accord/fix"]
    assert "1 uncommitted file" in listed
    assert f"git -C {project} merge accord/fix" in listed
    (worktree,) = json.loads(accord("worktrees", "list", "--json")[0])
    assert (Path(worktree["path"]) / "notes.txt").read_text().strip() == "hello"
    assert "is not removed: it has 1 uncommitted file" in accord("worktrees", "remove", "fix", code=2)[1]
    assert "stays; merge it with" in accord("worktrees", "remove", "fix", "--save")[1]
    assert accord("worktrees", "list")[1].startswith("accord worktrees: no worktrees of ")
    assert "there is no worktree 'fix'" in accord("worktrees", "remove", "fix", code=2)[1]
