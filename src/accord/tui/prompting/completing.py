"""What is being completed: a command of the agent at the beginning of a prompt, or a file behind an @."""

import re
from typing import Final, Literal, NamedTuple

_COMMAND: Final = re.compile(r"/([^\s/]*)\Z")
_FILE: Final = re.compile(r"""(?:^|(?<=[\s(\[{<"'`,;]))@([^\s@"'`<>]*)\Z""")


class Completion(NamedTuple):
    """One way to go on."""

    value: str
    """What stands there then."""
    label: str
    hint: str = ""
    after: str = ""
    """What is still to be written behind it, in words."""


class Completing(NamedTuple):
    """The word that is being written."""

    kind: Literal["command", "file"]
    start: int
    """Where in the line it begins."""
    letters: str


def completing(line: str, column: int, *, first: bool) -> Completing | None:
    """What is completed at a place of a line; `first` says that nothing stands above the line."""
    before = line[:column]
    if first and (found := _COMMAND.match(before)):
        return Completing("command", 0, found[1])
    if found := _FILE.search(before):
        return Completing("file", found.start(), found[1])
    return None


def mention(path: str) -> str:
    """A file as it is written in a prompt."""
    return f'@"{path}"' if re.search(r"[\s\"'`<>]", path) else f"@{path}"
