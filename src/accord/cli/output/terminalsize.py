"""How large the terminal is, asked again each time: it may be resized while we write."""

import os
import shutil
from typing import Final, TextIO

_NARROWEST: Final = 20
_FALLBACK: Final = (80, 24)


class TerminalSize:
    """The size of the terminal behind a stream; a given width stays."""

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        self._stream = stream
        self._width = width

    @property
    def columns(self) -> int:
        """Cells of a line; never fewer than one can write on."""
        return max(self._width if self._width is not None else self._ask().columns, _NARROWEST)

    @property
    def lines(self) -> int:
        """Lines of the screen."""
        return max(self._ask().lines, 2)

    def _ask(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError, AttributeError):
            return shutil.get_terminal_size(_FALLBACK)
        return size if size.columns > 0 and size.lines > 0 else shutil.get_terminal_size(_FALLBACK)
