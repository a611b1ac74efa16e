"""`accord check`: runs the checks of an agent or a client and writes the reports."""

import argparse
import asyncio
import math
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from accord.cli.command_parser import (
    Parser,
    add_env_option,
    is_terminal,
    print_stderr,
    quoted_command,
    read_env,
    split_command,
)
from accord.errors import UsageError
from accord.private_files import private_opener
from accord.text_width import cut_to_width

if TYPE_CHECKING:
    from accord.check.check_run import Progress
    from accord.check.check_script import ScriptT
    from accord.check.findings import CheckReport, RuleId

    Check: TypeAlias = Callable[[Progress | None, asyncio.Event], Coroutine[Any, Any, CheckReport]]

_USAGE: Final = """\
usage: accord check agent [--protocol 1|2] [--only RULES] [--skip RULES] [--need RULES]
                          [--script FILE] [--json] [--junit FILE] [--html FILE]
                          [--env NAME[=VALUE]] [--slow X] [--jobs N] [--verbose | --quiet]
                          -- COMMAND ...
       accord check client [the same options] -- COMMAND ... {agent} ...
       accord check rules [agent | client] [--protocol 1|2] [--json]

  agent    test an agent on stdio, which COMMAND starts, or at an address (--protocol 2)
  client   test a client; COMMAND starts it, {agent} becomes an agent's command, {prompt} the prompt
  rules    list the rules and how each is tested

accord check agent --help and accord check client --help show the options."""

_SIGNAL_EXIT: Final = 128
"""The exit code of a run that a signal ended is this plus the signal's number, as in shells."""
_PROGRESS_LINES: Final = 10

_DESCRIPTIONS: Final = {
    "agent": (
        "Start COMMAND several times, run test cases with it as a client, and report which rules it keeps. "
        "Exit code 0: no required rule is broken; 1: some are; 2: wrong usage; 3: the agent did not start."
    ),
    "client": (
        "Start COMMAND several times with a test agent and report which rules it keeps. In COMMAND, {agent} "
        "becomes the agent's command line, or {url} or {ws_url} its address, {prompt} the prompt, {folder} "
        "the working folder, {options} what a script adds. Exit code 0: no required rule is broken; 1: some "
        "are; 2: wrong usage; 3: the client "
        "did not start, or ran no turn."
    ),
}
_SCRIPT_HELP: Final = {
    "agent": "prompts that make the agent act; included: accord, plain",
    "client": "arguments that make the client act; included: run, none",
}
_COMMAND: Final = {"agent": "COMMAND ...", "client": "COMMAND ... {agent} ..."}


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand and return the exit code."""
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
            raise UsageError(f"unknown subcommand {name!r}; use one of: agent, client, rules")


def _rules(words: list[str]) -> int:
    parser = Parser("accord check rules", "List the rules for agents or clients and how each is tested.")
    parser.add_argument(
        "kind", nargs="?", choices=("agent", "client"), default="agent", help="whose rules (default: agent)"
    )
    parser.option("--json", "print JSON")
    _add_protocol(parser)
    options = parser.parse_args(words)

    from accord.check.check_run import agent_kind, client_kind
    from accord.check.findings import checked_rule

    kind: Any = (agent_kind if options.kind == "agent" else client_kind)(options.protocol)
    rows: list[dict[str, Any]] = []
    for rule in kind.rules:
        checked = checked_rule(rule)
        row = {
            "id": checked.id,
            "slug": checked.slug,
            "level": checked.level,
            "stable": checked.stable,
            "source": checked.source,
            "rule": checked.text,
            "how": checked.how,
            "scenes": [f"{case.name}: {case.about}" for case in kind.cases if rule in case.rules],
        }
        rows.append(row | ({"untried": kind.untested[rule]} if rule in kind.untested else {}))
    if options.json:
        import json

        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        cases_text = "; ".join(row["scenes"]) or f"not tested: {row['untried']}"
        print(f"{checked_rule(row['slug']).label}  {row['level']}  {row['rule']}")
        print(f"{'':8}by {row['source']}\n{'':8}{cases_text}")
    return 0


def run_check(kind: str, words: list[str]) -> int:
    """Check one agent or client and return the exit code."""
    options, command = _parse(kind, words)
    rules, check = _check(kind, command, options)
    from accord.check.check_run import CheckInterrupted

    progress, clear_progress = _progress(quiet=options.quiet)
    signals: list[signal.Signals] = []
    try:
        report = asyncio.run(_run_until_signal(check, progress, signals))
    except CheckInterrupted:
        print_stderr(f"interrupted before the first case; the {kind} was not checked", command="check")
        return _SIGNAL_EXIT + signals[0]
    finally:
        clear_progress()
    if options.need:
        from accord.check.check_run import require_rules

        report = require_rules(report, rules, options.need)
    _write_reports(report, command, options)
    if report.interrupted:
        return _SIGNAL_EXIT + signals[0]
    return 1 if report.failed else 0


def _parse(kind: str, words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    own_words, command = split_command(words)
    options, extra_words = _parser(kind).parse_known_args(own_words)
    unknown = [word for word in extra_words if word.startswith("-")]
    if extra_words and not command and extra_words[:1] != unknown[:1]:
        example = f"accord check {kind} ... -- {quoted_command(extra_words)}"
        raise UsageError(f"missing `--` before the {kind}'s command; use `{example}`")
    if extra_words:
        raise UsageError(
            f"unknown option {extra_words[0]!r}; run `accord check {kind} --help` for the options"
        )
    if not command:
        raise UsageError(f"missing {kind} command; use `accord check {kind} -- {_COMMAND[kind]}`")
    if not math.isfinite(options.slow) or options.slow <= 0:
        raise UsageError(f"--slow {options.slow:g} is not a number above 0")
    if options.jobs is not None and options.jobs < 1:
        raise UsageError(f"--jobs {options.jobs} is not a number above 0")
    from accord.wire.remote.address import is_address

    options.at_address = is_address(command[0])
    if options.at_address and (kind == "client" or options.protocol == 1 or len(command) > 1):
        raise UsageError(
            f"{command[0]} is an address; `accord check agent --protocol 2 -- ADDRESS` checks an agent there"
        )
    for path in (options.junit, options.html):
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise UsageError(f"cannot write {path} (its folder does not exist); create the folder first")
    return options, list(command)


def _parser(kind: str) -> Parser:
    parser = Parser(f"accord check {kind}", _DESCRIPTIONS[kind])
    parser.usage = f"accord check {kind} [OPTIONS] -- {_COMMAND[kind]}"
    add = parser.add_argument
    add(
        "--only",
        metavar="RULES",
        action="append",
        default=[],
        help="test only these rules: prompt.text-block, 15, 15-20, schema, must, should, stable, or a "
        "chapter such as tool-calls; separated by commas",
    )
    add("--skip", metavar="RULES", action="append", default=[], help="do not test these rules")
    add(
        "--need",
        metavar="RULES",
        action="append",
        default=[],
        help="count these rules as broken if they could not be tested",
    )
    add("--script", metavar="FILE", help=_SCRIPT_HELP[kind])
    _add_protocol(parser)
    add("--json", action="store_true", help="print the report as JSON")
    add("--junit", metavar="FILE", help="also write JUnit XML")
    add("--html", metavar="FILE", help="also write a self-contained HTML page")
    add_env_option(parser)
    add("--slow", metavar="X", type=float, default=1.0, help="multiply all timeouts by X")
    add(
        "--jobs",
        metavar="N",
        type=int,
        help="number of cases that run at the same time (default: 4 to 8, one per processor)",
    )
    detail = parser.add_mutually_exclusive_group()
    detail.add_argument("--verbose", "-v", action="store_true", help="print a line for every rule")
    detail.add_argument("--quiet", "-q", action="store_true", help="print only broken rules and the totals")
    return parser


def _add_protocol(parser: Parser) -> None:
    parser.add_argument(
        "--protocol",
        type=int,
        choices=(1, 2),
        default=1,
        help="the version of the protocol (default: 1; 2 is a draft)",
    )


def _check(kind: str, command: list[str], options: argparse.Namespace) -> "tuple[Sequence[RuleId], Check]":
    from accord.check import check_run
    from accord.check.check_run import AGENTS, CLIENTS, agent_kind, client_kind
    from accord.check.checked_connection import CheckTimeouts

    timeouts, env = CheckTimeouts().scaled(options.slow), read_env(options.env)
    rules = (agent_kind if kind == "agent" else client_kind)(options.protocol).rules
    selected = check_run.select_rules(rules, options.only, options.skip)
    check_run.select_rules(rules, options.need, ())
    more: dict[str, Any] = {"timeouts": timeouts, "jobs": options.jobs or check_run.DEFAULT_JOBS}
    if kind == "agent":
        from accord.check.agent.agent_under_test import AddressLauncher, AgentProcessLauncher

        more["script"] = _find_script(options.script, AGENTS.script_type)
        launcher = (
            AddressLauncher(command[0])
            if options.at_address
            else AgentProcessLauncher(command, env=env, exit_timeout=timeouts.exit)
        )
        return rules, lambda progress, stop: check_run.check_agent(
            launcher,
            selected,
            check_run.CheckOptions(progress=progress, stop=stop, **more),
            protocol=options.protocol,
        )
    from accord.check.client.client_process import ClientProcessLauncher, check_template

    check_template(command)
    more["script"] = _find_script(options.script, CLIENTS.script_type)
    client_launcher = ClientProcessLauncher(command, env=env)
    return rules, lambda progress, stop: check_run.check_client(
        client_launcher,
        selected,
        check_run.CheckOptions(progress=progress, stop=stop, **more),
        protocol=options.protocol,
    )


def _find_script(name: str | None, kind: "type[ScriptT]") -> "ScriptT | None":
    from accord.check.check_script import read_script, shipped_script

    if name is None:
        return None
    return shipped_script(name, kind) if name in kind.SHIPPED else read_script(Path(name), kind)


async def _run_until_signal(
    check: "Check", progress: "Progress | None", signals: list[signal.Signals]
) -> "CheckReport":
    """Run the check. The first signal stops it; its processes are ended, and the report is still made."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def interrupt(number: signal.Signals) -> None:
        signals.append(number)
        stop.set()

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) == signal.SIG_IGN:
            continue
        try:
            loop.add_signal_handler(number, interrupt, number)
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # Windows, or not the main thread: the default behavior applies
    return await check(progress, stop)


def _progress(*, quiet: bool) -> "tuple[Progress | None, Callable[[], None]]":
    """Return functions that show and clear the progress.

    A terminal shows the running cases in one line. Elsewhere, every tenth part of a long run is a line.
    """
    if is_terminal(sys.stderr):
        return _show_running_cases, lambda: print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    printed = 0

    def print_part(done: int, total: int, running: Sequence[str]) -> None:
        nonlocal printed
        part = done * _PROGRESS_LINES // total
        if total >= _PROGRESS_LINES and printed < part < _PROGRESS_LINES:
            printed = part
            print_stderr(f"{done} of {total} cases done, running: {', '.join(running)}", command="check")

    return None if quiet else print_part, lambda: None


def _show_running_cases(done: int, total: int, running: Sequence[str]) -> None:
    text = f"[{done}/{total}] {', '.join(running)}"
    text = cut_to_width(text, max(shutil.get_terminal_size().columns, 20) - 1)
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _write_reports(report: "CheckReport", command: list[str], options: argparse.Namespace) -> None:
    from accord.check.report_formats import report_text

    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if options.junit:
        from accord.check.report_formats import report_junit

        _write_file(options.junit, report_junit(report))
    if options.html:
        from accord.check.report_formats import report_html

        _write_file(options.html, "".join(report_html(report, date=date)).encode())
    if options.json:
        import json

        from accord.check.report_formats import report_json
        from accord.trace.redaction import redact_command

        members = report_json(report, command=redact_command(command), date=date)
        print(json.dumps(members, indent=2, ensure_ascii=False))
    else:
        for line in report_text(report, verbose=options.verbose, quiet=options.quiet):
            print(line)


def _write_file(path: str, content: bytes) -> None:
    try:
        with open(path, "wb", opener=private_opener) as file:  # it quotes messages of the conversation
            file.write(content)
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}); use another file") from None
