"""Undo and rewind for agents that have none: files from snapshots of this client, and a new session.

Before each turn the client takes a snapshot of the folders of the session. Going back with the conversation
opens a new session of the same agent; its first prompt carries the conversation so far.

Imported on first use.
"""

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from accord.client import ClientSession
from accord.errors import BadSettings, InternalError, InvalidParams, NotFound, StoreError
from accord.frontend.checkpoints.checkpoint_store import (
    CheckpointList,
    CheckpointStore,
    PerformedRewind,
    TurnCheckpoint,
    checkpoints_folder,
    clean_up,
    stored_sessions,
)
from accord.frontend.checkpoints.file_checkpoints import FileCheckpoints
from accord.frontend.checkpoints.file_restore import (
    RestorePlan,
    perform_rewind,
    plan_restore,
    rewind_result,
    take_back_rewind,
    within,
)
from accord.frontend.recording import NAME, RecordedSessions
from accord.safe_text import clean_line, one_line
from accord.schema import Annotations, ContentBlock, EmbeddedResource, TextContent, TextResourceContents
from accord.session import Entry, Message
from accord.session.rewind import RedoPoint, RewindPoint, RewindPoints, RewindResult, RewindScope, SkippedFile
from accord.store import store_path

MAX_HISTORY: Final = 200_000
"""Characters of an earlier conversation that a prompt carries."""
HISTORY_URI: Final = "accord:earlier-conversation.md"
_ID_CHARS: Final = 40
_MAX_NAMED: Final = 50
_TITLE_CHARS: Final = 80


class SessionBranches(Protocol):
    """Moves the chat to another session."""

    async def branch(self, before: int) -> None:
        """Go on in a new session with the history before a message of the user, counted from 0."""
        ...

    async def rejoin(self) -> None:
        """Go on in the session from before the last branch."""
        ...


class ClientRewind:
    """Goes back in one session of an agent without rewind."""

    def __init__(
        self,
        session: ClientSession,
        agent: str,
        branches: SessionBranches,
        origin: "ClientRewind | None" = None,
    ) -> None:
        """`agent` names the agent in the recordings. `origin` is the session that this one branches from."""
        self._session = session
        self._branches = branches
        self._origin = origin
        self._performed: PerformedRewind | None = None
        """The rewind that led to the branch."""
        self._store = CheckpointStore(_folder(), f"{agent}/{session.id}")
        self._checkpoints = FileCheckpoints(self._store, list(map(str, session.roots.folders)), plain=True)
        self._told: list[str] = []

    @property
    def cwd(self) -> str:
        return self._session.cwd

    # -- during a turn ---------------------------------------------------------------------------------------

    async def begin_turn(self, text: str) -> list[ContentBlock]:
        """Take a snapshot of the files before a prompt; returns what the prompt has to say in addition."""
        number = len(user_messages(self._session.state.timeline))
        await self._checkpoints.begin(_message_id(number, text))
        await self._checkpoints.before_command()
        self._origin = self._performed = None
        told, self._told = self._told, []
        return [_for_agent("\n".join(told))] if told else []

    async def keep(self, paths: Sequence[str]) -> None:
        """Keep files that the agent is about to change; git may ignore them."""
        real = await asyncio.to_thread(_real_paths, paths, self.cwd)
        if real:
            await self._checkpoints.keep(*real)

    def end_turn(self) -> None:
        """Find the changes of the turn, in the background."""
        self._checkpoints.end()

    async def aclose(self) -> None:
        await self._checkpoints.aclose()

    # -- going back ------------------------------------------------------------------------------------------

    async def rewind_points(self) -> RewindPoints:
        """The messages to go back to, the latest first."""
        checkpoints = await self._read()
        messages = user_messages(self._session.state.timeline)
        points = [
            RewindPoint(
                _id_of(number, message),
                _title(message),
                files=len({path for turn in self._since(checkpoints, number) for path in turn.changes}),
            )
            for number, message in enumerate(messages)
        ]
        redo = self._performed or (checkpoints.rewinds[-1] if checkpoints.rewinds else None)
        return RewindPoints(points[::-1], None if redo is None else RedoPoint(redo.title, redo.scope))

    async def rewind(
        self,
        message_id: str | None,
        scope: RewindScope = "both",
        *,
        dry_run: bool = False,
        force: bool = False,
    ) -> RewindResult:
        """Go back to before a message; without one, take the last rewind back. Raises AccordError."""
        if message_id is None:
            return await self._redo(dry_run=dry_run, force=force)
        messages = user_messages(self._session.state.timeline)
        ids = [_id_of(number, message) for number, message in enumerate(messages)]
        if message_id not in ids:
            raise InvalidParams(f"the session has no message {message_id!r} to go back to")
        number = ids.index(message_id)
        message = messages[number]
        checkpoints = await self._read()
        turns = [] if scope == "conversation" else self._since(checkpoints, number)
        notes = list(dict.fromkeys(note for turn in turns for note in turn.notes))
        if scope != "conversation":
            notes += self._checkpoints.notes
        plan = await self._plan([turn.changes for turn in turns], force=force)
        if dry_run:
            return rewind_result(plan, notes, _title(message))
        performed = PerformedRewind(message_id, _title(message), scope)
        performed.undone = [turn.message_id for turn in turns]
        if scope != "files":
            self._performed = performed
            await self._branches.branch(number)
            notes.append(
                "The agent goes on in a new session. Your next prompt carries the conversation so far."
            )
        failed: list[SkippedFile] = []
        if scope != "conversation":
            failed = await _in_thread(lambda: perform_rewind(self._store, checkpoints, plan, performed))
        if scope == "files":
            self._tell(plan, performed)
            return rewind_result(plan, notes, performed.title, (), failed)
        return rewind_result(plan, notes, performed.title, message.blocks[:1], failed)

    def branch(self, session: ClientSession, agent: str, before: int) -> "ClientRewind":
        """The rewind of a new session that has the history before a message."""
        branch = ClientRewind(session, agent, self._branches, origin=self)
        branch._performed = self._performed
        with suppress(OSError, BadSettings):
            self._store.copy_to(branch._store)
            kept = branch._store.load()
            kept.turns = [turn for turn in kept.turns if _number(turn) < before]
            branch._store.save(kept)
        return branch

    async def _redo(self, *, dry_run: bool, force: bool) -> RewindResult:
        origin, performed = self._origin, self._performed
        if origin is not None and performed is not None:
            if performed.scope == "conversation":
                result = rewind_result(RestorePlan(), [], performed.title)
            else:
                result = await origin._redo_files(dry_run=dry_run, force=force)
            if not dry_run:
                origin._performed = None
                await self._branches.rejoin()
            return result
        return await self._redo_files(dry_run=dry_run, force=force)

    async def _redo_files(self, *, dry_run: bool, force: bool) -> RewindResult:
        checkpoints = await self._read()
        if not checkpoints.rewinds:
            raise InvalidParams("there is nothing to redo: nothing was undone since the last prompt")
        performed = checkpoints.rewinds[-1]
        plan = await self._plan([performed.changes], force=force)
        if dry_run:
            return rewind_result(plan, [], performed.title)
        failed = await _in_thread(lambda: take_back_rewind(self._store, checkpoints, plan, performed))
        self._told.clear()
        return rewind_result(plan, [], performed.title, (), failed)

    # -- internals -------------------------------------------------------------------------------------------

    async def _read(self) -> CheckpointList:
        try:
            return await self._checkpoints.read()
        except (OSError, BadSettings) as error:
            raise InternalError(f"the copies of the files cannot be read: {error}") from None

    def _since(self, checkpoints: CheckpointList, number: int) -> list[TurnCheckpoint]:
        """The turns from a message on whose changes are still there, the earliest first."""
        messages = user_messages(self._session.state.timeline)
        ids = {_id_of(at, message) for at, message in enumerate(messages)}
        return [
            turn
            for turn in checkpoints.turns
            if not turn.undone and turn.message_id in ids and _number(turn) >= number
        ]

    async def _plan(self, changes: Sequence[Any], *, force: bool) -> RestorePlan:
        roots = list(map(str, self._session.roots.folders))

        def why_not(path: str) -> str:
            return "" if within(roots, path) else "it is outside the folders of the session"

        return await _in_thread(lambda: plan_restore(self._store, changes, why_not, force=force))

    def _tell(self, plan: RestorePlan, performed: PerformedRewind) -> None:
        """Let the next prompt say which files went back."""
        if plan.steps:
            names = ", ".join(step.path for step in plan.steps[:_MAX_NAMED])
            more = f" and {len(plan.steps) - _MAX_NAMED} more" if len(plan.steps) > _MAX_NAMED else ""
            self._told.append(
                f"(I undid the changes of files since my prompt {performed.title!r}. "
                f"These files are as they were before it: {names}{more}.)"
            )


def user_messages(timeline: Sequence[Entry]) -> list[Message]:
    """The messages of the user."""
    return [entry for entry in timeline if isinstance(entry, Message) and entry.kind == "user"]


def history_block(text: str, *, embedded: bool) -> ContentBlock:
    """The conversation so far, for the first prompt of a new session."""
    left_out = "(The beginning is left out.)\n\n" if len(text) > MAX_HISTORY else ""
    content = (
        "This session continues an earlier conversation with you, which follows. "
        "Do not answer it again; answer only the prompt.\n\n" + left_out + text[-MAX_HISTORY:]
    )
    if embedded:
        return EmbeddedResource(TextResourceContents(HISTORY_URI, content, "text/markdown"))
    return _for_agent(f"\n\n{content}")


def _for_agent(text: str) -> TextContent:
    return TextContent(text, Annotations(audience=["assistant"]))


def clean_copies() -> None:
    """Remove the copies of sessions that are no longer recorded or were unused for long. Blocking.

    Opens the recordings itself: a connection belongs to one thread.
    """
    folder = _folder()
    with suppress(OSError, StoreError):
        keys = stored_sessions(folder)
        if not keys:
            return
        records = RecordedSessions.open()
        try:
            deleted = {key for key in keys if not _is_recorded(records, key)}
        finally:
            records.close()
        clean_up(folder, deleted, time.time())


def _is_recorded(records: RecordedSessions, key: str) -> bool:
    try:
        records.store.summary(key)
    except NotFound:
        return False
    return True


def _real_paths(paths: Sequence[str], cwd: str) -> list[str]:
    return [os.path.realpath(os.path.join(cwd, path)) for path in paths if "\0" not in path]


def _folder() -> Path:
    return checkpoints_folder(store_path(NAME))


def _id_of(number: int, message: Message) -> str:
    first = next((block.text for block in message.blocks if isinstance(block, TextContent)), "")
    return _message_id(number, first)


def _message_id(number: int, text: str) -> str:
    """Names a message by its position and how it begins: agents that replay a session keep both."""
    begin = "".join(text.split())[:_ID_CHARS]
    return f"{number}:{hashlib.sha256(begin.encode(errors='surrogatepass')).hexdigest()[:12]}"


def _number(turn: TurnCheckpoint) -> int:
    head = turn.message_id.partition(":")[0]
    return int(head) if head.isdecimal() else -1


def _title(message: Message) -> str:
    return one_line(clean_line(message.text), _TITLE_CHARS) or "(no text)"


async def _in_thread(work: Callable[[], Any]) -> Any:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise InternalError(f"the rewind failed: {error.strerror or error}") from None
