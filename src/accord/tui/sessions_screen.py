"""Screens to resume, fork or delete stored sessions and to start an agent.

Imported on first use.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.binding import Binding, BindingType

from accord.errors import AccordError, StoreError
from accord.frontend.agent_config import ConfiguredAgent, ConfiguredAgents, UnknownAgent, leave_out, load
from accord.frontend.recording import RecordedSessions
from accord.frontend.stored_sessions import StoredSessions, reach
from accord.frontend.transcript import SessionListEntry
from accord.safe_text import clean_line, one_line
from accord.store import MemoryStore
from accord.tui.chat_types import ChatStart
from accord.tui.list_screen import ConfirmScreen, ListRow, ListScreen
from accord.tui.theme import at_home, end_of, first_line

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from accord.frontend.agent_config.project_trust import Trusting
    from accord.tui.chat_app import ChatApp
    from accord.tui.session_view import SessionView


# MERGED tui.stored.gathering: Gathers the sessions there were: those the running agents list, those recorded here, and on demand those of every other agent.

MOST: Final = 2_000
"""Recorded sessions that are shown."""


class SessionCatalog:
    """All sessions that are known of, each once."""

    def __init__(self, views: "Sequence[SessionView]", note: Callable[[str], None]) -> None:
        self._views = views
        self._note = note
        self._found: dict[tuple[str, str], SessionListEntry] = {}
        self.asked: set[str] = set()
        """Agents that have been."""
        try:
            self.records = RecordedSessions.open()
        except StoreError as error:
            note(f"what was recorded here cannot be read: {error}")
            self.records = RecordedSessions(MemoryStore())

    @property
    def entries(self) -> list[SessionListEntry]:
        """The ones used last first."""
        return sorted(self._found.values(), key=lambda entry: (entry.when, entry.updated or ""), reverse=True)

    def forget(self, entry: SessionListEntry) -> None:
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
            self._add(SessionListEntry.noted(one))

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

    def _add(self, entry: SessionListEntry) -> None:
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

    def view_of(self, entry: SessionListEntry) -> "SessionView | None":
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
    async def stored_for(self, entry: SessionListEntry) -> AsyncGenerator[StoredSessions]:
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

    def _server(self, entry: SessionListEntry) -> ConfiguredAgent | None:
        try:
            return load(_folder(entry.cwd), trust=leave_out)[entry.agent]
        except UnknownAgent:
            return None


def _folder(cwd: str) -> str:
    return cwd if os.path.isdir(cwd) else os.getcwd()


def _quiet(text: str) -> None:
    """What is told on the side of a list is not worth a line here."""


# MERGED tui.agents: Another session, with any agent that can be launched here: in a tab of its own, or in the place of one that was not used.


def pick_agent(app: "ChatApp") -> None:
    """Choose an agent, and begin a session with it."""
    here = app.view

    async def chosen(name: Any) -> None:
        if name is not None:
            await open_in_place(app, start_with(app, here, name or None, here.start.cwd))

    app.push_screen(AgentsScreen(here), chosen)


def start_with(
    app: "ChatApp", here: "SessionView", name: str | None, cwd: str, session: str | None = None
) -> ChatStart:
    """How a session with an agent begins; without a name with the one that is here."""
    same = replace(here.start, cwd=cwd, session=session, newest=False)
    choose = app.choose
    if name is None or choose is None:
        return same

    def find(trusting: "Trusting") -> ConfiguredAgent:
        return choose(name, cwd, trusting)

    # What was said of one agent on the command line is not said of another.
    return ChatStart(find=find, cwd=cwd, name=name, permissions=here.start.permissions, session=session)


async def open_in_place(app: "ChatApp", start: ChatStart) -> None:
    """Open it; a session in which nothing was said gives up its place."""
    before = app.view
    await app.open(start)
    if _unused(before):
        await app.close(before)


def _unused(view: "SessionView") -> bool:
    session = view.conversation.session if view.conversation is not None else None
    said = session is not None and session.state.timeline
    return not (said or view.turns or len(view.queue) or view.prompt.draft or view.dialog)


class AgentsScreen(ListScreen):
    """The agents of this folder, then the well-known ones that are installed."""

    def __init__(self, here: "SessionView") -> None:
        self._here = here
        self._own = ListRow(
            "", here.status.agent or here.start.name, "the agent of this session", current=True
        )
        super().__init__("New session with", [self._own])

    def on_mount(self) -> None:
        super().on_mount()
        self.tell("Looking for agents…")
        self.run_worker(self._find())

    async def _find(self) -> None:
        try:
            rows = await asyncio.to_thread(_rows, self._here.start.cwd)
        except AccordError as error:
            self.tell(first_line(error), bad=True)
            return
        self.show_rows([self._own, *rows])
        self.tell("")


def _rows(cwd: str) -> list[ListRow]:
    """Blocking: it looks for programs."""
    servers = load(cwd, trust=leave_out)
    own = [_row(server, servers, "Yours") for server in servers.configured]
    if servers.left_out is not None:
        own += [
            _row(server, servers, "Of this project, if you trust it") for server in servers.left_out.servers
        ]
    known = [
        _row(server, servers, "Installed") for server in servers.others if server.installed() is not None
    ]
    missing = [
        _row(server, servers, "Known, but not installed")
        for server in servers.others
        if server.installed() is None
    ]
    return [*own, *known, *missing]


def _row(server: ConfiguredAgent, servers: ConfiguredAgents, group: str) -> ListRow:
    known = server.known
    note = server.description or (known.name if known is not None and known.name != server.name else "")
    right = "default" if server.name == servers.default.name else ""
    if group.startswith("Known") and known is not None:
        note = known.how_to_get
    return ListRow(server.name, server.name, note, right=right, group=group)


# MERGED tui.stored.screen: The list of sessions: search it, and resume, fork or delete what it shows.


class SessionsScreen(ListScreen):
    """Those of this folder first. What an agent lists takes the place of what was recorded of it."""

    HINT = "Enter resumes · Ctrl+F forks · Del deletes · F5 all agents · Esc"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+f", "fork", "Fork", show=False, priority=True),
        Binding("delete,ctrl+x", "delete", "Delete", show=False, priority=True),
        Binding("f5", "ask_all", "Ask all agents", show=False, priority=True),
    ]

    def __init__(self, app: "ChatApp") -> None:
        super().__init__("Sessions", placeholder="Search: title, folder, agent, id", empty="No sessions yet")
        self._chat = app
        self._cwd = app.view.start.cwd
        self._gathered = SessionCatalog(app.views, self.tell)

    def on_mount(self) -> None:
        super().on_mount()
        self._begin(self._gather())

    def on_unmount(self) -> None:
        self._gathered.close()

    def _begin(self, work: "Coroutine[Any, Any, None]") -> None:
        self.run_worker(self._guarded(work), group="sessions", exclusive=True)

    async def _guarded(self, work: "Coroutine[Any, Any, None]") -> None:
        try:
            await work
        except AccordError as error:
            self.tell(first_line(error), bad=True)

    # -- gathering ----------------------------------------------------------------------------------------------

    async def _gather(self) -> None:
        try:
            self._gathered.recorded()
        finally:
            self._show()
        self.tell("Asking the agents that run…")
        await self._gathered.running()
        self._show()
        self.tell("")

    def action_ask_all(self) -> None:
        """Start every agent that is set up, and ask it."""
        self._begin(self._ask_all())

    async def _ask_all(self) -> None:
        self.tell("Asking all agents…")
        await self._gathered.others(self._cwd)
        self._show()
        self.tell(f"Asked {', '.join(sorted(self._gathered.asked))}")

    def _show(self) -> None:
        here, elsewhere = "This folder", "Other folders"
        rows = [
            self._row(entry, here if _same(entry.cwd, self._cwd) else elsewhere)
            for entry in self._gathered.entries
        ]
        self.show_rows(sorted(rows, key=lambda row: row.group != here))

    def _row(self, entry: SessionListEntry, group: str) -> ListRow:
        where = "" if group == "This folder" else end_of(at_home(entry.cwd), 36)
        title = entry.title or entry.session_id
        return ListRow(
            entry,
            one_line(clean_line(title), 120),
            " · ".join(
                filter(
                    None,
                    (
                        where,
                        "archived" if entry.archived else "",
                        "recorded here" if entry.source == "recorded" else "",
                    ),
                )
            ),
            right=" · ".join(filter(None, (one_line(entry.agent, 24), entry.when))),
            group=group,
            current=self._gathered.view_of(entry) is not None,
            also=f"{entry.session_id} {entry.cwd}",
        )

    @property
    def _entry(self) -> SessionListEntry | None:
        row = self.list.marked
        return None if row is None else row.value

    # -- one of them --------------------------------------------------------------------------------------------

    async def take(self, row: ListRow) -> None:
        entry: SessionListEntry = row.value
        view = self._gathered.view_of(entry)
        if view is not None:
            self.dismiss(None)
            self._chat.desk.show(view)
        else:
            self._open(entry, entry.session_id)

    def _open(self, entry: SessionListEntry, session_id: str) -> None:
        """Take it up, in a tab of its own."""
        with_it = self._gathered.agent_view(entry.agent)
        if not os.path.isdir(entry.cwd) and (with_it is None or with_it.start.remote is None):
            self.tell(f"Its folder {entry.cwd} is not there any more", bad=True)
            return
        if with_it is None and " " in entry.agent:
            self.tell(
                f"Its agent was a command: accord chat --session {session_id} -- {entry.agent}", bad=True
            )
            return
        start = start_with(
            self._chat,
            with_it or self._chat.view,
            None if with_it is not None else entry.agent,
            entry.cwd,
            session_id,
        )
        self.dismiss(None)
        self._chat.run_worker(open_in_place(self._chat, start))  # this screen is gone by then

    def action_fork(self) -> None:
        """A new session that begins as this one."""
        entry = self._entry
        if entry is not None:
            self._begin(self._fork(entry))

    async def _fork(self, entry: SessionListEntry) -> None:
        self.tell(f"Forking {entry.label}…")
        async with self._gathered.stored_for(entry) as stored:
            forked = await stored.fork(entry)
        self._open(entry, forked)

    def action_delete(self) -> None:
        """Delete it, if the user is sure."""
        entry = self._entry
        if entry is None:
            return
        if self._gathered.view_of(entry) is not None:
            self.tell("It is open: close its tab first", bad=True)
            return

        def answered(sure: Any) -> None:
            if sure:
                self._begin(self._delete(entry))

        question = ConfirmScreen(
            f"Delete {entry.label} of {one_line(entry.agent)}?", "Delete it for good", "Keep it"
        )
        self._chat.push_screen(question, answered)

    async def _delete(self, entry: SessionListEntry) -> None:
        self.tell(f"Deleting {entry.label}…")
        async with self._gathered.stored_for(entry) as stored:
            where = await stored.delete(entry)
        self._gathered.forget(entry)
        self._show()
        self.tell(f"Deleted {where}: {entry.label}")


def _same(folder: str, other: str) -> bool:
    return os.path.realpath(folder) == os.path.realpath(other)
