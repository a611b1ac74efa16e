"""Where an export goes: a file that is not there yet. Nothing is ever written over."""

import os

from accord.errors import UsageError


def free_place(text: str, said: str = "") -> str:
    """The absolute path of a file that is not there. `said` begins the message. Raises UsageError."""
    place = os.path.abspath(os.path.expanduser(text))
    if os.path.exists(place):
        raise UsageError(f"{said}{place} is there already: name another file")
    return place


def write_new(place: str, text: str, said: str = "") -> None:
    """Write the file. Raises UsageError."""
    try:
        with open(place, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{said}{place} cannot be written ({error.strerror}): name another file") from None
