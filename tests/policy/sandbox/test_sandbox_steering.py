"""Attempts to plant something in a root that git, an editor or an agent runs outside the sandbox."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.policy.sandbox.sandbox_harness import SandboxHarness, refused

from accord.policy.sandbox import contradictions, run_self_test


def git(folder: Path, *words: str) -> str:
    """Run git outside the sandbox, as the user does."""
    settings = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *settings, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a submodule and a linked worktree."""
    base = tmp_path_factory.mktemp("template")
    library, project = base / "library", base / "project"
    for folder in (library, project):
        folder.mkdir()
        (folder / "main.py").write_text("print('hello')\n")
        git(folder, "init", "-q", "-b", "main", ".")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "first")
    git(project, "submodule", "add", "-q", str(library), "lib")
    git(project, "commit", "-q", "-am", "submodule")
    git(project, "worktree", "add", "-q", "side")
    for sample in project.glob(".git/**/*.sample"):
        sample.unlink()
    return project


@pytest.fixture
def repository(mounted: SandboxHarness, template: Path) -> SandboxHarness:
    """A project with a submodule and a linked worktree, all inside the root."""
    project = mounted.project
    shutil.copytree(template, project, symlinks=True, dirs_exist_ok=True)
    (project / "side" / ".git").write_text(f"gitdir: {project}/.git/worktrees/side\n")
    (project / ".git/worktrees/side/gitdir").write_text(f"{project}/side/.git\n")
    assert (project / ".git/modules/lib/config").is_file()
    assert (project / ".git/worktrees/side/commondir").is_file()
    return mounted


PLANT = "touch {marker}"


def nothing_runs_outside(harness: SandboxHarness) -> bool:
    """Use git as the user would, in every repository of the project, and see whether planted code ran."""
    for folder in (harness.project, harness.project / "lib", harness.project / "side"):
        (folder / "later.txt").write_text("x")
        git(folder, "status")
        git(folder, "add", "later.txt")
        git(folder, "commit", "-q", "-m", "later")
    return not (harness.outside_path / "marker").exists()


@pytest.mark.parametrize(
    "line",
    [
        "git config core.fsmonitor '{plant}'",
        "git config --local core.hooksPath hooks2",
        "git config --file .git/config core.fsmonitor '{plant}'",
        "git config -f ./lib/../.git/config core.fsmonitor '{plant}'",
        "GIT_DIR=.git git config core.fsmonitor '{plant}'",
        "GIT_DIR=$PWD/.git/modules/lib git config core.fsmonitor '{plant}'",
        "cd lib && git config core.fsmonitor '{plant}'",
        "cd side && git config core.fsmonitor '{plant}'",
        "d=.g; printf '[core]\\nfsmonitor = {plant}\\n' >> ${{d}}it/config",
        "printf '[core]\\nfsmonitor = {plant}\\n' > x; mv -f x .git/config",
        "cp .git/config x; printf '[core]\\nfsmonitor = {plant}\\n' >> x; mv -T x .git/config",
        "ln .git/config x && printf '[core]\\nfsmonitor = {plant}\\n' >> x",
        "ln -s .git/config x && printf '[core]\\nfsmonitor = {plant}\\n' >> x",
        "rm -f .git/config; printf '[core]\\nfsmonitor = {plant}\\n' > .git/config",
        "mv .git old; git init -q .; git config core.fsmonitor '{plant}'",
        "printf '#!/bin/sh\\n{plant}\\n' > x; chmod +x x; cp x .git/hooks/pre-commit",
        "mv .git/hooks old; mkdir .git/hooks; printf '#!/bin/sh\\n{plant}\\n' > .git/hooks/pre-commit",
        "mkdir h; rm -rf .git/hooks; ln -s ../h .git/hooks; printf '#!/bin/sh\\n{plant}\\n' > h/pre-commit",
        "printf '#!/bin/sh\\n{plant}\\n' > .git/modules/lib/hooks/pre-commit",
        "mv .git/modules/lib old; cp -r old .git/modules/lib; rm -rf .git/modules/lib/hooks",
        "mv .git/modules old; cp -r old .git/modules; git -C lib config core.fsmonitor '{plant}'",
        "git init -q evil; git -C evil config core.fsmonitor '{plant}';"
        " echo 'gitdir: ../evil/.git' > lib/.git",
        "git init -q evil; git -C evil config core.fsmonitor '{plant}'; rm lib/.git; mv evil/.git lib/.git",
        "git init -q evil; git -C evil config core.fsmonitor '{plant}'; mv lib old; mv evil lib",
        "git init -q evil; git -C evil config core.fsmonitor '{plant}';"
        " echo $PWD/evil/.git > .git/worktrees/side/commondir",
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor '{plant}'",
        "git submodule deinit -f lib; git config submodule.lib.update '!{plant}'",
    ],
)
def test_what_a_command_plants_in_a_repository_does_not_run_outside(repository: SandboxHarness, line: str):
    plant = PLANT.format(marker=repository.outside_path / "marker")
    repository.shell(line.format(plant=plant))
    assert nothing_runs_outside(repository)


def test_git_itself_works_in_the_sandbox(repository: SandboxHarness):
    """The repository stays usable: add, commit, branch, checkout, stash and gc need to write in .git."""
    done = repository.shell(
        "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b; set -e;"
        "echo x > new; git add new; git commit -q -m new; git checkout -q -b other; echo y >> new;"
        "git stash -q; git stash pop -q; git commit -q -am second; git gc -q; git checkout -q main;"
        "git merge -q other; git log --oneline"
    )
    assert (done.code, done.err) == (0, "")
    assert "second" in git(repository.project, "log", "--oneline", "-1")


def test_a_hooks_folder_that_the_configuration_names_is_read_only(mounted: SandboxHarness):
    git(mounted.project, "init", "-q", ".")
    git(mounted.project, "config", "core.hooksPath", "tools/hooks")
    (mounted.project / "tools" / "hooks").mkdir(parents=True)
    assert refused(
        mounted.attempt(
            "attempt(write, 'tools/hooks/pre-commit'); attempt(os.rename, 'tools', 'x')\n"
            "attempt(os.rename, 'tools/hooks', 'x')"
        )
    )
    assert mounted.attempt("attempt(write, 'tools/other')") == ["done: 8"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.fsmonitor", "tools/program"),
        ("core.pager", "./tools/program | cat"),
        ("filter.x.clean", "tools/program %f"),
        ("diff.x.textconv", "sh tools/program"),
        ("alias.x", "!tools/program; true"),
        ("pager.log", "tools/program | less"),
        ("include.path", "../tools/program"),
        ("includeIf.onbranch:main.path", "../tools/program"),
    ],
)
def test_a_file_that_the_configuration_names_is_read_only(mounted: SandboxHarness, key: str, value: str):
    """Git runs or reads it outside the sandbox."""
    git(mounted.project, "init", "-q", ".")
    git(mounted.project, "config", key, value)
    (mounted.project / "tools").mkdir()
    (mounted.project / "tools" / "program").touch()
    assert refused(
        mounted.attempt(
            "attempt(write, 'tools/program'); attempt(os.remove, 'tools/program')\n"
            "attempt(os.rename, 'tools', 'x')"
        )
    )
    assert mounted.attempt("attempt(write, 'tools/other'); attempt(write, '.git/refs/heads/x')") == [
        "done: 8",
        "done: 8",
    ]


def test_programs_of_an_included_configuration_are_read_only(mounted: SandboxHarness):
    git(mounted.project, "init", "-q", ".")
    git(mounted.project, "config", "include.path", "../settings")
    (mounted.project / "settings").write_text("[include]\n\tpath = more\n")
    (mounted.project / "more").write_text("[core]\n\tfsmonitor = ./program\n")
    (mounted.project / "program").touch()
    assert refused(mounted.attempt("for name in ('settings', 'more', 'program'): attempt(write, name)"))


def test_a_bare_repository_in_a_root_is_protected(mounted: SandboxHarness):
    git(mounted.project, "init", "-q", "--bare", "store")
    assert refused(
        mounted.attempt("attempt(write, 'store/config'); attempt(write, 'store/hooks/pre-receive')")
    )
    assert mounted.attempt("attempt(write, 'store/refs/heads/x')") == ["done: 8"]


def test_too_many_control_files_are_reported(mounted: SandboxHarness):
    """Each is a mount, which takes time, so that not all are protected: commands are asked about."""
    for number in range(201):
        (mounted.project / f"part{number}").mkdir()
        (mounted.project / f"part{number}" / "AGENTS.md").touch()
    report = mounted.sandbox.report
    assert not report.is_effective
    assert report.summary() == "bubblewrap: network off; NOT enforced: steering"
    assert "too many" in report.fact("steering").text


async def test_landlock_reports_that_it_cannot_protect_a_repository(landlocked: SandboxHarness):
    """Landlock cannot close a part of a folder that it opens, so commands in a repository are asked about."""
    git(landlocked.project, "init", "-q", ".")
    report = landlocked.sandbox.report
    assert not report.is_effective
    assert report.summary() == "landlock: network off; NOT enforced: steering"
    assert str(landlocked.project / ".git" / "config") in report.fact("steering").text
    trials = await run_self_test(landlocked.sandbox)
    assert {trial.aspect for trial in trials if not trial.held} == {"steering"}
    assert contradictions(report, trials) == []


def test_landlock_is_effective_where_nothing_steers_other_programs(landlocked: SandboxHarness):
    assert landlocked.sandbox.report.is_effective


async def test_the_self_test_tries_to_change_protected_files(mounted: SandboxHarness):
    git(mounted.project, "init", "-q", ".")
    before = (mounted.project / ".git" / "config").read_bytes()
    trials = await run_self_test(mounted.sandbox)
    assert [trial.held for trial in trials if trial.aspect == "steering"] == [True, True]
    assert (mounted.project / ".git" / "config").read_bytes() == before
