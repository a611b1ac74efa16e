"""The command of a `terminal/create` request: checks it, finds its program, builds its arguments and
environment.

The protocol sends a program and its arguments. Some agents put a whole shell line into `command` and leave
`args` empty. If no program has that name, the user's shell runs the line.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from accord.errors import InvalidParams
from accord.workspace.roots import AnyPath, Roots, quote_value
from accord.workspace.text_files import check_count

# A single word without shell syntax: the name of a program, not a shell line.
_PLAIN_WORD: Final = re.compile(r"[\w./\\+@%:,-]+")
# Shells with POSIX syntax. In others (fish, nu) a line such as `export A=b && c` fails or means something
# else.
_POSIX_SHELLS: Final = frozenset(("sh", "ash", "bash", "dash", "ksh", "mksh", "zsh"))


@dataclass(frozen=True, slots=True)
class TerminalCommand:
    """A request to run a command. None means the default for every member."""

    command: str
    args: Sequence[str] | None = field(default=None, kw_only=True)
    env: Mapping[str, str] | None = field(default=None, kw_only=True)
    cwd: AnyPath | None = field(default=None, kw_only=True)
    output_byte_limit: int | None = field(default=None, kw_only=True)

    def check(self) -> None:
        """Raise InvalidParams for values of a wrong type or that no machine can run."""
        if not _is_process_text(self.command) or not self.command.strip():
            raise InvalidParams(f"command must be the name of a program, not {quote_value(self.command)}")
        if not _are_args(self.args):
            raise InvalidParams(f"args must be a list of strings without NUL, not {quote_value(self.args)}")
        if not _is_environment(self.env):
            raise InvalidParams(
                "env must give each variable a name (without `=`) and a string without NUL as value"
            )
        check_count("outputByteLimit", self.output_byte_limit)


@dataclass(frozen=True, slots=True)
class PreparedCommand:
    """The process to start."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path


def prepare(command: TerminalCommand, roots: Roots, env: Mapping[str, str]) -> PreparedCommand:
    """Prepare a checked command. Its own `env` entries override `env`. Reads the disk."""
    cwd = roots.cwd if command.cwd is None else roots.resolve(command.cwd)
    if not cwd.is_dir():
        program, folder = quote_value(command.command), quote_value(str(cwd))
        raise InvalidParams(f"cannot run {program} in {folder}: it is not an existing folder")
    merged_env = {**env, "PWD": str(cwd), **(command.env or {})}
    return PreparedCommand(
        _build_argv(command.command, list(command.args or ()), cwd, merged_env), merged_env, cwd
    )


def _build_argv(command: str, args: list[str], cwd: Path, env: Mapping[str, str]) -> list[str]:
    program = _find_program(command, cwd, env)
    if program is None and not args and not _PLAIN_WORD.fullmatch(command):
        return [*_shell_prefix(env), command]
    return [program or command, *args]


def _find_program(command: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    """Return the executable of this name. A name with a slash is relative to `cwd`."""
    if os.path.dirname(command):
        return shutil.which(str(cwd / command))
    return shutil.which(command, path=env.get("PATH", os.defpath))


def require_program(command: TerminalCommand, roots: Roots, env: Mapping[str, str]) -> None:
    """Raise InvalidParams if the program or the folder of a checked command does not exist. Blocking."""
    prepared = prepare(command, roots, env)
    if shutil.which(prepared.argv[0]) is None:
        raise InvalidParams(f"cannot run {quote_value(command.command)}: there is no such program")


def is_program_with_spaces(command: str, cwd: Path, env: Mapping[str, str]) -> bool:
    """Whether a command that looks like a shell line is the name of a program, which is then run instead."""
    return not _PLAIN_WORD.fullmatch(command) and _find_program(command, cwd, env) is not None


def _shell_prefix(env: Mapping[str, str]) -> list[str]:
    if os.name == "nt":
        return [env.get("COMSPEC", "cmd.exe"), "/d", "/s", "/c"]
    shell = env.get("SHELL", "")
    usable = os.path.basename(shell) in _POSIX_SHELLS and os.access(shell, os.X_OK)
    return [shell if usable else "/bin/sh", "-c"]


def _is_process_text(value: object) -> bool:
    """Return whether the value is a string that a process can receive."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _are_args(value: object) -> bool:
    return value is None or (
        isinstance(value, list | tuple) and all(map(_is_process_text, cast(list[object], value)))
    )


def _is_environment(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, Mapping) and all(
        _is_process_text(name) and bool(name) and "=" not in cast(str, name) and _is_process_text(text)
        for name, text in cast(Mapping[object, object], value).items()
    )
