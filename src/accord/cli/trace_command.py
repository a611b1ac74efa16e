"""`accord trace`: records, shows, replays and counts the messages between a client and an agent.

Keep heavy imports out: `record` runs between a client and its agent and delays the start.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

from accord.cli.command_parser import (
    Parser,
    add_env_option,
    add_protocol_option,
    print_stderr,
    quoted_command,
    read_env,
    read_protocol,
    split_command,
)
from accord.errors import UsageError

_USAGE: Final = """usage: accord trace record [-o FILE] [--no-redact] [--env NAME[=VALUE]] [--protocol V]
                           -- COMMAND ...
       accord trace show [FILE] [--method M] [--session ID] [--from SIDE] [--since T] [--until T] [--faults]
                         [--protocol 1|2] [--full] [--follow] [--json | --html FILE]
       accord trace replay [FILE] [--speed X] [--as-client -- COMMAND ...]
       accord trace stats [FILE] [--protocol 1|2] [--json]

  record   run an agent and record all messages; use it as the agent's command in a client
  show     show a recording as a timeline
  replay   play the recorded agent to a client or, with --as-client, the recorded client to an agent
  stats    count messages and bytes by method, measure responses and turns

FILE defaults to the newest recording without -o. accord trace SUBCOMMAND --help shows the options."""

_CLOSE_SECONDS: Final = 60.0
"""How long to wait for the trace file after the agent has ended. The bounded queue needs far less."""


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand and return the exit code."""
    words = list(arguments)
    name = words[0] if words else ""
    match name:
        case "record":
            return _record(words[1:])
        case "show" | "stats" | "replay":
            from accord.cli import trace_reports

            commands = {
                "show": trace_reports.show,
                "stats": trace_reports.stats,
                "replay": trace_reports.replay,
            }
            return commands[name](words[1:])
        case "" | "-h" | "--help" | "help":
            print(_USAGE)
            return 0 if words else 2
        case _:
            raise UsageError(f"unknown subcommand {name!r}; use one of: record, show, replay, stats")


def _record(words: list[str]) -> int:
    parser = Parser(
        "accord trace record",
        "Run COMMAND and record all messages with their times. Use this as the agent's command in a client; "
        "the messages pass unchanged, unless --protocol translates between the client and the agent.",
    )
    parser.usage = (
        "accord trace record [-o FILE] [--redact | --no-redact] [--env NAME[=VALUE]] [--protocol V] "
        "-- COMMAND ..."
    )
    parser.option("-o --output FILE", "append to this file; only you can read it")
    parser.option("--redact", "remove secrets from the recording (default)")
    parser.option("--no-redact", "record everything, including secrets")
    add_env_option(parser)
    add_protocol_option(parser, "to ask the agent for, for a client of version 1")
    own_words, command = split_command(words)
    options, extra_words = parser.parse_known_args(own_words)
    env = read_env(options.env)
    if extra_words and not command:
        raise UsageError(
            "missing `--` before the agent's command; "
            f"use `accord trace record -- {quoted_command(extra_words)}`"
        )
    if extra_words:
        raise UsageError(
            f"unknown arguments {quoted_command(extra_words)}; "
            "run `accord trace record --help` for the options"
        )
    if options.redact and options.no_redact:
        raise UsageError("--redact and --no-redact exclude each other; use one of them")
    if not command:
        raise UsageError("missing agent command; use `accord trace record -- COMMAND ...`")

    if (protocol := read_protocol(options.protocol)) not in (None, 1):
        return _record_translated(own_words, command, only=protocol == 2)

    import asyncio

    from accord.errors import NeverStarted
    from accord.trace.recorder import exit_like, record
    from accord.trace.trace_writer import FileSink

    _open_standard_descriptors()
    path = options.output or _new_path(command[0])
    # Switch threads often, so that the thread that writes the file does not delay messages.
    sys.setswitchinterval(0.00002)
    sink = FileSink(path, by="accord trace record", command=list(command), redact=not options.no_redact)
    if not options.output:
        print_stderr(f"recording to {path}", command="trace")
    stdin, stdout = _take_descriptor(0), _take_descriptor(1)
    try:
        agent_exit = asyncio.run(record(list(command), sink, stdin=stdin, stdout=stdout, stderr=2, env=env))
    except NeverStarted as error:
        sink.add_closed("agent", str(error))
        raise
    finally:
        sink.close(_CLOSE_SECONDS)
    return exit_like(agent_exit)


def _record_translated(own_words: Sequence[str], command: Sequence[str], *, only: bool) -> int:
    """Translate for the client; a process of its own records what passes to and from the agent."""
    from functools import partial

    from accord.client.version_request import requesting
    from accord.proxy import run_proxy

    recorder = [sys.executable, "-P", "-m", "accord.cli", "trace", "record", *_without_protocol(own_words)]
    translate = partial(requesting, only=only, events=False)
    return run_proxy(command=[*recorder, "--", *command], translate=translate)


def _without_protocol(words: Sequence[str]) -> list[str]:
    position = next(index for index, word in enumerate(words) if word.startswith("--protocol"))
    return [*words[:position], *words[position + (1 if "=" in words[position] else 2) :]]


def _new_path(program: str) -> str:
    from datetime import datetime

    from accord.paths import data_dir
    from accord.private_files import private_folder

    folder = private_folder(data_dir() / "traces")
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in os.path.basename(program))
    return str(folder / f"{datetime.now():%Y%m%d-%H%M%S}-{name}-{os.getpid()}.jsonl")


def _open_standard_descriptors() -> None:
    """Open closed descriptors 0 to 2 on the null device, so that no other file gets their numbers."""
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(fd, True)
    os.close(fd)


def _take_descriptor(number: int) -> int:
    """Move stdin or stdout to a descriptor that children do not inherit; the null device takes its place."""
    descriptor = os.dup(number)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, number)
    os.close(null)
    return descriptor
