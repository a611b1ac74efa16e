"""Finds git repositories on disk, and the files in them that decide what git runs."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# `commondir` and `gitdir` lead git to another configuration, `info/attributes` names drivers for files.
_STEERING_NAMES: Final = ("hooks", "config", "config.worktree", "commondir", "gitdir", "info/attributes")
# Settings that name a program, a folder with programs, or another configuration. An alias starts with `!`,
# and settings such as `pager.log` have any name: every value with a slash may be a program.
_NAMING: Final = re.compile(
    r"(?P<key>\bpath|hookspath|attributesfile|fsmonitor|external|command|cmd|textconv|clean|smudge|process"
    r"|program|pager|editor|askpass|helper|driver|filter|\w(?=[ \t]*=[ \t]*(?:\"?!|[^\r\n/]{0,200}/)))"
    r"[ \t]*=[ \t]*(?P<value>[^\r\n]+)",
    re.IGNORECASE,
)
_VALUE_WORD: Final = re.compile(r"[^\s\"'\\!;|&()<>]+")
_MAX_INCLUDES: Final = 5
_REBASE_COMMAND: Final = re.compile(r"^\s*(?:x|exec)\s", re.MULTILINE)
_MAX_POINTER_BYTES: Final = 4096
MAX_CONFIG_CHARS: Final = 1 << 20
"""How much of a configuration `read_config` returns."""
_MAX_MODULE_DEPTH: Final = 6


@dataclass(frozen=True, slots=True)
class GitRepository:
    """The repository of a folder. Paths are absolute; a pointer file (`gitdir: ...`) is followed."""

    top: Path
    """The folder with `.git`."""
    git_dir: Path
    common_dir: Path
    """The folder with `config` and `hooks`. A linked worktree has another `git_dir`."""

    @property
    def config_files(self) -> tuple[Path, ...]:
        """The repository's own configuration files, whether they exist or not."""
        return self.common_dir / "config", self.git_dir / "config.worktree"


def repository_of(folder: Path) -> GitRepository | None:
    """Return the repository that git uses in this folder; None if it finds none."""
    for top in (folder, *folder.parents):
        entry = top / ".git"
        git_dir = entry if entry.is_dir() else _pointed(entry, top, "gitdir: ")
        if git_dir is not None:
            return GitRepository(top, git_dir, _pointed(git_dir / "commondir", git_dir) or git_dir)
    return None


def _pointed(file: Path, base: Path, prefix: str = "") -> Path | None:
    """Return the folder that a pointer file names. Like git, keep spaces and follow links before `..`."""
    try:
        with open(file, encoding="utf-8", errors="surrogateescape", newline="") as opened:
            text = opened.read(_MAX_POINTER_BYTES)
    except OSError:
        return None
    target = text.removeprefix(prefix).rstrip("\r\n")
    if not target or not text.startswith(prefix) or "\0" in target:
        return None
    return Path(os.path.realpath(base / target))


def read_config(file: str | os.PathLike[str]) -> str:
    """Return the text of a configuration file; empty if there is none."""
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read(MAX_CONFIG_CHARS)
    except OSError:
        return ""


def steering_in_git(git_dir: str, *, watched: bool = False) -> Iterator[str]:
    """Yield the existing files and folders below a `.git` that decide what git runs, as real paths.

    Includes those of submodules and linked worktrees, and what the configuration names: hooks folders,
    programs and other configurations. With `watched`, also the links among them, and the list of a rebase
    that was stopped before it runs commands; git itself must be able to write that.
    """
    names = [os.path.join(git_dir, name) for name in _STEERING_NAMES]
    for name in ("config", "config.worktree"):
        names += _named_in_config(os.path.join(git_dir, name), os.path.dirname(git_dir), _MAX_INCLUDES)
    for path in names:
        if watched and os.path.islink(path):
            yield path
        if os.path.exists(path):
            yield os.path.realpath(path)
    rebase = os.path.join(git_dir, "rebase-merge", "git-rebase-todo")
    if watched and _REBASE_COMMAND.search(read_config(rebase)):
        yield os.path.realpath(rebase)
    for folder in _subfolders(os.path.join(git_dir, "worktrees")):
        yield from steering_in_git(folder, watched=watched)
    yield from _steering_in_modules(os.path.join(git_dir, "modules"), _MAX_MODULE_DEPTH, watched)


def _named_in_config(config: str, top: str, depth: int) -> Iterator[str]:
    """Yield the hooks folders, programs and configurations that a configuration names, if they exist."""
    for found in _NAMING.finditer(read_config(config)):
        key, value = found["key"].casefold(), found["value"]
        base = os.path.dirname(config) if key == "path" else top
        for word in dict.fromkeys((value.strip(' \t"'), *_VALUE_WORD.findall(value))):
            path = os.path.join(base, os.path.expanduser(word))
            if os.path.isdir(path) if key == "hookspath" else os.path.isfile(path):
                yield path
                if key == "path" and depth:
                    yield from _named_in_config(path, top, depth - 1)


def looks_bare(folder: str) -> bool:
    """Whether git may take the folder itself for a repository."""
    return os.path.lexists(os.path.join(folder, "HEAD")) and any(
        os.path.lexists(os.path.join(folder, name)) for name in ("objects", "commondir")
    )


def _steering_in_modules(folder: str, depth: int, watched: bool) -> Iterator[str]:
    """Submodules by name. A name may contain slashes, so that a folder may hold further ones."""
    for module in _subfolders(folder) if depth else ():
        if os.path.isfile(os.path.join(module, "HEAD")):
            yield from steering_in_git(module, watched=watched)
        else:
            yield from _steering_in_modules(module, depth - 1, watched)


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
