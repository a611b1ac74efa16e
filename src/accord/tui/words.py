"""Small things in words, for the screen: counts, tokens, values."""

import json
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
