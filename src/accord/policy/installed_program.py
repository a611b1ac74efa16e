"""Finds programs on PATH that a command of a project cannot have written.

Accord runs them outside the sandbox. With an active virtual environment, PATH leads into the project.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path


def installed_program(name: str, outside: Iterable[str | Path], search_path: str | None = None) -> str | None:
    """The first program of this name on PATH that is in none of these folders; None if there is none.

    The name may be an absolute path.
    """
    folders = [os.path.realpath(folder) for folder in outside]
    places = [os.path.dirname(name)] if os.path.isabs(name) else []
    for place in places or safe_search_path(folders, search_path).split(os.pathsep):
        found = shutil.which(os.path.join(place, os.path.basename(name))) if place else None
        if found is None or (name != os.path.basename(name) and not places):
            continue
        if not any(_is_inside(path, folders) for path in (os.path.abspath(found), os.path.realpath(found))):
            return found
    return None


def safe_search_path(outside: Iterable[str | Path], search_path: str | None = None) -> str:
    """PATH without relative folders, and without those in these folders, also by a link."""
    folders = [os.path.realpath(folder) for folder in outside]
    places = (os.environ.get("PATH", os.defpath) if search_path is None else search_path).split(os.pathsep)
    return os.pathsep.join(
        place
        for place in places
        if os.path.isabs(place)
        and not _is_inside(os.path.abspath(place), folders)
        and not _is_inside(os.path.realpath(place), folders)
    )


def _is_inside(path: str, folders: Iterable[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)
