"""Gathers the sessions there were: those the running agents list, those recorded here, and on demand those of every other agent."""

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from accord.client.recording import Records
from accord.client.servers import Server, UnknownAgent, leave_out, load
from accord.client.stored.sessions import StoredSessions, reach
from accord.client.stored.transcript import Entry
from accord.errors import AccordError, StoreError
from accord.store import MemoryStore

if TYPE_CHECKING:
    from accord.tui.sessionview import SessionView

MOST: Final = 2_000
"""Recorded sessions that are shown."""


class Gathered:
    """All sessions that are known of, each once."""

    def __init__(self, views: "Sequence[SessionView]", note: Callable[[str], None]) -> None:
        self._views = views
        self._note = note
        self._found: dict[tuple[str, str], Entry] = {}
        self.asked: set[str] = set()
        """Agents that have been."""
        try:
            self.records = Records.open()
        except StoreError as error:
            note(f"what was recorded here cannot be read: {error}")
            self.records = Records(MemoryStore())

    @property
    def entries(self) -> list[Entry]:
        """The ones used last first."""
        return sorted(self._found.values(), key=lambda entry: (entry.when, entry.updated or ""), reverse=True)

    def forget(self, entry: Entry) -> None:
        """It is deleted."""
        self._found.pop((entry.agent, entry.session_id), None)

    def close(self) -> None:
        """Let the records go."""
        self.records.close()

    # -- gathering ----------------------------------------------------------------------------------------------

    def recorded(self) -> None:
        """What was recorded here. Raises StoreError."""
        for number, one in enumerate(self.records.list()):
            if number == MOST:
                self._note(f"only the last {MOST} recorded sessions are shown")
                return
            self._add(Entry.noted(one))

    async def running(self) -> None:
        """What the agents list that run here already."""
        for view in self._views:
            stored = self._stored_of(view)
            if stored is not None and stored.name not in self.asked:
                await self._listed(stored)

    async def others(self, cwd: str) -> None:
        """What every other agent lists that the user has set up; each is started for it."""
        for server in load(cwd, trust=leave_out).configured:
            if server.name in self.asked or server.installed() is None:
                continue
            self._note(f"Asking {server.name}…")
            async with reach(server, cwd, self.records, _quiet) as stored:
                await self._listed(stored)

    async def _listed(self, stored: StoredSessions) -> None:
        self.asked.add(stored.name or "")
        try:
            for entry in await stored.list(None):
                self._add(entry)
        except AccordError as error:
            self._note(f"{stored.name}: {error}")

    def _add(self, entry: Entry) -> None:
        key = (entry.agent, entry.session_id)
        known = self._found.get(key)
        if known is None or known.source == "recorded":
            self._found[key] = entry

    def _stored_of(self, view: "SessionView") -> StoredSessions | None:
        conversation = view.conversation
        if conversation is None or conversation.server is None or conversation.agent is None:
            return None
        if conversation.phase in ("dead", "failed", "closed"):
            return None
        server = conversation.server
        return StoredSessions(server.name, self.records, _quiet, server=server, agent=conversation.agent)

    # -- one of them --------------------------------------------------------------------------------------------

    def view_of(self, entry: Entry) -> "SessionView | None":
        """The tab in which a session is open."""
        for view in self._views:
            conversation = view.conversation
            if conversation is None or conversation.session is None or conversation.server is None:
                continue
            if (conversation.server.name, conversation.session.id) == (entry.agent, entry.session_id):
                return view
        return None

    def agent_view(self, agent: str) -> "SessionView | None":
        """A tab with this agent."""
        for view in self._views:
            if (
                view.conversation is not None
                and view.conversation.server is not None
                and view.conversation.server.name == agent
            ):
                return view
        return None

    @asynccontextmanager
    async def stored_for(self, entry: Entry) -> AsyncGenerator[StoredSessions]:
        """The stored sessions of its agent: of the one that runs, else of one that is started for it."""
        view = self.agent_view(entry.agent)
        stored = None if view is None else self._stored_of(view)
        if stored is not None:
            yield stored
            return
        server = self._server(entry)
        if server is None:
            yield StoredSessions(entry.agent, self.records, self._note)
            return
        async with reach(server, _folder(entry.cwd), self.records, self._note) as reached:
            yield reached

    def _server(self, entry: Entry) -> Server | None:
        try:
            return load(_folder(entry.cwd), trust=leave_out)[entry.agent]
        except UnknownAgent:
            return None


def _folder(cwd: str) -> str:
    return cwd if os.path.isdir(cwd) else os.getcwd()


def _quiet(text: str) -> None:
    """What is told on the side of a list is not worth a line here."""
