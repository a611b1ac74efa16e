"""`accord trace show` and `accord trace stats`: a recording as lines, as a page, as JSON, as figures."""

import os
import shutil
import sys
from collections.abc import Iterator

import msgspec

from accord.cli.parser import Parser
from accord.errors import UsageError
from accord.trace.exchange import Step
from accord.trace.filters import Filters, read_moment
from accord.trace.lines import Start
from accord.trace.reading import lines_in, look_again, newest
from accord.trace.timeline import Look, Timeline, as_object, fault_line, start_line, step_lines, unanswered


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
    from accord.trace.stats import Stats

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


def _filters(options: object) -> Filters:
    given = vars(options)
    return Filters(
        methods=given["method"],
        sessions=given["session"],
        senders=given["sender"],
        since=read_moment(given["since"]) if given["since"] else None,
        until=read_moment(given["until"]) if given["until"] else None,
        only_faults=given["faults"],
    )


def _look(options: object) -> Look:
    given = vars(options)
    terminal = sys.stdout.isatty()
    width = given["width"]
    if width is None:
        width = shutil.get_terminal_size().columns if terminal else 200
    coding = (sys.stdout.encoding or "").lower().replace("-", "")
    colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Look(width=max(width, 0), colours=colours, full=given["full"], plain=coding != "utf8")


def _print(
    timeline: Timeline, steps: Iterator[tuple[int, Start | Step]], look: Look, *, as_json: bool, live: bool
) -> int:
    for number, one in steps:
        if as_json:
            if isinstance(one, Step):
                _say(msgspec.json.encode(as_object(number, one)).decode())
        elif isinstance(one, Start):
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


def _page(path: str, target: str, timeline: Timeline, steps: Iterator[tuple[int, Start | Step]]) -> int:
    from accord.trace.page import page

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
