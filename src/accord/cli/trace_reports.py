"""`accord trace show`, `stats` and `replay`.

Imported on first use: it loads accord.trace and accord.schema.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from accord.cli.command_parser import (
    Parser,
    add_env_option,
    is_terminal,
    print_stderr,
    read_env,
    split_command,
)
from accord.errors import UsageError
from accord.private_files import private_opener
from accord.trace.replay_comparison import RecordedScript, read_script
from accord.trace.replayed_agent import IGNORED_MEMBERS as NOT_COMPARED_AS_AGENT
from accord.trace.replayed_agent import PATIENCE, ReplayedAgent, ReplayReport
from accord.trace.replayed_client import IGNORED_MEMBERS as NOT_COMPARED_AS_CLIENT
from accord.trace.replayed_client import ReplayedCall, ReplayedClient
from accord.trace.step_summary import escape_controls
from accord.trace.trace_format import TraceStart
from accord.trace.trace_reader import (
    StepFilter,
    choose_run,
    newest_recording,
    parse_time_point,
    read_lines,
    read_runs,
    wait_for_growth,
)
from accord.trace.trace_steps import TraceStep
from accord.trace.trace_views import (
    Timeline,
    TimelineStyle,
    fault_line,
    run_line,
    step_as_json,
    step_lines,
    unanswered_as_json,
)
from accord.wire.process import spawn
from accord.wire.stdio import StdioTransport

_warn = partial(print_stderr, command="trace")
_FILE_HELP: Final = "the recording (default: the newest one that was recorded without -o)"


def show(words: list[str]) -> int:
    """Print a recording as a timeline."""
    parser = Parser(
        "accord trace show",
        "Show a recording as a timeline: → from the client, ← from the agent, ! breaks a rule.",
    )
    _add_filters(parser)
    parser.option("--full", "print every message in full below its line")
    parser.option("--follow -f", "wait for new messages and show them")
    parser.option("--width N", "cut lines to N characters (0: no limit; default: the terminal)", type=int)
    parser.option("--json", "print one JSON object per line")
    parser.option("--html FILE", "write a self-contained HTML page instead (-: stdout)")
    options = parser.parse_args(words)
    if options.html is not None and (options.json or options.follow):
        raise UsageError("--html excludes --json and --follow; use one of them")
    path = options.file or newest_recording()
    timeline = Timeline(_step_filter(options), run=options.run, version=_version(options))
    steps = timeline.steps(read_lines(path, wait_for_growth if options.follow else None))
    if options.html is not None:
        return _write_page(path, options.html, timeline, steps)
    try:
        return _print_timeline(
            timeline, steps, _timeline_style(options), as_json=options.json, live=options.follow
        )
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader closed the pipe, as `head` does
        return 0


def stats(words: list[str]) -> int:
    """Print the statistics of a recording."""
    from accord.trace.trace_stats import TraceStats

    parser = Parser("accord trace stats", "Count a recording's messages, responses and turns.")
    _add_filters(parser)
    parser.option("--json", "print one JSON object")
    options = parser.parse_args(words)
    timeline = Timeline(_step_filter(options), run=options.run, version=_version(options))
    totals = TraceStats()
    for number, step in timeline.steps(read_lines(options.file or newest_recording())):
        totals.add(number, step)
    totals.finish()
    _print_remarks(timeline)
    if options.json:
        _write_out(msgspec.json.encode(totals.as_json()).decode())
    else:
        for line in totals.lines():
            _write_out(line)
    return 0


def replay(words: list[str]) -> int:
    """Replay one run of a recording and return the exit code."""
    own_words, command = split_command(words)
    options = _replay_parser().parse_args(own_words)
    if options.as_client and not command:
        raise UsageError(
            "missing agent command for --as-client; use `accord trace replay FILE --as-client -- COMMAND ...`"
        )
    if options.env and not options.as_client:
        raise UsageError("--env is for the agent that --as-client starts; add --as-client, or omit --env")
    if command and not options.as_client:
        raise UsageError("a command after `--` needs --as-client; otherwise replay itself is the agent")
    if options.speed < 0 or options.patience < 0 or options.timeout <= 0:
        raise UsageError("--speed, --patience and --timeout must be numbers above 0")
    if options.cwd is not None and not os.path.isdir(options.cwd):
        raise UsageError(f"--cwd {options.cwd!r} is not a folder; use one that exists")
    path = options.file or newest_recording()
    script = read_script(choose_run(read_runs(path), options.run, path).entries)
    if not script.steps:
        raise UsageError(f"this run of {path} has no messages; choose another with --run")
    if script.missing_parts:
        _warn(f"{script.missing_parts} parts were not recorded and cannot be replayed")
    if options.as_client:
        return _replay_client(script, list(command), options)
    return _replay_agent(script, options)


def _add_filters(parser: Parser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help=_FILE_HELP)
    parser.option("--run N", "show only the Nth run of the file", type=int)
    parser.option("--method M", "show only this method; * and ? are wildcards; repeatable", repeat=True)
    parser.option(
        "--session ID",
        "show only this session: its id, or the beginning or end of it; repeatable",
        repeat=True,
    )
    parser.option(
        "--from",
        "show only messages of this sender; repeatable",
        repeat=True,
        dest="sender",
        choices=("client", "agent", "stderr"),
    )
    parser.option("--since T", "show only later messages: seconds of the run, 14:03:27, or a date")
    parser.option("--until T", "show only earlier messages")
    parser.option("--faults", "show only messages that break a protocol rule")
    parser.option(
        "--protocol V",
        "protocol version of the messages: 1 or 2 (default: the one that `initialize` agreed on)",
        choices=("1", "2"),
    )


def _version(options: object) -> int | None:
    value: str | None = vars(options)["protocol"]
    return None if value is None else int(value)


def _step_filter(options: object) -> StepFilter:
    values = vars(options)
    return StepFilter(
        methods=values["method"],
        sessions=values["session"],
        senders=values["sender"],
        since=parse_time_point(values["since"]) if values["since"] else None,
        until=parse_time_point(values["until"]) if values["until"] else None,
        only_faults=values["faults"],
    )


def _timeline_style(options: object) -> TimelineStyle:
    values = vars(options)
    terminal = is_terminal(sys.stdout)
    width = values["width"]
    if width is None:
        width = shutil.get_terminal_size().columns if terminal else 200
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    colors = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return TimelineStyle(
        width=max(width, 0), colors=colors, full=values["full"], ascii_only=encoding != "utf8"
    )


def _print_timeline(
    timeline: Timeline,
    steps: Iterator[tuple[int, TraceStart | TraceStep]],
    style: TimelineStyle,
    *,
    as_json: bool,
    live: bool,
) -> int:
    for number, step in steps:
        if as_json:
            if isinstance(step, TraceStep):
                _write_out(msgspec.json.encode(step_as_json(number, step)).decode())
        elif isinstance(step, TraceStart):
            _write_out(run_line(number, step, style))
        else:
            for line in step_lines(step, style):
                _write_out(line)
        if live:
            sys.stdout.flush()
    for number, step, fault in timeline.unanswered_calls():
        if as_json:
            _write_out(msgspec.json.encode(unanswered_as_json(number, step, fault)).decode())
        else:
            _write_out(fault_line(fault, style, f"{step.entry.at:.3f}"))
    sys.stdout.flush()
    _print_remarks(timeline)
    return 0


def _print_remarks(timeline: Timeline) -> None:
    for line in timeline.remarks():
        _warn(line)


def _write_page(
    path: str, target: str, timeline: Timeline, steps: Iterator[tuple[int, TraceStart | TraceStep]]
) -> int:
    from accord.trace.trace_views import html_page

    pieces = html_page(f"{os.path.basename(path)} · accord trace", steps, timeline.unanswered_calls)
    if target == "-":
        for piece in pieces:
            _write_out(piece, end="")
        _print_remarks(timeline)
        return 0
    if os.path.exists(target) and not _is_page(target):
        raise UsageError(f"{target} exists and is not an HTML page; use another file")
    text = "".join(pieces)
    try:
        with open(target, "w", encoding="utf-8", opener=private_opener) as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {target} ({error.strerror}); use another file") from None
    _print_remarks(timeline)
    return 0


def _is_page(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(15).lower() in (b"<!doctype html>", b"")
    except OSError:
        return False


def _write_out(text: str, end: str = "\n") -> None:
    """Write to stdout; escape characters that its encoding lacks."""
    try:
        sys.stdout.write(text + end)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + end)


def _replay_parser() -> Parser:
    parser = Parser(
        "accord trace replay",
        "Play the recorded agent: use this as the agent's command in a client. What the client does "
        "differently is reported on stderr at the end. With --as-client, start COMMAND, send it the "
        "recorded client's requests and show where its responses differ.",
    )
    parser.usage = (
        "accord trace replay [FILE] [--run N] [--speed X] [--ignore NAME] [--report FILE]\n"
        "                           [--as-client [--cwd DIR] [--env NAME[=VALUE]] [--timeout S]\n"
        "                           -- COMMAND ...]"
    )
    option = parser.option
    parser.add_argument("file", nargs="?", metavar="FILE", help=_FILE_HELP)
    option("--run N", "replay the Nth run of the file (default: the last)", type=int)
    option("--ignore NAME", "do not compare members of this name; repeatable", repeat=True)
    option("--report FILE", "also write the differences to this file, as JSON")
    option(
        "--speed X",
        "as an agent: 1 keeps the recorded pauses, 2 halves them (default: no pauses)",
        type=float,
        default=0.0,
    )
    option(
        "--patience S",
        "as an agent: seconds to wait for a recorded message of the client before continuing without it",
        type=float,
        default=PATIENCE,
    )
    option("--as-client", "play the recorded client and start COMMAND as the agent")
    option("--cwd DIR", "as a client: folder for the recorded sessions")
    add_env_option(parser)
    option(
        "--timeout S",
        "as a client: give up after S seconds without a message (default: 60)",
        type=float,
        default=60.0,
    )
    return parser


def _replay_agent(script: RecordedScript, options: object) -> int:
    values = vars(options)

    async def play() -> ReplayReport:
        agent = ReplayedAgent(
            script,
            StdioTransport(),
            speed=values["speed"],
            patience=values["patience"],
            ignore=(*NOT_COMPARED_AS_AGENT, *values["ignore"]),
        )
        return await agent.play()

    report = asyncio.run(play())
    _write_report(
        values["report"], {"played": report.played, "of": report.total, "deviations": report.deviations}
    )
    for deviation in report.deviations:
        _warn(escape_controls(deviation))
    if report.played < report.total:
        _warn(f"played {report.played} of {report.total} messages of the agent")
    if script.exit is not None and not report.deviations:
        return script.exit.code if script.exit.code is not None else 1
    return 1 if report.deviations else 0


def _replay_client(script: RecordedScript, command: list[str], options: object) -> int:
    values = vars(options)
    if any(step.entry.redacted for step in script.steps if step.side == "client"):
        _warn("the recording is redacted: the agent gets [redacted] instead of secrets")

    folder = os.path.abspath(values["cwd"]) if values["cwd"] else None
    env = read_env(values["env"])

    async def play() -> list[ReplayedCall]:
        client = ReplayedClient(
            script,
            await spawn(command, env=env),
            cwd=folder,
            max_silence=values["timeout"],
            ignore=(*NOT_COMPARED_AS_CLIENT, *values["ignore"]),
        )
        return await client.play(_print_call)

    calls = asyncio.run(play())
    different = [call for call in calls if call.differences]
    total = sum(bool(call.method) for call in calls)
    print(f"{total} calls, {total - sum(bool(call.method) for call in different)} answered as recorded")
    _write_report(
        values["report"], [{"method": call.method or None, "differences": call.differences} for call in calls]
    )
    return 1 if different else 0


def _print_call(call: ReplayedCall) -> None:
    print(f"{'~' if call.differences else '='} {escape_controls(call.method or 'outside of calls')}")
    for difference in call.differences:
        print(f"    {escape_controls(difference)}")
    sys.stdout.flush()


def _write_report(path: str | None, report: object) -> None:
    if path is None:
        return
    try:
        with open(path, "wb", opener=private_opener) as file:
            file.write(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    except OSError as error:
        raise UsageError(f"cannot write --report {path} ({error.strerror}); use another file") from None
