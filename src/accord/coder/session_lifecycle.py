"""Creates, loads, resumes, forks, lists and deletes sessions; replays a stored session to the client."""

import logging
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import MsgspecError

from accord.agent.agent_session import AgentSession
from accord.agent.capabilities import unknown_session
from accord.agent.decorators import ClientRequest
from accord.coder import session_options
from accord.coder.coder_session import SERVERS, CoderSession, StoredSessionState, mode_of
from accord.coder.model_history import note
from accord.coder.models.model_name import ModelName
from accord.coder.models.model_registry import ModelChoice, UnknownModel, missing_key
from accord.coder.resources import tell
from accord.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    NotFound,
    NotOffered,
    RpcError,
    SessionInUse,
    StoreError,
    UsageError,
)
from accord.schema.content import ToolCall
from accord.schema.session_requests import ListSessionsRequest, ListSessionsResponse
from accord.schema.updates import SessionInfoUpdate, SessionUpdate
from accord.session import SessionOpened, SessionState
from accord.session.protocol_v1 import updates_of
from accord.session.tool_calls import without_terminals
from accord.store.journal import Journal
from accord.store.records import repair
from accord.store.session_summary import SessionSummary

if TYPE_CHECKING:
    from accord.coder.resources import CoderResources
    from accord.policy.request import Mode


# MERGED coder.replay: Telling a client what happened in a session before: from the log, as few messages as say it all.

_BREATH: Final = 64
"""After so many updates the client gets the chance to read."""


async def replay(session: AgentSession, state: SessionState) -> None:
    """Tell everything; waits while the client reads more slowly."""
    for number, update in enumerate(_updates(state), 1):
        _tell(session, update)
        if number % _BREATH == 0:
            await session.drain()


def replay_now(session: AgentSession, state: SessionState) -> None:
    """Tell everything at once, before anything else can be told."""
    for update in _updates(state):
        _tell(session, update)


def _updates(state: SessionState) -> Iterator[SessionUpdate]:
    for event in state.history.events():
        for update in updates_of(event):
            yield cast(SessionUpdate, _told(update))
    if state.title is not None:
        yield SessionInfoUpdate(state.title)
    if state.usage is not None:
        yield state.usage


def _told(update: Any) -> Any:
    """A terminal was one of a client that may be gone: what it showed is told as text."""
    return without_terminals(update, lambda _terminal: None) if isinstance(update, ToolCall) else update


def _tell(session: AgentSession, update: SessionUpdate) -> None:
    try:
        session.push(update)
    except NotOffered:
        pass  # another client had asked for it


# MERGED coder.sessions: The sessions of the coding agent in the store: begun, taken up again, branched, listed, deleted. Nothing is deleted silently.

_LOG = logging.getLogger("accord.coder")
_INTERRUPTED = (
    "The turn before this was interrupted: the agent stopped in the middle of it. Look before you go on."
)


class SessionLifecycle:
    """What the handlers of the agent do about sessions. All errors are those of the protocol."""

    def __init__(self, coder: "CoderResources") -> None:
        self._coder = coder

    # -- they begin ------------------------------------------------------------------------------------------

    async def new(self, session: AgentSession) -> None:
        """Begin a session; the first one may have to go on with another."""
        _check_folders(session)
        choice = self._choice()
        resume, self._coder.resume = self._coder.resume, None
        if resume is not None and await self._continued(session, resume):
            return
        with _as_rpc():
            self._coder.store.create(
                session.id, session.cwd, additional_directories=session.additional_directories
            )
            with _until_it_fails(self._coder.store.journal(session.id)) as journal:
                conversation = CoderSession(self._coder, session, journal, choice.model, StoredSessionState())
                self._offer(session, conversation, mode_of(self._coder.first_mode))
                conversation.note_choice()
                self._note_servers(conversation)
        session.on_update = conversation.log

    async def load(self, session: AgentSession) -> None:
        """Take a session up again: tell all of it, give the model its history back."""
        state, conversation = self._taken_up(session, self._head(session.id))
        with _until_it_fails(conversation.journal):
            await replay(session, state)
        session.on_update = conversation.log

    async def resume(self, session: AgentSession) -> None:
        """Take a session up again without telling it."""
        _, conversation = self._taken_up(session, self._head(session.id))
        session.on_update = conversation.log

    async def fork(self, session: AgentSession, source_id: str) -> None:
        """Begin a session with all that another one knows."""
        source = self._head(source_id)
        _check_folders(session)
        _check_same_folder(session, source)
        with _as_rpc():
            head = self._coder.store.fork(
                source_id, session.id, additional_directories=session.additional_directories
            )
        try:
            _, conversation = self._taken_up(session, head)
        except BaseException:
            with suppress(StoreError):
                self._coder.store.delete(session.id)  # nobody has heard of it
            raise
        session.on_update = conversation.log

    async def _continued(self, session: AgentSession, wanted: str | bool) -> bool:
        """Make a new session the continuation of an old one, which is told once the client knows its id."""
        fresh = session.id
        try:
            head = self._wanted(session, wanted)
            session.id = head.session_id
            state, conversation = self._taken_up(session, head)
        except RpcError as error:
            session.id = fresh
            tell(f"--resume: {error.message}; a new session begins")
            return False

        def catch_up() -> None:
            replay_now(session, state)
            session.on_update = conversation.log

        session.after_open(catch_up)
        return True

    def _wanted(self, session: AgentSession, wanted: str | bool) -> SessionSummary:
        if isinstance(wanted, str):
            head = self._head(wanted)
            _check_same_folder(session, head)
            return head
        with _as_rpc():
            newest = self._coder.store.newest(session.cwd)
        if newest is None:
            raise NotFound(f"there is no session in {session.cwd}")
        return newest

    # -- what there is ---------------------------------------------------------------------------------------

    async def list(self, request: ListSessionsRequest, call: ClientRequest) -> ListSessionsResponse:
        """One page of the sessions, of a folder or of all, those used last first."""
        with _as_rpc():
            page = self._coder.store.list(request.cwd or None, cursor=request.cursor or None)
        response = ListSessionsResponse([head.info() for head in page.sessions])
        if page.next_cursor is not None:
            response.next_cursor = page.next_cursor
        return response

    async def delete(self, session_id: str, call: ClientRequest) -> None:
        """Remove a session for good; one that is not there counts as removed."""
        with _as_rpc():
            self._coder.store.delete(session_id)

    async def close(self, session: AgentSession) -> None:
        """Free what an open session holds."""
        conversation: CoderSession | None = session.data
        if conversation is not None:
            await conversation.aclose()

    # -- how -------------------------------------------------------------------------------------------------

    def _choice(self) -> ModelChoice:
        """The model that new sessions begin with. Raises AuthRequired where its key is missing."""
        try:
            choice = self._coder.models.choose(self._coder.start.model)
        except UsageError as error:
            raise InvalidRequest(str(error)) from None
        self._coder.sign_in.require(choice)
        if choice.missing_model is not None and choice.missing_model not in self._coder.told:
            self._coder.told.add(choice.missing_model)
            tell(f"rehearsal: {choice.missing_model}")
        return choice

    def _head(self, session_id: str) -> SessionSummary:
        with _as_rpc():
            try:
                return self._coder.store.summary(session_id)
            except NotFound:
                raise unknown_session(session_id) from None

    def _taken_up(self, session: AgentSession, head: SessionSummary) -> tuple[SessionState, CoderSession]:
        _check_folders(session)
        _check_same_folder(session, head)
        with _as_rpc(), _until_it_fails(self._coder.store.journal(head.session_id)) as journal:
            state, past, interrupted = self._past(head.session_id, journal)
            conversation = CoderSession(self._coder, session, journal, self._model(past), past)
            if interrupted:
                conversation.history.add(note(_INTERRUPTED))
            self._note_changed_servers(conversation, past)
            self._offer(session, conversation, mode_of(past.mode or self._coder.first_mode))
        return state, conversation

    def _past(self, session_id: str, journal: Journal) -> tuple[SessionState, StoredSessionState, bool]:
        """What the log says; what an interrupted turn left open is closed, in the log as well."""
        state, closing = repair(self._coder.store.events(session_id))
        past = StoredSessionState(
            plan=state.plan,
            titled=bool(state.title),
            mode=state.settings.current_mode_id,
            used=state.usage.used if state.usage else 0,
        )
        for record in self._coder.store.read(session_id):
            try:
                past.take(record)
            except MsgspecError as error:
                raise StoreError(
                    f"session {session_id}: record {record.seq} of its log ({record.kind}) cannot be read ({error}): it is "
                    "of a newer Accord, or damaged; update Accord, or begin a new session"
                ) from None
        journal.append(*closing)
        return state, past, bool(closing)

    def _model(self, past: StoredSessionState) -> ModelName:
        """The model that was chosen for a session, if it can be had now; else the one that new sessions get."""
        models = self._coder.models
        if past.chosen is not None:
            try:
                name = models.find(past.chosen.model)
            except UnknownModel as error:
                _LOG.warning("a session goes on with another model: %s", error)
            else:
                missing = missing_key(name.provider, models.endpoints)
                if missing is None or self._coder.start.resolver is not None:
                    return name
                _LOG.warning("a session goes on with another model: %s", missing)
        return self._choice().model

    def _offer(self, session: AgentSession, conversation: CoderSession, mode: "Mode") -> None:
        session.data = conversation
        session.modes = session_options.modes(mode)
        session.config_options = session_options.options(conversation)
        session.custom_value_options = frozenset((session_options.MODEL,))
        conversation.journal.append(
            SessionOpened(
                session.id,
                session.cwd,
                list(session.additional_directories),
                session.modes,
                session.config_options,
            )
        )
        session.after_open(self._coder.opened.set)
        session.after_open(lambda: session.spawn(conversation.begin()))

    def _note_servers(self, conversation: CoderSession) -> None:
        conversation.journal.record(
            SERVERS, sorted(server.name for server in conversation.session.mcp_servers)
        )

    def _note_changed_servers(self, conversation: CoderSession, past: StoredSessionState) -> None:
        names = sorted(server.name for server in conversation.session.mcp_servers)
        if past.servers is not None and past.servers != names:
            self._note_servers(conversation)
            listed = ", ".join(names) or "none"
            conversation.history.add(note(f"The MCP servers are others now: {listed}."))


def _check_folders(session: AgentSession) -> None:
    if not os.path.isdir(session.cwd):
        raise InvalidParams(f"cwd is not an existing folder: {session.cwd!r}")
    for folder in session.additional_directories:
        if not os.path.isdir(folder):
            raise InvalidParams(f"additionalDirectories: not an existing folder: {folder!r}")


def _check_same_folder(session: AgentSession, head: SessionSummary) -> None:
    if os.path.realpath(session.cwd) != os.path.realpath(head.cwd):
        raise InvalidParams(
            f"session {head.session_id} belongs to {head.cwd!r}, not to {session.cwd!r}: open it with its own cwd"
        )


@contextmanager
def _until_it_fails(journal: Journal) -> Generator[Journal]:
    """A session that cannot be opened after all, or whose request is cancelled, must not stay reserved for this process."""
    try:
        yield journal
    except BaseException:
        journal.close()
        raise


@contextmanager
def _as_rpc() -> Generator[None]:
    """What a store raises, as the client is told it."""
    try:
        yield
    except SessionInUse as error:
        raise InvalidRequest(str(error)) from None
    except StoreError as error:
        raise InternalError(str(error)) from None
