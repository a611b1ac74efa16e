"""Where Accord keeps its files: the user's config and data folders, all of which `ACCORD_HOME` moves.

Folders are made on demand, for the user alone.
"""

import os
import stat
from pathlib import Path
from typing import Final

HOME_VARIABLE: Final = "ACCORD_HOME"


def config_dir() -> Path:
    """The folder of the user's settings. It need not exist."""
    home = _home()
    if home is not None:
        return home / "config"
    from platformdirs import user_config_path  # on first use: an agent answers `initialize` without it

    return user_config_path("accord", appauthor=False)


def data_dir() -> Path:
    """The folder of what Accord remembers: session logs, trust, tokens. It need not exist."""
    home = _home()
    if home is not None:
        return home / "data"
    from platformdirs import user_data_path

    return user_data_path("accord", appauthor=False)


def private_folder(folder: Path) -> Path:
    """The folder, made if it is missing, closed to everybody but its owner (0700)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


def private_file(path: Path) -> Path:
    """The file, made empty if it is missing, closed to everybody but its owner (0600)."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            os.chmod(path, 0o600)
    finally:
        os.close(descriptor)
    return path


def _home() -> Path | None:
    home = os.environ.get(HOME_VARIABLE)
    return Path(home).expanduser().absolute() if home else None
