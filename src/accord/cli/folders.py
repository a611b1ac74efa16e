"""Folders that were named on the command line."""

import os

from accord.errors import UsageError


def folder(option: str, text: str) -> str:
    """The folder that was named, absolute. Raises UsageError if it is none."""
    path = os.path.abspath(os.path.expanduser(text)) if text else ""
    if not os.path.isdir(path):
        raise UsageError(f"{option} {text!r} is no folder")
    return path


def told_folder(option: str, text: str, *, afar: bool = False) -> str:
    """A folder that an agent is told, which can be done in UTF-8 only. An agent on another machine (`afar`) may be told an
    absolute one that is not here. Raises UsageError.
    """
    path = os.path.normpath(text) if afar and os.path.isabs(text) else folder(option, text)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{option}: the name of {path!a} is not UTF-8, so no agent can be told of it: rename it"
        ) from None
    return path
