"""What the commands share: argument parsing, folder arguments, output helpers and signal handlers.

Keep heavy imports out.
"""

import argparse
import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

from accord.errors import UsageError

if TYPE_CHECKING:
    from accord.client.client_options import ProtocolChoice
    from accord.policy.rules import PermissionDefault
    from accord.wire.remote.address import RemoteLauncher

_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError instead of printing the usage and exiting."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self._optional: set[str] = set()

    def option(
        self, spec: str, help: str, *, repeat: bool = False, optional: bool = False, **more: Any
    ) -> None:
        """Add an option. `spec` has its names and the name of its value; without a value it is a flag.

        `repeat`: it may be given several times. `optional`: a value follows only after `=`; without one, the
        value is an empty text. `more` are the arguments of `add_argument`.
        """
        *names, last = spec.split()
        if optional:
            name, _, value = last.partition("[=")
            names.append(name)
            self._optional.add(name)
            more = {"metavar": value.removesuffix("]"), "nargs": "?", **more}
        elif not last.startswith("-"):
            more["metavar"] = last
        else:
            names.append(last)
            if "choices" not in more:
                more["action"] = "store_true"
        if repeat:
            more = {"action": "append", "default": [], **more}
        self.add_argument(*names, help=help, **more)

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse as the base class, but take no following word as an optional value."""
        words = [f"{word}=" if word in self._optional else word for word in args]
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; run `{self.prog} --help` for the options")


def split_command(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Split the arguments at the first `--`: the command's own, and the agent's command (empty without `--`).

    Raises UsageError if nothing follows `--`, or a variable as in a shell.
    """
    own = list(words)
    if "--" not in own:
        return own, ()
    position = own.index("--")
    if not own[position + 1 :]:
        raise UsageError("missing agent command after `--`")
    name, equals, _ = own[position + 1].partition("=")
    if equals and _VARIABLE_NAME.fullmatch(name):
        raise UsageError(f"{name}=... after `--` is not a program; pass the variable with --env {name}=VALUE")
    return own[:position], tuple(own[position + 1 :])


def add_session_options(parser: Parser) -> None:
    """Add the options that `accord run` and `accord chat` share: session, folders, model and mode."""
    option = parser.option
    add_env_option(parser)
    option("--token-file F", "file with the token for --url (default: ACCORD_TOKEN)")
    option("--continue", "continue the newest session of this folder and agent", dest="newest")
    option("--session ID", "continue this session")
    option("--cwd DIR", "folder to work in (default: the current one)", default=".")
    option("--worktree[=NAME]", "work in a git worktree of its own, on the branch accord/NAME", optional=True)
    option("--add-dir DIR", "additional folder that the agent may use; repeatable", repeat=True)
    option("--model M", "model to use, one that the agent lists")
    option("--mode M", "mode to use, one that the agent lists")
    add_protocol_option(parser)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArguments:
    """The checked arguments that `accord run` and `accord chat` share."""

    agent: str | None
    command: tuple[str, ...]
    """The agent's command after `--`; empty if the agent is named or the default."""
    remote: "RemoteLauncher | None"
    """`--url`."""
    env: Mapping[str, str] = field(repr=False)
    """The variables of `--env`, with their values."""
    cwd: str
    add_dir: tuple[str, ...]
    permissions: "PermissionDefault | None"
    model: str | None
    mode: str | None
    protocol: "ProtocolChoice | None"
    """The protocol version of `--protocol`."""
    session: str | None
    newest: bool
    """`--continue`."""
    worktree: str | None
    """The name of a worktree to work in; empty for a new one, None for none."""
    trust: bool


def session_values(options: argparse.Namespace, command: tuple[str, ...]) -> dict[str, Any]:
    """Return the members of `SessionArguments`. Raises UsageError, also for contradicting options."""
    remote = None
    if options.url is not None:
        from accord.cli.agent_choice import remote_launcher

        remote = remote_launcher(options.url, options.token_file)
    is_remote = remote is not None
    return {
        "command": command,
        "remote": remote,
        "env": read_env(options.env),
        "protocol": read_protocol(options.protocol),
        "cwd": agent_folder("--cwd", options.cwd, remote=is_remote),
        "add_dir": tuple(agent_folder("--add-dir", path, remote=is_remote) for path in options.add_dir),
        **{
            name: getattr(options, name)
            for name in ("agent", "permissions", "model", "mode", "session", "newest", "worktree", "trust")
        },
    }


def check_session_options(options: argparse.Namespace) -> None:
    """Raise UsageError for session options that contradict each other."""
    check_remote_options(options)
    if options.newest and options.session is not None:
        raise UsageError("--continue and --session exclude each other; use one of them")


def check_remote_options(options: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go with `--url`, or only with it."""
    if options.url is None and options.token_file is not None:
        raise UsageError("--token-file needs --url; local agents take no token")
    if options.url is not None and options.env:
        raise UsageError("--env does not reach an agent at --url; set the variable where that agent runs")


def read_protocol(value: str | None) -> "ProtocolChoice | None":
    """Return the value of `--protocol`."""
    choices: dict[str | None, ProtocolChoice] = {"1": 1, "2": 2, "auto": "auto"}
    return choices.get(value)


def add_protocol_option(parser: Parser, asked: str = "to ask for") -> None:
    """Add `--protocol`: the version to ask agents for; see `read_protocol`."""
    parser.option(
        "--protocol V", f"protocol version {asked}: 1, 2 or auto", choices=("1", "2", "auto"), dest="protocol"
    )


def add_trust_option(parser: Parser) -> None:
    """Add `--trust`: use the project's `acp.json` without asking."""
    parser.option("--trust", "trust the project's acp.json, for this run only")


def add_env_option(parser: Parser) -> None:
    """Add `--env`: variables for the agent's process."""
    parser.option(
        "--env NAME[=VALUE]",
        "environment variable for the agent; NAME alone passes your own value on; repeatable",
        repeat=True,
    )


def split_env(assignment: str) -> tuple[str, str | None]:
    """Split a value of `--env` into the name and the value; None for a NAME alone. Raises UsageError.

    A NAME alone must be set in the environment. The message never quotes what could be a key.
    """
    name, equals, value = assignment.partition("=")
    if not _VARIABLE_NAME.fullmatch(name):
        raise UsageError("--env needs NAME or NAME=VALUE, and NAME has only letters, digits and _")
    if not equals and name not in os.environ:
        raise UsageError(f"--env {name}: {name} is not set in your environment; set it, or use {name}=VALUE")
    return name, value if equals else None


def read_env(assignments: Sequence[str]) -> dict[str, str]:
    """Return the variables of all `--env` options, with their values. Raises UsageError."""
    pairs = map(split_env, assignments)
    return {name: os.environ[name] if value is None else value for name, value in pairs}


def existing_folder(option: str, text: str) -> str:
    """Return the absolute path of a folder argument. Raises UsageError if it is not a folder."""
    path = os.path.abspath(os.path.expanduser(text)) if text else ""
    if not os.path.isdir(path):
        raise UsageError(f"{option} {text!r} is not a folder; use one that exists")
    return path


def agent_folder(option: str, text: str, *, remote: bool = False) -> str:
    """Return the absolute path of a folder that is sent to an agent. Raises UsageError.

    The protocol needs UTF-8. For a remote agent an absolute path does not have to exist on this machine.
    """
    path = os.path.normpath(text) if remote and os.path.isabs(text) else existing_folder(option, text)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{option} {path!a} is not UTF-8 and cannot be sent to an agent; rename the folder"
        ) from None
    return path


def find_subcommand(
    program: str, commands: Mapping[str, Sequence[Any]], arguments: Sequence[str]
) -> str | None:
    """Return the name of the subcommand; print the help and return None if there is none.

    The first member of each command is its summary. Raises UsageError for an unknown name.
    """
    name = arguments[0] if arguments else "--help"
    if name in commands:
        return name
    if name not in ("-h", "--help", "help"):
        group = program.split()[2:]
        shown = f"`{' '.join([*group, name])}`" if group else repr(name)
        raise UsageError(f"unknown subcommand {shown}; use one of: {', '.join(commands)}")
    width = max(map(len, commands))
    print(f"usage: {program} COMMAND   ({program} COMMAND --help shows the options)\n")
    for command, (summary, *_) in commands.items():
        print(f"  {command:<{width}}  {summary}")
    return None


def quoted_command(words: Sequence[str]) -> str:
    """Return words of the user's command line for a message, without secrets."""
    from accord.trace.redaction import command_line_text

    return command_line_text(words)


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a standard stream is a terminal. It is None if the caller closed it."""
    return stream is not None and stream.isatty()


def can_ask() -> bool:
    """Tell whether stdin and stderr are terminals, so that a user can be asked."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def confirm(question: str, without_terminal: str) -> bool:
    """Ask the user for a yes. Raises UsageError, with what to do instead, if there is no terminal."""
    if not can_ask():
        raise UsageError(f"cannot ask without a terminal; {without_terminal}")
    print_stderr(f"{question} [y/N] ", end="")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def print_stderr(text: str, *, command: str = "", end: str = "\n") -> None:
    """Print a text on stderr, after `accord COMMAND: ` if a command is named."""
    print(f"accord {command}: {text}" if command else text, end=end, file=sys.stderr, flush=True)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())


def json_text(value: Any) -> str:
    """Format a value as JSON that is safe to print: characters a terminal could act on are escaped."""
    import json

    text = json.dumps(value, indent=2, ensure_ascii=False)
    if text.replace("\n", "").isprintable():
        return text
    return "".join([char if char == "\n" or char.isprintable() else json_escape(char) for char in text])


def json_escape(char: str) -> str:
    r"""Return the `\u` escape of a character, as a surrogate pair if it needs one."""
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


@contextmanager
def signal_handlers(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Generator[None]:
    """Call a function on the event loop for each signal while the block runs.

    On Windows only SIGINT works.
    """
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        handler = handlers[signal.SIGINT]
        before = signal.signal(signal.SIGINT, lambda _number, _frame: loop.call_soon_threadsafe(handler))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        return
    # Signals that were ignored at the start stay ignored, as `nohup` and background jobs expect.
    handled = [number for number in handlers if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, handlers[number])
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
