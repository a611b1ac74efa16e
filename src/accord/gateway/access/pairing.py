"""How a token gets to another device: a link that holds it behind `#`, which browsers never send, and its QR code."""

from importlib.util import find_spec
from typing import Final

_QUIET: Final = 2
_RESET: Final = "\x1b[0m"
_BLACK_ON_WHITE: Final = "\x1b[38;5;16;48;5;231m"
_HALVES: Final = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


def link(url: str, token: str) -> str:
    """The link that logs a browser in; `url` is the address of the gateway, with or without a slash at its end."""
    return f"{url.rstrip('/')}/#token={token}"


def qr_code(text: str, width: int) -> list[str] | None:
    """The code as lines for a terminal of this width, two rows of it in one of text; None where it does not fit or cannot be made.

    Both colours are given, black on white: a camera reads it on a dark terminal and on a light one.
    """
    if find_spec("segno") is None:
        return None
    import segno

    code = segno.make(text, error="l", micro=False)
    rows = [[bool(module) for module in row] for row in code.matrix_iter(scale=1, border=_QUIET)]
    if len(rows[0]) > width:
        return None
    if len(rows) % 2:
        rows.append([False] * len(rows[0]))
    return [
        _BLACK_ON_WHITE + "".join(_HALVES[pair] for pair in zip(upper, lower, strict=True)) + _RESET
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    ]
