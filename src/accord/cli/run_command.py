"""`accord run`: reads the arguments and the prompt text, then starts the run.

Arguments are checked before an agent starts. Keep heavy imports out.
"""

import asyncio
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accord.cli.budget_options import add_budget_options, read_budgets
from accord.cli.command_parser import (
    Parser,
    SessionArguments,
    add_session_options,
    add_trust_option,
    check_session_options,
    is_terminal,
    print_stderr,
    session_values,
    split_command,
)
from accord.errors import AccordError, UsageError
from accord.policy.rules import PERMISSION_DEFAULTS

if TYPE_CHECKING:
    from accord.cli.output_schema import OutputSchema

_MAX_PROMPT_BYTES: Final = 16 * 1024 * 1024
_STDIN: Final = "-"
_MAX_PROGRAM_BYTES: Final = 64 * 1024
_AGENT_MARKS: Final = (b"import accord", b"from accord", b"import acp", b"from acp", b"agent-client-protocol")
"""A program with one of these is likely an agent."""


def main(arguments: Sequence[str]) -> int:
    """Run one turn and return the exit code."""
    run_arguments = read_arguments(arguments)
    if run_arguments.worktree is None:
        return _run(run_arguments)
    from accord.cli.worktrees_command import in_worktree

    with in_worktree(run_arguments, "run") as run_arguments:
        return _run(run_arguments)


def _run(run_arguments: "RunArguments") -> int:
    from accord.cli.exit_codes import exit_code
    from accord.cli.output import output_for
    from accord.cli.run_job import RunJob, run_agent

    if (hint := missing_separator_hint(run_arguments)) is not None:
        print_stderr(hint, command="run")
    terminal = is_terminal(sys.stdout)
    output = output_for(run_arguments.format, stdout=sys.stdout, stderr=sys.stderr, terminal=terminal)
    try:
        schema = answer_schema(run_arguments.output_schema)
        prompt, agent = prompt_text(run_arguments), run_agent(run_arguments)
    except AccordError as error:
        output.finished(None, error, exit_code(error))
        return exit_code(error)

    return asyncio.run(RunJob(run_arguments, prompt, agent, output, schema).run())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments(SessionArguments):
    """The checked arguments."""

    words: tuple[str, ...]
    """The words of the prompt; `-` means stdin."""
    file: str | None
    attach: tuple[str, ...]
    """Absolute paths of existing files."""
    format: str
    budgets: Mapping[str, float]
    """The limits of `--max-cost` and similar options, by name."""
    output_schema: str | None
    """The file with the JSON Schema of the answer."""
    settings: tuple[tuple[str, str], ...]
    timeout: float | None
    deadline: float | None
    retry: bool
    steer: bool
    """Whether the lines of stdin go to the running turn."""
    stderr: bool
    """Whether the agent's stderr is shown."""
    strict: bool


def missing_separator_hint(arguments: RunArguments) -> str | None:
    """Return a hint if the prompt ends with a program that looks like an agent: `--` was forgotten."""
    words = arguments.words
    if len(words) < 2 or arguments.command or arguments.agent is not None or arguments.remote is not None:
        return None
    if not words[-1].endswith((".py", ".js", ".mjs", ".ts")):
        return None
    try:
        with open(words[-1], "rb") as file:
            text = file.read(_MAX_PROGRAM_BYTES)
    except OSError:
        return None
    if not any(mark in text for mark in _AGENT_MARKS):
        return None
    program = "python" if words[-1].endswith(".py") else "node"
    command = words[-2:] if words[-2] in ("python", "python3", "node") else (program, words[-1])
    return f"note: {words[-1]} is part of the prompt; to run it as the agent, add -- {' '.join(command)}"


def answer_schema(path: str | None) -> "OutputSchema | None":
    """Return the schema of `--output-schema`. Raises UsageError."""
    if path is None:
        return None
    from accord.cli.output_schema import OutputSchema

    return OutputSchema(path)


def read_arguments(words: Sequence[str]) -> RunArguments:
    """Parse and check the arguments. Raises UsageError."""
    own_words, command = split_command(words)
    options = parser().parse_intermixed_args(own_words)
    if command and options.agent is not None:
        raise UsageError(f"-a {options.agent} and -- {command[0]} both name an agent; use one of them")
    check_session_options(options)
    if options.url is not None and (command or options.agent is not None):
        other = f"-- {command[0]}" if command else f"-a {options.agent}"
        raise UsageError(f"--url and {other} both name an agent; use one of them")
    if options.url is not None and options.stderr:
        raise UsageError("--stderr needs an agent that is started here; the stderr of --url stays there")
    for name in ("agent", "file", "model", "mode", "session", "output_schema"):
        value = getattr(options, name)
        if value is not None and not value.strip():
            raise UsageError(
                f"--{name.replace('_', '-')} has an empty value; omit the option or pass a value"
            )
    return RunArguments(
        words=tuple(options.prompt),
        file=options.file,
        attach=tuple(_existing_file("--attach", path) for path in options.attach),
        format=options.format,
        budgets=read_budgets(options),
        output_schema=options.output_schema,
        settings=tuple(map(_parse_setting, options.set)),
        timeout=_parse_seconds("--timeout", options.timeout),
        deadline=_parse_seconds("--deadline", options.deadline),
        retry=options.retry,
        steer=options.steer,
        stderr=options.stderr,
        strict=options.strict,
        **session_values(options, command),
    )


def parser() -> Parser:
    """Return the parser of the arguments before `--`."""
    from accord.cli.output import FORMATS

    parser = Parser(
        "accord run", "Run one turn of an agent: send a prompt, show what it does, wait for the end."
    )
    parser.usage = "accord run [OPTIONS] [PROMPT ... | -] [-- COMMAND ...]"
    parser.epilog = (
        "Exit codes: 0 done; 1 the turn failed, was refused, reached a limit of the agent, or its answer "
        "does not match --output-schema; "
        "2 wrong usage or configuration; 3 the agent could not be started, died or broke the protocol; "
        "4 timeout; 5 a permission was needed and not given; 6 sign in first; 130 interrupted."
    )
    option = parser.option
    parser.add_argument(
        "prompt",
        nargs="*",
        metavar="PROMPT",
        help="the prompt; - means stdin, which is also read if there is no prompt",
    )
    option("--file F", "append a file to the prompt; - means stdin")
    option("--attach F", "attach an image or another file; repeatable", repeat=True)
    option(
        "-a --agent NAME", "agent from `accord agents list` (default: the configured default, else accord)"
    )
    option("--url URL", "address of a remote agent: ws://, wss://, http:// or https://")
    add_session_options(parser)
    option(
        "--permissions",
        "what the agent may do: ask (default on a terminal), reads (default without one), all, none",
        choices=PERMISSION_DEFAULTS,
    )
    option(
        "--format",
        "text (default), json (one event per line) or quiet (only the answer)",
        choices=FORMATS,
        default="text",
    )
    option("--output-schema F", "ask for an answer in JSON that matches the JSON Schema in a file")
    option("--set K=V", "set another option that the agent lists", repeat=True)
    option("--timeout S", "give up after S seconds without a message (default: 600)")
    option("--deadline S", "stop the turn S seconds after the prompt (default: no limit)")
    add_budget_options(parser)
    option("--retry", "send the prompt again if the agent dies before it did anything")
    option("--steer", "send each line of stdin to the running turn, for agents that support it")
    add_trust_option(parser)
    option("--stderr", "show what the agent writes to stderr: its log, its tracebacks and its prints")
    option("--strict", "reject nonstandard messages instead of repairing them")
    return parser


def _existing_file(option: str, text: str) -> str:
    path = os.path.abspath(os.path.expanduser(text)) if text else ""
    if not os.path.exists(path):
        raise UsageError(f"{option} {text!r} does not exist; use an existing file")
    return path


def _parse_setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {text!r} is not KEY=VALUE")
    return key.strip(), value.strip()


def _parse_seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (0 < seconds < math.inf):
        raise UsageError(f"{option} {text!r} is not a number of seconds above 0")
    return seconds


def prompt_text(arguments: RunArguments) -> str:
    """Return the prompt. Stdin is read for `-`, or if there is no other text and it is not a terminal."""
    sources = (*arguments.words, *([] if arguments.file is None else [arguments.file]))
    if arguments.steer and (not sources or _STDIN in sources):
        raise UsageError("--steer reads stdin; give the prompt as words or with --file F")
    words: list[str] = []
    parts: list[str] = []
    from_stdin = False
    for word in arguments.words:
        if word != _STDIN:
            words.append(word)
            continue
        if from_stdin or arguments.file == _STDIN:
            raise UsageError("stdin can be read only once; use `-` once")
        from_stdin = True
        parts += [" ".join(words), _read_stdin()]
        words = []
    parts.append(" ".join(words))
    if arguments.file is not None:
        parts.append(_read_stdin() if arguments.file == _STDIN else _read_file(arguments.file))
    elif not arguments.words and not is_terminal(sys.stdin):
        parts.append(_read_stdin())
    text = "\n\n".join(part.strip("\n") for part in parts if part.strip())
    if not text:
        raise UsageError(
            'missing prompt; use `accord run "PROMPT"`, --file F or stdin'
            if not (arguments.words or arguments.file) and is_terminal(sys.stdin)
            else "the prompt is empty"
        )
    return text


def _read_stdin() -> str:
    if sys.stdin is None:
        return ""
    return _decode_prompt(sys.stdin.buffer.read(_MAX_PROMPT_BYTES + 1), "stdin")


def _read_file(path: str) -> str:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            return _decode_prompt(file.read(_MAX_PROMPT_BYTES + 1), f"--file {path!r}")
    except OSError as error:
        raise UsageError(f"cannot read --file {path!r} ({error.strerror})") from None


def _decode_prompt(data: bytes, source: str) -> str:
    if len(data) > _MAX_PROMPT_BYTES:
        limit = _MAX_PROMPT_BYTES // 1024 // 1024
        raise UsageError(f"{source} is larger than {limit} MiB; use a shorter prompt")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise UsageError(f"{source} is not UTF-8 text; use --attach for other files") from None
