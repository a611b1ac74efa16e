"""The user's config and data directories. `ACCORD_HOME` moves both.

Directories are created on demand, accessible only to the user.
"""

import os
import stat
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

HOME_VARIABLE: Final = "ACCORD_HOME"


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


def private_folder(folder: "Path") -> "Path":
    """Create the directory if it is missing and restrict it to its owner (0700)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


def private_file(path: "Path") -> "Path":
    """Create the file if it is missing and restrict it to its owner (0600)."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            os.chmod(path, 0o600)
    finally:
        os.close(descriptor)
    return path


def _home() -> str | None:
    home = os.environ.get(HOME_VARIABLE)
    return os.path.abspath(os.path.expanduser(home)) if home else None
