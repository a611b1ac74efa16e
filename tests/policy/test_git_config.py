"""Writing git's configuration is recognized in every mode: it names programs that git runs later."""

import pytest
from tests.policy.project import Project

from accord.policy import MODES

WRITES = [
    "git config core.fsmonitor ./evil",
    "git config --local core.hooksPath hooks",
    "git -C src config core.pager evil",
    "git --git-dir=.git config alias.st '!evil'",
    "git -c user.name=x config core.editor evil",
    "cd src && git config diff.external evil",
    "git config --add include.path ../evil",
    "git config --unset core.hooksPath",
    "git config --replace-all core.fsmonitor evil",
    "git config --repl core.fsmonitor evil",
    "git config set core.fsmonitor evil",
    "git config --edit",
    "git config --rename-section a b",
    "git config --worktree core.fsmonitor evil",
    "git config --file .git/config core.fsmonitor evil",
    "git config -f.git/config core.fsmonitor evil",
    "git config --global core.fsmonitor evil",
    "git config --system core.fsmonitor evil",
    "git config core.fsmonitor $EVIL",
    "git config core.fsmonitor evil --get",
    "git config core.fsmonitor evil --list",
    "git config -f $FILE core.fsmonitor evil",
    "git config --file $FILE core.fsmonitor evil",
    "/usr/lib/git-core/git-config core.fsmonitor evil",
    "ls && git config core.fsmonitor evil",
    "sh -c 'git config core.fsmonitor evil'",
    "env git config core.fsmonitor evil",
    "echo evil | xargs git config core.fsmonitor",
]


@pytest.mark.parametrize("line", WRITES)
def test_writing_git_config_is_asked_or_denied_in_every_mode(project: Project, line: str):
    """A sandbox does not change this: the user decides, because git runs the program outside."""
    effects = {
        (mode, sandboxed): project.verdict(line, mode=mode, sandboxed=sandboxed)
        for mode in MODES
        for sandboxed in (False, True)
    }
    assert {effect for (mode, _), effect in effects.items() if mode in ("read-only", "plan")} == {"deny"}
    assert {effect for (mode, _), effect in effects.items() if mode not in ("read-only", "plan")} == {"ask"}


def test_the_question_names_the_file_and_what_it_decides(project: Project):
    decision = project.decide(project.run("git config core.fsmonitor evil", mode="full-access"))
    assert decision.reason == f"{project.root}/.git/config may hold logins, and decides what git runs"
    assert decision.scope is None


@pytest.mark.parametrize(
    "line",
    ["git config user.name", "git config --get user.email", "git config --get-all a.b", "git config list"],
)
def test_reading_git_config_writes_nothing(project: Project, line: str):
    assert project.verdict(line, mode="workspace-write", sandboxed=True) == "allow"


def test_git_config_may_write_an_ordinary_file(project: Project):
    line = "git config --file settings.ini a.b c"
    assert project.verdict(line, mode="workspace-write", sandboxed=True) == "allow"
