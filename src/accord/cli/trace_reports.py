"""`accord trace show`, `stats` and `replay`.

Imported on first use.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator

import msgspec

from accord.cli.command_parser import Parser
from accord.cli.trace_command import split
from accord.errors import UsageError
from accord.trace.replay_comparison import RecordedScript, read_script
from accord.trace.replayed_agent import IGNORED as NOT_COMPARED_AS_AGENT
from accord.trace.replayed_agent import PATIENCE, ReplayedAgent, ReplayReport
from accord.trace.replayed_client import IGNORED as NOT_COMPARED_AS_CLIENT
from accord.trace.replayed_client import ReplayedCall, ReplayedClient
from accord.trace.step_summary import clean
from accord.trace.trace_format import TraceStart
from accord.trace.trace_reader import StepFilter, choose, lines_in, look_again, newest, read_moment, runs_in
from accord.trace.trace_steps import TraceStep
from accord.trace.trace_views import (
    Timeline,
    TimelineStyle,
    as_object,
    fault_line,
    start_line,
    step_lines,
    unanswered,
)
from accord.wire.process import spawn
from accord.wire.stdio import StdioTransport

# MERGED cli.trace_views: `accord trace show` and `accord trace stats`: a recording as lines, as a page, as JSON, as figures.


def show(words: list[str]) -> int:
    """Print the timeline."""
    parser = Parser(
        "accord trace show",
        "A recording as a timeline: → is from the client, ← from the agent, ! breaks a rule.",
    )
    _common(parser)
    parser.add_argument("--full", action="store_true", help="every message whole, below its line")
    parser.add_argument("--follow", "-f", action="store_true", help="wait for more and show it as it comes")
    parser.add_argument(
        "--width",
        type=int,
        metavar="N",
        help="cut lines to N characters (0: do not; the default fits the terminal)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line, for programs")
    parser.add_argument("--html", metavar="FILE", help="write one self-contained page instead (- for stdout)")
    options = parser.parse_args(words)
    if options.html is not None and (options.json or options.follow):
        raise UsageError("--html stands alone: leave --json and --follow out")
    path = options.file or newest()
    timeline = Timeline(_filters(options), run=options.run)
    steps = timeline.steps(lines_in(path, look_again if options.follow else None))
    if options.html is not None:
        return _page(path, options.html, timeline, steps)
    try:
        return _print(timeline, steps, _look(options), as_json=options.json, live=options.follow)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # `| head` has seen enough
        return 0


def stats(words: list[str]) -> int:
    """Print the figures."""
    from accord.trace.trace_stats import Stats

    parser = Parser("accord trace stats", "What a recording adds up to: methods, answers, turns.")
    _common(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    options = parser.parse_args(words)
    timeline = Timeline(_filters(options), run=options.run)
    figures = Stats()
    for number, step in timeline.steps(lines_in(options.file or newest())):
        figures.take(number, step)
    figures.finish()
    _remark(timeline)
    if options.json:
        _say(msgspec.json.encode(figures.as_object()).decode())
    else:
        for line in figures.lines():
            _say(line)
    return 0


def _common(parser: Parser) -> None:
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="the recording; else the newest that record made by itself"
    )
    parser.add_argument("--run", type=int, metavar="N", help="only the Nth run of the file")
    parser.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="M",
        help="only this method; * and ? stand for anything",
    )
    parser.add_argument(
        "--session",
        action="append",
        default=[],
        metavar="ID",
        help="only this session, by its id, or the beginning or the end of it",
    )
    parser.add_argument(
        "--from",
        dest="sender",
        action="append",
        default=[],
        choices=("client", "agent", "stderr"),
        help="only what came from there",
    )
    parser.add_argument(
        "--since", metavar="T", help="only from then on: seconds of the run, 14:03:27, or a date"
    )
    parser.add_argument("--until", metavar="T", help="only until then")
    parser.add_argument("--faults", action="store_true", help="only what breaks a rule of the protocol")


def _filters(options: object) -> StepFilter:
    given = vars(options)
    return StepFilter(
        methods=given["method"],
        sessions=given["session"],
        senders=given["sender"],
        since=read_moment(given["since"]) if given["since"] else None,
        until=read_moment(given["until"]) if given["until"] else None,
        only_faults=given["faults"],
    )


def _look(options: object) -> TimelineStyle:
    given = vars(options)
    terminal = sys.stdout.isatty()
    width = given["width"]
    if width is None:
        width = shutil.get_terminal_size().columns if terminal else 200
    coding = (sys.stdout.encoding or "").lower().replace("-", "")
    colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return TimelineStyle(width=max(width, 0), colours=colours, full=given["full"], plain=coding != "utf8")


def _print(
    timeline: Timeline,
    steps: Iterator[tuple[int, TraceStart | TraceStep]],
    look: TimelineStyle,
    *,
    as_json: bool,
    live: bool,
) -> int:
    for number, one in steps:
        if as_json:
            if isinstance(one, TraceStep):
                _say(msgspec.json.encode(as_object(number, one)).decode())
        elif isinstance(one, TraceStart):
            _say(start_line(number, one, look))
        else:
            for line in step_lines(one, look):
                _say(line)
        if live:
            sys.stdout.flush()
    for number, step, fault in timeline.owed():
        if as_json:
            _say(msgspec.json.encode(unanswered(number, step, fault)).decode())
        else:
            _say(fault_line(fault, look, f"{step.entry.at:.3f}"))
    sys.stdout.flush()
    _remark(timeline)
    return 0


def _remark(timeline: Timeline) -> None:
    for line in timeline.remarks():
        print(f"accord trace: {line}", file=sys.stderr)


def _page(
    path: str, target: str, timeline: Timeline, steps: Iterator[tuple[int, TraceStart | TraceStep]]
) -> int:
    from accord.trace.trace_views import page

    pieces = page(f"{os.path.basename(path)} · accord trace", steps, timeline.owed)
    if target == "-":
        for piece in pieces:
            _say(piece, end="")
        _remark(timeline)
        return 0
    if os.path.exists(target) and not _is_page(target):
        raise UsageError(f"{target} is there already and is no page; name another file")
    text = "".join(pieces)
    try:
        with open(
            os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}); name another file") from None
    _remark(timeline)
    return 0


def _is_page(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(15).lower() in (b"<!doctype html>", b"")
    except OSError:
        return False


def _say(text: str, end: str = "\n") -> None:
    try:
        sys.stdout.write(text + end)
    except UnicodeEncodeError:
        coding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(coding, "backslashreplace").decode(coding) + end)


# MERGED cli.trace_replay: `accord trace replay`: a recording played again, as the agent to a client or as the client to an agent.


def replay(words: list[str]) -> int:
    """Play one run of a recording."""
    parser = Parser(
        "accord trace replay",
        "Plays the recorded agent: give this to a client where the agent's command would be. What the client does "
        "otherwise than in the recording is told on stderr at the end. With --as-client, starts COMMAND, asks it what "
        "the recorded client asked, and shows where its answers differ.",
    )
    parser.usage = "accord trace replay [FILE] [--run N] [--speed X] [--ignore NAME] [--report FILE] [--as-client [--cwd DIR] [--timeout S] -- COMMAND ...]"
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="the recording; else the newest that record made by itself"
    )
    parser.add_argument("--run", type=int, metavar="N", help="the Nth run of the file (default: the last)")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="NAME", help="do not compare members of this name"
    )
    parser.add_argument("--report", metavar="FILE", help="write what differs to this file too, as JSON")
    parser.add_argument(
        "--speed",
        type=float,
        default=0.0,
        metavar="X",
        help="as an agent: 1 keeps the pauses of the recording, 2 halves them (default: none)",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="S",
        help="as an agent: seconds to wait for something the client sent in the recording, while it waits for us",
    )
    parser.add_argument(
        "--as-client", action="store_true", help="be the recorded client, and start COMMAND as the agent"
    )
    parser.add_argument("--cwd", metavar="DIR", help="as a client: use this folder for the recorded sessions")
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="as a client: give up after so many seconds of silence",
    )
    own, command = split(words)
    options = parser.parse_args(own)
    if options.as_client and not command:
        raise UsageError(
            "--as-client needs the agent's command: accord trace replay FILE --as-client -- COMMAND ..."
        )
    if command and not options.as_client:
        raise UsageError(
            "a command is only started by --as-client; as an agent, replay itself is the command"
        )
    if options.speed < 0 or options.patience < 0 or options.timeout <= 0:
        raise UsageError("--speed, --patience and --timeout are numbers above 0")
    if options.cwd is not None and not os.path.isdir(options.cwd):
        raise UsageError(f"--cwd {options.cwd} is no folder; name one that exists")
    path = options.file or newest()
    script = read_script(choose(runs_in(path), options.run, path).entries)
    if not script.steps:
        raise UsageError(f"nobody says anything in this run of {path}; choose another with --run")
    if script.left_out:
        _warn(
            f"{script.left_out} parts of the recording were not kept when it was made, and cannot be played"
        )
    if options.as_client:
        return _as_client(script, command, options)
    return _as_agent(script, options)


def _as_agent(script: RecordedScript, options: object) -> int:
    given = vars(options)

    async def play() -> ReplayReport:
        agent = ReplayedAgent(
            script,
            StdioTransport(),
            speed=given["speed"],
            patience=given["patience"],
            ignore=(*NOT_COMPARED_AS_AGENT, *given["ignore"]),
        )
        return await agent.play()

    report = asyncio.run(play())
    _write(given["report"], {"played": report.played, "of": report.of, "deviations": report.deviations})
    for deviation in report.deviations:
        _warn(clean(deviation))
    if report.played < report.of:
        _warn(f"{report.played} of {report.of} messages of the agent were played")
    if script.exit is not None and not report.deviations:
        return script.exit.code if script.exit.code is not None else 1
    return 1 if report.deviations else 0


def _as_client(script: RecordedScript, command: list[str], options: object) -> int:
    given = vars(options)
    if any(step.entry.redacted for step in script.steps if step.side == "client"):
        _warn("secrets were taken out of the recording: the agent gets [redacted] in their place")

    folder = os.path.abspath(given["cwd"]) if given["cwd"] else None

    async def play() -> list[ReplayedCall]:
        driver = ReplayedClient(
            script,
            await spawn(command),
            cwd=folder,
            silence=given["timeout"],
            ignore=(*NOT_COMPARED_AS_CLIENT, *given["ignore"]),
        )
        return await driver.drive(_tell)

    outcomes = asyncio.run(play())
    different = [outcome for outcome in outcomes if outcome.differences]
    calls = sum(bool(outcome.method) for outcome in outcomes)
    print(f"{calls} calls, {calls - sum(bool(one.method) for one in different)} answered as recorded")
    _write(
        given["report"], [{"method": one.method or None, "differences": one.differences} for one in outcomes]
    )
    return 1 if different else 0


def _tell(outcome: ReplayedCall) -> None:
    print(f"{'~' if outcome.differences else '='} {clean(outcome.method or 'besides')}")
    for difference in outcome.differences:
        print(f"    {clean(difference)}")
    sys.stdout.flush()


def _write(path: str | None, report: object) -> None:
    if path is None:
        return
    try:
        with open(path, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    except OSError as error:
        raise UsageError(
            f"the report {path} cannot be written ({error.strerror}); name another file"
        ) from None


def _warn(sentence: str) -> None:
    print(f"accord trace: {sentence}", file=sys.stderr)
