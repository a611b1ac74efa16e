"""Detects whether the terminal has a dark background, before the screen opens.

Asks the terminal with an escape sequence, and falls back to the variable COLORFGBG. Keys that the user types
meanwhile are kept for the prompt.
"""

import os
import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Final, NamedTuple

TIMEOUT: Final = 0.12
"""Seconds to wait for the answer. Nearly every terminal answers the second query immediately."""
_QUERY: Final = b"\x1b]11;?\x1b\\\x1b[c"
_COLOR_REPLY: Final = re.compile(
    rb"\x1b\]11;rgb:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})[^\x07\x1b]*(?:\x07|\x1b\\)"
)
_DEVICE_REPLY: Final = re.compile(rb"\x1b\[\?[0-9;]*c")
ENTER: Final = "\r"
"""Enter in the text of typed keys."""
_MAX_PENDING: Final = 64 * 1024
_DARK_COLORS: Final = frozenset(("0", "1", "2", "3", "4", "5", "6", "8"))


class BackgroundColor(NamedTuple):
    """The result; `dark` is None if it is unknown."""

    dark: bool | None
    typed: str = ""
    """What the user typed before and during the query."""


def detect_background(environ: Mapping[str, str]) -> BackgroundColor:
    """Query the terminal; fall back to the environment."""
    fallback = _from_environment(environ)
    if sys.platform == "win32" or environ.get("TERM", "") in ("", "dumb", "linux"):
        return BackgroundColor(fallback)
    try:
        reply = query_terminal(sys.stdin.fileno(), sys.stdout.fileno())
    except (OSError, ValueError):
        return BackgroundColor(fallback)
    return BackgroundColor(fallback if reply.dark is None else reply.dark, reply.typed)


def query_terminal(input: int, output: int, timeout: float = TIMEOUT) -> BackgroundColor:
    """Query the terminal behind these file descriptors. Raises OSError."""
    import select
    import termios
    import tty

    if select.select([input], [], [], 0)[0]:
        return BackgroundColor(None)  # leave keys that are already typed to the prompt
    before = termios.tcgetattr(input)
    data = b""
    try:
        tty.setcbreak(input, termios.TCSANOW)
        os.write(output, _QUERY)
        deadline = monotonic() + timeout
        while _DEVICE_REPLY.search(data) is None and (remaining := deadline - monotonic()) > 0:
            if select.select([input], [], [], remaining)[0]:
                data += os.read(input, 1024)
    except termios.error as error:
        raise OSError(str(error)) from None
    finally:
        termios.tcsetattr(input, termios.TCSANOW, before)
    return parse_reply(data)


def parse_reply(data: bytes) -> BackgroundColor:
    """Separate the replies of the terminal from typed keys."""
    match = _COLOR_REPLY.search(data)
    dark = None
    if match is not None:
        red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in match.groups())
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
    typed_bytes = _DEVICE_REPLY.sub(b"", _COLOR_REPLY.sub(b"", data))
    return BackgroundColor(dark, typed_text(typed_bytes))


def typed_text(data: bytes) -> str:
    """The text of typed keys: printable characters, and `ENTER`. Backspace is applied."""
    text: list[str] = []
    for char in data.partition(b"\x1b")[0].decode(errors="ignore"):
        if char in "\x7f\b":
            if text[-1:] != [ENTER]:
                del text[-1:]
        elif char in "\r\n":
            text.append(ENTER)
        elif char.isprintable():
            text.append(char)
    return "".join(text)


@contextmanager
def early_keys() -> Generator[list[Any] | None]:
    """Until the screen opens, let the terminal keep typed keys without showing them, and Enter as itself.

    Yields the mode of the terminal before, for programs that run in between. Restores it at the end.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield None
        return
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    changed = termios.tcgetattr(descriptor)
    changed[0] &= ~termios.ICRNL
    changed[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(descriptor, termios.TCSANOW, changed)
    try:
        yield before
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def pending_keys() -> str:
    """What was typed by now. Empty without a terminal that can tell."""
    try:
        import select

        descriptor = sys.stdin.fileno()
        data = b""
        while len(data) < _MAX_PENDING and select.select([descriptor], [], [], 0)[0]:
            piece = os.read(descriptor, 1024)
            if not piece:
                break
            data += piece
        return typed_text(data)
    except (OSError, ValueError):
        return ""


def _from_environment(environ: Mapping[str, str]) -> bool | None:
    """Read `COLORFGBG`: the color numbers of text and background."""
    color = environ.get("COLORFGBG", "").rpartition(";")[2]
    return color in _DARK_COLORS if color.isdigit() else None
