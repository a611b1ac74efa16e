"""Commands that are refused in every mode, regardless of rules and grants.

They would destroy a root, the home folder, system folders or disks, stop the machine, or change its accounts
or kernel. The checks follow links, unwrap wrappers, and search code for interpreters. They prevent accidents
and do not replace rules: a program that intends damage has other ways.
"""

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accord.policy.command_paths import PossibleDirectories
from accord.policy.programs.executed_commands import ExecutedCommands, executed_commands
from accord.policy.programs.wrappers import COMMAND_STARTERS
from accord.policy.request import ActionRequest, SessionDirectories
from accord.policy.requested_actions import RequestedActions
from accord.policy.shell.command_line import parse_line
from accord.policy.shell.syntax import SimpleCommand, Word, WordPart

# Targets of destructive commands. Unlike for permissions, guessing is right here: variables of the same line
# are filled in, unset ones count as empty, braces and globs are expanded, and `folder/*` counts as the
# folder.

_MAX_TARGETS: Final = 64
_MATCHES_EVERYTHING: Final = re.compile(r"(?:\.?\*+|\.\?\?\*|\.\[!?\^?\.\]\*|\.\[\^.\]\*)")
_PWD_SUBSTITUTION: Final = re.compile(r"\$\(\s*pwd\s*\)|`\s*pwd\s*`")
_HAS_FALLBACK: Final = re.compile(r"\$\{\w+:?[?]|\$\{\w+:?-[^}]")
_BRACE: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")


@dataclass(frozen=True, slots=True)
class DestructiveTarget:
    """One path that a command may destroy."""

    path: Path
    """The path with links followed, except for a link at its end that the command does not follow."""
    real: Path
    uncertain: str = ""
    """The expansion that was assumed to be empty."""


@dataclass(frozen=True, slots=True)
class TargetFinder:
    """Finds the targets of one command of a line."""

    directories: SessionDirectories
    executed: ExecutedCommands
    command: SimpleCommand
    index: int

    def targets(self, words: Iterable[Word]) -> Iterator[DestructiveTarget]:
        """Yield the targets that these words may name."""
        for word in words:
            for text, uncertain in self._possible_texts(word):
                yield from self._targets_of_text(text, uncertain)

    def current_folders(self) -> Iterator[DestructiveTarget]:
        """Yield the directories that the command may run in."""
        for folder in self._folders():
            yield DestructiveTarget(folder, folder)

    def _folders(self) -> tuple[Path, ...]:
        cwds = PossibleDirectories.at(self.directories, self.executed, self.command, self.index)
        return cwds.folders or (self.directories.cwd,)

    def _targets_of_text(self, text: str, uncertain: str) -> Iterator[DestructiveTarget]:
        text = text.removeprefix("of=")
        if not text:
            return
        for folder in self._folders():
            full_path = os.path.join(folder, text)
            head, tail = os.path.split(full_path.rstrip("/"))
            matches_everything = _MATCHES_EVERYTHING.fullmatch(tail) is not None
            follows = matches_everything or full_path.endswith("/") or tail in (".", "..")
            try:
                real = Path(os.path.realpath(head if matches_everything else full_path))
                path = real if follows else Path(os.path.realpath(head)) / tail
            except (OSError, ValueError):
                continue
            written_path = Path(os.path.normpath(head if matches_everything else full_path))
            yield DestructiveTarget(path, real, uncertain)
            if written_path != path:
                yield DestructiveTarget(written_path, real, uncertain)

    def _possible_texts(self, word: Word) -> Iterator[tuple[str, str]]:
        choices = [list(self._part_values(part, number == 0)) for number, part in enumerate(word.parts)]
        for choice in itertools.islice(itertools.product(*choices), _MAX_TARGETS):
            text = "".join(value for value, _ in choice)
            uncertain = next((unset for _, unset in choice if unset), "")
            if uncertain and not text.startswith("/"):
                uncertain = ""
            for expanded in (
                itertools.islice(_expand_braces(text), _MAX_TARGETS) if word.has_braces else (text,)
            ):
                yield expanded, uncertain
                if word.has_glob:
                    for folder in self._folders():
                        matches = itertools.islice(glob.iglob(expanded, root_dir=folder), _MAX_TARGETS)
                        yield from ((os.path.join(folder, match), uncertain) for match in matches)

    def _part_values(self, part: WordPart, first: bool) -> Iterator[tuple[str, str]]:
        if part.kind == "text":
            has_tilde = first and not part.quoted and part.text.startswith("~")
            home = (
                {"~": self.directories.home, "~root": Path("/root")}.get(part.text.partition("/")[0])
                if has_tilde
                else None
            )
            yield (f"{home}{part.text[len(part.text.partition('/')[0]) :]}" if home else part.text), ""
        elif part.kind == "variable":
            yield from self._variable_values(part.text)
        elif _PWD_SUBSTITUTION.fullmatch(part.text):
            yield from ((str(folder), "") for folder in self._folders())
        else:
            yield ("x", "") if _HAS_FALLBACK.match(part.text) else ("", part.text or "something")

    def _variable_values(self, name: str) -> Iterator[tuple[str, str]]:
        if name == "HOME":
            yield str(self.directories.home), ""
        elif name in ("PWD", "OLDPWD"):
            yield from ((str(folder), "") for folder in self._folders())
        else:
            values = [value for value in _assigned_values(self.executed, name) if value is not None]
            yield from ((value, "") for value in values)
            if not values:
                yield "", f"${name}"


def _assigned_values(executed: ExecutedCommands, name: str) -> Iterator[str | None]:
    for command in itertools.chain(executed.commands, executed.assignment_commands):
        for assignment in command.assignments:
            if assignment.name == name:
                # `export A=x` keeps the whole word.
                unquoted = (word.unquoted for word in assignment.values)
                yield from (text and text.removeprefix(f"{name}=") for text in unquoted)


def _expand_braces(text: str) -> Iterator[str]:
    brace = _BRACE.search(text)
    if brace is None:
        yield text
        return
    for choice in brace[1].split(","):
        yield from _expand_braces(f"{text[: brace.start()]}{choice}{text[brace.end() :]}")


_SYSTEM_FOLDERS: Final = frozenset(
    Path(folder)
    for folder in frozenset(
        """
    / /bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /media /mnt /opt /proc /root /run /sbin /srv /sys
    /usr /var /usr/bin /usr/sbin /usr/lib /usr/lib32 /usr/lib64 /usr/local /usr/local/bin /usr/local/lib
    /usr/share /usr/include /usr/libexec /var/lib /var/log /var/cache /var/spool /var/mail /var/www
    /var/lib/dpkg /var/lib/docker /etc/ssh /etc/ssl /etc/systemd /etc/pam.d
    /Applications /Library /System /Users /Volumes /private /private/etc /private/var /nix /nix/store /snap
    """.split()
    )
)
_DISK: Final = re.compile(
    r"/dev/(?:[shv]d[a-z]\d*|xvd[a-z]\d*|nvme\d+(?:n\d+(?:p\d+)?)?|mmcblk\d+(?:p\d+)?"
    r"|r?disk\d+(?:s\d+)?|md\d+|dm-\d+"
    r"|mapper/.+|disk/.+|loop\d+|nbd\d+|pmem\d+|mem|kmem|port|root)"
)
_PROTECTED_FILE: Final = re.compile(
    r"/etc/(?:passwd|shadow|group|gshadow|sudoers|fstab|crypttab|ld\.so\.preload"
    r"|sudoers\.d/.+|pam\.d/.+)-?|/boot/.+"
    r"|/proc/sysrq-trigger|/proc/sys/.+|/sys/power/.+|/sys/firmware/.+"
)


def protected_folder(path: Path, directories: SessionDirectories) -> str | None:
    """Describe the folder if it must not be destroyed."""
    if path in _SYSTEM_FOLDERS:
        return f"{path}, a folder of the system" if path != Path("/") else "the whole file system"
    if path == directories.home or directories.home.is_relative_to(path):
        return f"{path}, your home folder"
    root = next((root for root in directories.roots if root.is_relative_to(path)), None)
    return f"{root}, a root of this session" if root is not None else None


def is_disk(path: Path) -> bool:
    """Whether it is a whole disk or the machine's memory."""
    return _DISK.fullmatch(path.as_posix()) is not None


def is_protected_file(path: Path) -> bool:
    """Whether writing it breaks or takes over the machine."""
    return _PROTECTED_FILE.fullmatch(path.as_posix()) is not None


_MAX_DEPTH: Final = 3
_MACHINE_STOPPERS: Final = frozenset(
    ("shutdown", "reboot", "halt", "poweroff", "telinit", "killall5", "kexec", "insmod", "rmmod", "modprobe")
)
_STOPPING_UNITS: Final = frozenset(
    "poweroff reboot halt kexec suspend hibernate hybrid-sleep emergency rescue isolate soft-reboot".split()
)
_DISK_TOOLS: Final = re.compile(
    r"mkfs(\..+)?|mke2fs|mkswap|mkdosfs|wipefs|[sc]?fdisk|s?gdisk|parted|blkdiscard|badblocks|hdparm"
    r"|cryptsetup"
    r"|mdadm|nvme"
    r"|pvcreate|pvremove|vgremove|lvremove|zpool|diskutil|format|partx|newfs(_.+)?"
)
_VOLUME_REMOVERS: Final = frozenset(("vgremove", "lvremove", "pvremove"))
_RIGHTS_PROGRAMS: Final = frozenset(("chmod", "chown", "chgrp", "chattr", "setfacl"))
_LAST_IS_TARGET: Final = frozenset(("cp", "mv", "install", "ln", "rsync", "scp"))
_ALL_ARE_TARGETS: Final = frozenset(
    ("tee", "truncate", "rm", "unlink", "shred", "chmod", "chown", "chattr", "sponge", "ed", "ex")
)
_FIND_FILTERS: Final = re.compile(
    r"-(i?name|i?path|i?wholename|i?regex|i?lname|newer.*|[acm](time|min)|size|user|group|perm|empty|inum"
    r"|samefile)"
)
_FORK_BOMB: Final = re.compile(r"(?<![\w:.@])(?P<f>[\w:.@]{1,40})\(\)\{(?P=f)[|&](?P=f)&?;?\}")
_INTERPRETERS: Final = re.compile(
    r"(python|pypy|perl|ruby|node|php|lua|deno|bun|osascript|tclsh|Rscript)[0-9.]*"
)
_QUOTED: Final = re.compile(r"'([^'\\\n]*(?:\\.[^'\\\n]*)*)'|\"([^\"\\\n]*(?:\\.[^\"\\\n]*)*)\"|`([^`\n]*)`")
_TREE_REMOVAL: Final = re.compile(
    r"rmtree|rm_rf?\b|rmSync|rmdirSync|remove_tree|removedirs|rimraf|fs\.rm|remove_dir_all|RemoveAll|unlink"
    r"|deleteTree|del_tree"
)
_HOME_IN_CODE: Final = re.compile(
    r"Path\.home\(\)\s*\)|expanduser\(\s*['\"]~/?['\"]\s*\)|(?:HOME['\"]?\]|\.HOME|homedir\(\))\s*[,)]"
)


def never_allowed_reason(request: ActionRequest, actions: RequestedActions) -> str | None:
    """Return why this is never allowed; None if it is not one of these commands."""
    for action in actions.actions:
        if action.operation == "write":
            for resolved in action.paths:
                for path in (resolved.real, resolved.path):
                    if is_disk(path) or is_protected_file(path):
                        return f"it would overwrite {path}"
                if action.recursive and (description := protected_folder(resolved.real, request.directories)):
                    return f"it would remove or move {description}"
    return (
        _reason_in_commands(actions.executed, actions.directories, _MAX_DEPTH)
        if actions.executed is not None
        else None
    )


def _reason_in_commands(
    executed: ExecutedCommands, directories: SessionDirectories, depth: int
) -> str | None:
    for text in executed.lines:
        if _FORK_BOMB.search(re.sub(r"\s", "", text)):
            return "it is a fork bomb"
    for name, body in executed.functions:
        if body.count(name) > 1:
            return f"{name} is a fork bomb: it calls itself again and again"
    for index, command in enumerate(executed.commands):
        finder = TargetFinder(directories, executed, command, index)
        if reason := _reason_in_command(command, finder) or _reason_in_arguments(command, directories, depth):
            return reason
    return None


def _reason_in_command(command: SimpleCommand, finder: TargetFinder) -> str | None:
    name, texts = command.name, [word.text or "" for word in command.arguments]
    if name in _MACHINE_STOPPERS and not {"--help", "-c", "--version"} & set(texts):
        return f"{name} stops the machine or changes its kernel"
    if name == "init" and texts[:1] in (["0"], ["1"], ["6"]):
        return "it stops the machine"
    if name in ("systemctl", "loginctl") and _STOPPING_UNITS & set(texts):
        return "it stops the machine"
    if name == "kill" and _kills_everything(texts):
        return "it kills every process"
    if "--no-preserve-root" in texts and name in ("rm", *_RIGHTS_PROGRAMS):
        return f"{name} --no-preserve-root is never run"
    if _DISK_TOOLS.fullmatch(name) and (reason := _formatting_reason(name, texts, finder)):
        return reason
    if reason := _protected_folder_reason(command, texts, finder):
        return reason
    for path in _written_files(command, texts, finder):
        if is_disk(path) or is_protected_file(path):
            return f"it would overwrite {path}"
    return None


def _kills_everything(texts: list[str]) -> bool:
    operands = texts[1:] if texts and texts[0].startswith("-") and texts[0] != "--" else texts
    return "-1" in operands or operands == ["1"] or texts[-2:] == ["--", "-1"]


def _formatting_reason(name: str, texts: list[str], finder: TargetFinder) -> str | None:
    if {"-l", "--list", "--help", "list", "status", "print", "-V", "--version"} & set(texts):
        return None
    if name in _VOLUME_REMOVERS or (name, *texts[:1]) in (("zpool", "destroy"), ("diskutil", "eraseDisk")):
        return f"{name} destroys disks"
    if any(word.unquoted is None for word in finder.command.arguments):
        return f"{name} destroys the content of a disk that is not certain"
    disks = (
        target.path
        for target in finder.targets(finder.command.arguments)
        if target.path.is_relative_to("/dev")
    )
    return next((f"{name} destroys the content of {disk}" for disk in disks), None)


def _protected_folder_reason(command: SimpleCommand, texts: list[str], finder: TargetFinder) -> str | None:
    """Return why the command removes, moves or locks a protected folder."""
    name = command.name
    operands = [word for word in command.arguments if not (word.text or "").startswith("-")]
    if name == "rm" and any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r[ecursiv]*", text) for text in texts):
        if (
            command.piped_from is not None
            and "xargs" in command.via
            and (reason := _find_reason(command.piped_from, finder))
        ):
            return reason
        return _destruction_reason("remove", finder.targets(operands), finder)
    if name == "mv":
        moved = operands if any(text.startswith(("-t", "--target")) for text in texts) else operands[:-1]
        return _destruction_reason("move", finder.targets(moved), finder)
    if name == "rsync" and any(text.startswith("--del") for text in texts):
        return _destruction_reason("empty", finder.targets(operands[-1:]), finder)
    if name in _RIGHTS_PROGRAMS:
        targets = (
            target
            for target in finder.targets(operands)
            if not _belongs_to_user(target.path, finder.directories)
        )
        return _destruction_reason("change the rights of", targets, finder)
    if name == "find":
        return _find_reason(command, finder) if _find_removes(texts) else None
    return None


def _destruction_reason(verb: str, targets: Iterator[DestructiveTarget], finder: TargetFinder) -> str | None:
    for target in targets:
        if description := protected_folder(target.path, finder.directories):
            condition = (
                f" if {target.uncertain} is empty; write ${{NAME:?}} to be sure" if target.uncertain else ""
            )
            return f"it would {verb} {description}{condition}"
    return None


def _belongs_to_user(path: Path, directories: SessionDirectories) -> bool:
    """Whether the user may change the rights of everything in the folder."""
    return any(
        path.is_relative_to(folder)
        for folder in (directories.home, *directories.roots)
        if folder != Path("/")
    )


def _find_removes(texts: list[str]) -> bool:
    runs_removal = any(
        text in ("-exec", "-execdir", "-ok", "-okdir")
        and argument.rpartition("/")[2] in ("rm", "shred", "unlink", "mv")
        for text, argument in itertools.pairwise(texts)
    )
    return "-delete" in texts or runs_removal


def _find_reason(command: SimpleCommand, finder: TargetFinder) -> str | None:
    """Check `find FOLDER ... -delete`, or piped into a removal.

    In the user's folders, a filter makes it harmless.
    """
    if command.name not in ("find", "gfind"):
        return None
    start_folders: list[Word] = []
    for word in command.arguments:
        text = word.text or ""
        if text in ("-H", "-L", "-P"):
            continue
        if text[:1] in ("-", "(", "!"):
            break
        start_folders.append(word)
    texts = [word.text or "" for word in command.arguments]
    filtered = any(
        _FIND_FILTERS.fullmatch(text) and value not in ("*", "")
        for text, value in zip(texts, [*texts[1:], "x"], strict=True)
    )
    targets = finder.targets(start_folders) if start_folders else finder.current_folders()
    if filtered:
        targets = (target for target in targets if not _belongs_to_user(target.path, finder.directories))
    return _destruction_reason("remove", targets, finder)


def _written_files(command: SimpleCommand, texts: list[str], finder: TargetFinder) -> Iterator[Path]:
    """Yield the files that a known writing program writes."""
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
        operands = [value for text, value in zip(texts, command.arguments[1:], strict=False) if text in flags]
    elif name not in _ALL_ARE_TARGETS:
        return
    for target in finder.targets(operands):
        yield target.path
        yield target.real


def _reason_in_arguments(command: SimpleCommand, directories: SessionDirectories, depth: int) -> str | None:
    """Check what a program runs: a command in its arguments, code, or a line for a remote shell."""
    if depth == 0:
        return None
    if _INTERPRETERS.fullmatch(command.name):
        for code in (*(word.unquoted for word in command.arguments if word.unquoted), *command.stdin):
            if reason := _reason_in_code(code, directories, depth):
                return reason
    if command.name not in COMMAND_STARTERS:
        return None
    for start in range(1, len(command.words)):
        inner = ExecutedCommands(commands=[command.inner_command(command.words[start:])])
        if reason := _reason_in_command(
            inner.commands[0], TargetFinder(directories, inner, inner.commands[0], 0)
        ):
            return reason
    remote = (
        " ".join(word.unquoted or word.raw for word in command.arguments[1:]) if command.name == "ssh" else ""
    )
    texts = [remote, *(word.unquoted or "" for word in command.arguments)]
    return next(
        (reason for text in texts if " " in text and (reason := _reason_in_line(text, directories, depth))),
        None,
    )


def _reason_in_code(code: str, directories: SessionDirectories, depth: int) -> str | None:
    if len(code) > 20_000:
        return None
    quoted = [
        next(text for text in match.groups(default="") if text)
        for match in _QUOTED.finditer(code)
        if any(match.groups())
    ]
    if _TREE_REMOVAL.search(code):
        if _HOME_IN_CODE.search(code):
            return "it would remove your home folder"
        for text in quoted:
            resolved = directories.resolve(text)
            if (
                text.startswith(("/", "~", "."))
                and resolved
                and (description := protected_folder(resolved.real, directories))
            ):
                return f"it would remove {description}"
    return next(
        (reason for text in quoted if " " in text and (reason := _reason_in_line(text, directories, depth))),
        None,
    )


def _reason_in_line(text: str, directories: SessionDirectories, depth: int) -> str | None:
    return (
        _reason_in_commands(executed_commands(parse_line(text)), directories, depth - 1)
        if len(text) < 4000
        else None
    )
