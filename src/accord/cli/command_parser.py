"""Argument parsing with one-line errors; folder arguments; signal handlers.

Keep heavy imports out.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from accord.errors import UsageError

# MERGED cli.parser: How commands read their arguments: what is wrong with them is one line, like every other error.


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError instead of printing the usage and leaving."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} ({self.prog} --help tells more)")


def session_options(made: Parser) -> None:
    """Which session with which settings, and where: the same wherever one talks with an agent."""
    option = made.add_argument
    option("--token-file", metavar="F", help="a file with the token for --url; else ACCORD_TOKEN counts")
    option(
        "--continue",
        dest="newest",
        action="store_true",
        help="go on with the newest session of this folder and agent",
    )
    option("--session", metavar="ID", help="go on with this session")
    option("--cwd", metavar="DIR", default=".", help="the folder to work in")
    option(
        "--add-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="a further folder that the agent may use",
    )
    option("--model", metavar="M", help="a model that the agent lists")
    option("--mode", metavar="M", help="a mode that the agent lists")


def check_session_options(given: argparse.Namespace) -> None:
    """Raises UsageError for those that contradict each other."""
    if given.url is None and given.token_file is not None:
        raise UsageError("--token-file goes with --url: a local agent takes no token")
    if given.newest and given.session is not None:
        raise UsageError("--continue and --session both name a session: choose one")


# MERGED cli.folders: Folders that were named on the command line.


def folder(option: str, text: str) -> str:
    """The folder that was named, absolute. Raises UsageError if it is none."""
    path = os.path.abspath(os.path.expanduser(text)) if text else ""
    if not os.path.isdir(path):
        raise UsageError(f"{option} {text!r} is no folder")
    return path


def told_folder(option: str, text: str, *, afar: bool = False) -> str:
    """A folder that an agent is told, which can be done in UTF-8 only. An agent on another machine (`afar`) may be told an
    absolute one that is not here. Raises UsageError.
    """
    path = os.path.normpath(text) if afar and os.path.isabs(text) else folder(option, text)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{option}: the name of {path!a} is not UTF-8, so no agent can be told of it: rename it"
        ) from None
    return path


# MERGED cli.signals: Signals that a command takes into its own hands, for the length of a block.


@contextmanager
def heard(reactions: Mapping[signal.Signals, Callable[[], None]]) -> Generator[None]:
    """While the block runs, each signal calls its function, on the event loop. On Windows there is SIGINT alone."""
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        react = reactions[signal.SIGINT]
        before = signal.signal(signal.SIGINT, lambda _number, _frame: loop.call_soon_threadsafe(react))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        return
    # What was ignored when we were started stays ignored: that is what `nohup` and a job in the background are about.
    ours = [number for number in reactions if signal.getsignal(number) is not signal.SIG_IGN]
    for number in ours:
        loop.add_signal_handler(number, reactions[number])
    try:
        yield
    finally:
        for number in ours:
            loop.remove_signal_handler(number)
