"""The user's config and data directories. `ACCORD_HOME` moves both."""

import errno
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

HOME_VARIABLE: Final = "ACCORD_HOME"
CONFIG_NAMES: Final = ("config.toml", "config.json")
"""The names of the coding agent's config file."""


def config_dir() -> "Path":
    """The directory of the user's settings. It may not exist."""
    from pathlib import Path

    return Path(config_folder())


def config_folder() -> str:
    """`config_dir` as a string. Needed before `initialize` is answered, so it avoids imports on Linux."""
    home = _home()
    if home is not None:
        return os.path.join(home, "config")
    if sys.platform == "linux":
        base = os.environ.get("XDG_CONFIG_HOME", "").strip() or os.path.expanduser("~/.config")
        return os.path.join(base, "accord")
    from platformdirs import user_config_dir

    return user_config_dir("accord", appauthor=False)


def data_dir() -> "Path":
    """The directory of session logs, trust and tokens. It may not exist."""
    from pathlib import Path

    home = _home()
    if home is not None:
        return Path(home, "data")
    from platformdirs import user_data_path

    return user_data_path("accord", appauthor=False)


def explain_file_error(error: OSError) -> str:
    """One line that says which file failed, why, and what to do about it."""
    reason = error.strerror or str(error)
    if error.filename is None:
        return reason
    path = os.path.abspath(os.fsdecode(error.filename))
    text = f"cannot use {path} ({reason})"
    own = (config_folder(), str(data_dir()))
    if not any(path == folder or path.startswith(folder + os.sep) for folder in own):
        return text
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{text}: free some space, or set {HOME_VARIABLE} to a folder on another disk"
    return f"{text}: make it writable, or set {HOME_VARIABLE} to a folder that is"


def _home() -> str | None:
    home = os.environ.get(HOME_VARIABLE)
    return os.path.abspath(os.path.expanduser(home)) if home else None
