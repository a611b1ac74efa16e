"""Names that the tests of this room share."""

from collections.abc import Callable
from pathlib import Path

SECRET = "secret of somebody else"

Write = Callable[[str, str | bytes], Path]


def names(folder: Path) -> set[str]:
    """What stands in a folder."""
    return {entry.name for entry in folder.iterdir()}
