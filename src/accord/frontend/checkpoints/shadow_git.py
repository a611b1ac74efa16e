"""Finds the files that commands change, with a git directory of our own outside the project.

It shares the objects of the user's repository and starts with a copy of the user's index, so that a snapshot
costs little more than looking at the files. The user's repository is only read. No filter, hook or other
program of the project runs: only our own configuration is used. Blocking: call it in a thread.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from accord.errors import AccordError
from accord.frontend.checkpoints.checkpoint_store import FILE_LIMIT, folder_name
from accord.policy.git_repository import GitRepository, read_config, repository_of
from accord.policy.installed_program import installed_program
from accord.policy.secret_files import is_secret
from accord.private_files import private_folder, write_atomically

SNAPSHOT_SECONDS: Final = 3.0
"""A snapshot that takes longer is given up."""
UNTRACKED_LIMIT: Final = 2 * 1024 * 1024
"""Larger files that the user's repository does not track are not kept."""
MAX_PATHS: Final = 20_000
MAX_PLAIN_PATHS: Final = 5_000
"""Files of a folder that is in no repository: all of them are copied."""
_MAX_INDEX_BYTES: Final = 64 * 1024 * 1024
_COARSE_CLOCK: Final = 5  # CLOCK_REALTIME_COARSE, which Python has no name for
_LINK, _MODULE = "120000", "160000"
_MODULE_BYTES: Final = int(_MODULE, 8).to_bytes(4, "big")
_NAMED_REPOSITORIES: Final = 5
_CONFIG: Final = """\
[core]
	repositoryformatversion = 0
	bare = false
	autocrlf = false
	longpaths = true
	symlinks = true
	fsmonitor = false
	preloadIndex = true
	fsync = none
	looseCompression = 1
[index]
	threads = true
[gc]
	auto = 0
"""
_SHA256: Final = re.compile(r"^\s*objectformat\s*=\s*\"?sha256", re.IGNORECASE | re.MULTILINE)
_SHA256_CONFIG: Final = (
    _CONFIG.replace("version = 0", "version = 1") + "[extensions]\n\tobjectFormat = sha256\n"
)
# Contents are kept byte for byte, whatever the attributes of the project say.
_ATTRIBUTES: Final = "* -text -filter -ident -working-tree-encoding\n"
_CONVERTING: Final = ("filter", "ident", "working-tree-encoding", "eol")


_Stamp: TypeAlias = tuple[int, int, int]


class GitProblem(AccordError):
    """A snapshot was not possible. The message says why."""


class ChangedPath(NamedTuple):
    """A file that differs from the snapshot."""

    path: str
    """Absolute."""
    blob: str | None
    """The object with the earlier content; None if there is none."""
    mode: int
    problem: str = ""
    """Why the earlier content is not known. Without it and without an object, there was no file."""


class ShadowGit:
    """Snapshots of the files below one folder of a repository that git does not ignore."""

    def __init__(self, git_dir: Path, folder: str, repository: GitRepository | None, program: str) -> None:
        """Without a repository, the snapshots are of all files of the folder, if they are not too many."""
        self._git_dir = git_dir
        self._repository = repository
        self._top = folder if repository is None else os.path.realpath(repository.top)
        self._max_paths = MAX_PLAIN_PATHS if repository is None else MAX_PATHS
        self._pathspec = f":(top,literal){os.path.relpath(folder, self._top)}"
        if folder == self._top:
            self._pathspec = ":/"
        self._program = program
        self._deadline = 0.0
        self._taken = 0
        """When the snapshot was complete, in the time of files."""
        self._unfollowed: dict[str, tuple[str, _Stamp | None]] = {}
        """Files whose content is not in the snapshot: why, and how they looked."""

    def snapshot(self) -> None:
        """Remember the files as they are now. Raises GitProblem."""
        self._deadline = time.monotonic() + SNAPSHOT_SECONDS
        try:
            if not (self._git_dir / "HEAD").exists():
                self._create()
            modified, untracked = self._differences()
            if (changed := len(modified) + len(untracked)) > self._max_paths:
                where = (
                    "are not committed" if self._repository else "are in a folder without a git repository"
                )
                raise GitProblem(f"{changed:,} files {where}")
            self._unfollowed = {}
            added = [entry.path for entry in modified if self._may_keep(entry.path, FILE_LIMIT)]
            added += [path for path in untracked if self._may_keep(path, UNTRACKED_LIMIT)]
            if added:
                self._run("update-index", "-z", "--add", "--remove", "--stdin", paths=added)
            self._taken = _file_clock()
        except OSError as error:
            raise GitProblem(f"the snapshot cannot be written ({error.strerror})") from None

    def changes(self) -> tuple[list[ChangedPath], list[str]]:
        """Return what differs from the snapshot, and notes on what cannot be told. Raises GitProblem."""
        self._deadline = time.monotonic() + SNAPSHOT_SECONDS
        modified, untracked = self._differences()
        changed = [
            ChangedPath(os.path.join(self._top, entry.path), entry.blob, entry.mode, entry.problem)
            for entry in modified
            if entry.path not in self._unfollowed
        ]
        changed += [
            ChangedPath(os.path.join(self._top, path), None, 0, reason)
            for path, (reason, stamp) in self._unfollowed.items()
            if _stamp(os.path.join(self._top, path)) != stamp
        ]
        notes: list[str] = []
        if others := self._other_repositories(untracked):
            more = ", ..." if len(others) > _NAMED_REPOSITORIES else ""
            named = ", ".join(others[:_NAMED_REPOSITORIES]) + more
            notes.append(f"changes in other repositories below the folder are not kept: {named}")
        untracked = [path for path in untracked if path not in self._unfollowed and not path.endswith("/")]
        if any(os.path.basename(entry.path) == ".gitignore" for entry in modified) or any(
            os.path.basename(path) == ".gitignore" for path in untracked
        ):
            # Files that were ignored until now look like new ones: undoing would delete them.
            if untracked:
                notes.append("new files of commands stay: a .gitignore changed in the same turn")
            untracked = [path for path in untracked if os.path.basename(path) == ".gitignore"]
        older = {path for path in untracked if self._is_older(path)}
        if older:
            notes.append("files that git ignored before the turn stay")
        changed += [
            ChangedPath(os.path.join(self._top, path), None, 0) for path in untracked if path not in older
        ]
        converted = self._converted([entry for entry in changed if entry.blob])
        return [
            entry._replace(problem="git converts its content") if entry.path in converted else entry
            for entry in changed
        ], notes

    def contents(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """Return the content of objects, without those over the limit. Raises GitProblem."""
        self._deadline = time.monotonic() + SNAPSHOT_SECONDS
        wanted = dict.fromkeys(blobs)
        if not wanted:
            return {}
        lines = "".join(f"{blob}\n" for blob in wanted).encode()
        sizes = self._run("cat-file", "--batch-check", data=lines).decode().splitlines()
        small = [line.split()[0] for line in sizes if _blob_size(line) <= FILE_LIMIT]
        if not small:
            return {}
        output = self._run("cat-file", "--batch", data="".join(f"{blob}\n" for blob in small).encode())
        contents: dict[str, bytes] = {}
        position = 0
        for blob in small:
            header, _, _ = output[position : position + 200].partition(b"\n")
            start = position + len(header) + 1
            size = int(header.split()[2])
            contents[blob] = output[start : start + size]
            position = start + size + 1
        return contents

    def remove(self) -> None:
        """Remove the git directory. The next snapshot creates it again."""
        shutil.rmtree(self._git_dir, ignore_errors=True)

    # -- internals -------------------------------------------------------------------------------------------

    def _create(self) -> None:
        for name in ("objects/info", "refs", "info"):
            private_folder(self._git_dir / name)
        write_atomically(self._git_dir / "info/attributes", _ATTRIBUTES.encode())
        sha256 = self._repository is not None and _SHA256.search(
            read_config(self._repository.common_dir / "config")
        )
        write_atomically(self._git_dir / "config", (_SHA256_CONFIG if sha256 else _CONFIG).encode())
        if self._repository is not None:
            self._share_objects(self._repository)
        else:
            write_atomically(self._git_dir / "HEAD", b"ref: refs/heads/snapshot\n")

    def _share_objects(self, repository: GitRepository) -> None:
        """Use the objects of the user's repository, and start with a copy of its index."""
        objects = repository.common_dir / "objects"
        write_atomically(self._git_dir / "objects/info/alternates", os.fsencode(f"{objects}\n"))
        exclude = repository.common_dir / "info/exclude"
        if exclude.is_file():
            write_atomically(self._git_dir / "info/exclude", exclude.read_bytes())
        index = repository.git_dir / "index"
        with_index = index.is_file() and index.stat().st_size <= _MAX_INDEX_BYTES
        if with_index:
            write_atomically(self._git_dir / "index", index.read_bytes())
        write_atomically(self._git_dir / "HEAD", b"ref: refs/heads/snapshot\n")
        if with_index:
            try:
                self._run("diff-files", "--quiet", "--", ".git-index-probe")
            except GitProblem:  # such as a split index, or objects of another format
                (self._git_dir / "index").unlink(missing_ok=True)

    def _differences(self) -> tuple[list[ChangedPath], list[str]]:
        """The tracked files that differ from our index, and the others, relative to the top."""
        with ThreadPoolExecutor(2) as pool:
            others = pool.submit(
                self._run, "ls-files", "-z", "--others", "--exclude-standard", "--", self._pathspec
            )
            output = self._run("diff-files", "-z", "--raw", "--ignore-submodules=dirty", "--", self._pathspec)
            untracked = [os.fsdecode(path) for path in others.result().split(b"\0") if path]
        fields = output.split(b"\0")
        modified: list[ChangedPath] = []
        for header, path in zip(fields[::2], fields[1::2], strict=False):
            old_mode, _, blob, _, _ = header.decode().removeprefix(":").split()
            problem = {_LINK: "it was a symbolic link", _MODULE: "it is another repository"}.get(old_mode, "")
            # Git knows only whether a file may be executed.
            modified.append(ChangedPath(os.fsdecode(path), blob, int(old_mode, 8) & 0o111, problem))
        return modified, untracked

    def _is_older(self, path: str) -> bool:
        """Whether a file that the snapshot did not list was there: the .gitignore that hid it is gone."""
        try:
            if os.lstat(os.path.join(self._top, path)).st_ctime_ns >= self._taken:
                return False
            while path := os.path.dirname(path):
                folder = os.lstat(os.path.join(self._top, path))
                if folder.st_ctime_ns >= self._taken > folder.st_mtime_ns:
                    return False  # the whole folder was moved here
        except OSError:
            return False
        return True

    def _may_keep(self, path: str, limit: int) -> bool:
        """Whether the snapshot may take the content of a file; else its changes are not followed."""
        if path.endswith("/"):
            return False  # another repository
        absolute = os.path.join(self._top, path)
        try:
            status = os.lstat(absolute)
        except OSError:
            return True  # it was deleted
        problem = ""
        if is_secret(Path(absolute)):
            problem = "it may hold secrets"
        elif not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            problem = "it is not a plain file"
        elif status.st_size > limit:
            problem = f"it is larger than {limit // 1024 // 1024} MiB"
        if problem:
            self._unfollowed[path] = (problem, _stamp(absolute))
        return not problem

    def _other_repositories(self, untracked: Sequence[str]) -> list[str]:
        """The submodules and other repositories below the folder, relative to the top."""
        found = [path.rstrip("/") for path in untracked if path.endswith("/")]
        index = self._git_dir / "index"
        if index.is_file() and _MODULE_BYTES in index.read_bytes():
            listed = self._run("ls-files", "-z", "--stage", "--", self._pathspec).split(b"\0")
            modules = (entry.partition(b"\t") for entry in listed if entry.startswith(_MODULE.encode()))
            found += [os.fsdecode(path) for _, _, path in modules]
        return sorted(found)

    def _converted(self, changed: Sequence[ChangedPath]) -> set[str]:
        """The files whose content in the user's repository is not that on the disk, such as those of LFS."""
        if not changed or self._repository is None:
            return set()
        names = [os.path.relpath(entry.path, self._top) for entry in changed]
        output = self._run("check-attr", "-z", "--stdin", *_CONVERTING, paths=names, own=False)
        fields = output.split(b"\0")
        return {
            os.path.join(self._top, os.fsdecode(path))
            for path, attribute, value in zip(fields[::3], fields[1::3], fields[2::3], strict=False)
            if value not in (b"unspecified", b"unset") and (attribute, value) != (b"eol", b"lf")
        }

    def _run(
        self, *arguments: str, paths: Iterable[str] | None = None, data: bytes = b"", own: bool = True
    ) -> bytes:
        """Run git on our directory, or to read the user's one. Raises GitProblem."""
        git_dir = self._git_dir if own or self._repository is None else self._repository.git_dir
        command = [self._program, f"--git-dir={git_dir}", f"--work-tree={self._top}"]
        command += ["-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", *arguments]
        if paths is not None:
            data = b"\0".join(map(os.fsencode, paths)) + b"\0"
        try:
            result = subprocess.run(
                command,
                cwd=self._top,
                env=_environment(),
                input=data,
                capture_output=True,
                timeout=max(self._deadline - time.monotonic(), 0.01),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GitProblem(f"git needed more than {SNAPSHOT_SECONDS:g} s") from None
        except OSError as error:
            raise GitProblem(f"git cannot be started ({error.strerror})") from None
        if result.returncode:
            reason = result.stderr.decode(errors="replace").strip().splitlines()
            raise GitProblem(f"git {arguments[0]} failed: {reason[0] if reason else result.returncode}")
        return result.stdout


def git_is_installed() -> bool:
    """Whether git is on PATH."""
    return shutil.which("git") is not None


def shadow_of(git_folder: Path, folder: str, *, plain: bool = False) -> ShadowGit | None:
    """The snapshots of a folder; None without git, and outside of a repository unless `plain`."""
    real = os.path.realpath(folder)
    repository = repository_of(Path(real))
    program = installed_program("git", (real,))
    if program is None or (repository is None and not plain):
        return None
    return ShadowGit(git_folder / folder_name(real), real, repository, program)


def _environment() -> dict[str, str]:
    """Our environment without what redirects git, and without the configuration of user and system."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }


def _stamp(path: str) -> _Stamp | None:
    """What changes if the content of a file changes; None if there is no file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _file_clock() -> int:
    """The time, in ns, that a file gets which changes now, or a little less."""
    if sys.platform == "linux":
        return time.clock_gettime_ns(_COARSE_CLOCK)
    return time.time_ns() - 20_000_000


def _blob_size(line: str) -> int:
    """The size in a line of `cat-file --batch-check`; too large for anything but a file."""
    fields = line.split()
    return int(fields[2]) if len(fields) == 3 and fields[1] == "blob" else FILE_LIMIT + 1
