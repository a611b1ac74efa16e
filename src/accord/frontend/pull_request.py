"""A pull request for the commits of a branch, with GitHub's program `gh`. Blocking: call it in a thread."""

import os
import subprocess
from typing import Final

from accord.errors import UsageError
from accord.frontend.git_command import Git, GitFailed
from accord.policy.installed_program import installed_program
from accord.safe_text import clean_line, one_line

_SECONDS: Final = 120.0
_MAIN_BRANCHES: Final = ("main", "master", "trunk")
_TITLE_LENGTH: Final = 256


def pull_request_program(git: Git) -> str | None:
    """The path of `gh`; None if it is not installed."""
    return installed_program("gh", (git.folder, git.top))


def needs_branch(git: Git) -> bool:
    """Whether the commits are on no branch, or on the main one, so that a pull request needs another."""
    branch = git.branch()
    return not branch or branch == _main_branch(git)


def create_pull_request(git: Git, title: str, body: str = "", branch: str = "") -> str:
    """Push the branch and open a pull request; returns its address.

    With `branch`, this branch is created first. Nothing is pushed to the main branch. Raises UsageError.
    """
    program = pull_request_program(git)
    if program is None:
        raise UsageError("a pull request needs `gh`, which is not installed: https://cli.github.com")
    title = one_line(title, _TITLE_LENGTH)
    if not title:
        raise UsageError("the title of the pull request is empty")
    current = git.branch()
    if branch and branch != current:
        _require_name(git, branch)
        git.write("switch", "--create", branch)
    elif needs_branch(git):
        where = f"on {current}, the main branch" if current else "on no branch"
        raise UsageError(f"the commits are {where}; name a branch for the pull request")
    remote = _remote(git)
    head = branch or current
    git.write("push", "--quiet", "--set-upstream", remote, f"HEAD:refs/heads/{head}")
    return _run(
        program, git.top, ["pr", "create", f"--title={title}", "--body-file=-", f"--head={head}"], body
    )


def _main_branch(git: Git) -> str:
    """The branch that others merge into: the remote's, else one with a usual name."""
    try:
        return git.read("symbolic-ref", "--quiet", "--short", f"refs/remotes/{_remote(git)}/HEAD").split(
            "/", 1
        )[1]
    except (UsageError, IndexError):
        current = git.branch()
        return current if current in _MAIN_BRANCHES else ""


def _require_name(git: Git, branch: str) -> None:
    try:
        git.read("check-ref-format", "--branch", branch)
    except GitFailed:
        raise UsageError(f"{clean_line(branch)!r} is not a name for a branch") from None
    if branch == _main_branch(git):
        raise UsageError(f"{branch} is the main branch; name another one for the pull request")


def _remote(git: Git) -> str:
    """The remote to push to. Raises UsageError."""
    remotes = git.read("remote").split()
    if not remotes:
        raise UsageError(f"the repository {git.top} has no remote to push to; add one with `git remote add`")
    return "origin" if "origin" in remotes else remotes[0]


def _run(program: str, folder: str, arguments: list[str], data: str) -> str:
    """Run `gh`; returns the address that it prints. Raises UsageError."""
    try:
        done = subprocess.run(
            [program, *arguments],
            cwd=folder,
            env={**os.environ, "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"},
            input=data.encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"gh needed more than {_SECONDS:g} s") from None
    except OSError as error:
        raise UsageError(f"gh cannot be started ({error.strerror})") from None
    output = done.stdout.decode(errors="replace").split()
    if done.returncode:
        reason = one_line(clean_line(done.stderr.decode(errors="replace").strip()), 400)
        raise UsageError(f"gh pr create failed: {reason or f'exit code {done.returncode}'}")
    address = next((word for word in reversed(output) if word.startswith("https://")), "")
    if not address:
        raise UsageError("gh pr create printed no address; look at the repository's pull requests")
    return clean_line(address)
