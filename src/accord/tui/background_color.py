"""Whether the terminal is dark: it is asked before the screen is there, or says so in its environment.

Whatever the user types meanwhile is kept for the prompt.
"""

import os
import re
import sys
from collections.abc import Mapping
from time import monotonic
from typing import Final, NamedTuple

WAIT: Final = 0.12
"""Seconds for the answer; nearly every terminal answers the second question at once, so that nobody waits this long."""
_ASK: Final = b"\x1b]11;?\x1b\\\x1b[c"
_COLOUR: Final = re.compile(
    rb"\x1b\]11;rgb:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})[^\x07\x1b]*(?:\x07|\x1b\\)"
)
_DEVICE: Final = re.compile(rb"\x1b\[\?[0-9;]*c")
_DARK_NUMBERS: Final = frozenset(("0", "1", "2", "3", "4", "5", "6", "8"))


class BackgroundColor(NamedTuple):
    """What is known of it."""

    dark: bool | None
    typed: str = ""
    """What the user wrote while the terminal was asked."""


def find_ground(environ: Mapping[str, str]) -> BackgroundColor:
    """Ask the terminal, else look into the environment."""
    said = _said(environ)
    if sys.platform == "win32" or environ.get("TERM", "") in ("", "dumb", "linux"):
        return BackgroundColor(said)
    try:
        asked = ask(sys.stdin.fileno(), sys.stdout.fileno())
    except (OSError, ValueError):
        return BackgroundColor(said)
    return BackgroundColor(said if asked.dark is None else asked.dark, asked.typed)


def ask(reading: int, writing: int, wait: float = WAIT) -> BackgroundColor:
    """Ask the terminal that these descriptors belong to. Raises OSError."""
    import select
    import termios
    import tty

    if select.select([reading], [], [], 0)[0]:
        return BackgroundColor(None)  # somebody types ahead: their keys are for the prompt
    before = termios.tcgetattr(reading)
    data = b""
    try:
        tty.setcbreak(reading, termios.TCSANOW)
        os.write(writing, _ASK)
        until = monotonic() + wait
        while _DEVICE.search(data) is None and (left := until - monotonic()) > 0:
            if select.select([reading], [], [], left)[0]:
                data += os.read(reading, 1024)
    except termios.error as error:
        raise OSError(str(error)) from None
    finally:
        termios.tcsetattr(reading, termios.TCSANOW, before)
    return understood(data)


def understood(data: bytes) -> BackgroundColor:
    """What came back: the answers, and what somebody typed."""
    found = _COLOUR.search(data)
    dark = None
    if found is not None:
        red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
    rest = _DEVICE.sub(b"", _COLOUR.sub(b"", data))
    typed = rest.partition(b"\x1b")[0].decode(errors="ignore")
    return BackgroundColor(dark, "".join(char for char in typed if char.isprintable()))


def _said(environ: Mapping[str, str]) -> bool | None:
    """`COLORFGBG` is text and ground, as numbers of colours."""
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return ground in _DARK_NUMBERS if ground.isdigit() else None
