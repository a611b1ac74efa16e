"""What `terminal/create` asks to run: checked, found on disk, and turned into an argument vector and an environment.

The protocol's shape is a program and its arguments. Some agents put a whole shell line into `command` and leave `args`
empty; when no program of that name exists, such a line goes to the user's shell.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from accord.errors import InvalidParams
from accord.workspace.roots import AnyPath, Roots, shown
from accord.workspace.text_files import check_count

# A single word without anything that a shell would act on: a program's name, not a shell line.
_PLAIN_WORD: Final = re.compile(r"[\w./\\+@%:,-]+")
# Shells that read what agents write; in others (fish, nu...) `export A=b && c` means something else or nothing.
_POSIX_SHELLS: Final = frozenset(("sh", "ash", "bash", "dash", "ksh", "mksh", "zsh"))


@dataclass(frozen=True, slots=True)
class TerminalCommand:
    """A request to run something. None, as an agent may send it, means the default everywhere."""

    command: str
    args: Sequence[str] | None = field(default=None, kw_only=True)
    env: Mapping[str, str] | None = field(default=None, kw_only=True)
    cwd: AnyPath | None = field(default=None, kw_only=True)
    output_byte_limit: int | None = field(default=None, kw_only=True)

    def check(self) -> None:
        """Refuse what is mistyped or cannot be run on any machine."""
        if not _is_text(self.command) or not self.command.strip():
            raise InvalidParams(f"command must be the name of a program, not {shown(self.command)}")
        if not _are_args(self.args):
            raise InvalidParams(f"args must be a list of strings without NUL, not {shown(self.args)}")
        if not _is_environment(self.env):
            raise InvalidParams(
                "env must give each variable a name (without `=`) and a string without NUL as value"
            )
        check_count("outputByteLimit", self.output_byte_limit)


@dataclass(frozen=True, slots=True)
class PreparedCommand:
    """What is really started."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path


def prepare(command: TerminalCommand, roots: Roots, env: Mapping[str, str]) -> PreparedCommand:
    """Find everything a checked command needs; `env` is what it gets below its own entries. Looks at the disk."""
    cwd = roots.cwd if command.cwd is None else roots.resolve(command.cwd)
    if not cwd.is_dir():
        raise InvalidParams(
            f"cannot run {shown(command.command)} in {shown(str(cwd))}: it is not an existing folder"
        )
    full = {**env, "PWD": str(cwd), **(command.env or {})}
    return PreparedCommand(_argv(command.command, list(command.args or ()), cwd, full), full, cwd)


def _argv(command: str, args: list[str], cwd: Path, env: Mapping[str, str]) -> list[str]:
    program = _program(command, cwd, env)
    if program is None and not args and not _PLAIN_WORD.fullmatch(command):
        return [*_shell(env), command]
    return [program or command, *args]


def _program(command: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    """The executable file that the name stands for; a name with a slash counts from `cwd`."""
    if os.path.dirname(command):
        return shutil.which(str(cwd / command))
    return shutil.which(command, path=env.get("PATH", os.defpath))


def _shell(env: Mapping[str, str]) -> list[str]:
    if os.name == "nt":
        return [env.get("COMSPEC", "cmd.exe"), "/d", "/s", "/c"]
    shell = env.get("SHELL", "")
    usable = os.path.basename(shell) in _POSIX_SHELLS and os.access(shell, os.X_OK)
    return [shell if usable else "/bin/sh", "-c"]


def _is_text(value: object) -> bool:
    """A string that can be handed to a process."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _are_args(value: object) -> bool:
    return value is None or (
        isinstance(value, list | tuple) and all(map(_is_text, cast(list[object], value)))
    )


def _is_environment(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, Mapping) and all(
        _is_text(name) and bool(name) and "=" not in cast(str, name) and _is_text(text)
        for name, text in cast(Mapping[object, object], value).items()
    )
