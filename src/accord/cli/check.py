"""`accord check`: does an agent, or a client, follow the protocol?"""

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.cli.parser import Parser
from accord.errors import UsageError

if TYPE_CHECKING:
    from accord.check.agent.run import Progress
    from accord.check.report import Report

_USAGE: Final = """usage: accord check agent [--only RULES] [--skip RULES] [--script FILE] [--json] [--junit FILE] [--html FILE]
                          [--slow X] [--jobs N] [--verbose] -- COMMAND ...
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
        case "agent":
            return _agent(words[1:])
        case "client":
            return _client(words[1:])
        case "rules":
            return _rules(words[1:])
        case "" | "-h" | "--help" | "help":
            print(_USAGE)
            return 0 if words else 2
        case _:
            raise UsageError(f"there is no {name!r}; there are: agent, client, rules")


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


def _parser(kind: str) -> Parser:
    parser = Parser(f"accord check {kind}", _ABOUT[kind])
    place = "" if kind == "agent" else " {agent} ..."
    parser.usage = f"accord check {kind} [OPTIONS] -- COMMAND ...{place}"
    add = parser.add_argument
    add(
        "--only",
        metavar="RULES",
        action="append",
        default=[],
        help="only these: 15, 15-20, schema, must, should, or a chapter such as tool-calls; commas join",
    )
    add("--skip", metavar="RULES", action="append", default=[], help="all but these")
    add(
        "--script",
        metavar="FILE",
        help=_SCRIPT[kind],
    )
    add("--json", action="store_true", help="print the report as JSON")
    add("--junit", metavar="FILE", help="write JUnit XML too")
    add("--html", metavar="FILE", help="write one self-contained page too")
    add("--slow", metavar="X", type=float, default=1.0, help="wait X times as long for everything")
    add("--jobs", metavar="N", type=int, default=2, help="scenes that are played at the same time (2)")
    add("--verbose", "-v", action="store_true", help="a line for every rule, not only for broken ones")
    return parser


def _agent(words: list[str]) -> int:
    own, command = _split(words)
    options = _parser("agent").parse_args(own)
    if not command:
        raise UsageError("check agent needs the agent's command: accord check agent -- COMMAND ...")
    if options.slow <= 0 or options.jobs < 1:
        raise UsageError("--slow wants a number above 0, --jobs one of at least 1")

    import asyncio

    from accord.check.agent.launch import ProcessLauncher
    from accord.check.agent.run import Options, agent_rules, check_agent
    from accord.check.bounds import Bounds
    from accord.check.selection import select

    wanted = select(agent_rules(), options.only, options.skip)
    script = _script(options.script)
    for target in (options.junit, options.html):
        _writable(target)
    bounds = Bounds().times(options.slow)
    progress, finish = _progress()
    try:
        report = asyncio.run(
            check_agent(
                ProcessLauncher(command, leave=bounds.leave),
                wanted,
                Options(script=script, bounds=bounds, jobs=options.jobs, progress=progress),
            )
        )
    finally:
        finish()
    _give(report, command, options)
    return 1 if report.failed else 0


def _client(words: list[str]) -> int:
    own, command = _split(words)
    options = _parser("client").parse_args(own)
    if not command:
        raise UsageError(
            "check client needs the client's command: accord check client -- COMMAND ... {agent} ..."
        )
    if options.slow <= 0 or options.jobs < 1:
        raise UsageError("--slow wants a number above 0, --jobs one of at least 1")

    import asyncio

    from accord.check.bounds import Bounds
    from accord.check.client.command import check_template
    from accord.check.client.launch import ProcessLauncher
    from accord.check.client.run import ClientOptions, check_client, client_rules
    from accord.check.selection import select

    check_template(command)
    wanted = select(client_rules(), options.only, options.skip)
    script = _client_script(options.script)
    for target in (options.junit, options.html):
        _writable(target)
    progress, finish = _progress()
    try:
        report = asyncio.run(
            check_client(
                ProcessLauncher(command),
                wanted,
                ClientOptions(
                    script=script,
                    bounds=Bounds().times(options.slow),
                    jobs=options.jobs,
                    progress=progress,
                ),
            )
        )
    finally:
        finish()
    _give(report, command, options)
    return 1 if report.failed else 0


def _client_script(name: str | None) -> Any:
    from accord.check.client.script import read_client_script, shipped_client_script

    if name is None:
        return None
    return shipped_client_script(name) if name in ("run", "none") else read_client_script(Path(name))


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def _script(name: str | None) -> Any:
    from accord.check.script import read_script, shipped

    if name is None:
        return None
    return shipped(name) if name in ("accord", "plain") else read_script(Path(name))


def _writable(target: str | None) -> None:
    if target is not None and not Path(target).absolute().parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no such folder")


def _progress() -> "tuple[Progress | None, Callable[[], None]]":
    """A line on the terminal that shows how far it is; nothing where nobody watches."""
    if not sys.stderr.isatty():
        return None, lambda: None

    def show(done: int, total: int, name: str) -> None:
        print(f"\r\x1b[K[{done}/{total}] {name}", end="", file=sys.stderr, flush=True)

    return show, lambda: print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _give(report: "Report", command: list[str], options: argparse.Namespace) -> None:
    from accord.check.show.text import text

    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if options.junit:
        from accord.check.show.junit import junit

        _write(options.junit, junit(report))
    if options.html:
        from accord.check.show.page import page

        _write(options.html, "".join(page(report, date=date)).encode())
    if options.json:
        import json

        from accord.check.show.data import data
        from accord.trace.redact import redact_command

        print(
            json.dumps(data(report, command=redact_command(command), date=date), indent=2, ensure_ascii=False)
        )
    else:
        for line in text(report, verbose=options.verbose):
            print(line)


def _write(target: str, content: bytes) -> None:
    try:
        Path(target).write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None


def _rules(words: list[str]) -> int:
    parser = Parser("accord check rules", "The rules an agent or a client is held to, and how each is tried.")
    parser.add_argument(
        "kind", nargs="?", choices=("agent", "client"), default="agent", help="whose rules (agent)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(words)

    from accord.check.verdict import subject_of

    rules, scenes, untried = _kit(options.kind)
    rows = [
        {
            "id": str(rule),
            "level": subject_of(str(rule)).level,
            "rule": subject_of(str(rule)).text,
            "scenes": [f"{scene.name}: {scene.about}" for scene in scenes if rule in scene.rules],
            **({"untried": untried[rule]} if rule in untried else {}),
        }
        for rule in rules
    ]
    if options.json:
        import json

        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        how = "; ".join(row["scenes"]) or f"not tried: {row.get('untried', 'the watch over every line')}"
        print(f"{row['id']:>6}  {row['level']:<6}  {row['rule']}\n                {how}")
    return 0


def _kit(kind: str) -> tuple[Sequence[Any], Sequence[Any], dict[Any, str]]:
    """The rules, the scenes, and what is not tried."""
    if kind == "agent":
        from accord.check.agent import scenes as agents
        from accord.check.agent.run import agent_rules

        return agent_rules(), agents.scenes(), dict(agents.UNTRIED)
    from accord.check.client import scenes as clients
    from accord.check.client.run import client_rules

    return client_rules(), clients.scenes(), dict(clients.UNTRIED)
