"""The stored sessions of one agent: asked of the agent itself, and, where it cannot tell, taken from what was recorded here."""

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from accord.client import ClientOptions, RemoteAgent
from accord.client.remote_agent import PendingAgent
from accord.errors import AccordError, InvalidParams, NotFound, NotOffered, RpcError, UsageError
from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.recording import RecordedSession, RecordedSessions
from accord.frontend.transcript import SessionListEntry, StoredTranscript
from accord.safe_text import one_line
from accord.session import SessionState
from accord.store import repair

MOST_LISTED: Final = 10_000
"""So many sessions are asked for; an agent may well list for ever."""
_CANDIDATES: Final = 10

Note = Callable[[str], None]


class StoredSessions:
    """What can be done with the stored sessions of an agent. Made by `reach`, or without an agent for what is recorded."""

    def __init__(
        self,
        name: str | None,
        records: RecordedSessions,
        note: Note,
        *,
        server: ConfiguredAgent | None = None,
        agent: RemoteAgent | None = None,
        trouble: AccordError | None = None,
    ) -> None:
        """`name` None stands for every agent. `trouble` is why there is no agent, though one was wanted."""
        self.name = name
        self.agent = agent
        self._server = server
        self._records = records
        self._note = note
        self._trouble = trouble

    # -- which there are ----------------------------------------------------------------------------------------

    async def list(self, cwd: str | None) -> list[SessionListEntry]:
        """Those of a folder, or all of them."""
        if self.agent is not None and self._offers("list"):
            try:
                return [entry async for entry in self._listed(cwd)]
            except RpcError as error:
                self._trouble = error
        recorded = [SessionListEntry.noted(one) for one in self._records.list(cwd, agent=self.name)]
        if self._trouble is not None:
            self._fall_back(bool(recorded), "what was recorded here")
        elif self.agent is not None:
            self._note(f"{self.name} cannot list its sessions; these were recorded here")
        return recorded

    async def find(self, text: str, cwd: str) -> SessionListEntry:
        """The one session whose id is this, or begins with it. Raises UsageError."""
        if not text.strip():
            raise UsageError("the id of a session is empty")
        found: dict[str, SessionListEntry] = {}
        for recorded in self._records.list(agent=self.name):
            if recorded.session_id == text and self.name is not None:
                return SessionListEntry.noted(recorded)
            if recorded.session_id.startswith(text):
                found[f"{recorded.agent}/{recorded.session_id}"] = SessionListEntry.noted(recorded)
        can_list = self.agent is not None and self._offers("list")
        if can_list:
            try:
                async for entry in self._listed(None):
                    if entry.session_id.startswith(text):
                        found[f"{entry.agent}/{entry.session_id}"] = entry
            except RpcError as error:
                self._trouble = error
        exact = [entry for entry in found.values() if entry.session_id == text]
        matches = exact or list(found.values())
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UsageError(self._ambiguous(text, matches))
        if self.agent is not None and not can_list:
            return SessionListEntry(agent=self.name or "", session_id=text, cwd=cwd)
        if self._trouble is not None:
            raise self._trouble
        whose = f"of {self.name}" if self.name is not None else "that was recorded here"
        raise UsageError(f"no session {whose} has an id that begins with {one_line(text)!r}")

    # -- one of them --------------------------------------------------------------------------------------------

    async def transcript(self, entry: SessionListEntry) -> StoredTranscript:
        """All that is known of a session: what the agent replays, else what was recorded here."""
        agent = self.agent
        trouble = self._trouble
        if agent is not None and agent.capabilities.load_session:
            try:
                state = await self._loaded(agent, entry)
            except AccordError as error:
                trouble = error
            else:
                if state.timeline or entry.recorded is None:
                    return StoredTranscript(entry, state, "agent")
                trouble = UsageError(f"{self.name} replays nothing of this session")
        elif agent is not None:
            trouble = NotOffered(f"{self.name} cannot load its sessions")
        if entry.recorded is None:
            raise trouble or UsageError(f"nothing of {entry.session_id} was recorded here")
        if trouble is not None:
            self._note(f"{_first_line(trouble)}; this was recorded here")
        return StoredTranscript(entry, repair(self._records.events(entry.recorded)).state, "recorded")

    async def fork(self, entry: SessionListEntry) -> str:
        """A new session that begins as this one; its id. Raises NotOffered."""
        agent = self._insist("forked")
        if not self._offers("fork"):
            raise NotOffered(f"{self.name} cannot fork its sessions")
        try:
            return (await agent.fork_session(entry.session_id, entry.cwd)).id
        except RpcError:
            # Some fork only what is open.
            if not agent.capabilities.load_session:
                raise
            session = await agent.load_session(entry.session_id, entry.cwd)
            return (await agent.fork_session(session)).id

    async def delete(self, entry: SessionListEntry) -> str:
        """Delete a session at the agent, and what was recorded of it; says what was done. Raises NotOffered."""
        here = entry.recorded is not None
        done: list[str] = []
        if self.agent is not None and self._offers("delete"):
            try:
                await self.agent.delete_session(entry.session_id)
                done.append(f"at {self.name}")
            except NotFound:
                if not here:
                    raise
        elif self.agent is None and self._trouble is not None:
            raise self._trouble
        elif not here:
            raise NotOffered(
                f"{self.name} cannot delete its sessions, and nothing of this one was recorded here"
            )
        elif self.agent is not None:
            self._note(f"{self.name} cannot delete its sessions; only what was recorded here is gone")
        if entry.recorded is not None:
            self._records.delete(entry.recorded)
            done.append("here")
        return " and ".join(done)

    # -- how ----------------------------------------------------------------------------------------------------

    async def _listed(self, cwd: str | None) -> AsyncGenerator[SessionListEntry]:
        """Of agents that do not mind the folder, those of the folder; each id once."""
        assert self.agent is not None
        seen: set[str] = set()
        name = self.name or self.agent.name
        async for info in self.agent.list_sessions(cwd=cwd):
            if info.session_id in seen or (cwd is not None and not _same_folder(info.cwd, cwd)):
                continue
            seen.add(info.session_id)
            yield SessionListEntry.listed(name, info, self._recorded(info.session_id, name))
            if len(seen) == MOST_LISTED:
                self._note(f"{name} lists more than {MOST_LISTED} sessions; the rest is left out")
                return

    async def _loaded(self, agent: RemoteAgent, entry: SessionListEntry) -> SessionState:
        extra = entry.additional_directories if self._offers("additional_directories") else ()
        try:
            session = await agent.load_session(entry.session_id, entry.cwd, additional_directories=extra)
        except InvalidParams:
            # Some want the MCP servers that the session began with.
            servers = self._server.mcp_servers() if self._server is not None else []
            if not servers:
                raise
            session = await agent.load_session(
                entry.session_id, entry.cwd, additional_directories=extra, mcp_servers=servers
            )
        return session.state

    def _recorded(self, session_id: str, agent: str) -> RecordedSession | None:
        return self._records.find(session_id, agent=agent)

    def _offers(self, what: str) -> bool:
        sessions = self.agent.capabilities.session_capabilities if self.agent is not None else None
        return bool(sessions and getattr(sessions, what))

    def _insist(self, done: str) -> RemoteAgent:
        if self.agent is None:
            raise self._trouble or UsageError(
                f"what was recorded here cannot be {done}: that takes the agent"
            )
        return self.agent

    def _fall_back(self, have: bool, what: str) -> None:
        assert self._trouble is not None
        if not have:
            raise self._trouble
        self._note(f"{_first_line(self._trouble)}; this is {what}")

    def _ambiguous(self, text: str, matches: Sequence[SessionListEntry]) -> str:
        several = len({entry.agent for entry in matches}) > 1
        ways = ["give more of the id"] if len({entry.session_id for entry in matches}) > 1 else []
        if several:
            ways.append("name the agent with -a")
        labels = [
            entry.label if not several else f"{one_line(entry.agent)}: {entry.label}" for entry in matches
        ]
        more = f", and {len(labels) - _CANDIDATES} more" if len(labels) > _CANDIDATES else ""
        return f"{one_line(text)!r} could be any of {', '.join(labels[:_CANDIDATES])}{more}: {', or '.join(ways)}"


@asynccontextmanager
async def reach(
    server: ConfiguredAgent, cwd: str, records: RecordedSessions, note: Note
) -> AsyncGenerator[StoredSessions]:
    """Start an agent for the work on its sessions. One that cannot be started leaves what was recorded of it."""
    options = replace(server.options(ClientOptions()), restart=None)
    connecting = PendingAgent(server.launch(cwd), None, options)
    try:
        agent = await connecting
    except AccordError as error:
        yield StoredSessions(server.name, records, note, server=server, trouble=error)
        return
    try:
        yield StoredSessions(server.name, records, note, server=server, agent=agent)
    finally:
        await agent.aclose()


def _same_folder(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _first_line(error: AccordError) -> str:
    return one_line(str(error).splitlines()[0]) if str(error) else type(error).__name__
