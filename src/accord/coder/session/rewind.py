"""Goes back to an earlier message: the conversation, the files, or both. Imported on first use.

Points are read from the log of the session, files from its checkpoints. The log only grows: a rewind appends
the shorter model history and a marker that hides the rest from readers.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from msgspec import Struct, ValidationError, convert, to_builtins

from accord.agent.agent_session import AgentSession
from accord.agent.capabilities import unknown_session
from accord.agent.decorators import ClientRequest
from accord.coder.model_history import HISTORY_RECORD, Message, apply_entry, note_message
from accord.coder.session.coder_session import prompt_id
from accord.errors import (
    BadSettings,
    InternalError,
    InvalidParams,
    InvalidRequest,
    NotFound,
    StoreError,
)
from accord.frontend.checkpoints.checkpoint_store import CheckpointedChange, PerformedRewind, TurnCheckpoint
from accord.frontend.checkpoints.file_restore import (
    RestorePlan,
    perform_rewind,
    plan_restore,
    rewind_result,
    take_back_rewind,
    within,
)
from accord.safe_text import one_line
from accord.schema.content import ContentBlock, text_of_blocks
from accord.schema.methods import SESSION_REWIND, SESSION_REWIND_POINTS
from accord.schema.updates import SessionInfoUpdate
from accord.session.events import MessageChanged, TurnStarted
from accord.session.rewind import (
    TEXT_LIMIT,
    RedoPoint,
    RewindMarker,
    RewindPoint,
    RewindPoints,
    RewindResult,
    RewindScope,
    SkippedFile,
    marker_meta,
    rewind_marker,
)
from accord.store.records import EVENT, LogRecord
from accord.store.session_summary import iso_time

if TYPE_CHECKING:
    from accord.coder.session.coder_session import CoderSession

_TITLE_CHARS: Final = 80
_ALWAYS: Final[dict[str, Any]] = {"filesChanged": [], "insertions": 0, "deletions": 0, "skipped": []}
"""Members of a result that are never left out."""
_NAMED_FILES: Final = 50
T = TypeVar("T")


class LoggedTurn(Struct):
    """A turn in the log."""

    message_id: str
    seq: int
    time: int
    prompt: list[ContentBlock]
    messages: int = 1
    """How many messages of the user it has, with those sent during the turn."""
    asked: bool = False
    """Whether the model was asked; a slash command may be answered without it."""

    @property
    def title(self) -> str:
        return one_line(text_of_blocks(self.prompt), _TITLE_CHARS) or "(no text)"


class _TurnsInLog(Struct):
    shown: list[LoggedTurn]
    seqs: dict[str, int]
    """The positions of all turns, also of those that a rewind has hidden."""
    model_histories: list[list[Message]]
    """The model histories before the rewinds that can be taken back, the latest last."""


class SessionRewind:
    """The rewinds of one session."""

    def __init__(self, session: "CoderSession") -> None:
        self._session = session

    async def points(self) -> RewindPoints:
        """The messages to go back to, the latest first, and what `redo` would bring back."""
        turns = self._turns()
        checkpoints = await self._checkpoints()
        points = [
            RewindPoint(
                turn.message_id,
                turn.title,
                iso_time(turn.time),
                len({path for change in _changes(checkpoints.turns, turns, turn) for path in change}),
            )
            for turn in reversed(turns.shown)
            if turn.asked
        ]
        redo = checkpoints.rewinds[-1] if checkpoints.rewinds else None
        return RewindPoints(points, None if redo is None else RedoPoint(redo.title, redo.scope))

    async def rewind(
        self, message_id: str | None, scope: RewindScope, *, dry_run: bool = False, force: bool = False
    ) -> RewindResult:
        """Go back to before a message, by default the last one. Raises InvalidParams, InternalError."""
        turns = self._turns()
        asked = [turn for turn in turns.shown if turn.asked]
        turn = next((turn for turn in asked if turn.message_id == message_id), None)
        if message_id is None and asked:
            turn = asked[-1]
        if turn is None:
            raise InvalidParams(
                "there is no message to go back to"
                if message_id is None
                else f"messageId: the session has no message {message_id!r} to go back to"
            )
        checkpoints = await self._checkpoints()
        affected = [] if scope == "conversation" else _affected(checkpoints.turns, turns, turn)
        changes = [entry.changes for entry in affected]
        notes = list(dict.fromkeys(note for entry in affected for note in entry.notes))
        if scope != "conversation":
            notes += self._session.checkpoints.notes
        plan = await self._plan(changes, force=force)
        if dry_run:
            return rewind_result(plan, notes, turn.title)
        performed = PerformedRewind(turn.message_id, turn.title, scope)
        performed.undone = [entry.message_id for entry in affected]
        failed = await self._restore(plan, performed)
        if scope != "files":
            await self._rewind_conversation(turns, turn, files=scope == "both")
        elif plan.steps:
            self._tell_model(plan, turn)
        return rewind_result(plan, notes, turn.title, () if scope == "files" else turn.prompt, failed)

    async def redo(self, *, dry_run: bool = False, force: bool = False) -> RewindResult:
        """Take the last rewind back. Raises InvalidParams if there is none since the last prompt."""
        checkpoints = await self._checkpoints()
        if not checkpoints.rewinds:
            raise InvalidParams("there is nothing to redo: nothing was undone since the last prompt")
        performed = checkpoints.rewinds[-1]
        plan = await self._plan([performed.changes], force=force)
        if dry_run:
            return rewind_result(plan, [], performed.title)
        store = self._session.checkpoints.store
        failed = await self._in_thread(lambda: take_back_rewind(store, checkpoints, plan, performed))
        if performed.scope != "files":
            histories = self._turns().model_histories
            if histories:
                self._session.history.replace(histories[-1], "restored")
            await self._send_marker(RewindMarker(restored=True))
        return rewind_result(plan, [], performed.title, (), failed)

    # -- files -----------------------------------------------------------------------------------------------

    async def _checkpoints(self) -> Any:
        try:
            return await self._session.checkpoints.read()
        except (OSError, BadSettings) as error:
            raise InternalError(f"the checkpoints of the session cannot be read: {error}") from None

    async def _plan(self, changes: Sequence[dict[str, CheckpointedChange]], *, force: bool) -> RestorePlan:
        session = self._session
        if not changes:
            return RestorePlan()
        gate = (await session.runtime()).gate
        roots = session.agent_session.roots

        def why_not(path: str) -> str:
            if not within(roots, path):
                return "it is outside the folders of the session"
            return gate.why_not_restored(path)

        store = session.checkpoints.store
        return await self._in_thread(lambda: plan_restore(store, changes, why_not, force=force))

    async def _restore(self, plan: RestorePlan, performed: PerformedRewind) -> list[SkippedFile]:
        """Keep the files as they are now, then bring them back."""
        checkpoints = await self._checkpoints()
        store = self._session.checkpoints.store
        return await self._in_thread(lambda: perform_rewind(store, checkpoints, plan, performed))

    async def _in_thread(self, work: "Any") -> Any:
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise InternalError(f"the rewind failed: {error.strerror or error}") from None

    def _tell_model(self, plan: RestorePlan, turn: LoggedTurn) -> None:
        names = [step.path for step in plan.steps[:_NAMED_FILES]]
        more = f" and {len(plan.steps) - _NAMED_FILES} more" if len(plan.steps) > _NAMED_FILES else ""
        self._session.history.add(
            note_message(
                f"The user undid the changes of files since the prompt {turn.title!r}. "
                f"These files are as they were before it: {', '.join(names)}{more}."
            )
        )

    # -- conversation ----------------------------------------------------------------------------------------

    async def _rewind_conversation(self, turns: _TurnsInLog, turn: LoggedTurn, *, files: bool) -> None:
        session = self._session
        messages: list[Message] = []
        for record in self._records():
            if record.seq >= turn.seq:
                break
            if record.kind == HISTORY_RECORD:
                apply_entry(messages, record.data)
        if not files and messages:
            messages.append(
                note_message("The user took back later messages, but kept the changes of files made since.")
            )
        session.history.replace(messages, "rewound")
        session.plan = ()
        runtime = await session.runtime()
        runtime.conversation_rewound()
        hidden = turns.shown[turns.shown.index(turn) :]
        text = text_of_blocks(turn.prompt).strip()[:TEXT_LIMIT]
        count = sum(entry.messages for entry in hidden)
        await self._send_marker(RewindMarker(turn.message_id, count, text))

    async def _send_marker(self, marker: RewindMarker) -> None:
        await self._session.agent_session.update(SessionInfoUpdate(meta=marker_meta(marker)))

    def _records(self) -> Iterator[LogRecord]:
        try:
            self._session.journal.commit()
            yield from self._session.resources.store.read(self._session.id)
        except (StoreError, NotFound) as error:
            raise InternalError(str(error)) from None

    def _turns(self) -> _TurnsInLog:
        """The turns in the log, without those that a rewind has hidden."""
        shown: list[LoggedTurn] = []
        hidden: list[list[LoggedTurn]] = []
        messages: list[Message] = []
        turns = _TurnsInLog(shown, {}, [])
        for record in self._records():
            if record.kind == HISTORY_RECORD:
                self._apply_history(record, messages, turns)
            elif record.kind == EVENT and any(tag in record.data for tag in _TAGS):
                event = record.event
                if isinstance(event, TurnStarted):
                    turn = LoggedTurn(prompt_id(record.seq), record.seq, record.time, event.prompt)
                    shown.append(turn)
                    turns.seqs[turn.message_id] = turn.seq
                elif isinstance(event, MessageChanged) and event.kind == "user" and shown:
                    shown[-1].messages += 1
                elif isinstance(event, SessionInfoUpdate) and (marker := rewind_marker(event.meta)):
                    _apply_marker(marker, shown, hidden)
        return turns

    def _apply_history(self, record: LogRecord, messages: list[Message], turns: _TurnsInLog) -> None:
        before = list(messages)
        apply_entry(messages, record.data)
        if b'"why":"rewound"' in record.data[-40:]:
            turns.model_histories.append(before)
        elif b'"why":"restored"' in record.data[-40:] and turns.model_histories:
            turns.model_histories.pop()
        elif turns.shown and b'"added"' in record.data[:40] and _has_prompt(messages[len(before) :]):
            turns.shown[-1].asked = True
            turns.model_histories.clear()


_TAGS: Final = (b'"_accord/turn_started"', b'"_accord/message_changed"', b'"rewind"')


def _has_prompt(messages: Sequence[Message]) -> bool:
    return any(getattr(message, "note", True) is False for message in messages)


def _apply_marker(marker: RewindMarker, shown: list[LoggedTurn], hidden: list[list[LoggedTurn]]) -> None:
    if marker.restored:
        if hidden:
            shown += hidden.pop()
        return
    for position, turn in enumerate(shown):
        if turn.message_id == marker.message_id:
            hidden.append(shown[position:])
            del shown[position:]
            return


def _affected(
    checkpoints: Sequence[TurnCheckpoint], turns: _TurnsInLog, turn: LoggedTurn
) -> list[TurnCheckpoint]:
    """The checkpoints of a turn and all later ones whose changes are still there, the earliest first."""
    return [
        entry for entry in checkpoints if not entry.undone and turns.seqs.get(entry.message_id, 0) >= turn.seq
    ]


def _changes(
    checkpoints: Sequence[TurnCheckpoint], turns: _TurnsInLog, turn: LoggedTurn
) -> list[dict[str, CheckpointedChange]]:
    return [entry.changes for entry in _affected(checkpoints, turns, turn)]


# -- the methods ---------------------------------------------------------------------------------------------


class _RewindParams(Struct, rename="camel"):
    session_id: str
    message_id: str | None = None
    scope: RewindScope = "both"
    dry_run: bool = False
    force: bool = False
    redo: bool = False


async def serve_points(params: Any, call: ClientRequest) -> dict[str, Any]:
    """Serve `_session/rewind_points`."""
    session = _open_session(_read_params(SESSION_REWIND_POINTS, params).session_id, call)
    return to_builtins(await session.data.rewinds.points())


async def serve_rewind(params: Any, call: ClientRequest) -> dict[str, Any]:
    """Serve `_session/rewind`. Refused while a turn runs."""
    values = _read_params(SESSION_REWIND, params)
    session = _open_session(values.session_id, call)
    if values.message_id is None and not values.redo:
        raise InvalidParams(f"{SESSION_REWIND} needs a messageId, or redo")
    rewinds: SessionRewind = session.data.rewinds
    async with session.data.rewind_lock:  # a turn that waits for it counts as running
        if session.state == "running":
            raise InvalidRequest(f"{SESSION_REWIND}: a turn is running; cancel it or wait for its end")
        if values.redo:
            result = await rewinds.redo(dry_run=values.dry_run, force=values.force)
        else:
            result = await rewinds.rewind(
                values.message_id, values.scope, dry_run=values.dry_run, force=values.force
            )
    return _ALWAYS | to_builtins(result)


def _read_params(method: str, params: Any) -> _RewindParams:
    values = cast(dict[str, Any], params) if isinstance(params, dict) else {}
    try:
        decoded = convert(values, _RewindParams)
    except ValidationError as error:
        raise InvalidParams(f"{method}: {error}") from None
    if not decoded.session_id:
        raise InvalidParams(f"{method} needs a sessionId")
    return decoded


def _open_session(session_id: str, call: ClientRequest) -> AgentSession:
    session: AgentSession | None = call.connection.sessions.get(session_id)
    if session is None:
        raise unknown_session(session_id)
    return session
