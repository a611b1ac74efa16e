"""`accord trace`: record what a client and an agent say to each other, look at it, play it again, count it."""

import os
import sys
from collections.abc import Sequence
from typing import Final

from accord.cli.command_parser import Parser
from accord.errors import UsageError

_USAGE: Final = """usage: accord trace record [-o FILE] [--no-redact] -- COMMAND ...
       accord trace show [FILE] [--method M] [--session ID] [--from SIDE] [--since T] [--until T] [--faults]
                         [--full] [--follow] [--json | --html FILE]
       accord trace replay [FILE] [--speed X] [--as-client -- COMMAND ...]
       accord trace stats [FILE] [--json]

  record   stand between a client and an agent: put this where the agent's command would be
  show     a timeline of a recording
  replay   be the recorded agent; or, with --as-client, drive an agent as the recorded client did
  stats    messages and bytes by method, how long answers took, how turns went

Without FILE, the newest recording that was made without one. accord trace show --help tells more, and so on."""

_TO_THE_END: Final = 60.0
"""Seconds for what waits to be written when the agent has left: the bound of what may wait takes far less."""


def main(arguments: Sequence[str]) -> int:
    """Run one of the four."""
    words = list(arguments)
    name = words[0] if words else ""
    match name:
        case "record":
            return _record(words[1:])
        case "show" | "stats":
            from accord.cli import trace_reports

            return trace_reports.show(words[1:]) if name == "show" else trace_reports.stats(words[1:])
        case "replay":
            from accord.cli import trace_reports

            return trace_reports.replay(words[1:])
        case "" | "-h" | "--help" | "help":
            print(_USAGE)
            return 0 if words else 2
        case _:
            raise UsageError(f"there is no {name!r}; there are: record, show, replay, stats")


def _record(words: list[str]) -> int:
    parser = Parser(
        "accord trace record",
        "Runs COMMAND in your place: give this to a client where the agent's command would be. Everything passes "
        "unchanged, and is kept with its time.",
    )
    parser.usage = "accord trace record [-o FILE] [--redact | --no-redact] -- COMMAND ..."
    parser.add_argument("-o", "--output", metavar="FILE", help="append to this file, made for your eyes only")
    parser.add_argument(
        "--redact", action="store_true", help="keep secrets out of the file (this is the default)"
    )
    parser.add_argument("--no-redact", action="store_true", help="keep everything, secrets too")
    own, command = split(words)
    options, rest = parser.parse_known_args(own)
    if rest:
        what = f"put -- before the agent's command: accord trace record -- {' '.join(rest)}"
        raise UsageError(what if not command else f"record does not know {' '.join(rest)}")
    if options.redact and options.no_redact:
        raise UsageError("record takes --redact or --no-redact, not both")
    if not command:
        raise UsageError("record needs the agent's command: accord trace record -- COMMAND ...")

    import asyncio

    from accord.errors import NeverStarted
    from accord.trace.recorder import leave_as, record
    from accord.trace.trace_writer import FileSink

    _fill_gaps()
    path = options.output or _new_file(command[0])
    # The thread that writes the file must never keep a byte waiting.
    sys.setswitchinterval(0.00002)
    sink = FileSink(path, by="accord trace record", command=command, redact=not options.no_redact)
    if not options.output:
        print(f"accord trace: recording to {path}", file=sys.stderr, flush=True)
    stdin, stdout = _take(0), _take(1)
    try:
        exit = asyncio.run(record(command, sink, stdin=stdin, stdout=stdout, stderr=2))
    except NeverStarted as error:
        sink.closed("agent", str(error))
        raise
    finally:
        sink.close(_TO_THE_END)
    return leave_as(exit)


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """What is ours, and the command after `--`."""
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def _new_file(program: str) -> str:
    from datetime import datetime

    from accord.paths import data_dir, private_folder

    folder = private_folder(data_dir() / "traces")
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in os.path.basename(program))
    return str(folder / f"{datetime.now():%Y%m%d-%H%M%S}-{name}-{os.getpid()}.jsonl")


def _fill_gaps() -> None:
    """A descriptor that was closed from the start leads nowhere, lest a file of ours takes its number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(fd, True)
    os.close(fd)


def _take(number: int) -> int:
    """Our stdin or stdout under a number that no child inherits; in its place stands nothing."""
    taken = os.dup(number)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, number)
    os.close(nowhere)
    return taken
