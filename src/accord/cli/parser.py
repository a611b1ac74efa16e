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
