"""Git worktrees for sessions: a branch and a folder of their own, beside the user's files.

The folders are in `REPOSITORY-worktrees` beside the repository, not in the data folder, which agents may not
read. The branches are called `accord/NAME`. Nothing that is not committed is ever removed.

Blocking: call it in a thread.
"""

import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from accord.errors import StoreError, UsageError
from accord.frontend.git_command import Git, GitFailed
from accord.policy.secret_files import is_secret
from accord.store import Lease, open_store, store_path
from accord.text_width import count_text

BRANCH_PREFIX: Final = "accord/"
INCLUDE_FILE: Final = ".worktreeinclude"
"""Names, with the patterns of `.gitignore`, the ignored files that a worktree gets copies of."""
MAX_COPIED_FILES: Final = 2000
MAX_COPIED_BYTES: Final = 256 * 1024 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_STORES: Final = ("client", "sessions", "gateway")

Approve = Callable[[Sequence[str]], bool]
"""Asks whether these files, which may hold secrets, are copied into the worktree."""


@dataclass(frozen=True, slots=True)
class Worktree:
    """One worktree of ours."""

    name: str
    path: str
    branch: str
    """Empty if another commit was checked out there without a branch."""
    main: str
    """The top folder of the main worktree."""

    def contains(self, folder: str) -> bool:
        """Whether a folder is in this worktree, with symlinks resolved."""
        return Path(os.path.realpath(folder)).is_relative_to(self.path)

    @property
    def merge_command(self) -> str:
        """The command with which the user takes over the commits."""
        return shlex.join(["git", "-C", self.main, "merge", self.branch])


@dataclass(frozen=True, slots=True)
class WorktreeState:
    """What is in a worktree."""

    changes: int
    """Files that are not committed."""
    commits: int
    """Commits that no other branch has."""

    @property
    def text(self) -> str:
        parts = [count_text(self.changes, "uncommitted file")] if self.changes else []
        parts += [count_text(self.commits, "new commit")] if self.commits else []
        return ", ".join(parts) or "no changes"


@dataclass(frozen=True, slots=True)
class OpenedWorktree:
    """A worktree for a session."""

    worktree: Worktree
    cwd: str
    """The folder of the session in it: the same subfolder as in the main worktree."""
    created: bool
    notes: tuple[str, ...] = ()
    """What the user should know, such as files that were left out."""


def open_worktree(folder: str, name: str | None, approve: Approve = lambda files: False) -> OpenedWorktree:
    """Create a worktree for a folder, or use the one of this name again. Raises UsageError."""
    git = Git.require(folder)
    name = _checked_name(name) if name else _free_name(git)
    existing = next((one for one in worktrees_of(git) if one.name == name), None)
    if existing is not None:
        return OpenedWorktree(existing, _session_folder(git, existing.path), created=False)
    try:
        git.read("rev-parse", "--verify", "--quiet", "HEAD")
    except GitFailed:
        raise UsageError(f"cannot make a worktree of {git.top}: it has no commit yet") from None
    path = _folder_of(git) / name
    if path.exists():
        raise UsageError(f"cannot make the worktree {name}: {path} is in the way; use another name")
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {path.parent} ({error.strerror})") from None
    branch = f"{BRANCH_PREFIX}{name}"
    has_branch = bool(git.read("for-each-ref", f"refs/heads/{branch}"))
    new_branch = () if has_branch else ("-b", branch)
    git.write("worktree", "add", "--quiet", *new_branch, str(path), branch if has_branch else "HEAD")
    worktree = Worktree(name, os.path.realpath(path), branch, _main_folder(git))
    notes = [f"{branch} has the commits of an earlier worktree of this name"] if has_branch else []
    if changed := len(git.changes()):
        notes.append(f"{count_text(changed, 'uncommitted file')} of {git.top} did not come along")
    if (Path(path) / ".gitmodules").exists():
        notes.append("submodules are empty there; run git submodule update --init")
    notes += _copy_ignored_files(git, path, approve)
    return OpenedWorktree(worktree, _session_folder(git, worktree.path), created=True, notes=tuple(notes))


def close_worktree(worktree: Worktree) -> str:
    """Remove a worktree after its session if nothing was done there, else say how to go on.

    Raises UsageError.
    """
    state = state_of(worktree)
    if not state.changes and not state.commits and not _session_there(worktree):
        remove_worktree(worktree)
        return f"removed the worktree {worktree.name}: {state.text}"
    hint = f"merge it with: {worktree.merge_command}" if state.commits and not state.changes else ""
    hint = hint or f"go on with --worktree={worktree.name}, or commit there: {worktree.path}"
    return f"kept the worktree {worktree.name} with {state.text}; {hint}"


def worktrees_of(git: Git) -> list[Worktree]:
    """Our worktrees of one repository. Raises GitFailed."""
    main, found = _main_folder(git), list[Worktree]()
    root = os.path.realpath(_folder_of(git))
    for members in _listed(git):
        path = os.path.realpath(members["worktree"])
        if Path(path).is_relative_to(root) and os.path.isdir(path):
            branch = members.get("branch", "").removeprefix("refs/heads/")
            found.append(Worktree(os.path.basename(path), path, branch, main))
    return sorted(found, key=lambda one: one.name)


def state_of(worktree: Worktree) -> WorktreeState:
    """Count what is only in a worktree. Raises GitFailed."""
    git = Git.require(worktree.path)
    others = (f"--exclude={worktree.branch}",) if worktree.branch else ()
    commits = git.read("rev-list", "--count", "HEAD", "--not", *others, "--branches", "--remotes", "--tags")
    return WorktreeState(len(git.changes()), int(commits))


def require_removable(
    worktree: Worktree, *, save: bool = False, with_sessions: bool = False
) -> WorktreeState:
    """Return the state of a worktree that can be removed. Raises UsageError if work would be lost, or, unless
    `with_sessions`, if a session runs there.
    """
    if not with_sessions and (lease := _session_there(worktree)) is not None:
        raise UsageError(f"{worktree.name} is not removed: a session runs there in process {lease.pid}")
    state = state_of(worktree)
    if not worktree.branch and state.commits:
        raise UsageError(
            f"{worktree.name} is not removed: no branch has its commits; make one in {worktree.path}"
        )
    if state.changes and not (save and worktree.branch):
        raise UsageError(
            f"{worktree.name} is not removed: it has {count_text(state.changes, 'uncommitted file')}; "
            f"commit them in {worktree.path}, or use --save to commit them to {worktree.branch or 'a branch'}"
        )
    return state


def remove_worktree(worktree: Worktree, *, save: bool = False) -> str:
    """Remove the folder of a worktree; says what happened to its branch.

    Its branch goes only if another one has its commits. Uncommitted files are refused, or with `save`
    committed to the branch first. Raises UsageError.
    """
    state, git = require_removable(worktree, save=save), Git.require(worktree.path)
    if state.changes:
        git.write("add", "-A", "--", ":/", hooks=False)
        git.write("commit", "--quiet", "-m", f"Save the work in {worktree.name}", hooks=False)
        state = state_of(worktree)
        if state.changes:
            raise UsageError(f"{worktree.name} is not removed: not all of its files could be committed")
    main = Git.require(worktree.main)
    main.write("worktree", "remove", worktree.path)  # refuses changed files itself, too
    with suppress(OSError):
        os.rmdir(os.path.dirname(worktree.path))
    if state.commits or not worktree.branch.startswith(BRANCH_PREFIX):
        return f"its branch {worktree.branch} stays; merge it with: {worktree.merge_command}"
    try:
        # All its commits are elsewhere, also if that is not the branch that is checked out.
        main.write("branch", "--quiet", "-D", "--", worktree.branch, hooks=False)
    except GitFailed:
        return f"its branch {worktree.branch} stays"
    return "its branch had no commits of its own and is removed, too"


def find_worktree(name: str, folder: str) -> Worktree:
    """The worktree of the folder's repository with this name. Raises UsageError."""
    for worktree in worktrees_of(Git.require(folder)):
        if worktree.name == name:
            return worktree
    raise UsageError(f"there is no worktree {name!r}; `accord worktrees list` shows those of this repository")


# -- internals -----------------------------------------------------------------------------------------------


def _folder_of(git: Git) -> Path:
    """The folder with the worktrees of a repository."""
    return Path(f"{_main_folder(git)}-worktrees")


def _main_folder(git: Git) -> str:
    return os.path.realpath(next(iter(_listed(git)))["worktree"])


def _listed(git: Git) -> Iterator[dict[str, str]]:
    """The worktrees that git knows, the main one first."""
    for record in os.fsdecode(git.run("worktree", "list", "--porcelain", "-z")).split("\0\0"):
        lines = [line.partition(" ") for line in record.split("\0") if line]
        members = {name: value for name, _, value in lines}
        if "worktree" in members:
            yield members


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".lock", ".")):
        raise UsageError(
            f"--worktree={name}: use up to 64 letters, digits, dots, hyphens and underscores as the name"
        )
    return name


def _free_name(git: Git) -> str:
    base = f"{datetime.now():%m%d-%H%M}"
    name, number = base, 1
    while (_folder_of(git) / name).exists() or git.read("for-each-ref", f"refs/heads/{BRANCH_PREFIX}{name}"):
        number += 1
        name = f"{base}-{number}"
    return name


def _session_folder(git: Git, path: str) -> str:
    """The folder in a worktree that corresponds to ours; its top if that folder is not committed."""
    folder = os.path.normpath(os.path.join(path, os.path.relpath(git.folder, git.top)))
    return folder if os.path.isdir(folder) else path


def _copy_ignored_files(git: Git, target: Path, approve: Approve) -> list[str]:
    """Copy the ignored files that `.worktreeinclude` names; return notes."""
    include = os.path.join(git.top, INCLUDE_FILE)
    if not os.path.isfile(include) or os.path.islink(include):
        return []
    listing = ("-C", git.top, "ls-files", "-z", "--others", "--ignored")
    wanted = set(git.run(*listing, f"--exclude-from={include}").split(b"\0"))
    ignored = set(git.run(*listing, "--exclude-standard").split(b"\0"))
    names = sorted(os.fsdecode(name) for name in wanted & ignored if name)
    notes: list[str] = []
    secret = [name for name in names if is_secret(Path(git.top, name))]
    if secret and not approve(secret):
        names = [name for name in names if name not in secret]
        notes.append(f"not copied, because they may hold secrets: {', '.join(secret[:10])}")
    copied = size = 0
    for name in names:
        source = os.path.join(git.top, name)
        if not _is_plain(source, git.top) or not _is_plain_folder(os.path.dirname(target / name), target):
            notes.append(f"not copied, because it is a link: {name}")
            continue
        size += os.lstat(source).st_size
        if copied == MAX_COPIED_FILES or size > MAX_COPIED_BYTES:
            notes.append(
                f"only {copied} of {len(names)} files of {INCLUDE_FILE} were copied: they are too large"
            )
            break
        if not os.path.lexists(target / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
            copied += 1
    if copied:
        notes.append(f"copied {count_text(copied, 'ignored file')} that {INCLUDE_FILE} names")
    return notes


def _is_plain(path: str, top: str) -> bool:
    """Whether it is a regular file below the folder, with no link on the way."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode) and os.path.realpath(path) == os.path.join(
            os.path.realpath(top), os.path.relpath(path, top)
        )
    except OSError:
        return False


def _is_plain_folder(folder: str | Path, top: Path) -> bool:
    return Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(top))


def _session_there(worktree: Worktree) -> Lease | None:
    """The process that runs a session in a worktree now."""
    for name in _STORES:
        with suppress(StoreError):
            if not store_path(name).exists():
                continue
            with open_store(store_path(name)) as store:
                for session_id, lease in store.writers().items():
                    if lease.pid != os.getpid() and worktree.contains(store.summary(session_id).cwd):
                        return lease
    return None
