"""Runs read-only git commands without the programs that a project's configuration names, and without secrets.

The shell of a command line gets a function called `git`. For read-only commands it switches off the file
system monitor, hooks, filters, external diffs, text conversions and fetching, and leaves secret files out of
what is printed. All other commands run unchanged.

Imported on first use.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from accord.policy.git_repository import MAX_CONFIG_CHARS, GitRepository, read_config, repository_of
from accord.policy.installed_program import installed_program
from accord.policy.programs.git_commands import LISTING_VALUED, READING_COMMANDS
from accord.policy.secret_files import is_secret, secret_pathspecs

FUNCTION_VARIABLE: Final = "accord_git_function"
_TIMEOUT_SECONDS: Final = 10.0
# A configuration without these keys names no program that a read-only command runs.
_SUSPICIOUS: Final = re.compile(
    r"(?:fsmonitor|hookspath|external|command|textconv|clean|smudge|process|program|promisor|partialclone"
    r"|uploadpack|worktree)[ \t]*(?:[=#;\r\n]|\Z)|\[[ \t]*include|ext::",
    re.IGNORECASE,
)
_OWN_FOLDER: Final = re.compile(r"^\s*worktree = ([^\n]*)$", re.MULTILINE)
_EMPTY_TREES: Final = (
    "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
)
"""Names of the folder without files, with both kinds of hashes. Diffs against it are common."""
_GITLINK_MODE: Final = (0o160000).to_bytes(4, "big")
"""The mode of a submodule in git's index."""
_ALWAYS: Final = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("log.showSignature", "false"),
    ("diff.submodule", "short"),
    ("submodule.recurse", "false"),
    ("stash.showPatch", "false"),
    ("alias.whatchanged", "log"),
)
# An empty filter changes nothing. `false` as a program for signatures says that none could be checked.
_OVERRIDES: Final = (
    (re.compile(r"filter\..*\.(clean|smudge|process)", re.DOTALL), ""),
    (re.compile(r"filter\..*\.required", re.DOTALL), "false"),
    (re.compile(r"gpg\.(.*\.)?program", re.DOTALL), "false"),
)

_FUNCTION: Final = r"""git() (
at=0 sub= skip= content=
for word do
  at=$((at + 1))
  if [ -n "$skip" ]; then skip=; continue; fi
  case $word in
    -C) skip=1 ;;
    -P | --no-pager | --no-optional-locks | --literal-pathspecs | --glob-pathspecs | --icase-pathspecs) ;;
    -*) break ;;
    *) sub=$word; break ;;
  esac
done
case $sub in
  branch | tag)
    operands= position=0 skip=
    for word do
      position=$((position + 1))
      if [ $position -le $at ]; then continue; fi
      if [ -n "$skip" ]; then skip=; continue; fi
      case $word in
        -l | --list) operands=; break ;;
        @VALUED@) skip=1 ;;
        -*) ;;
        *) operands=1 ;;
      esac
    done
    if [ -n "$operands" ]; then exec git "$@"; fi ;;
  stash | worktree | submodule)
    rest=$(shift $at; echo "$sub $*")
    case $rest in
      "stash list" | "stash show" | "stash show -p" | "worktree list"* | "submodule " | "submodule status") ;;
      *) exec git "$@" ;;
    esac ;;
  @READING@) ;;
  *) exec git "$@" ;;
esac
config() {
  export "GIT_CONFIG_KEY_${GIT_CONFIG_COUNT:-0}=$1" "GIT_CONFIG_VALUE_${GIT_CONFIG_COUNT:-0}=$2"
  export GIT_CONFIG_COUNT=$((${GIT_CONFIG_COUNT:-0} + 1))
}
@CONFIG@
export GIT_OPTIONAL_LOCKS=0 GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1 GIT_PAGER=cat
unset GIT_EXTERNAL_DIFF GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS
flags=
case $sub in
  log | whatchanged)
    flags='--no-ext-diff --no-textconv'
    for word do
      case $word in
        --) break ;;
        --patch* | --unified* | --cc | --word-diff* | --color-words*) content=1 ;;
        --binary | --check | --function-context) content=1 ;;
        --*) ;;
        -*[pucUW]*) content=1 ;;
      esac
    done
    if [ -n "$content" ]; then flags="$flags --full-history --sparse"; fi ;;
  show) flags='--no-ext-diff --no-textconv --full-history --sparse' content=1 ;;
  diff | diff-tree | diff-index | diff-files) flags='--no-ext-diff --no-textconv' content=1 ;;
  blame | annotate) flags=--no-textconv ;;
  grep) flags=--no-textconv content=1 ;;
  stash)
    if [ "$rest" = "stash show -p" ]; then
      left=$#
      while [ $left -gt 0 ]; do
        left=$((left - 1)) word=$1
        shift
        case $word in
          stash) set -- "$@" diff; at=$# ;;
          show) set -- "$@" 'stash@{0}^1' ;;
          -p) set -- "$@" 'stash@{0}' ;;
          *) set -- "$@" "$word" ;;
        esac
      done
      flags='--no-ext-diff --no-textconv' content=1
    fi ;;
esac
left=$# position=0
while [ $left -gt 0 ]; do
  left=$((left - 1)) position=$((position + 1)) word=$1
  shift
  set -- "$@" "$word"
  if [ $position = $at ]; then set -- "$@" $flags; fi
done
if [ -n "$content" ]; then set -- "$@" @EXCLUDES@; fi
exec git "$@"
)
"""


@dataclass(frozen=True, slots=True)
class GuardedLine:
    """A shell line whose read-only git commands are safe, the variables it needs, and what git leaves out."""

    line: str
    env: dict[str, str] = field(default_factory=dict[str, str])
    left_out: tuple[str, ...] = ()
    """Tracked files that may hold secrets."""


def guard_line(line: str, folders: Iterable[Path], *, exclude_secrets: bool) -> GuardedLine:
    """Return the line with the function for these repositories. May start git; blocks.

    Without `exclude_secrets`, git shows secrets, because the user has allowed a command that names one.
    """
    folders = list(folders)
    config = [*_ALWAYS, *(setting for folder in folders for setting in config_overrides(folder) or ())]
    texts = {
        "@READING@": " | ".join(name for name in READING_COMMANDS if name not in ("branch", "tag")),
        "@VALUED@": " | ".join(LISTING_VALUED),
        "@CONFIG@": "\n".join(f"config {shlex.quote(key)} {shlex.quote(value)}" for key, value in config),
        "@EXCLUDES@": shlex.join(secret_pathspecs()) if exclude_secrets else "",
    }
    function = re.sub("|".join(texts), lambda found: texts[found[0]], _FUNCTION)
    secrets = (path for folder in folders for path in tracked_secrets(folder)) if exclude_secrets else ()
    return GuardedLine(
        f'eval "${FUNCTION_VARIABLE}"; unset {FUNCTION_VARIABLE}\n{line}',
        {FUNCTION_VARIABLE: function},
        tuple(dict.fromkeys(os.path.relpath(path, folders[0]) for path in secrets)),
    )


def config_overrides(folder: Path) -> list[tuple[str, str]] | None:
    """Return the settings that switch off the programs of the folder's repository.

    None if that is not possible: git cannot be asked, or it uses another repository or files of another
    folder.
    """
    if not _is_used_by_git(folder):
        return None
    settings: list[str] = []
    for repository in _repositories(folder):
        if not _is_suspicious(repository):
            continue
        listed = _git(repository.top, "config", "--list", "--null", "--show-scope")
        if listed is None:
            return None
        fields = listed.split("\0")
        own = [
            entry
            for scope, entry in zip(fields[0::2], fields[1::2], strict=False)
            if scope in ("local", "worktree")
        ]
        if not all(_uses_own_folder(repository, entry) for entry in own):
            return None
        settings += own
    return list(dict.fromkeys(_overrides(entry.partition("\n")[0] for entry in settings)))


def _overrides(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        for pattern, value in _OVERRIDES:
            if pattern.fullmatch(key):
                yield key, value


def _uses_own_folder(repository: GitRepository, entry: str) -> bool:
    key, _, value = entry.partition("\n")
    if key != "core.worktree":
        return True
    return os.path.realpath(repository.git_dir / value) == os.path.realpath(repository.top)


def names_programs(folder: Path) -> bool:
    """Whether the folder's repository may name a program that a read-only command runs."""
    return not _is_used_by_git(folder) or any(map(_is_suspicious, _repositories(folder)))


def _is_used_by_git(folder: Path) -> bool:
    """Whether git takes no other repository for the folder's than `repository_of`.

    Git passes over a `.git` that is incomplete, and uses a folder that looks like a bare repository, which
    may be part of a project.
    """
    found = _git(folder, "rev-parse", "--absolute-git-dir")
    repository = repository_of(folder)
    if found is None:
        return True  # every other command of git fails, too
    return repository is not None and os.path.realpath(repository.git_dir) == os.path.realpath(
        found.removesuffix("\n")
    )


def _is_suspicious(repository: GitRepository) -> bool:
    if (repository.common_dir / "hooks" / "post-index-change").exists():
        return True
    return any(_names_programs(repository, file) for file in repository.config_files)


def _names_programs(repository: GitRepository, file: Path) -> bool:
    text = read_config(file)
    if len(text) >= MAX_CONFIG_CHARS:
        return True  # git reads the rest, too
    # Git itself names the folder of a submodule in its configuration.
    return (
        _SUSPICIOUS.search(_OWN_FOLDER.sub(lambda found: _without_own(repository, found), text)) is not None
    )


def _without_own(repository: GitRepository, found: re.Match[str]) -> str:
    own = _uses_own_folder(repository, f"core.worktree\n{found[1].strip()}")
    return "" if own else found[0]


def _repositories(folder: Path) -> Iterator[GitRepository]:
    """Yield the folder's repository and those of its submodules, in which git runs itself."""
    pending, seen = [repository_of(folder)], set[str]()
    while pending:
        repository = pending.pop()
        if repository is None or (git_dir := os.path.realpath(repository.git_dir)) in seen:
            continue
        seen.add(git_dir)  # a link may lead back
        yield repository
        pending += [repository_of(repository.top / name) for name in _gitlinks(repository)]


def _gitlinks(repository: GitRepository) -> list[str]:
    """Return the paths of the submodules in the index. Starts git only if there may be one."""
    indexes = (repository.git_dir / "index", *repository.git_dir.glob("sharedindex.*"))
    if not any(_GITLINK_MODE in _read_bytes(path) for path in indexes):
        return []
    listed = _git(repository.top, "ls-files", "--stage", "-z") or ""
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry.startswith("160000 "))
    return [name for _, _, name in entries]


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def names_content(folder: Path, names: Sequence[str]) -> bool:
    """Whether one of the names means a file or a folder of a commit, or may mean it.

    Their content has no path, or only a part of it, so that secrets are not recognized.
    """
    if not names or repository_of(folder) is None:
        return False
    # `a..b` and `^a` name more than one; the root folder of a commit (`a^{tree}`) is all of it.
    parts = [part.removeprefix("^") for name in names for part in re.split(r"\.{2,3}", name)]
    objects = [part.removesuffix("^{tree}") or "HEAD" for part in parts]
    if any("\n" in name for name in objects):
        return True
    asked = "".join(f"{name}^{{}}\n" for name in objects)
    listed = _git(folder, "cat-file", "--batch-check=%(objecttype) %(objectname)", text=asked)
    if listed is None:
        return _git(folder, "rev-parse", "--git-dir") is not None  # else every other command fails, too
    kinds = (line.partition(" ") for line in listed.splitlines())
    return any(kind in ("blob", "tree") and name not in _EMPTY_TREES for kind, _, name in kinds)


def tracked_secrets(folder: Path) -> list[Path]:
    """Return the tracked files of the folder's repository that may hold secrets."""
    repository = repository_of(folder)
    listed = _git(repository.top, "ls-files", "-z") if repository else None
    if repository is None or listed is None:
        return []
    paths = (Path(name) for name in listed.split("\0") if name)
    return [repository.top / path for path in paths if is_secret(path) or is_secret(repository.top / path)]


def _git(folder: Path, *arguments: str, text: str = "") -> str | None:
    """Run a command of git that starts no other program. Return its output; None if it fails.

    `text` is its input.
    """
    repository = repository_of(folder)
    program = installed_program("git", (folder, folder if repository is None else repository.top))
    if program is None:
        return None
    settings = [word for key, value in _ALWAYS for word in ("-c", f"{key}={value}")]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            [program, "-C", str(folder), *settings, *arguments],
            env={**env, "GIT_OPTIONAL_LOCKS": "0", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"},
            input=text.encode(errors="surrogateescape"),
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="surrogateescape") if done.returncode == 0 else None
