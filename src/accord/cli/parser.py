"""How commands read their arguments: what is wrong with them is one line, like every other error."""

import argparse
from typing import NoReturn

from accord.errors import UsageError


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
