"""Which models look at pictures, by the family of their names: for those that nobody says it of."""

import re
from typing import Final

_SEEING: Final = re.compile(r"(?:gpt-(?:4o|4\.1|[5-9])|chatgpt|o[134](?:-|$)|claude|gemini)", re.IGNORECASE)
"""The families of models of which it is known that they see. Of others the config may say so."""


def sees_by_name(name: str) -> bool:
    """Whether models of this family look at pictures."""
    return _SEEING.match(name.rpartition("/")[2]) is not None
