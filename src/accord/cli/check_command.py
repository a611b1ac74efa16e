"""`accord check`: options, progress, reports."""

import argparse
import asyncio
import math
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from accord.cli.command_parser import Parser
from accord.errors import UsageError

if TYPE_CHECKING:
    from accord.check.check_run import Progress
    from accord.check.check_script import ScriptT
    from accord.check.findings import CheckReport, Rule


# MERGED cli.check: `accord check`: does an agent, or a client, follow the protocol?

_USAGE: Final = """usage: accord check agent [--only RULES] [--skip RULES] [--need RULES] [--script FILE] [--json] [--junit FILE]
                          [--html FILE] [--slow X] [--jobs N] [--verbose | --quiet] -- COMMAND ...
       accord check client [the same] -- COMMAND ... {agent} ...
       accord check rules [agent | client] [--json]

  agent    hold an agent to the rules of the protocol: COMMAND starts it, on stdio
  client   hold a client to them: COMMAND starts it, with the agent's command at {agent} and the prompt at {prompt}
  rules    the rules an agent or a client is held to, and how each is tried

accord check agent --help and accord check client --help tell more."""


def main(arguments: Sequence[str]) -> int:
    """Run one of them."""
    words = list(arguments)
    name = words[0] if words else ""
    match name:
        case "agent" | "client":
            return run_check(name, words[1:])
        case "rules":
            return _rules(words[1:])
        case "" | "-h" | "--help" | "help":
            print(_USAGE)
            return 0 if words else 2
        case _:
            raise UsageError(f"there is no {name!r}; there are: agent, client, rules")


def _rules(words: list[str]) -> int:
    parser = Parser("accord check rules", "The rules an agent or a client is held to, and how each is tried.")
    parser.add_argument(
        "kind", nargs="?", choices=("agent", "client"), default="agent", help="whose rules (agent)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(words)

    from accord.check.findings import subject_of
    from accord.schema.conformance_rules import BASES

    rules, scenes, untried = _kit(options.kind)
    rows: list[dict[str, Any]] = []
    for rule in rules:
        subject = subject_of(str(rule))
        row = {
            "id": subject.id,
            "level": subject.level,
            "stable": subject.stable,
            "source": BASES[subject.basis],  # pyright: ignore[reportArgumentType]
            "rule": subject.text,
            "how": subject.how,
            "scenes": [f"{scene.name}: {scene.about}" for scene in scenes if rule in scene.rules],
        }
        rows.append(row | ({"untried": untried[rule]} if rule in untried else {}))
    if options.json:
        import json

        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        how = "; ".join(row["scenes"]) or f"not tried: {row['untried']}"
        print(f"{row['id']:>6}  {row['level']:<6}  {row['rule']}\n{'':16}by {row['source']}\n{'':16}{how}")
    return 0


def _kit(kind: str) -> tuple[Sequence[Any], Sequence[Any], dict[Any, str]]:
    """The rules, the scenes, and what is not tried."""
    if kind == "agent":
        from accord.check import check_run as agents
        from accord.check.check_run import agent_rules

        return agent_rules(), agents.agent_cases(), dict(agents.AGENT_UNTRIED)
    from accord.check import check_run as clients
    from accord.check.check_run import client_rules

    return client_rules(), clients.client_cases(), dict(clients.CLIENT_UNTRIED)


# MERGED cli.check_run: `accord check agent` and `accord check client`: the options, the run with its progress line, and the reports.

if TYPE_CHECKING:
    Check: TypeAlias = Callable[[Progress | None], Coroutine[Any, Any, CheckReport]]

_ENDED: Final = 128
"""A run that a signal ended has this exit code, and the signal's number on top, as shells count."""

_ABOUT: Final = {
    "agent": (
        "Starts COMMAND again and again, plays scenes with it as a client, and says of every rule whether it was kept. "
        "Exit code 0: no rule is broken that must not be; 1: some are; 2: wrong usage; 3: the agent did not start."
    ),
    "client": (
        "Starts COMMAND again and again with an agent of ours, plays scenes with it, and says of every rule whether it was "
        "kept. {agent} becomes the agent's command line, {prompt} the prompt, {folder} the folder to work in, {options} what a "
        "script adds. Exit code 0: no rule is broken that must not be; 1: some are; 2: wrong usage; 3: the client did not "
        "start, or made no turn."
    ),
}
_SCRIPT: Final = {
    "agent": "prompts that make the agent do things; `accord` and `plain` name those that ship",
    "client": "words that make the client do things; `run` and `none` name those that ship",
}
_COMMAND: Final = {"agent": "COMMAND ...", "client": "COMMAND ... {agent} ..."}


def run_check(kind: str, words: list[str]) -> int:
    """Check one agent or client; the result is the exit code."""
    options, command = _parse(kind, words)
    rules, check = (_check_agent if kind == "agent" else _check_client)(command, options)
    progress, finish = _progress()
    try:
        report = asyncio.run(_until_signalled(check(progress)))
    finally:
        finish()
    if isinstance(report, signal.Signals):
        return _ENDED + report
    if options.need:
        from accord.check.check_run import need

        report = need(report, rules, options.need)
    _give(report, command, options)
    return 1 if report.failed else 0


def _parse(kind: str, words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    place = words.index("--") if "--" in words else len(words)
    own, command = words[:place], words[place + 1 :]
    options, others = _parser(kind).parse_known_args(own)
    unknown = [word for word in others if word.startswith("-")]
    if others and not command and others[:1] != unknown[:1]:
        raise UsageError(
            f"put `--` before the {kind}'s command: accord check {kind} ... -- {' '.join(others)}"
        )
    if others:
        raise UsageError(
            f"there is no option {others[0]!r}; accord check {kind} --help tells which there are"
        )
    if not command:
        raise UsageError(f"check {kind} needs the {kind}'s command: accord check {kind} -- {_COMMAND[kind]}")
    if not math.isfinite(options.slow) or options.slow <= 0:
        raise UsageError(f"--slow wants a number above 0, not {options.slow:g}")
    if options.jobs < 1:
        raise UsageError(f"--jobs wants a number of at least 1, not {options.jobs}")
    for target in (options.junit, options.html):
        if target is not None and not Path(target).absolute().parent.is_dir():
            raise UsageError(f"cannot write {target}: there is no such folder")
    return options, command


def _parser(kind: str) -> Parser:
    parser = Parser(f"accord check {kind}", _ABOUT[kind])
    parser.usage = f"accord check {kind} [OPTIONS] -- {_COMMAND[kind]}"
    add = parser.add_argument
    add(
        "--only",
        metavar="RULES",
        action="append",
        default=[],
        help="only these: 15, 15-20, schema, must, should, stable, or a chapter such as tool-calls; commas join",
    )
    add("--skip", metavar="RULES", action="append", default=[], help="all but these")
    add(
        "--need",
        metavar="RULES",
        action="append",
        default=[],
        help="these have to be shown: where one is not, it counts as broken",
    )
    add("--script", metavar="FILE", help=_SCRIPT[kind])
    add("--json", action="store_true", help="print the report as JSON")
    add("--junit", metavar="FILE", help="write JUnit XML too")
    add("--html", metavar="FILE", help="write one self-contained page too")
    add("--slow", metavar="X", type=float, default=1.0, help="wait X times as long for everything")
    add("--jobs", metavar="N", type=int, default=2, help="scenes that are played at the same time (2)")
    much = parser.add_mutually_exclusive_group()
    much.add_argument(
        "--verbose", "-v", action="store_true", help="a line for every rule, not only for broken ones"
    )
    much.add_argument("--quiet", "-q", action="store_true", help="the broken ones and the sum, nothing else")
    return parser


def _check_agent(command: list[str], options: argparse.Namespace) -> "tuple[Sequence[Rule], Check]":
    from accord.check.agent.agent_under_test import AgentProcessLauncher
    from accord.check.check_run import CheckOptions, agent_rules, check_agent, select
    from accord.check.check_script import AgentCheckScript
    from accord.check.checked_connection import CheckTimeouts

    bounds = CheckTimeouts().times(options.slow)
    rules = agent_rules()
    wanted = select(rules, options.only, options.skip)
    select(rules, options.need, ())
    script = _script(options.script, ("accord", "plain"), AgentCheckScript)
    launcher = AgentProcessLauncher(command, leave=bounds.leave)
    return rules, lambda progress: check_agent(
        launcher, wanted, CheckOptions(script=script, bounds=bounds, jobs=options.jobs, progress=progress)
    )


def _check_client(command: list[str], options: argparse.Namespace) -> "tuple[Sequence[Rule], Check]":
    from accord.check.check_run import CheckOptions, check_client, client_rules, select
    from accord.check.check_script import ClientCheckScript
    from accord.check.checked_connection import CheckTimeouts
    from accord.check.client.client_process import ClientProcessLauncher, check_template

    check_template(command)
    bounds = CheckTimeouts().times(options.slow)
    rules = client_rules()
    wanted = select(rules, options.only, options.skip)
    select(rules, options.need, ())
    script = _script(options.script, ("run", "none"), ClientCheckScript)
    launcher = ClientProcessLauncher(command)
    return rules, lambda progress: check_client(
        launcher, wanted, CheckOptions(script=script, bounds=bounds, jobs=options.jobs, progress=progress)
    )


def _script(name: str | None, ours: tuple[str, ...], kind: "type[ScriptT]") -> "ScriptT | None":
    from accord.check.check_script import read_script, shipped

    if name is None:
        return None
    return shipped(name, kind) if name in ours else read_script(Path(name), kind)


async def _until_signalled(check: "Coroutine[Any, Any, CheckReport]") -> "CheckReport | signal.Signals":
    """The report; or the signal that ended the run, with everything that was started for it."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(check)
    caught: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not caught:  # a second one must not disturb the cleaning up
            task.cancel()
        caught.append(number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) == signal.SIG_IGN:
            continue
        try:
            loop.add_signal_handler(number, stop, number)
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # Windows, or not the main thread: the default behaviour has to do
    try:
        return await task
    except asyncio.CancelledError:
        if not caught:
            raise
        return caught[0]


def _progress() -> "tuple[Progress | None, Callable[[], None]]":
    """A line on the terminal that shows how far it is; nothing where nobody watches."""
    if not sys.stderr.isatty():
        return None, lambda: None

    def show(done: int, total: int, name: str) -> None:
        print(f"\r\x1b[K[{done}/{total}] {name}", end="", file=sys.stderr, flush=True)

    return show, lambda: print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _give(report: "CheckReport", command: list[str], options: argparse.Namespace) -> None:
    from accord.check.report_formats import text

    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if options.junit:
        from accord.check.report_formats import junit

        _write(options.junit, junit(report))
    if options.html:
        from accord.check.report_formats import page

        _write(options.html, "".join(page(report, date=date)).encode())
    if options.json:
        import json

        from accord.check.report_formats import data
        from accord.trace.message_redaction import redact_command

        told = data(report, command=redact_command(command), date=date)
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        for line in text(report, verbose=options.verbose, quiet=options.quiet):
            print(line)


def _write(target: str, content: bytes) -> None:
    try:
        Path(target).write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None
