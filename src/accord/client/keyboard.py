"""The keyboard of the terminal that this process was started from."""

import sys


def forget_typed(keyboard: int) -> None:
    """Throw away what was typed before a question is shown: nobody agrees to what they have not seen."""
    if sys.platform != "win32":
        import termios

        try:
            termios.tcflush(keyboard, termios.TCIFLUSH)
        except termios.error:
            pass
