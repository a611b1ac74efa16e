"""`accord run`: arguments and prompt text.

Keep heavy imports out.
"""

import asyncio
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from accord.cli.command_parser import Parser, check_session_options, session_options, told_folder
from accord.errors import AccordError, UsageError
from accord.policy.rules import PERMISSION_DEFAULTS, PermissionDefault

if TYPE_CHECKING:
    from accord.wire.remote.address import RemoteLauncher


# MERGED cli.running.arguments: The arguments of `accord run`, read and checked as far as that is possible before an agent runs.

FORMATS: Final = ("text", "json", "quiet")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments:
    """What was asked for."""

    words: tuple[str, ...]
    """The prompt as typed; `-` stands for stdin."""
    file: str | None
    attach: tuple[str, ...]
    """Absolute paths of files that exist."""
    agent: str | None
    command: tuple[str, ...]
    """Behind `--`; empty where an agent is named or the default one runs."""
    remote: "RemoteLauncher | None"
    """`--url`."""
    cwd: str
    add_dir: tuple[str, ...]
    permissions: PermissionDefault | None
    format: str
    model: str | None
    mode: str | None
    settings: tuple[tuple[str, str], ...]
    session: str | None
    newest: bool
    """`--continue`."""
    timeout: float | None
    deadline: float | None
    retry: bool
    trust: bool
    strict: bool


def read_arguments(words: Sequence[str]) -> RunArguments:
    """Raises UsageError for what cannot be meant."""
    ours, command = _split(words)
    given = parser().parse_intermixed_args(ours)
    if command is not None and not command:
        raise UsageError("behind -- belongs the command of an agent")
    if command and given.agent is not None:
        raise UsageError(f"-a {given.agent} and -- {command[0]} both name an agent: choose one")
    check_session_options(given)
    if given.url is not None and (command or given.agent is not None):
        raise UsageError(
            f"--url and {f'-- {command[0]}' if command else f'-a {given.agent}'} both name an agent: choose one"
        )
    for name in ("agent", "file", "model", "mode", "session"):
        value = getattr(given, name)
        if value is not None and not value.strip():
            raise UsageError(f"--{name} was given an empty value: leave it out, or name one")
    return RunArguments(
        words=tuple(given.prompt),
        file=given.file,
        attach=tuple(_file("--attach", path) for path in given.attach),
        agent=given.agent,
        command=tuple(command or ()),
        remote=_remote(given.url, given.token_file),
        cwd=told_folder("--cwd", given.cwd, afar=given.url is not None),
        add_dir=tuple(told_folder("--add-dir", path, afar=given.url is not None) for path in given.add_dir),
        permissions=cast("PermissionDefault | None", given.permissions),
        format=given.format,
        model=given.model,
        mode=given.mode,
        settings=tuple(map(_setting, given.set)),
        session=given.session,
        newest=given.newest,
        timeout=_seconds("--timeout", given.timeout),
        deadline=_seconds("--deadline", given.deadline),
        retry=given.retry,
        trust=given.trust,
        strict=given.strict,
    )


def _split(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """What is for us, and what stands behind the first `--`."""
    found = list(words)
    if "--" not in found:
        return found, None
    place = found.index("--")
    return found[:place], found[place + 1 :]


def parser() -> Parser:
    """The parser of everything before `--`."""
    made = Parser("accord run", "Let an agent do one turn: prompt it, show what it does, wait for its end.")
    made.usage = "accord run [OPTIONS] [PROMPT ... | -] [-- COMMAND ...]"
    made.epilog = (
        "Exit codes: 0 done; 1 the turn failed, was refused or reached a limit of the agent; 2 wrong usage or configuration; "
        "3 the agent could not be started, died or broke the protocol; 4 timeout; 5 a permission was needed and not given; "
        "6 sign in first; 130 interrupted."
    )
    option = made.add_argument
    option(
        "prompt",
        nargs="*",
        metavar="PROMPT",
        help="what to do; - is stdin, which is also read where nothing is given",
    )
    option("--file", metavar="F", help="the prompt, or more of it, from a file; - is stdin")
    option(
        "--attach",
        metavar="F",
        action="append",
        default=[],
        help="an image or another file that goes with the prompt",
    )
    option(
        "-a",
        "--agent",
        metavar="NAME",
        help="an agent of `accord agents list`; by default the one of this package",
    )
    option("--url", metavar="URL", help="an agent at an address: ws://, wss://, http:// or https://")
    session_options(made)
    option(
        "--permissions",
        choices=PERMISSION_DEFAULTS,
        help="what is allowed: ask (default on a terminal), reads (default without one), all, none",
    )
    option(
        "--format",
        choices=FORMATS,
        default="text",
        help="text for people, json (an event a line), quiet (the answer alone)",
    )
    option("--set", metavar="K=V", action="append", default=[], help="any other option that the agent lists")
    option(
        "--timeout", metavar="S", help="seconds without a sign of life after which the turn is given up (600)"
    )
    option("--deadline", metavar="S", help="seconds for the whole turn (no limit)")
    option(
        "--retry", action="store_true", help="if the agent dies before it did anything, send the prompt again"
    )
    option("--trust", action="store_true", help="let the project's acp.json count, in this run only")
    option("--strict", action="store_true", help="judge messages as they are sent; repair no dialects")
    return made


def _remote(url: str | None, token_file: str | None) -> "RemoteLauncher | None":
    if url is None:
        return None
    from accord.cli.agent_choice import read_dial

    return read_dial(url, token_file)


def _file(option: str, text: str) -> str:
    path = os.path.abspath(os.path.expanduser(text)) if text else ""
    if not os.path.exists(path):
        raise UsageError(f"{option} {text!r}: there is no such file")
    return path


def _setting(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark or not key.strip():
        raise UsageError(f"--set {text!r}: write it as KEY=VALUE")
    return key.strip(), value.strip()


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (0 < seconds < math.inf):
        raise UsageError(f"{option} {text!r} is no number of seconds above 0")
    return seconds


# MERGED cli.run: `accord run`: prompt any agent once, without an editor. What is wrong with the arguments is said before an agent runs.


def main(arguments: Sequence[str]) -> int:
    """Run one turn; the result is the exit code."""
    given = read_arguments(arguments)
    from accord.cli import exit_code
    from accord.cli.output import output_for
    from accord.cli.run_job import RunJob, find_server
    from accord.cli.terminal_user import TerminalUser, is_there

    stdout = sys.stdout  # None where the caller closed it
    terminal = stdout is not None and stdout.isatty()
    output = output_for(given.format, stdout=stdout, stderr=sys.stderr, terminal=terminal)
    try:
        prompt, server = prompt_text(given), find_server(given)
    except AccordError as error:
        output.finished(None, error, exit_code(error))
        return exit_code(error)

    async def run() -> int:
        return await RunJob(given, prompt, server, output, TerminalUser(output) if is_there() else None).run()

    return asyncio.run(run())


# MERGED cli.running.prompt: The text of the prompt: from the arguments, a file, or stdin.

_LARGEST: Final = 16 * 1024 * 1024
_STDIN: Final = "-"


def prompt_text(given: RunArguments) -> str:
    """The whole text. Stdin is read where `-` stands for it, or where nothing else is given and it is no terminal."""
    words: list[str] = []
    parts: list[str] = []
    from_stdin = False
    for word in given.words:
        if word != _STDIN:
            words.append(word)
            continue
        if from_stdin or given.file == _STDIN:
            raise UsageError("stdin can be read only once: write - once")
        from_stdin = True
        parts += [" ".join(words), _stdin()]
        words = []
    parts.append(" ".join(words))
    if given.file is not None:
        parts.append(_stdin() if given.file == _STDIN else _read(given.file))
    elif not given.words and not _is_terminal():
        parts.append(_stdin())
    text = "\n\n".join(part.strip("\n") for part in parts if part.strip())
    if not text:
        raise UsageError(
            'there is no prompt: accord run "what to do", or --file F, or something on stdin'
            if not (given.words or given.file) and _is_terminal()
            else "the prompt is empty"
        )
    return text


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _stdin() -> str:
    if sys.stdin is None:
        return ""
    return _text(sys.stdin.buffer.read(_LARGEST + 1), "stdin")


def _read(path: str) -> str:
    import os

    try:
        with open(os.path.expanduser(path), "rb") as file:
            return _text(file.read(_LARGEST + 1), f"--file {path!r}")
    except OSError as error:
        raise UsageError(f"--file {path!r} cannot be read: {error.strerror}") from None


def _text(data: bytes, place: str) -> str:
    if len(data) > _LARGEST:
        raise UsageError(f"{place} has more than {_LARGEST // 1024 // 1024} MiB: that is no prompt")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise UsageError(f"{place} is no text in UTF-8; --attach takes other files") from None
