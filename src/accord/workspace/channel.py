"""Where a command's output comes out: a pseudo-terminal, so that programs show live and coloured output, or a pipe.

Standard output and error share it and so keep their order. Nobody types: standard input is empty in both cases, and
the pseudo-terminal is nobody's controlling terminal, so a program that wants to ask something finds out instead of
waiting for ever.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """Of a pseudo-terminal, in characters."""

    columns: int = 80
    rows: int = 24


def open_channel(pty: Size | None) -> tuple[int, int]:
    """The end to read and the end for the command: of a pseudo-terminal of that size, or of a pipe."""
    if pty is None:
        return os.pipe()
    if sys.platform == "win32":
        raise NotImplementedError("there are no pseudo-terminals on this platform")
    import termios

    reader, writer = os.openpty()
    termios.tcsetwinsize(writer, (pty.rows, pty.columns))
    # Line ends stay as the program wrote them: what an agent reads is text, not a screen.
    modes = termios.tcgetattr(writer)
    modes[1] &= ~termios.ONLCR
    termios.tcsetattr(writer, termios.TCSANOW, modes)
    return reader, writer


def fitting_env(env: Mapping[str, str], pty: Size | None) -> dict[str, str]:
    """The environment for a command on such a channel."""
    if pty is None:
        return {**env, "TERM": "dumb"}
    # A pager would wait for a key that nobody presses.
    fitted = {**env, "PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat"}
    if fitted.get("TERM", "dumb") == "dumb":
        fitted["TERM"] = "xterm-256color"
    return fitted
