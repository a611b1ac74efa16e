"""Runs git for the user's own repository: branch, changes, commits and worktrees.

Reading starts no hook, filter or other program of the project, and takes no lock. Blocking: call it in a
thread.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from accord.errors import UsageError
from accord.policy.git_repository import GitRepository, repository_of
from accord.policy.installed_program import installed_program
from accord.safe_text import clean_line, one_line

_SECONDS: Final = 10.0
_WRITE_SECONDS: Final = 120.0
_EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_HARMLESS: Final = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "submodule.recurse=false")
_LINK, _MODULE = "120000", "160000"


class GitFailed(UsageError):
    """Git is missing, or a command of it failed. The message is one line."""


class GitChange(NamedTuple):
    """A file that differs from the last commit."""

    path: str
    """Absolute."""
    blob: str | None
    """The object with the committed content; None for a new file."""
    plain: bool = True
    """Whether the committed entry is a plain file."""


class GitStatus(NamedTuple):
    """What a status line shows."""

    branch: str
    """The name of the branch, or the beginning of the commit."""
    changes: int
    """How many files differ from the last commit."""


def folder_status(folder: str) -> GitStatus | None:
    """What a status line shows of a folder; None outside of a repository, or if git fails. Blocking."""
    git = Git.find(folder)
    try:
        return None if git is None else git.status()
    except GitFailed:
        return None


class Git:
    """Git in the repository of one folder."""

    def __init__(self, folder: str, repository: GitRepository, program: str) -> None:
        self.folder: str = folder
        self.repository: GitRepository = repository
        self.top: str = os.path.realpath(repository.top)
        self._program = program

    @staticmethod
    def find(folder: str) -> "Git | None":
        """Git for the repository of a folder; None without git or outside of a repository."""
        real = os.path.realpath(folder)
        repository = repository_of(Path(real))
        program = None if repository is None else installed_program("git", (real,))
        return None if program is None or repository is None else Git(real, repository, program)

    @staticmethod
    def require(folder: str) -> "Git":
        """Git for the repository of a folder. Raises GitFailed."""
        git = Git.find(folder)
        if git is None:
            reason = "it is not in a git repository" if shutil.which("git") else "git is not installed"
            raise GitFailed(f"cannot use git in {folder}: {reason}")
        return git

    # -- reading ---------------------------------------------------------------------------------------------

    def status(self) -> GitStatus:
        """The branch, and how many files are changed. Raises GitFailed."""
        return GitStatus(self.branch() or self.read("rev-parse", "--short", "HEAD"), len(self.changes()))

    def branch(self) -> str:
        """The name of the branch; empty if none is checked out."""
        try:
            return self.read("symbolic-ref", "--quiet", "--short", "HEAD")
        except GitFailed:
            return ""

    def changes(self) -> list[GitChange]:
        """The files below the folder that differ from the last commit. Raises GitFailed."""
        where = ["--", ":/" if self.folder == self.top else f":(top,literal){self._relative(self.folder)}"]
        base = "HEAD" if self._has_commit() else _EMPTY_TREE
        raw = self.run("diff-index", "--raw", "-z", "--no-renames", "--ignore-submodules", base, *where)
        fields = raw.split(b"\0")
        found: dict[str, GitChange] = {}
        for header, name in zip(fields[::2], fields[1::2], strict=False):
            mode, _, blob, _, _ = header.decode().removeprefix(":").split()
            path = os.path.join(self.top, os.fsdecode(name))
            is_new = not blob.strip("0")
            found[path] = GitChange(path, None if is_new else blob, is_new or mode not in (_LINK, _MODULE))
        others = self.run("ls-files", "-z", "--others", "--exclude-standard", "--full-name", *where)
        for name in filter(None, others.split(b"\0")):
            path = os.path.join(self.top, os.fsdecode(name))
            found.setdefault(path, GitChange(path, None))
        return sorted(found.values())

    def contents(self, blobs: Iterable[str], limit: int) -> dict[str, bytes]:
        """The content of objects, without larger ones. Raises GitFailed."""
        wanted = list(dict.fromkeys(blobs))
        if not wanted:
            return {}
        sizes = self.run("cat-file", "--batch-check", data=_lines(wanted)).decode().splitlines()
        small = [name for name, kind, size in map(str.split, sizes) if kind == "blob" and int(size) <= limit]
        output = self.run("cat-file", "--batch", data=_lines(small)) if small else b""
        contents: dict[str, bytes] = {}
        at = 0
        for blob in small:
            header, _, _ = output[at : at + 200].partition(b"\n")
            start = at + len(header) + 1
            at = start + int(header.split()[2]) + 1
            contents[blob] = output[start : at - 1]
        return contents

    def read(self, *arguments: str) -> str:
        """The output of a command that only reads, without the last line end. Raises GitFailed."""
        return os.fsdecode(self.run(*arguments)).rstrip("\n")

    def run(self, *arguments: str, data: bytes = b"") -> bytes:
        """Run a command that only reads, without hooks and locks. Raises GitFailed."""
        settings = [word for setting in _HARMLESS for word in ("-c", setting)]
        return self._call([*settings, *arguments], data, _SECONDS, {"GIT_OPTIONAL_LOCKS": "0"})

    # -- writing ---------------------------------------------------------------------------------------------

    def write(self, *arguments: str, hooks: bool = True) -> str:
        """Run a command that changes the repository, as the user would in a terminal. Raises GitFailed."""
        settings = () if hooks else ("-c", f"core.hooksPath={os.devnull}")
        return os.fsdecode(self._call([*settings, *arguments], b"", _WRITE_SECONDS, {})).strip()

    def commit(self, message: str, paths: Sequence[str], *, hooks: bool = True) -> str:
        """Commit these files and nothing else; returns the short id. Raises GitFailed."""
        if not message.strip():
            raise GitFailed("the message of the commit is empty")
        if not paths:
            raise GitFailed("there is nothing to commit")
        names = [self._relative(path) for path in paths]
        self.write("-C", self.top, "--literal-pathspecs", "add", "-A", "--", *names, hooks=hooks)
        words = ("commit", "--quiet", f"--message={message}", "--", *names)
        self.write("-C", self.top, "--literal-pathspecs", *words, hooks=hooks)
        return self.read("rev-parse", "--short", "HEAD")

    # -- internals -------------------------------------------------------------------------------------------

    def _has_commit(self) -> bool:
        try:
            return bool(self.read("rev-parse", "--verify", "--quiet", "HEAD"))
        except GitFailed:
            return False

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self.top)

    def _call(self, arguments: Sequence[str], data: bytes, seconds: float, extra: dict[str, str]) -> bytes:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            done = subprocess.run(
                [self._program, "-C", self.folder, *arguments],
                env={**env, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **extra},
                input=data,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git needed more than {seconds:g} s") from None
        except OSError as error:
            raise GitFailed(f"git cannot be started ({error.strerror})") from None
        if done.returncode:
            words = [word for word in arguments if not word.startswith("-") and "=" not in word]
            text = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            reason = next((line for line in text if line.startswith(("fatal:", "error:"))), "")
            reason = reason or (text[-1] if text else f"exit code {done.returncode}")
            verb = next((word for word in words if word != self.top), "")
            raise GitFailed(f"git {verb} failed: {one_line(clean_line(reason), 300)}")
        return done.stdout


def _lines(names: Iterable[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()
