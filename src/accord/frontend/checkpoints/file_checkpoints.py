"""Records the files that turns change, so that they can be brought back.

Tools announce every path before they change it (`ExactDisk`). What commands change is found with a snapshot
before the first command of a turn (`ShadowGit`). Blocking work runs in threads, one piece at a time.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from accord.errors import AccordError
from accord.frontend.checkpoints.checkpoint_store import (
    ABSENT,
    FILE_LIMIT,
    CheckpointedChange,
    CheckpointList,
    CheckpointStore,
    FileState,
    TurnCheckpoint,
    digest_of,
)
from accord.frontend.checkpoints.shadow_git import (
    ChangedPath,
    GitProblem,
    ShadowGit,
    git_is_installed,
    shadow_of,
)
from accord.policy.secret_files import is_secret
from accord.workspace.roots import StopSignal, in_exact_folder, read_bytes

MAX_CHANGED_FILES: Final = 2000
"""More files of one turn are not recorded."""
CHANGED_BETWEEN: Final = "another program changed it between two changes of the agent"
_ENDED: Final = "are not kept: the agent ended during the turn"
"""A note of every turn with a snapshot, until the changes since are recorded."""
_LOG = logging.getLogger("accord.coder")
T = TypeVar("T")


class FileCheckpoints:
    """The checkpoints of one session, while it is open."""

    def __init__(self, store: CheckpointStore, roots: Sequence[str], *, plain: bool = False) -> None:
        """`plain`: take snapshots also of folders that are in no git repository, and give up if one fails."""
        self._plain = plain
        self._given_up = ""
        """Why no more snapshots are taken."""
        self.store: CheckpointStore = store
        self._roots = [os.path.realpath(root) for root in roots]
        self._list: CheckpointList | None = None
        self._problem = ""
        """Why nothing can be recorded any more."""
        self._not_followed = ""
        """Which folders have no snapshots, and why."""
        self._turn: TurnCheckpoint | None = None
        self._shadows: list[ShadowGit] = []
        self._commands_ran = False
        self._finishing: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    # -- during a turn ---------------------------------------------------------------------------------------

    async def begin(self, message_id: str) -> None:
        """Start the checkpoint of a turn that asks the model. Earlier rewinds can no longer be taken back."""
        await self.finished()
        self._turn = TurnCheckpoint(message_id)
        self._commands_ran = False

        def forget_rewinds() -> None:
            checkpoints = self._load()
            if checkpoints.rewinds:
                checkpoints.rewinds = []
                self.store.save(checkpoints)

        if self._list is None or self._list.rewinds:
            await self._do(forget_rewinds)

    async def keep(self, *paths: str) -> None:
        """Keep what is at these real paths, before a tool changes it for the first time in the turn."""
        turn = self._turn
        if turn is not None:
            await self._do(lambda: self._keep(turn, paths))

    async def changed(self, *paths: str) -> None:
        """Record what a tool has left at these paths."""
        turn = self._turn
        if turn is not None:
            await self._do(lambda: self._record_after(turn, paths))

    @property
    def needs_snapshot(self) -> bool:
        """Whether no command has changed files in this turn yet."""
        return self._turn is not None and not self._commands_ran

    async def before_command(self) -> None:
        """Take the snapshot before the first command of the turn."""
        turn = self._turn
        if turn is not None and not self._commands_ran:
            self._commands_ran = True
            await self._do(lambda: self._take_snapshots(turn))

    def end(self) -> None:
        """End the checkpoint of the turn. Finding the changes of commands goes on in the background."""
        turn, self._turn = self._turn, None
        if turn is not None and (self._commands_ran or turn.changes):
            commands_ran = self._commands_ran
            self._finishing = asyncio.ensure_future(self._do(lambda: self._finish(turn, commands_ran)))

    async def finished(self) -> None:
        """Wait until the changes of the last turn are recorded."""
        task = self._finishing
        if task is not None:
            await asyncio.shield(task)
            self._finishing = None

    async def aclose(self) -> None:
        """Finish, and remove the shadow repositories."""
        self.end()
        await self.finished()
        for shadow in self._shadows:
            await asyncio.to_thread(shadow.remove)

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def notes(self) -> list[str]:
        """What a rewind has to say besides the notes of its turns."""
        return [f"files of later turns are not kept: {self._problem}"] if self._problem else []

    async def read(self) -> CheckpointList:
        """All checkpoints of the session. Raises BadSettings, OSError."""
        await self.finished()
        async with self._lock:
            return await asyncio.to_thread(self._load)

    # -- internals -------------------------------------------------------------------------------------------

    async def _do(self, work: Callable[[], None]) -> None:
        """Do blocking work, to its end also if the turn is cancelled. A failure never stops the turn."""
        await asyncio.shield(asyncio.ensure_future(self._do_locked(work)))

    async def _do_locked(self, work: Callable[[], None]) -> None:
        async with self._lock:
            if self._problem:
                return
            try:
                await asyncio.to_thread(work)
            except (OSError, ValueError, AccordError) as error:
                self._problem = str(error)
                _LOG.warning("files are not kept for undo: %s", error)

    def _load(self) -> CheckpointList:
        if self._list is None:
            self._list = self.store.load()
        return self._list

    def _save(self, turn: TurnCheckpoint) -> None:
        checkpoints = self._load()
        if turn not in checkpoints.turns[-1:]:
            checkpoints.turns.append(turn)
        self.store.save(checkpoints)

    def _keep(self, turn: TurnCheckpoint, paths: Sequence[str]) -> None:
        for path in _files_below(paths):
            change = turn.changes.get(path)
            if change is not None:
                if not change.problem and not look(path)[0].same_as(change.after):
                    change.problem = CHANGED_BETWEEN
                continue
            if len(turn.changes) >= MAX_CHANGED_FILES:
                _note(turn, f"more than {MAX_CHANGED_FILES:,} files changed; the others are not kept")
                continue
            turn.changes[path] = self._change(path, *look(path))
        self._save(turn)

    def _change(self, path: str, before: FileState, data: bytes | None) -> CheckpointedChange:
        problem = self._why_not(path, before)
        if not problem and data is not None:
            self.store.put(data)
        return CheckpointedChange(before, before, problem, _missing_folders(path) if before == ABSENT else [])

    def _why_not(self, path: str, before: FileState) -> str:
        if not any(Path(path).is_relative_to(root) for root in self._roots):
            return "it is outside the folders of the session"
        if is_secret(Path(path)):
            return "it may hold secrets"
        if before.kind == "other":
            return "it is not a plain file"
        if before.kind == "file" and before.digest.startswith("size:"):
            return f"it is larger than {FILE_LIMIT // 1024 // 1024} MiB"
        return ""

    def _record_after(self, turn: TurnCheckpoint, paths: Sequence[str]) -> None:
        for path, change in turn.changes.items():
            if any(path == other or path.startswith(other + os.sep) for other in paths):
                change.after = look(path)[0]
        for path in paths:
            moved = turn.changes.get(path)
            if moved is not None and moved.before == ABSENT and moved.after.kind == "folder":
                self._add_moved_files(turn, path)
        self._save(turn)

    def _add_moved_files(self, turn: TurnCheckpoint, folder: str) -> None:
        for path in _files_below([folder]):
            if path not in turn.changes and len(turn.changes) < MAX_CHANGED_FILES:
                after = look(path)[0]
                turn.changes[path] = CheckpointedChange(ABSENT, after, self._why_not(path, after))

    def _take_snapshots(self, turn: TurnCheckpoint) -> None:
        what = "changes of the agent" if self._plain else "changes of commands"
        if self._plain and self._given_up:
            _note(turn, f"{what} are not kept: {self._given_up}")
        elif not self._shadows:
            self._find_shadows(what)
        if self._not_followed:
            _note(turn, self._not_followed)
        for shadow in list(self._shadows):
            try:
                shadow.snapshot()
            except GitProblem as error:
                self._shadows.remove(shadow)
                self._given_up = str(error)
                _note(turn, f"{what} are not kept: {error}")
        if self._shadows:
            _note(turn, f"{what} {_ENDED}")
        if turn.notes:
            self._save(turn)

    def _find_shadows(self, what: str) -> None:
        found = {
            root: shadow_of(self.store.git_folder, root, plain=self._plain)
            for root in dict.fromkeys(self._roots)
        }
        self._shadows = [shadow for shadow in found.values() if shadow is not None]
        self._not_followed = ""
        if missing := [root for root, shadow in found.items() if shadow is None]:
            reason = "the folder is in no git repository" if git_is_installed() else "git is not installed"
            where = f" in {', '.join(missing)}" if self._shadows else ""
            self._not_followed = f"{what}{where} are not kept: {reason}"

    def _finish(self, turn: TurnCheckpoint, commands_ran: bool) -> None:
        if commands_ran:
            self._add_command_changes(turn)
        turn.changes = {
            path: change for path, change in turn.changes.items() if not change.after.same_as(change.before)
        }
        turn.notes = [note for note in turn.notes if not note.endswith(_ENDED)]
        if turn.changes or turn.notes:
            self._save(turn)
        elif turn in (checkpoints := self._load()).turns[-1:]:
            checkpoints.turns.pop()
            self.store.save(checkpoints)

    def _add_command_changes(self, turn: TurnCheckpoint) -> None:
        """Record what commands changed, also in files that a tool has changed before or after them."""
        for path, change in turn.changes.items():
            change.after = look(path)[0]
        for shadow in self._shadows:
            try:
                changed, notes = shadow.changes()
                new = [entry for entry in changed if entry.path not in turn.changes]
                contents = shadow.contents(entry.blob for entry in new if entry.blob and not entry.problem)
            except GitProblem as error:
                _note(turn, f"changes of commands are not kept: {error}")
                continue
            for note in notes:
                _note(turn, note)
            for entry in new[: MAX_CHANGED_FILES - len(turn.changes)]:
                turn.changes[entry.path] = self._command_change(entry, contents)
            if len(turn.changes) >= MAX_CHANGED_FILES:
                _note(turn, f"more than {MAX_CHANGED_FILES:,} files changed; the others are not kept")

    def _command_change(self, entry: ChangedPath, contents: dict[str, bytes]) -> CheckpointedChange:
        after = look(entry.path)[0]
        if entry.blob is None and entry.problem:
            return CheckpointedChange(FileState("other"), after, entry.problem)
        if entry.blob is None:
            return CheckpointedChange(ABSENT, after, self._why_not(entry.path, after), [])
        data = contents.get(entry.blob)
        before = FileState("file", "" if data is None else digest_of(data), entry.mode)
        problem = entry.problem or self._why_not(entry.path, before)
        if not problem and data is None:
            problem = f"it is larger than {FILE_LIMIT // 1024 // 1024} MiB"
        if not problem and data is not None:
            self.store.put(data)
        return CheckpointedChange(before, after, problem)


def look(path: str) -> tuple[FileState, bytes | None]:
    """What is at a real path, and the bytes of a file that is not too large. Follows no links."""
    try:
        status = in_exact_folder(path, lambda folder, name: folder.stat(name))
        if stat.S_ISDIR(status.st_mode):
            return FileState("folder"), None
        if not stat.S_ISREG(status.st_mode):
            return FileState("other"), None
        mode = stat.S_IMODE(status.st_mode) & 0o777
        if status.st_size > FILE_LIMIT:
            return FileState("file", f"size:{status.st_size}:{status.st_mtime_ns}", mode), None
        data = in_exact_folder(path, lambda folder, name: read_bytes(folder, name, FILE_LIMIT, StopSignal()))
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT, None
    except OSError:
        return FileState("other"), None
    if len(data) > FILE_LIMIT:
        return FileState("other"), None  # it grows right now
    return FileState("file", digest_of(data), mode), data


def _files_below(paths: Sequence[str]) -> list[str]:
    """The paths, and of folders also what is in them."""
    found: list[str] = []
    for path in paths:
        found.append(path)
        if os.path.isdir(path) and not os.path.islink(path):
            for folder, folders, names in os.walk(path):
                found += [os.path.join(folder, name) for name in (*folders, *names)]
                if len(found) > MAX_CHANGED_FILES:
                    break
    return found


def _missing_folders(path: str) -> list[str]:
    """The folders that have to be created for a file, outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(path)
    while folder and not os.path.lexists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing


def _note(turn: TurnCheckpoint, text: str) -> None:
    if text not in turn.notes:
        turn.notes.append(text)
