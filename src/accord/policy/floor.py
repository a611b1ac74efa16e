"""The hard floor: what is refused in every mode, whatever the rules say.

Destroying a root, the home folder or a part of the system, disks, the machine's running, its accounts, its kernel. Everything
is judged on where paths really lead, through wrappers and in code given to interpreters as far as it can be seen. The floor is a
net under the rules, no substitute for them: a program that wants to destroy has other ways.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .acts import Acts
from .bounds import Bounds
from .floortargets import Target, Targets
from .lists import words
from .programs.runs import Runs, runs
from .programs.wrappers import STARTERS
from .request import Request
from .shell.line import read_line
from .shell.words import Command, Word
from .vital import is_disk, is_vital_file, vital_folder

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


def floor(request: Request, acts: Acts) -> str | None:
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


def _of_runs(found: Runs, bounds: Bounds, depth: int) -> str | None:
    for text in found.lines:
        if _FORK_BOMB.search(re.sub(r"\s", "", text)):
            return "it is a fork bomb"
    for name, body in found.functions:
        if body.count(name) > 1:
            return f"{name} is a fork bomb: it calls itself again and again"
    for after, command in enumerate(found.commands):
        targets = Targets(bounds, found, command, after)
        if reason := _of_command(command, targets) or _inside(command, bounds, depth):
            return reason
    return None


def _of_command(command: Command, targets: Targets) -> str | None:
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


def _formats(name: str, texts: list[str], targets: Targets) -> str | None:
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


def _destroys(command: Command, texts: list[str], targets: Targets) -> str | None:
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


def _says(verb: str, reached: Iterator[Target], targets: Targets) -> str | None:
    for target in reached:
        if what := vital_folder(target.path, targets.bounds):
            unset = (
                f" if {target.uncertain} is empty; write ${{NAME:?}} to be sure" if target.uncertain else ""
            )
            return f"it would {verb} {what}{unset}"
    return None


def _belongs_to_user(path: Path, bounds: Bounds) -> bool:
    """Whether the user may well change the rights of everything in it."""
    return any(path.is_relative_to(own) for own in (bounds.home, *bounds.roots) if own != Path("/"))


def _find_removes(texts: list[str]) -> bool:
    runs_removal = any(
        text in ("-exec", "-execdir", "-ok", "-okdir")
        and after.rpartition("/")[2] in ("rm", "shred", "unlink", "mv")
        for text, after in itertools.pairwise(texts)
    )
    return "-delete" in texts or runs_removal


def _found(command: Command, targets: Targets) -> str | None:
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


def _written(command: Command, texts: list[str], targets: Targets) -> Iterator[Path]:
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


def _inside(command: Command, bounds: Bounds, depth: int) -> str | None:
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
        inner = Runs(commands=[command.inner(command.words[start:])])
        if reason := _of_command(inner.commands[0], Targets(bounds, inner, inner.commands[0], 0)):
            return reason
    remote = (
        " ".join(word.spelled or word.raw for word in command.arguments[1:]) if command.name == "ssh" else ""
    )
    texts = [remote, *(word.spelled or "" for word in command.arguments)]
    return next((reason for text in texts if " " in text and (reason := _of_text(text, bounds, depth))), None)


def _of_code(code: str, bounds: Bounds, depth: int) -> str | None:
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


def _of_text(text: str, bounds: Bounds, depth: int) -> str | None:
    return _of_runs(runs(read_line(text)), bounds, depth - 1) if len(text) < 4000 else None
