"""What `accord serve` says on stdout: where it listens, which agents it has, and the link with the first token."""

import os
import shutil
import sys
from collections.abc import Sequence

from accord.cleaning import visible
from accord.gateway.access.pairing import link, qr_code


def show_link(url: str, token: str, *, qr: bool) -> None:
    """The link, and on a terminal that is large enough its QR code."""
    text = link(url, token)
    print(f"  {text}")
    if qr and _is_terminal():
        code = qr_code(text, shutil.get_terminal_size().columns - 2)
        if code is not None:
            print()
            for line in code:
                print(f"  {line}")


def greet(listening: Sequence[str], agents: Sequence[str], notes: Sequence[str]) -> None:
    """The first lines. The first agent is the default one."""
    print(f"accord serve: listening on {', '.join(listening)}")
    names = [visible(name) for name in agents]
    print(f"Agents: {', '.join([f'{names[0]} (default)', *names[1:]])}")
    for note in notes:
        print(note)


def show_first_token(url: str, token: str, *, qr: bool) -> None:
    """For the very first start."""
    print("\nOpen this link, or scan it. It holds a new token and is shown this once:\n")
    show_link(url, token, qr=qr)
    print("\nAnother device or program gets a token of its own: accord serve token new")


def may_show_token() -> bool:
    """Whether somebody reads our output now: a journal keeps it, where a token must not stand, and it may be closed."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - the caller closed it
        return False
    return _is_terminal() or not os.environ.get("JOURNAL_STREAM")


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]
