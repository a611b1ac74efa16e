"""`accord trace replay`: a recording played again, as the agent to a client or as the client to an agent."""

import asyncio
import os
import sys

import msgspec

from accord.cli.parser import Parser
from accord.cli.trace import split
from accord.errors import UsageError
from accord.trace.drive import IGNORED as NOT_COMPARED_AS_CLIENT
from accord.trace.drive import Driver, Outcome
from accord.trace.reading import choose, newest, runs_in
from accord.trace.replay import IGNORED as NOT_COMPARED_AS_AGENT
from accord.trace.replay import PATIENCE, ReplayedAgent, Report
from accord.trace.script import Script, read_script
from accord.trace.summary import clean
from accord.wire.process import spawn
from accord.wire.stdio import StdioTransport


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


def _as_agent(script: Script, options: object) -> int:
    given = vars(options)

    async def play() -> Report:
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


def _as_client(script: Script, command: list[str], options: object) -> int:
    given = vars(options)
    if any(step.entry.redacted for step in script.steps if step.side == "client"):
        _warn("secrets were taken out of the recording: the agent gets [redacted] in their place")

    folder = os.path.abspath(given["cwd"]) if given["cwd"] else None

    async def play() -> list[Outcome]:
        driver = Driver(
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


def _tell(outcome: Outcome) -> None:
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
