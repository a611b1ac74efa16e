"""Commands that are refused in every mode, and the system folders and disks they would destroy."""

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accord.policy.command_paths import PossibleDirectories
from accord.policy.programs.executed_commands import ExecutedCommands, runs
from accord.policy.programs.wrappers import STARTERS
from accord.policy.request import ActionRequest, SessionDirectories
from accord.policy.requested_actions import RequestedActions
from accord.policy.secret_files import words
from accord.policy.shell.command_line import read_line
from accord.policy.shell.syntax import SimpleCommand, Word, WordPart

# MERGED policy.floortargets: The paths that a destructive command means, as far as anybody can tell before it runs.
#
# Unlike for permissions, a guess is welcome here: variables set in the same line are filled in, unset ones count as empty,
# braces and patterns are opened, and `folder/*` counts as the folder.

_MOST: Final = 64
_EVERYTHING: Final = re.compile(r"(?:\.?\*+|\.\?\?\*|\.\[!?\^?\.\]\*|\.\[\^.\]\*)")
_HERE: Final = re.compile(r"\$\(\s*pwd\s*\)|`\s*pwd\s*`")
_GUARDED: Final = re.compile(r"\$\{\w+:?[?]|\$\{\w+:?-[^}]")
_BRACE: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")


@dataclass(frozen=True, slots=True)
class DestructiveTarget:
    """One path that is meant."""

    path: Path
    """With `..` folded and links on the way followed, but not a link at its end, unless that is followed, too."""
    real: Path
    uncertain: str = ""
    """The expansion that was taken to be empty."""


@dataclass(frozen=True, slots=True)
class TargetFinder:
    """Finds the targets of one command of a line."""

    bounds: SessionDirectories
    runs: ExecutedCommands
    command: SimpleCommand
    after: int

    def of(self, words: Iterable[Word]) -> Iterator[DestructiveTarget]:
        """What these words may mean."""
        for word in words:
            for text, uncertain in self._texts(word):
                yield from self._at(text, uncertain)

    def here(self) -> Iterator[DestructiveTarget]:
        """The folders that the command may stand in."""
        for folder in self._folders():
            yield DestructiveTarget(folder, folder)

    def _folders(self) -> tuple[Path, ...]:
        standing = PossibleDirectories.at(self.bounds, self.runs, self.command, self.after)
        return standing.folders or (self.bounds.cwd,)

    def _at(self, text: str, uncertain: str) -> Iterator[DestructiveTarget]:
        text = text.removeprefix("of=")
        if not text:
            return
        for folder in self._folders():
            whole = os.path.join(folder, text)
            head, tail = os.path.split(whole.rstrip("/"))
            everything = _EVERYTHING.fullmatch(tail) is not None
            follows = everything or whole.endswith("/") or tail in (".", "..")
            try:
                real = Path(os.path.realpath(head if everything else whole))
                kept = real if follows else Path(os.path.realpath(head)) / tail
            except (OSError, ValueError):
                continue
            named = Path(os.path.normpath(head if everything else whole))
            yield DestructiveTarget(kept, real, uncertain)
            if named != kept:
                yield DestructiveTarget(named, real, uncertain)

    def _texts(self, word: Word) -> Iterator[tuple[str, str]]:
        choices = [list(self._values(part, number == 0)) for number, part in enumerate(word.parts)]
        for chosen in itertools.islice(itertools.product(*choices), _MOST):
            text = "".join(value for value, _ in chosen)
            uncertain = next((unset for _, unset in chosen if unset), "")
            if uncertain and not text.startswith("/"):
                uncertain = ""
            for one in itertools.islice(_braces(text), _MOST) if word.braces else (text,):
                yield one, uncertain
                if word.globs:
                    for folder in self._folders():
                        matches = itertools.islice(glob.iglob(one, root_dir=folder), _MOST)
                        yield from ((os.path.join(folder, match), uncertain) for match in matches)

    def _values(self, part: WordPart, first: bool) -> Iterator[tuple[str, str]]:
        if part.kind == "text":
            tilde = first and not part.quoted and part.text.startswith("~")
            home = (
                {"~": self.bounds.home, "~root": Path("/root")}.get(part.text.partition("/")[0])
                if tilde
                else None
            )
            yield (f"{home}{part.text[len(part.text.partition('/')[0]) :]}" if home else part.text), ""
        elif part.kind == "variable":
            yield from self._variable(part.text)
        elif _HERE.fullmatch(part.text):
            yield from ((str(folder), "") for folder in self._folders())
        else:
            yield ("x", "") if _GUARDED.match(part.text) else ("", part.text or "something")

    def _variable(self, name: str) -> Iterator[tuple[str, str]]:
        if name == "HOME":
            yield str(self.bounds.home), ""
        elif name in ("PWD", "OLDPWD"):
            yield from ((str(folder), "") for folder in self._folders())
        else:
            values = [value for value in _assigned(self.runs, name) if value is not None]
            yield from ((value, "") for value in values)
            if not values:
                yield "", f"${name}"


def _assigned(runs: ExecutedCommands, name: str) -> Iterator[str | None]:
    for command in itertools.chain(runs.commands, runs.settings):
        for assignment in command.assignments:
            if assignment.name == name:
                # `export A=x` keeps the whole word.
                spelled = (word.spelled for word in assignment.values)
                yield from (text and text.removeprefix(f"{name}=") for text in spelled)


def _braces(text: str) -> Iterator[str]:
    found = _BRACE.search(text)
    if found is None:
        yield text
        return
    for choice in found[1].split(","):
        yield from _braces(f"{text[: found.start()]}{choice}{text[found.end() :]}")


# MERGED policy.vital: Places that must not be destroyed: the system's folders, the home folder, the session's roots, disks, accounts.

_SYSTEM: Final = frozenset(
    Path(folder)
    for folder in words(
        """
    / /bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /media /mnt /opt /proc /root /run /sbin /srv /sys /usr /var
    /usr/bin /usr/sbin /usr/lib /usr/lib32 /usr/lib64 /usr/local /usr/local/bin /usr/local/lib /usr/share /usr/include /usr/libexec
    /var/lib /var/log /var/cache /var/spool /var/mail /var/www /var/lib/dpkg /var/lib/docker /etc/ssh /etc/ssl /etc/systemd /etc/pam.d
    /Applications /Library /System /Users /Volumes /private /private/etc /private/var /nix /nix/store /snap
    """
    )
)
_DISK: Final = re.compile(
    r"/dev/(?:[shv]d[a-z]\d*|xvd[a-z]\d*|nvme\d+(?:n\d+(?:p\d+)?)?|mmcblk\d+(?:p\d+)?|r?disk\d+(?:s\d+)?|md\d+|dm-\d+"
    r"|mapper/.+|disk/.+|loop\d+|nbd\d+|pmem\d+|mem|kmem|port|root)"
)
_VITAL_FILE: Final = re.compile(
    r"/etc/(?:passwd|shadow|group|gshadow|sudoers|fstab|crypttab|ld\.so\.preload|sudoers\.d/.+|pam\.d/.+)-?|/boot/.+"
    r"|/proc/sysrq-trigger|/proc/sys/.+|/sys/power/.+|/sys/firmware/.+"
)


def vital_folder(path: Path, bounds: SessionDirectories) -> str | None:
    """What would be lost with this folder, if it is one that must not be lost."""
    if path in _SYSTEM:
        return f"{path}, a folder of the system" if path != Path("/") else "the whole file system"
    if path == bounds.home or bounds.home.is_relative_to(path):
        return f"{path}, your home folder"
    root = next((root for root in bounds.roots if root.is_relative_to(path)), None)
    return f"{root}, a root of this session" if root is not None else None


def is_disk(path: Path) -> bool:
    """Whether it is a disk, or the machine's memory, as a whole."""
    return _DISK.fullmatch(path.as_posix()) is not None


def is_vital_file(path: Path) -> bool:
    """Whether writing it breaks or takes over the machine."""
    return _VITAL_FILE.fullmatch(path.as_posix()) is not None


# MERGED policy.floor: The hard floor: what is refused in every mode, whatever the rules say.
#
# Destroying a root, the home folder or a part of the system, disks, the machine's running, its accounts, its kernel. Everything
# is judged on where paths really lead, through wrappers and in code given to interpreters as far as it can be seen. The floor is a
# net under the rules, no substitute for them: a program that wants to destroy has other ways.

_DEEPEST: Final = 3
_STOPS_MACHINE: Final = frozenset(
    ("shutdown", "reboot", "halt", "poweroff", "telinit", "killall5", "kexec", "insmod", "rmmod", "modprobe")
)
_STOPPING_UNITS: Final = words(
    "poweroff reboot halt kexec suspend hibernate hybrid-sleep emergency rescue isolate soft-reboot"
)
_DISK_TOOLS: Final = re.compile(
    r"mkfs(\..+)?|mke2fs|mkswap|mkdosfs|wipefs|[sc]?fdisk|s?gdisk|parted|blkdiscard|badblocks|hdparm|cryptsetup|mdadm|nvme"
    r"|pvcreate|pvremove|vgremove|lvremove|zpool|diskutil|format|partx|newfs(_.+)?"
)
_REMOVES_VOLUMES: Final = frozenset(("vgremove", "lvremove", "pvremove"))
_CHANGES_RIGHTS: Final = frozenset(("chmod", "chown", "chgrp", "chattr", "setfacl"))
_LAST_IS_TARGET: Final = frozenset(("cp", "mv", "install", "ln", "rsync", "scp"))
_ALL_ARE_TARGETS: Final = frozenset(
    ("tee", "truncate", "rm", "unlink", "shred", "chmod", "chown", "chattr", "sponge", "ed", "ex")
)
_NARROWS: Final = re.compile(
    r"-(i?name|i?path|i?wholename|i?regex|i?lname|newer.*|[acm](time|min)|size|user|group|perm|empty|inum|samefile)"
)
_FORK_BOMB: Final = re.compile(r"(?<![\w:.@])(?P<f>[\w:.@]{1,40})\(\)\{(?P=f)[|&](?P=f)&?;?\}")
_INTERPRETERS: Final = re.compile(
    r"(python|pypy|perl|ruby|node|php|lua|deno|bun|osascript|tclsh|Rscript)[0-9.]*"
)
_QUOTED: Final = re.compile(r"'([^'\\\n]*(?:\\.[^'\\\n]*)*)'|\"([^\"\\\n]*(?:\\.[^\"\\\n]*)*)\"|`([^`\n]*)`")
_REMOVES_TREES: Final = re.compile(
    r"rmtree|rm_rf?\b|rmSync|rmdirSync|remove_tree|removedirs|rimraf|fs\.rm|remove_dir_all|RemoveAll|unlink|deleteTree|del_tree"
)
_HOME_IN_CODE: Final = re.compile(
    r"Path\.home\(\)\s*\)|expanduser\(\s*['\"]~/?['\"]\s*\)|(?:HOME['\"]?\]|\.HOME|homedir\(\))\s*[,)]"
)


def floor(request: ActionRequest, acts: RequestedActions) -> str | None:
    """Why this is out of the question, if it is."""
    for act in acts.acts:
        if act.sort == "write":
            for place in act.places:
                for path in (place.real, place.named):
                    if is_disk(path) or is_vital_file(path):
                        return f"it would overwrite {path}"
                if act.below and (what := vital_folder(place.real, request.bounds)):
                    return f"it would remove or move {what}"
    return _of_runs(acts.runs, acts.bounds, _DEEPEST) if acts.runs is not None else None


def _of_runs(found: ExecutedCommands, bounds: SessionDirectories, depth: int) -> str | None:
    for text in found.lines:
        if _FORK_BOMB.search(re.sub(r"\s", "", text)):
            return "it is a fork bomb"
    for name, body in found.functions:
        if body.count(name) > 1:
            return f"{name} is a fork bomb: it calls itself again and again"
    for after, command in enumerate(found.commands):
        targets = TargetFinder(bounds, found, command, after)
        if reason := _of_command(command, targets) or _inside(command, bounds, depth):
            return reason
    return None


def _of_command(command: SimpleCommand, targets: TargetFinder) -> str | None:
    name, texts = command.name, [word.text or "" for word in command.arguments]
    if name in _STOPS_MACHINE and not {"--help", "-c", "--version"} & set(texts):
        return f"{name} stops the machine or changes its kernel"
    if name == "init" and texts[:1] in (["0"], ["1"], ["6"]):
        return "it stops the machine"
    if name in ("systemctl", "loginctl") and _STOPPING_UNITS & set(texts):
        return "it stops the machine"
    if name == "kill" and _kills_everything(texts):
        return "it kills every process"
    if "--no-preserve-root" in texts and name in ("rm", *_CHANGES_RIGHTS):
        return f"{name} --no-preserve-root is never run"
    if _DISK_TOOLS.fullmatch(name) and (reason := _formats(name, texts, targets)):
        return reason
    if reason := _destroys(command, texts, targets):
        return reason
    for path in _written(command, texts, targets):
        if is_disk(path) or is_vital_file(path):
            return f"it would overwrite {path}"
    return None


def _kills_everything(texts: list[str]) -> bool:
    operands = texts[1:] if texts and texts[0].startswith("-") and texts[0] != "--" else texts
    return "-1" in operands or operands == ["1"] or texts[-2:] == ["--", "-1"]


def _formats(name: str, texts: list[str], targets: TargetFinder) -> str | None:
    if {"-l", "--list", "--help", "list", "status", "print", "-V", "--version"} & set(texts):
        return None
    if name in _REMOVES_VOLUMES or (name, *texts[:1]) in (("zpool", "destroy"), ("diskutil", "eraseDisk")):
        return f"{name} destroys disks"
    if any(word.spelled is None for word in targets.command.arguments):
        return f"{name} destroys what is on a disk that is not certain"
    disks = (
        target.path for target in targets.of(targets.command.arguments) if target.path.is_relative_to("/dev")
    )
    return next((f"{name} destroys what is on {disk}" for disk in disks), None)


def _destroys(command: SimpleCommand, texts: list[str], targets: TargetFinder) -> str | None:
    """Whether a folder that matters is removed, moved away or closed, as a whole."""
    name = command.name
    operands = [word for word in command.arguments if not (word.text or "").startswith("-")]
    if name == "rm" and any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r[ecursiv]*", text) for text in texts):
        if (
            command.source is not None
            and "xargs" in command.via
            and (reason := _found(command.source, targets))
        ):
            return reason
        return _says("remove", targets.of(operands), targets)
    if name == "mv":
        moved = operands if any(text.startswith(("-t", "--target")) for text in texts) else operands[:-1]
        return _says("move", targets.of(moved), targets)
    if name == "rsync" and any(text.startswith("--del") for text in texts):
        return _says("empty", targets.of(operands[-1:]), targets)
    if name in _CHANGES_RIGHTS:
        reached = (
            target for target in targets.of(operands) if not _belongs_to_user(target.path, targets.bounds)
        )
        return _says("change the rights of", reached, targets)
    if name == "find":
        return _found(command, targets) if _find_removes(texts) else None
    return None


def _says(verb: str, reached: Iterator[DestructiveTarget], targets: TargetFinder) -> str | None:
    for target in reached:
        if what := vital_folder(target.path, targets.bounds):
            unset = (
                f" if {target.uncertain} is empty; write ${{NAME:?}} to be sure" if target.uncertain else ""
            )
            return f"it would {verb} {what}{unset}"
    return None


def _belongs_to_user(path: Path, bounds: SessionDirectories) -> bool:
    """Whether the user may well change the rights of everything in it."""
    return any(path.is_relative_to(own) for own in (bounds.home, *bounds.roots) if own != Path("/"))


def _find_removes(texts: list[str]) -> bool:
    runs_removal = any(
        text in ("-exec", "-execdir", "-ok", "-okdir")
        and after.rpartition("/")[2] in ("rm", "shred", "unlink", "mv")
        for text, after in itertools.pairwise(texts)
    )
    return "-delete" in texts or runs_removal


def _found(command: SimpleCommand, targets: TargetFinder) -> str | None:
    """`find FOLDER ... -delete`, or piped into a removal. In the user's own folders it may be narrowed down."""
    if command.name not in ("find", "gfind"):
        return None
    starts: list[Word] = []
    for word in command.arguments:
        text = word.text or ""
        if text in ("-H", "-L", "-P"):
            continue
        if text[:1] in ("-", "(", "!"):
            break
        starts.append(word)
    texts = [word.text or "" for word in command.arguments]
    narrowed = any(
        _NARROWS.fullmatch(text) and value not in ("*", "")
        for text, value in zip(texts, [*texts[1:], "x"], strict=True)
    )
    reached = targets.of(starts) if starts else targets.here()
    if narrowed:
        reached = (target for target in reached if not _belongs_to_user(target.path, targets.bounds))
    return _says("remove", reached, targets)


def _written(command: SimpleCommand, texts: list[str], targets: TargetFinder) -> Iterator[Path]:
    """The files that a program known to write writes to."""
    name = command.name
    operands = [word for word in command.arguments if not (word.text or "").startswith("-")]
    if name in _LAST_IS_TARGET:
        operands = operands[-1:]
    elif name == "dd":
        operands = [word for word in command.arguments if word.raw.startswith("of=")]
    elif name in ("sed", "perl"):
        operands = operands if any(re.match(r"-[a-zA-Z]*i|--in-place", text) for text in texts) else []
    elif name in ("sort", "curl", "wget"):
        flags = ("-o", "-O", "--output", "--output-document")
        operands = [after for text, after in zip(texts, command.arguments[1:], strict=False) if text in flags]
    elif name not in _ALL_ARE_TARGETS:
        return
    for target in targets.of(operands):
        yield target.path
        yield target.real


def _inside(command: SimpleCommand, bounds: SessionDirectories, depth: int) -> str | None:
    """What a program is given to run: another command in its arguments, code, a line for a shell elsewhere."""
    if depth == 0:
        return None
    if _INTERPRETERS.fullmatch(command.name):
        for code in (*(word.spelled for word in command.arguments if word.spelled), *command.stdin):
            if reason := _of_code(code, bounds, depth):
                return reason
    if command.name not in STARTERS:
        return None
    for start in range(1, len(command.words)):
        inner = ExecutedCommands(commands=[command.inner(command.words[start:])])
        if reason := _of_command(inner.commands[0], TargetFinder(bounds, inner, inner.commands[0], 0)):
            return reason
    remote = (
        " ".join(word.spelled or word.raw for word in command.arguments[1:]) if command.name == "ssh" else ""
    )
    texts = [remote, *(word.spelled or "" for word in command.arguments)]
    return next((reason for text in texts if " " in text and (reason := _of_text(text, bounds, depth))), None)


def _of_code(code: str, bounds: SessionDirectories, depth: int) -> str | None:
    if len(code) > 20_000:
        return None
    quoted = [
        next(text for text in found.groups(default="") if text)
        for found in _QUOTED.finditer(code)
        if any(found.groups())
    ]
    if _REMOVES_TREES.search(code):
        if _HOME_IN_CODE.search(code):
            return "it would remove your home folder"
        for text in quoted:
            place = bounds.place(text)
            if text.startswith(("/", "~", ".")) and place and (what := vital_folder(place.real, bounds)):
                return f"it would remove {what}"
    return next(
        (reason for text in quoted if " " in text and (reason := _of_text(text, bounds, depth))), None
    )


def _of_text(text: str, bounds: SessionDirectories, depth: int) -> str | None:
    return _of_runs(runs(read_line(text)), bounds, depth - 1) if len(text) < 4000 else None
