"""The files of the session's folder. What git ignores is left out."""

from itertools import islice

from accord.workspace.finding import LOOKED_AT, paths_of


def list_files(folder: str) -> list[str]:
    """Relative paths of files and folders, folders with a slash at their end. Blocking: for a thread.

    In very large trees some are not among them, and have to be written.
    """
    return sorted(islice(paths_of(folder), LOOKED_AT), key=lambda path: (path.count("/"), path))
