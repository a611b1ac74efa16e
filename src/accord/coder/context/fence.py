"""Text of others between two marks that the text itself cannot forge."""

import re
from typing import Final

from accord.coder.tools.tool import one_line

_LONGEST_VALUE: Final = 2000


def fenced(tag: str, text: str, **attributes: str | None) -> str:
    """The text between `<tag ...>` and `</tag>`; numbered where the text has such an end in it already.

    The same text is fenced the same way every time. Attributes that are None or empty are left out.
    """
    name = _free_name(tag, text)
    shown = "".join(f' {key}="{attribute(value)}"' for key, value in attributes.items() if value)
    return f"<{name}{shown}>\n{text}{'' if text.endswith(chr(10)) else chr(10)}</{name}>"


def attribute(value: str) -> str:
    """A value for one line: nothing in it ends the line, the quotes or the mark."""
    return one_line(value, _LONGEST_VALUE).replace('"', "%22").replace("<", "%3C").replace(">", "%3E")


def _free_name(tag: str, text: str) -> str:
    # One pass finds every number that is taken, however many a hostile text tries.
    taken = {
        int(number or 1) for number in re.findall(rf"<\s*/\s*{tag}(?:-(\d{{1,9}}))?", text, re.IGNORECASE)
    }
    number = 1
    while number in taken:
        number += 1
    return tag if number == 1 else f"{tag}-{number}"
