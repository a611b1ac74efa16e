"""The one error of reading: a value that does not have the shape of its type. It fits on a line, whatever the value."""

from typing import Any, Final

_LONGEST: Final = 60


class Mismatch(ValueError):
    """A value does not have the shape of its type. `path` says where, `reason` what is wrong there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def brief(value: Any) -> str:
    """A value as an error shows it: on one line, cut where it is long."""
    text = repr(value[:_LONGEST] if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def member(path: str, name: str) -> str:
    """The path of a member whose name the other side chose."""
    return f"{path}.{name}" if name.isidentifier() and len(name) <= _LONGEST else f"{path}[{brief(name)}]"
