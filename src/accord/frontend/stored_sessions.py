"""The stored sessions of one agent: from the agent itself, or from the recordings."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
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
    UsageError,
)
from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.recording import RecordedSession, RecordedSessions
from accord.frontend.session_choice import same_directory
from accord.frontend.transcript import SessionListEntry, StoredTranscript
from accord.safe_text import one_line
from accord.session import SessionState
from accord.store import repair

MAX_LISTED: Final = 10_000
"""The list is cut after this number of sessions, because an agent could list forever."""
_MAX_CANDIDATES: Final = 10

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
        error: AccordError | None = None,
    ) -> None:
        """`name` None means all agents. `error` is why the agent could not be started."""
        self.name: str | None = name
        self.agent: RemoteAgent | None = agent
        self._configured = configured
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
            for recording in self._records.list(cwd, agent=self.name)
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
        found: dict[str, SessionListEntry] = {}
        for recorded in self._records.list(agent=self.name):
            if recorded.session_id == text and self.name is not None:
                return SessionListEntry.from_recording(recorded)
            if recorded.session_id.startswith(text):
                found[f"{recorded.agent}/{recorded.session_id}"] = SessionListEntry.from_recording(recorded)
        can_list = self.agent is not None and self._offers("list")
        if can_list:
            try:
                async for entry in self._list_at_agent(None):
                    if entry.session_id.startswith(text):
                        found[f"{entry.agent}/{entry.session_id}"] = entry
            except RpcError as error:
                self._error = error
        exact_matches = [entry for entry in found.values() if entry.session_id == text]
        matches = exact_matches or list(found.values())
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UsageError(self._ambiguous(text, matches))
        if self.agent is not None and not can_list:
            return SessionListEntry(agent=self.name or "", session_id=text, cwd=cwd)
        if self._error is not None:
            raise self._error
        whose = f"of {self.name}" if self.name is not None else "recorded here"
        raise UsageError(f"no session {whose} has an id that starts with {one_line(text)!r}")

    async def transcript(self, entry: SessionListEntry) -> StoredTranscript:
        """The transcript of a session: replayed by the agent, or from the recording."""
        agent = self.agent
        problem = self._error
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
            return (await agent.fork_session(entry.session_id, entry.cwd)).id
        except RpcError:
            # Some agents fork only open sessions.
            if not agent.capabilities.load_session:
                raise
            session = await agent.load_session(entry.session_id, entry.cwd)
            return (await agent.fork_session(session)).id

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
        return " and ".join(deleted)

    async def _list_at_agent(self, cwd: str | None) -> AsyncGenerator[SessionListEntry]:
        """The sessions that the agent lists, without duplicates.

        Filters by directory, because some agents ignore it.
        """
        assert self.agent is not None
        seen: set[str] = set()
        name = self.name or self.agent.name
        async for info in self.agent.list_sessions(cwd=cwd):
            if info.session_id in seen or (cwd is not None and not same_directory(info.cwd, cwd)):
                continue
            seen.add(info.session_id)
            yield SessionListEntry.from_agent(name, info, self._recorded(info.session_id, name))
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

    def _offers(self, capability: str) -> bool:
        sessions = self.agent.capabilities.session_capabilities if self.agent is not None else None
        return bool(sessions and getattr(sessions, capability))

    def _require_agent(self, action: str) -> RemoteAgent:
        if self.agent is None:
            raise self._error or UsageError(f"a recording cannot be {action} without the agent")
        return self.agent

    def _fall_back(self, has_recordings: bool) -> None:
        assert self._error is not None
        if not has_recordings:
            raise self._error
        self._note(f"{_one_line_reason(self._error)}; showing the sessions recorded here")

    def _ambiguous(self, text: str, matches: Sequence[SessionListEntry]) -> str:
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


@asynccontextmanager
async def open_stored_sessions(
    configured: ConfiguredAgent, cwd: str, records: RecordedSessions, note: Note
) -> AsyncGenerator[StoredSessions]:
    """Start an agent to work on its stored sessions.

    If it cannot be started, only recordings are available.
    """
    options = replace(configured.options(ClientOptions()), restart=None)
    connecting = PendingAgent(configured.launch(cwd), None, options)
    try:
        agent = await connecting
    except AccordError as error:
        yield StoredSessions(configured.name, records, note, configured=configured, error=error)
        return
    try:
        yield StoredSessions(configured.name, records, note, configured=configured, agent=agent)
    finally:
        await agent.aclose()


def _one_line_reason(error: AccordError) -> str:
    """The message of an error in one line, without the stderr lines of the agent."""
    text = error.message if isinstance(error, ConnectionClosed) else str(error)
    return one_line(text.splitlines()[0]) if text else type(error).__name__
