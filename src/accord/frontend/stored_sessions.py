"""The stored sessions of one agent: from the agent itself, or from the recordings.

The logs of the coding agent of this package are also read directly: while another process runs a session, or
from a disk that cannot be written to, the agent cannot load it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, TypeAlias

from accord.client import ClientOptions, RemoteAgent
from accord.client.remote_agent import PendingAgent
from accord.errors import (
    AccordError,
    ConnectionClosed,
    InvalidParams,
    NotFound,
    NotOffered,
    RpcError,
    StoreError,
    UsageError,
)
from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.known_agents import BUILT_IN
from accord.frontend.recording import RecordedSession, RecordedSessions
from accord.frontend.session_choice import SessionChoice, same_directory
from accord.frontend.sign_in import clear_error
from accord.frontend.transcript import SessionListEntry, StoredTranscript
from accord.paths import HOME_VARIABLE
from accord.safe_text import one_line
from accord.session import Event, SessionState
from accord.store import Lease, MemoryStore, Store, open_store, repair, store_path
from accord.store.session_summary import clean_title
from accord.wire.remote.address import RemoteLauncher

MAX_LISTED: Final = 10_000
"""The list is cut after this number of sessions, because an agent could list forever."""
_MAX_CANDIDATES: Final = 10
_STORE_VARIABLES: Final = frozenset((HOME_VARIABLE, "HOME", "XDG_DATA_HOME"))
"""Variables that give an agent another store than ours."""

Note: TypeAlias = Callable[[str], None]


class StoredSessions:
    """The stored sessions of an agent.

    `open_stored_sessions` creates it; without an agent it has only recordings.
    """

    def __init__(
        self,
        name: str | None,
        records: RecordedSessions,
        note: Note,
        *,
        configured: ConfiguredAgent | None = None,
        agent: RemoteAgent | None = None,
        agent_store: Store | None = None,
        error: AccordError | None = None,
    ) -> None:
        """`name` None means all agents. `agent_store` has the agent's own logs. `error` is why the agent
        could not be started.
        """
        self.name: str | None = name
        self.agent: RemoteAgent | None = agent
        self._configured = configured
        self._agent_store = agent_store
        self._records = records
        self._note = note
        self._error = error

    async def list(self, cwd: str | None) -> list[SessionListEntry]:
        """The sessions of a directory, or all."""
        if self.agent is not None and self._offers("list"):
            try:
                return [entry async for entry in self._list_at_agent(cwd)]
            except RpcError as error:
                self._error = error
        recorded = [
            SessionListEntry.from_recording(recording)
            for recording in self._records.list(cwd, agent=self.name, used_only=True)
        ]
        if self._error is not None:
            self._fall_back(bool(recorded))
        elif self.agent is not None:
            self._note(f"{self.name} cannot list its sessions; showing the sessions recorded here")
        return recorded

    async def find(self, text: str, cwd: str) -> SessionListEntry:
        """The session with this id, or the only one whose id starts with it. Raises UsageError."""
        if not text.strip():
            raise UsageError("the session id is empty")
        matches = await self.matches(text)
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UsageError(self.ambiguous(text, matches))
        if self.agent is not None and not self._offers("list"):
            return SessionListEntry(agent=self.name or "", session_id=text, cwd=cwd)
        if self._error is not None:
            raise self._error
        whose = f"of {self.name}" if self.name is not None else "recorded here"
        raise UsageError(f"no session {whose} has an id that starts with {one_line(text)!r}")

    async def matches(self, text: str) -> Sequence[SessionListEntry]:
        """The sessions with this id, or else those whose id starts with it."""
        found: dict[str, SessionListEntry] = {}
        for recorded in self._records.list(agent=self.name):
            if recorded.session_id == text and self.name is not None:
                return [SessionListEntry.from_recording(recorded)]
            if recorded.session_id.startswith(text):
                found[f"{recorded.agent}/{recorded.session_id}"] = SessionListEntry.from_recording(recorded)
        if self.agent is not None and self._offers("list"):
            try:
                async for entry in self._list_at_agent(None):
                    if entry.session_id.startswith(text):
                        found[f"{entry.agent}/{entry.session_id}"] = entry
            except RpcError as error:
                self._error = error
        return [entry for entry in found.values() if entry.session_id == text] or tuple(found.values())

    async def transcript(self, entry: SessionListEntry) -> StoredTranscript:
        """The transcript of a session: replayed by the agent, or from the recording."""
        agent = self.agent
        problem = self._error
        if entry.writer is None:
            entry = replace(entry, writer=self._writers().get(entry.session_id))
        if entry.running_in is not None:
            # Its turn is not over: loading it in a second agent could disturb it.
            if entry.recorded is not None and entry.recorded.writer is not None:
                return StoredTranscript(entry, _state_of(self._records.events(entry.recorded)), "recorded")
            if (events := self._agent_events(entry)) is not None:
                return StoredTranscript(entry, _state_of(events), "agent")
        if agent is not None and agent.capabilities.load_session:
            try:
                state = await self._load(agent, entry)
            except AccordError as error:
                problem = error
            else:
                if state.timeline or entry.recorded is None:
                    return StoredTranscript(entry, state, "agent")
                problem = UsageError(f"{self.name} replays nothing of this session")
        elif agent is not None:
            problem = NotOffered(f"{self.name} cannot load its sessions")
        if entry.recorded is None:
            if (events := self._agent_events(entry)) is not None:
                self._note(f"{_one_line_reason(problem)}; showing its log" if problem else "showing its log")
                return StoredTranscript(entry, repair(events).state, "agent")
            raise problem or UsageError(f"the session {entry.session_id} was not recorded here")
        if problem is not None:
            self._note(f"{_one_line_reason(problem)}; showing the recording")
        return StoredTranscript(entry, repair(self._records.events(entry.recorded)).state, "recorded")

    async def fork(self, entry: SessionListEntry) -> str:
        """Fork a session and return the id of the fork. Raises NotOffered."""
        agent = self._require_agent("forked")
        if not self._offers("fork"):
            raise NotOffered(f"{self.name} cannot fork its sessions")
        try:
            fork = await agent.fork_session(entry.session_id, entry.cwd)
        except RpcError:
            # Some agents fork only open sessions.
            if not agent.capabilities.load_session:
                raise
            session = await agent.load_session(entry.session_id, entry.cwd)
            fork = await agent.fork_session(session)
        if self._offers("close"):
            with suppress(AccordError):  # another process opens it, which some agents allow only then
                await fork.close()
        return fork.id

    async def rename(self, entry: SessionListEntry, title: str) -> str:
        """Set the title of a session and return it as stored. Works while the session runs.

        Raises NotOffered, and UsageError for an empty title.
        """
        title = clean_title(title)
        if not title:
            raise UsageError("the title is empty")
        changed = self._change_own_log(entry, lambda store, key: store.set_title(key, title))
        if not changed and self.agent is not None and self._can_change("title"):
            title = await self.agent.set_title(entry.session_id, title)
            changed = True
        if self._change_recording(entry, lambda store, key: store.set_title(key, title)) or changed:
            return title
        raise NotOffered(f"{self.name} cannot rename its sessions, and this one was not recorded here")

    async def archive(self, entry: SessionListEntry, *, archived: bool = True) -> None:
        """Hide a session from the ordinary list, or show it again. Raises NotOffered."""

        def change(store: Store, key: str) -> None:
            (store.archive if archived else store.unarchive)(key)

        changed = self._change_own_log(entry, change)
        if not changed and self.agent is not None and self._can_change("archive"):
            await (self.agent.archive_session if archived else self.agent.unarchive_session)(entry.session_id)
            changed = True
        if not (self._change_recording(entry, change) or changed):
            raise NotOffered(f"{self.name} cannot archive its sessions, and this one was not recorded here")

    async def delete(self, entry: SessionListEntry) -> str:
        """Delete a session at the agent, and its recording.

        Return where it was deleted. Raises NotOffered.
        """
        is_recorded = entry.recorded is not None
        deleted: list[str] = []
        if self.agent is not None and self._offers("delete"):
            try:
                await self.agent.delete_session(entry.session_id)
                deleted.append(f"at {self.name}")
            except NotFound:
                if not is_recorded:
                    raise
        elif self.agent is None and self._error is not None:
            raise self._error
        elif not is_recorded:
            raise NotOffered(f"{self.name} cannot delete its sessions, and this one was not recorded here")
        elif self.agent is not None:
            self._note(f"{self.name} cannot delete its sessions; only the recording was deleted")
        if entry.recorded is not None:
            self._records.delete(entry.recorded)
            deleted.append("here")
        await asyncio.to_thread(_forget_in_search, entry)
        return " and ".join(deleted)

    def _change_own_log(self, entry: SessionListEntry, change: "Callable[[Store, str], object]") -> bool:
        """Change the list entry in the agent's own logs; False if they are not ours or do not have it."""
        if self._agent_store is None:
            return False
        try:
            change(self._agent_store, entry.session_id)
        except NotFound:
            return False
        return True

    def _change_recording(self, entry: SessionListEntry, change: "Callable[[Store, str], object]") -> bool:
        """Change the list entry of the recording; False if there is none."""
        recorded = entry.recorded or self._recorded(entry.session_id, entry.agent)
        if recorded is None:
            return False
        change(self._records.store, recorded.summary.session_id)
        return True

    async def _list_at_agent(self, cwd: str | None) -> AsyncGenerator[SessionListEntry]:
        """The sessions that the agent lists, without duplicates.

        Filters by directory, because some agents ignore it.
        """
        assert self.agent is not None
        seen: set[str] = set()
        name = self.name or self.agent.name
        writers = self._writers()
        archived = "include" if self._offers("archive") else None
        async for info in self.agent.list_sessions(cwd=cwd, archived=archived):
            if info.session_id in seen or (cwd is not None and not same_directory(info.cwd, cwd)):
                continue
            seen.add(info.session_id)
            entry = SessionListEntry.from_agent(name, info, self._recorded(info.session_id, name))
            yield replace(entry, writer=writers.get(info.session_id))
            if len(seen) == MAX_LISTED:
                self._note(f"{name} lists more than {MAX_LISTED} sessions; the rest is not shown")
                return

    async def _load(self, agent: RemoteAgent, entry: SessionListEntry) -> SessionState:
        extra = entry.additional_directories if self._offers("additional_directories") else ()
        try:
            session = await agent.load_session(entry.session_id, entry.cwd, additional_directories=extra)
        except InvalidParams:
            # Some agents require the MCP servers that the session started with.
            servers = self._configured.mcp_servers() if self._configured is not None else []
            if not servers:
                raise
            session = await agent.load_session(
                entry.session_id, entry.cwd, additional_directories=extra, mcp_servers=servers
            )
        return session.state

    def _recorded(self, session_id: str, agent: str) -> RecordedSession | None:
        return self._records.find(session_id, agent=agent)

    def _writers(self) -> dict[str, Lease]:
        """Who writes to the agent's own logs now, by session id."""
        try:
            return {} if self._agent_store is None else self._agent_store.writers()
        except StoreError:
            return {}

    def _agent_events(self, entry: SessionListEntry) -> tuple[Event, ...] | None:
        """The agent's own log of a session; None if it cannot be read here."""
        try:
            return None if self._agent_store is None else tuple(self._agent_store.events(entry.session_id))
        except (NotFound, StoreError):
            return None

    def _offers(self, capability: str) -> bool:
        sessions = self.agent.capabilities.session_capabilities if self.agent is not None else None
        return bool(sessions and getattr(sessions, capability))

    def _can_change(self, capability: str) -> bool:
        """Whether the agent changes the title or the archive, by the standard method or the extension."""
        return self._offers(capability) or (self.agent is not None and self.agent.can_follow_sessions)

    def _require_agent(self, action: str) -> RemoteAgent:
        if self.agent is None:
            raise self._error or UsageError(f"a recording cannot be {action} without the agent")
        return self.agent

    def _fall_back(self, has_recordings: bool) -> None:
        assert self._error is not None
        if not has_recordings:
            raise self._error
        self._note(f"{_one_line_reason(self._error)}; showing the sessions recorded here")

    def ambiguous(self, text: str, matches: Sequence[SessionListEntry]) -> str:
        """The message for an id that starts several ids."""
        several_agents = len({entry.agent for entry in matches}) > 1
        hints = ["give more of the id"] if len({entry.session_id for entry in matches}) > 1 else []
        if several_agents:
            hints.append("name the agent with -a")
        labels = [
            entry.label if not several_agents else f"{one_line(entry.agent)}: {entry.label}"
            for entry in matches
        ]
        more = f", and {len(labels) - _MAX_CANDIDATES} more" if len(labels) > _MAX_CANDIDATES else ""
        return (
            f"{one_line(text)!r} matches {', '.join(labels[:_MAX_CANDIDATES])}{more}: {', or '.join(hints)}"
        )


async def full_session_id(text: str, choice: SessionChoice, records: RecordedSessions | None) -> str:
    """The id of the session that this text is the beginning of.

    An unknown text is returned unchanged, because an agent need not list every session. Raises UsageError if
    several sessions match.
    """
    records = records or RecordedSessions(MemoryStore())
    stored = StoredSessions(choice.name, records, lambda _: None, agent=choice.agent)
    try:
        matches = await stored.matches(text)
    except StoreError:
        return text
    if len(matches) > 1:
        raise UsageError(f"--session {stored.ambiguous(text, matches)}")
    return matches[0].session_id if matches else text


@asynccontextmanager
async def open_stored_sessions(
    configured: ConfiguredAgent,
    cwd: str,
    records: RecordedSessions,
    note: Note,
    remote: RemoteLauncher | None = None,
) -> AsyncGenerator[StoredSessions]:
    """Start an agent to work on its stored sessions, or connect to one at an address.

    If that fails, only recordings are available.
    """
    options = replace(configured.options(ClientOptions()), restart=None)
    connecting = PendingAgent(remote or configured.launch(cwd), None, options)
    try:
        agent = await connecting
    except AccordError as failure:
        error = clear_error(failure, configured if remote is None else None)
        yield StoredSessions(configured.name, records, note, configured=configured, error=error)
        return
    agent_store = None if remote is not None else open_agent_store(configured)
    try:
        yield StoredSessions(
            configured.name, records, note, configured=configured, agent=agent, agent_store=agent_store
        )
    finally:
        if agent_store is not None:
            agent_store.close()
        await agent.aclose()


def open_agent_store(configured: ConfiguredAgent) -> Store | None:
    """Open the store of the coding agent of this package; None for other agents and without one."""
    if configured.name != BUILT_IN or configured.command:
        return None
    if not _STORE_VARIABLES.isdisjoint((*configured.env, *configured.option_env)):
        return None
    try:
        return open_store() if store_path().exists() else None
    except (OSError, StoreError):
        return None


def _forget_in_search(entry: SessionListEntry) -> None:
    from accord.frontend.session_search import forget_session  # on first use: it needs SQLite

    forget_session(entry.agent, entry.session_id)


def _state_of(events: Iterable[Event]) -> SessionState:
    state = SessionState()
    for event in events:
        state.apply(event)
    return state


def _one_line_reason(error: AccordError) -> str:
    """The message of an error in one line, without the stderr lines of the agent."""
    text = error.message if isinstance(error, ConnectionClosed) else str(error)
    return one_line(text.splitlines()[0]) if text else type(error).__name__
