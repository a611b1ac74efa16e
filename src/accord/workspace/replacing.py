"""Putting a whole file in the place of another in one step: readers see the old bytes or the new ones."""

import errno
import os
import stat
import threading
from contextlib import suppress

from accord.errors import RequestCancelled
from accord.workspace.folder import Folder, insist_on_plain_file


def replace_file(folder: Folder, name: str, data: bytes, stop: threading.Event) -> None:
    """Make these the bytes of the file of that name, which may be new; its mode and owner are kept.

    Raises OSError (ELOOP for a link under that name), and RequestCancelled if `stop` is set before the last step.
    """
    before = _standing(folder, name)
    fresh = f".accord-{os.urandom(8).hex()}.tmp"
    descriptor = folder.make_file(fresh, 0o666 if before is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                _keep_owner_and_mode(descriptor, before)
            file.write(data)
        if stop.is_set():
            raise RequestCancelled()
        folder.replace(fresh, name)
    except BaseException:
        with suppress(OSError):
            folder.remove(fresh)
        raise


def _standing(folder: Folder, name: str) -> os.stat_result | None:
    """The file that is about to be replaced, if there is one and it may be."""
    try:
        before = folder.look(name)
    except FileNotFoundError:
        return None
    insist_on_plain_file(before)
    if not folder.may_write(name):
        # The folder may well allow a replacement, but who made the file read-only did not mean that.
        raise PermissionError(errno.EACCES, "the file is read-only")
    return before


def _keep_owner_and_mode(descriptor: int, before: os.stat_result) -> None:
    """As a write in place would leave them: a changed program loses its set-id bits."""
    if os.name == "posix":
        with suppress(PermissionError):
            os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)
