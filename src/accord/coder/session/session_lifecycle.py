"""Creates, loads, resumes, forks, lists and deletes sessions; replays a stored session to the client."""

import asyncio
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from msgspec import MsgspecError

from accord.agent.agent_session import AgentSession
from accord.agent.capabilities import unknown_session
from accord.agent.decorators import ClientRequest
from accord.coder.model_history import note_message
from accord.coder.models.model_name import REHEARSAL, ModelName
from accord.coder.models.model_registry import ModelChoice, UnknownModel, missing_key
from accord.coder.resources import write_stderr
from accord.coder.session import session_options
from accord.coder.session.coder_session import SERVERS_RECORD, CoderSession, StoredSessionState
from accord.errors import (
    CONFIGURATION,
    BadSettings,
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
from accord.frontend.checkpoints.checkpoint_store import CheckpointStore, checkpoints_folder
from accord.schema.session_requests import ListSessionsRequest, ListSessionsResponse
from accord.schema.updates import SessionUpdate
from accord.session import SessionOpened, SessionState
from accord.store.journal import Journal
from accord.store.records import repair
from accord.store.session_summary import SessionSummary

if TYPE_CHECKING:
    from accord.coder.resources import CoderResources


_DRAIN_INTERVAL: Final = 64
"""Wait for the client to catch up after this many updates."""


async def replay(agent_session: AgentSession, state: SessionState) -> None:
    """Replay a session to the client; waits while the client reads slowly."""
    for number, update in enumerate(state.updates(), 1):
        _push_if_offered(agent_session, update)
        if number % _DRAIN_INTERVAL == 0:
            await agent_session.drain()


def replay_now(agent_session: AgentSession, state: SessionState) -> None:
    """Replay a session at once, before any other update."""
    for update in state.updates():
        _push_if_offered(agent_session, update)


def _push_if_offered(agent_session: AgentSession, update: SessionUpdate) -> None:
    try:
        agent_session.push(update)
    except NotOffered:
        pass  # this client does not support the update


_LOG = logging.getLogger("accord.coder")
_INTERRUPTED = (
    "The previous turn was interrupted: the agent stopped in the middle of it. "
    "Check the state of the work before you continue."
)


class SessionLifecycle:
    """The session handlers of the agent. They raise errors of the protocol only."""

    def __init__(self, resources: "CoderResources") -> None:
        self._resources = resources

    # -- open ------------------------------------------------------------------------------------------------

    async def new(self, agent_session: AgentSession) -> None:
        """Create a session. The first one may continue a stored session instead (`--resume`)."""
        _check_folders(agent_session)
        choice = self._default_model_choice()
        resume, self._resources.resume = self._resources.resume, None
        if resume is not None and await self._continue(agent_session, resume):
            return
        with protocol_errors():
            self._resources.store.create(
                agent_session.id,
                agent_session.cwd,
                additional_directories=agent_session.additional_directories,
            )
            with _closed_on_failure(self._resources.store.journal(agent_session.id)) as journal:
                session = CoderSession(
                    self._resources, agent_session, journal, choice.model, StoredSessionState()
                )
                session.model_is_named = choice.source != "rehearsal"
                self._publish(agent_session, session, self._resources.first_mode)
                session.log_choices()
                self._log_servers(session)

    async def load(self, agent_session: AgentSession) -> None:
        """Open a stored session and replay it to the client."""
        state, session = self._open(agent_session, self._summary(agent_session.id))
        with _closed_on_failure(session.journal), session.unlogged():
            await replay(agent_session, state)

    async def resume(self, agent_session: AgentSession) -> None:
        """Open a stored session without replaying it."""
        self._open(agent_session, self._summary(agent_session.id))

    async def fork(self, agent_session: AgentSession, source_id: str) -> None:
        """Create a session with the log and history of another one."""
        source = self._summary(source_id)
        _check_folders(agent_session)
        _check_same_folder(agent_session, source)
        with protocol_errors():
            summary = self._resources.store.fork(
                source_id, agent_session.id, additional_directories=agent_session.additional_directories
            )
        opening = self._resources.opening_forks
        opening.add(agent_session.id)
        try:
            with suppress(OSError, BadSettings):  # the fork works without the checkpoints, too
                await asyncio.to_thread(
                    self._checkpoints(source_id).copy_to, self._checkpoints(agent_session.id)
                )
            _, session = self._open(agent_session, summary)
            session.is_fork = True
            agent_session.after_open(lambda: (opening.discard(agent_session.id), session.list_changed()))
        except BaseException:
            opening.discard(agent_session.id)
            with suppress(StoreError):
                self._resources.store.delete(agent_session.id)  # the client does not know it yet
            raise

    async def _continue(self, agent_session: AgentSession, resume: str | bool) -> bool:
        """Continue a stored session as this new one. The replay follows once the client knows its id."""
        new_id = agent_session.id
        try:
            summary = self._session_to_continue(agent_session, resume)
            agent_session.id = summary.session_id
            state, session = self._open(agent_session, summary)
        except RpcError as error:
            agent_session.id = new_id
            write_stderr(f"--resume: {error.message}; starting a new session")
            return False

        def catch_up() -> None:
            with session.unlogged():
                replay_now(agent_session, state)

        agent_session.after_open(catch_up)
        return True

    def _session_to_continue(self, agent_session: AgentSession, resume: str | bool) -> SessionSummary:
        if isinstance(resume, str):
            summary = self._summary(resume)
            _check_same_folder(agent_session, summary)
            return summary
        with protocol_errors():
            newest = self._resources.store.newest(agent_session.cwd)
        if newest is None:
            raise NotFound(f"there is no session in {agent_session.cwd}")
        return newest

    # -- list, delete, close ---------------------------------------------------------------------------------

    async def list(self, request: ListSessionsRequest, call: ClientRequest) -> ListSessionsResponse:
        """One page of the sessions with a prompt, most recently used first."""
        with protocol_errors():
            page = self._resources.store.list(
                request.cwd or None,
                archived=request.archived or "exclude",
                used_only=True,
                cursor=request.cursor or None,
            )
        forks = self._resources.opening_forks  # their ids are not known to the client yet
        shown = [summary.info() for summary in page.sessions if summary.session_id not in forks]
        response = ListSessionsResponse(shown)
        if page.next_cursor is not None:
            response.next_cursor = page.next_cursor
        return response

    async def delete(self, session_id: str, call: ClientRequest) -> None:
        """Delete a session. A session that does not exist counts as deleted."""
        with protocol_errors():
            summary = self._summary_or_none(session_id)
            self._resources.store.delete(session_id)
        if summary is not None and (index := self._resources.session_index) is not None:
            index.changed(session_id, summary.cwd)
        await asyncio.to_thread(self._checkpoints(session_id).delete)

    async def close(self, agent_session: AgentSession) -> None:
        """Release everything that an open session holds."""
        session: CoderSession | None = agent_session.data
        if session is not None:
            await session.aclose()

    # -- internals -------------------------------------------------------------------------------------------

    def _checkpoints(self, session_id: str) -> CheckpointStore:
        return CheckpointStore(checkpoints_folder(self._resources.options.store), session_id)

    def _default_model_choice(self) -> ModelChoice:
        """The model of new sessions. Raises AuthRequired if its key is missing."""
        try:
            choice = self._resources.models.choose(self._resources.options.model)
        except UsageError as error:
            raise InvalidRequest(str(error), {"reason": CONFIGURATION}) from None
        self._resources.sign_in.require(choice)
        if choice.missing_model is not None and choice.missing_model not in self._resources.reported_messages:
            self._resources.reported_messages.add(choice.missing_model)
            write_stderr(f"rehearsal: {choice.missing_model}")
        return choice

    def _summary(self, session_id: str) -> SessionSummary:
        with protocol_errors():
            try:
                return self._resources.store.summary(session_id)
            except NotFound:
                raise unknown_session(session_id) from None

    def _summary_or_none(self, session_id: str) -> SessionSummary | None:
        try:
            return self._resources.store.summary(session_id)
        except NotFound:
            return None

    def _open(
        self, agent_session: AgentSession, summary: SessionSummary
    ) -> tuple[SessionState, CoderSession]:
        _check_folders(agent_session)
        _check_same_folder(agent_session, summary)
        with (
            protocol_errors(),
            _closed_on_failure(self._resources.store.journal(summary.session_id)) as journal,
        ):
            state, stored, interrupted = self._read_log(summary.session_id, journal)
            if summary.title_set:
                state.title, stored.has_title = summary.title, True
            session = CoderSession(
                self._resources, agent_session, journal, self._session_model(stored), stored
            )
            session.model_is_named = self._is_named(session.model, stored)
            if interrupted:
                session.history.add(note_message(_INTERRUPTED))
            self._log_changed_servers(session, stored)
            self._publish(agent_session, session, stored.mode or self._resources.first_mode)
        return state, session

    def _read_log(self, session_id: str, journal: Journal) -> tuple[SessionState, StoredSessionState, bool]:
        """Read the log, and append the events that close an interrupted turn."""
        state, closing_events = repair(self._resources.store.events(session_id))
        stored = StoredSessionState(
            plan=state.plan,
            has_title=bool(state.title),
            mode=state.settings.current_mode_id,
            context_tokens=state.usage.used if state.usage else 0,
        )
        for record in self._resources.store.read(session_id):
            try:
                stored.apply(record)
            except MsgspecError as error:
                raise StoreError(
                    f"session {session_id}: record {record.seq} of its log ({record.kind}) cannot be read "
                    f"({error}): it is damaged or from a newer Accord; update Accord, or begin a new session"
                ) from None
        journal.append(*closing_events)
        return state, stored, bool(closing_events)

    def _session_model(self, stored: StoredSessionState) -> ModelName:
        """The model that was chosen for a session if it is available, else the default model."""
        models = self._resources.models
        if stored.choices is not None:
            try:
                name = models.find(stored.choices.model)
            except UnknownModel as error:
                _LOG.warning("a session continues with another model: %s", error)
            else:
                missing = missing_key(name.provider, models.endpoints)
                if missing is None or self._resources.options.resolver is not None:
                    return name
                _LOG.warning("a session continues with another model: %s", missing)
        return self._default_model_choice().model

    def _is_named(self, model: ModelName, stored: StoredSessionState) -> bool:
        """Whether the user named the model: by a setting or in the session. Only the rehearsal may not be."""
        if model.provider != REHEARSAL or (stored.choices is not None and stored.choices.named):
            return True
        try:
            choice = self._resources.models.choose(self._resources.options.model)
        except UsageError:
            return False
        return choice.model == model and choice.source != "rehearsal"

    def _publish(self, agent_session: AgentSession, session: CoderSession, mode: str) -> None:
        agent_session.modes = session_options.modes(session, session.first_mode(mode))
        agent_session.config_options = session_options.options(session)
        agent_session.custom_value_options = frozenset((session_options.MODEL,))
        session.journal.append(
            SessionOpened(
                agent_session.id,
                agent_session.cwd,
                list(agent_session.additional_directories),
                agent_session.modes,
                agent_session.config_options,
            )
        )
        agent_session.after_open(self._resources.session_opened.set)
        agent_session.after_open(lambda: agent_session.spawn(session.start_background_work()))

    def _log_servers(self, session: CoderSession) -> None:
        session.journal.record(
            SERVERS_RECORD, sorted(server.name for server in session.agent_session.mcp_servers)
        )

    def _log_changed_servers(self, session: CoderSession, stored: StoredSessionState) -> None:
        names = sorted(server.name for server in session.agent_session.mcp_servers)
        if stored.servers is not None and stored.servers != names:
            self._log_servers(session)
            names_text = ", ".join(names) or "none"
            session.history.add(note_message(f"The MCP servers have changed. They are now: {names_text}."))


def _check_folders(agent_session: AgentSession) -> None:
    if not os.path.isdir(agent_session.cwd):
        raise InvalidParams(f"cwd is not an existing folder: {agent_session.cwd!r}")
    for folder in agent_session.additional_directories:
        if not os.path.isdir(folder):
            raise InvalidParams(f"additionalDirectories: not an existing folder: {folder!r}")


def _check_same_folder(agent_session: AgentSession, summary: SessionSummary) -> None:
    if os.path.realpath(agent_session.cwd) != os.path.realpath(summary.cwd):
        raise InvalidParams(
            f"session {summary.session_id} belongs to {summary.cwd!r}, not to {agent_session.cwd!r}: "
            "open it with its own cwd"
        )


@contextmanager
def _closed_on_failure(journal: Journal) -> Generator[Journal]:
    """Close the journal if the block fails or is canceled, so that other processes can use the session."""
    try:
        yield journal
    except BaseException:
        journal.close()
        raise


@contextmanager
def protocol_errors() -> Generator[None]:
    """Raise errors of the store as errors of the protocol."""
    try:
        yield
    except SessionInUse as error:
        raise InvalidRequest(str(error)) from None
    except StoreError as error:
        raise InternalError(str(error)) from None
