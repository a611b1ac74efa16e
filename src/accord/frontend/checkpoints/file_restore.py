"""Brings files back to what they held before some turns, without overwriting what others have changed.

Follows no links, and restores only files within the folders of the session. Blocking: call it in a thread.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from accord.frontend.checkpoints.checkpoint_store import (
    CheckpointedChange,
    CheckpointList,
    CheckpointStore,
    FileState,
    PerformedRewind,
)
from accord.frontend.checkpoints.file_checkpoints import CHANGED_BETWEEN, look
from accord.schema.content import ContentBlock
from accord.session.rewind import RewindResult, SkippedFile
from accord.workspace.roots import Folder, StopSignal, in_exact_folder, replace_file

CHANGED_SINCE: Final = "another program changed it since"
_WRITERS: Final = 8
_NOT_KEPT: Final = "its copy is missing or damaged"
_TOO_LARGE: Final = f"{CHANGED_SINCE}, and it is too large to keep a copy"
_HARD_LINK: Final = "it has other names (hard links)"


class RestoreStep(NamedTuple):
    """A file to bring back."""

    path: str
    now: FileState
    target: FileState
    folders: Sequence[str]


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What a rewind would do to the files."""

    steps: list[RestoreStep] = field(default_factory=list[RestoreStep])
    skipped: list[SkippedFile] = field(default_factory=list[SkippedFile])
    insertions: int = 0
    deletions: int = 0
    """Lines, compared with the files as they are now."""


Allowed = Callable[[str], str]
"""Returns why a path may not be written; empty if it may."""


def plan_restore(
    store: CheckpointStore,
    changes: Sequence[dict[str, CheckpointedChange]],
    allowed: Allowed,
    *,
    force: bool = False,
) -> RestorePlan:
    """Decide for every file of these turns, the earliest first, whether it can be brought back.

    With `force`, files that others have changed are overwritten; the rewind keeps a copy.
    """
    steps: list[RestoreStep] = []
    skipped: list[SkippedFile] = []
    insertions = deletions = 0
    for path in sorted({path for turn in changes for path in turn}):
        chain = [turn[path] for turn in changes if path in turn]
        target = chain[0].before
        now, data = look(path)
        if now.same_as(target):
            continue
        reason = _reason(path, chain, now, allowed, force=force)
        wanted = store.get(target.digest) if target.kind == "file" and not reason else None
        if not reason and target.kind == "file" and wanted is None:
            reason = _NOT_KEPT
        if reason:
            skipped.append(SkippedFile(path, reason))
            continue
        steps.append(RestoreStep(path, now, target, chain[0].folders))
        added, removed = _changed_lines(data or b"", wanted or b"")
        insertions += added
        deletions += removed
    return RestorePlan(steps, skipped, insertions, deletions)


def _reason(
    path: str, chain: Sequence[CheckpointedChange], now: FileState, allowed: Allowed, *, force: bool
) -> str:
    """Why a file stays as it is; empty if it can be brought back."""
    if os.path.realpath(os.path.dirname(path)) != os.path.dirname(path):
        return "a folder of its path has become a link"
    if reason := allowed(path):
        return reason
    problem = chain[0].problem
    if problem and not (force and problem == CHANGED_BETWEEN):
        return problem
    if now.kind == "other":
        return "it is not a plain file"
    if now.kind == "file" and os.lstat(path).st_nlink > 1:
        return _HARD_LINK
    if now.digest.startswith("size:") and not now.same_as(chain[-1].after):
        return _TOO_LARGE  # nothing could bring it back
    if force:
        return ""
    if not now.same_as(chain[-1].after):
        return CHANGED_SINCE
    for earlier, later in pairwise(chain):
        if later.problem == CHANGED_BETWEEN or not earlier.after.same_as(later.before):
            return CHANGED_BETWEEN
    return ""


def _changed_lines(now: bytes, target: bytes) -> tuple[int, int]:
    """How many lines are only in the target, and only in the file as it is."""
    if b"\0" in now[:8000] or b"\0" in target[:8000]:
        return 0, 0
    old, new = Counter(now.splitlines()), Counter(target.splitlines())
    return (new - old).total(), (old - new).total()


def keep_current(store: CheckpointStore, steps: Iterable[RestoreStep]) -> dict[str, CheckpointedChange]:
    """Keep the files as they are now, so that the rewind can be taken back. Raises OSError."""
    changes: dict[str, CheckpointedChange] = {}
    for step in steps:
        now, data = look(step.path)
        if data is not None:
            store.put(data)
        changes[step.path] = CheckpointedChange(
            now, step.target, "" if data is not None or now.kind != "file" else _NOT_KEPT
        )
    return changes


def restore(store: CheckpointStore, plan: RestorePlan) -> list[SkippedFile]:
    """Bring the files back; returns those that could not be, in addition to the skipped ones of the plan."""
    failed: list[SkippedFile] = []
    removed = [step for step in plan.steps if step.target.kind == "absent"]
    for step in sorted(removed, key=lambda step: step.path, reverse=True):  # files before their folders
        _attempt(step, _remove, failed)
    for step in sorted(removed, key=lambda step: step.path, reverse=True):
        for folder in reversed(step.folders):
            _remove_if_empty(folder)

    def write(step: RestoreStep) -> None:
        _attempt(step, lambda step: _write(store, step), failed)

    for step in sorted(plan.steps, key=lambda step: step.path):
        if step.target.kind == "folder":  # before the files in them
            write(step)
    with ThreadPoolExecutor(_WRITERS) as pool:  # each write waits for the disk
        list(pool.map(write, (step for step in plan.steps if step.target.kind == "file")))
    return failed


def perform_rewind(
    store: CheckpointStore, checkpoints: CheckpointList, plan: RestorePlan, performed: PerformedRewind
) -> list[SkippedFile]:
    """Keep the files as they are now, record the rewind, then bring them back. Raises OSError."""
    performed.changes = keep_current(store, plan.steps)
    checkpoints.rewinds.append(performed)
    for entry in checkpoints.turns:
        entry.undone = entry.undone or entry.message_id in performed.undone
    store.save(checkpoints)  # first: also a rewind that is interrupted can be taken back
    return restore(store, plan)


def take_back_rewind(
    store: CheckpointStore, checkpoints: CheckpointList, plan: RestorePlan, performed: PerformedRewind
) -> list[SkippedFile]:
    """Bring back the files as they were before a rewind. Raises OSError.

    The kept versions of files that stay as they are can still be brought back, by force.
    """
    failed = restore(store, plan)
    left_out = {file.path for file in (*plan.skipped, *failed)}
    rest = {path: change for path, change in performed.changes.items() if path in left_out}
    place = checkpoints.rewinds.index(performed)
    remaining = [PerformedRewind(performed.message_id, performed.title, "files", rest)] if rest else []
    checkpoints.rewinds[place : place + 1] = remaining
    for entry in checkpoints.turns:
        entry.undone = entry.undone and entry.message_id not in performed.undone
    store.save(checkpoints)
    return failed


def rewind_result(
    plan: RestorePlan,
    notes: Sequence[str],
    title: str,
    prompt: Sequence[ContentBlock] = (),
    failed: Sequence[SkippedFile] = (),
) -> RewindResult:
    """What a rewind has done, or would do. `prompt` is the message that the conversation went back to."""
    not_done = {file.path for file in failed}
    return RewindResult(
        can_rewind=True,
        files_changed=[_readable(step.path) for step in plan.steps if step.path not in not_done],
        insertions=plan.insertions,
        deletions=plan.deletions,
        skipped=[SkippedFile(_readable(file.path), file.reason) for file in (*plan.skipped, *failed)],
        notes=list(notes),
        title=title,
        prompt=list(prompt),
    )


def _readable(path: str) -> str:
    """The path with bytes that are not UTF-8 written out."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _attempt(step: RestoreStep, action: Callable[[RestoreStep], None], failed: list[SkippedFile]) -> None:
    try:
        if not look(step.path)[0].same_as(step.now):
            raise OSError(0, CHANGED_SINCE)
        action(step)
    except OSError as error:
        failed.append(SkippedFile(step.path, (error.strerror or str(error)).lower()))


def _remove(step: RestoreStep) -> None:
    def remove(folder: Folder, name: str) -> None:
        (folder.remove_folder if step.now.kind == "folder" else folder.remove)(name)

    in_exact_folder(step.path, remove)


def _remove_if_empty(folder: str) -> None:
    try:
        in_exact_folder(folder, lambda parent, name: parent.remove_folder(name))
    except OSError:
        return  # not empty, or gone


def _write(store: CheckpointStore, step: RestoreStep) -> None:
    stop = StopSignal()
    if step.target.kind == "folder":
        if step.now.kind == "file":
            _remove(step)
        in_exact_folder(
            step.path, lambda folder, name: folder.open_folder(name, create=stop).close(), create=stop
        )
        return
    data = store.get(step.target.digest)
    if data is None:
        raise OSError(0, _NOT_KEPT)

    if step.now.kind == "folder":
        for below, _, _ in os.walk(step.path, topdown=False):
            _remove_if_empty(below)

    def write(folder: Folder, name: str) -> None:
        replace_file(folder, name, data, stop)
        if step.now.kind != "file" or (step.now.mode ^ step.target.mode) & 0o111:
            _set_mode(folder, name, step.target.mode)

    in_exact_folder(step.path, write, create=stop)


def _set_mode(folder: Folder, name: str, mode: int) -> None:
    """Set the permission bits. A mode of git only tells whether those who may read may execute."""
    descriptor = folder.open_file(name)
    try:
        if not mode & 0o666:
            current = stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o666
            mode = current | ((current & 0o444) >> 2 if mode else 0)
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, mode & 0o777)
    finally:
        os.close(descriptor)


def within(roots: Sequence[str], path: str) -> bool:
    """Whether a real path is inside one of these folders."""
    return any(Path(path).is_relative_to(os.path.realpath(root)) for root in roots)
