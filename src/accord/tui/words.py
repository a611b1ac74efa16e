"""Small things in words, for the screen: counts, tokens, values, errors."""

import json
import os
from typing import Any, Final

_LONGEST: Final = 20_000


def count(number: int, one: str, many: str = "") -> str:
    """`1 line`, `2 lines`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def tokens(number: int) -> str:
    """`950`, `12.3k`, `1.2M`."""
    if number < 1_000:
        return str(number)
    return (
        f"{number / 1_000:.1f}k".replace(".0k", "k") if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
    )


def shown(value: Any) -> str:
    """Any JSON value, readable."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… {len(text) - _LONGEST} characters more"


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return str(error).partition("\n")[0] or type(error).__name__


def at_home(path: str) -> str:
    """A path, that of the user's own folder written short."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and (path == home or path.startswith(home + "/")) else path


def end_of(path: str, longest: int) -> str:
    """A path, of a long one the end."""
    return path if len(path) <= longest else f"…{path[1 - longest :]}" if longest > 1 else ""
