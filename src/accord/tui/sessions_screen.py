"""Screens to resume, fork or delete stored sessions and to start an agent.

Imported on first use.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input

from accord.errors import AccordError, StoreError
from accord.frontend.agent_config import ConfiguredAgent, UnknownAgent, leave_out, load
from accord.frontend.agent_offers import AgentOffer, agent_offers
from accord.frontend.display_text import error_line
from accord.frontend.known_agents import BUILT_IN
from accord.frontend.recording import RecordedSessions
from accord.frontend.session_choice import same_directory
from accord.frontend.session_search import search_sessions
from accord.frontend.stored_sessions import StoredSessions, open_agent_store, open_stored_sessions
from accord.frontend.transcript import SessionListEntry, markdown, new_file_path, write_new_file
from accord.safe_text import one_line
from accord.store import MemoryStore, Store
from accord.tui.chat_types import ChatStart
from accord.tui.export import suggested_path
from accord.tui.list_screen import ConfirmScreen, ListRow, ListScreen, TextInputScreen
from accord.tui.session_panels import cut_path, shorten_home

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from accord.frontend.agent_config.project_trust import TrustCallback
    from accord.frontend.session_search import SearchHit
    from accord.tui.chat_app import ChatApp
    from accord.tui.key_footer import KeyHint
    from accord.tui.session_view import SessionView


_MIN_SEARCH: Final = 3
"""Letters from which on the search looks at what was said."""
_SEARCH_PAUSE: Final = 0.3
MAX_RECORDED: Final = 2_000
"""Number of recorded sessions that are shown."""


class SessionCatalog:
    """All known sessions, each once: from the agents, and recorded here."""

    def __init__(self, views: "Sequence[SessionView]", note: Callable[[str], None]) -> None:
        self._views = views
        self._note = note
        self._entries: dict[tuple[str, str], SessionListEntry] = {}
        self.queried_agents: set[str] = set()
        """Names of the agents that have been asked."""
        self._own_store: Store | None = None
        try:
            self.records: RecordedSessions = RecordedSessions.open()
        except StoreError as error:
            note(f"cannot read the recorded sessions: {error}")
            self.records = RecordedSessions(MemoryStore())

    @property
    def entries(self) -> list[SessionListEntry]:
        """All sessions, latest first."""
        return sorted(
            self._entries.values(), key=lambda entry: (entry.when, entry.updated or ""), reverse=True
        )

    def forget(self, entry: SessionListEntry) -> None:
        """Remove a deleted session."""
        self._entries.pop((entry.agent, entry.session_id), None)

    def close(self) -> None:
        """Close the stores."""
        self.records.close()
        if self._own_store is not None:
            self._own_store.close()

    def add_hit(self, hit: "SearchHit") -> None:
        """Add a session that a search found."""
        if (hit.agent, hit.session_id) not in self._entries:
            recorded = self.records.find(hit.session_id, agent=hit.agent)
            self._add(
                SessionListEntry(
                    agent=hit.agent,
                    session_id=hit.session_id,
                    cwd=hit.cwd,
                    title=hit.title,
                    updated=hit.updated,
                    archived=hit.archived,
                    source="recorded",
                    recorded=recorded,
                )
            )

    def replace(self, entry: SessionListEntry, **changes: Any) -> None:
        """Change the entry of a session."""
        self._entries[(entry.agent, entry.session_id)] = replace(entry, **changes)

    # -- loading --

    def load_recorded(self) -> None:
        """Add the recorded sessions. Raises StoreError."""
        for number, recording in enumerate(self.records.list(used_only=True)):
            if number == MAX_RECORDED:
                self._note(f"showing only the last {MAX_RECORDED} recorded sessions")
                return
            self._add(SessionListEntry.from_recording(recording))

    async def add_running_agents(self) -> None:
        for view in self._views:
            stored = self._stored_of(view)
            if stored is not None and stored.name not in self.queried_agents:
                await self._add_sessions_of(stored)

    async def add_other_agents(self, cwd: str) -> None:
        """Start every other configured agent and add its sessions."""
        for configured in load(cwd, trust=leave_out).configured:
            if configured.name in self.queried_agents or configured.installed() is None:
                continue
            self._note(f"Asking {configured.name}…")
            async with open_stored_sessions(configured, cwd, self.records, _ignore_note) as stored:
                await self._add_sessions_of(stored)

    async def _add_sessions_of(self, stored: StoredSessions) -> None:
        self.queried_agents.add(stored.name or "")
        try:
            for entry in await stored.list(None):
                self._add(entry)
        except AccordError as error:
            self._note(f"{stored.name}: {error}")

    def _add(self, entry: SessionListEntry) -> None:
        key = (entry.agent, entry.session_id)
        existing = self._entries.get(key)
        if existing is None or existing.source == "recorded":
            self._entries[key] = entry

    def _stored_of(self, view: "SessionView") -> StoredSessions | None:
        chat_session = view.chat_session
        if chat_session is None or chat_session.configured_agent is None or chat_session.agent is None:
            return None
        if chat_session.phase in ("lost", "dead", "failed", "closed"):
            return None
        configured = chat_session.configured_agent
        if self._own_store is None:
            self._own_store = open_agent_store(configured)
        own = self._own_store if configured.name == BUILT_IN else None
        return StoredSessions(
            configured.name,
            self.records,
            _ignore_note,
            configured=configured,
            agent=chat_session.agent,
            agent_store=own,
        )

    # -- one session --

    def view_of(self, entry: SessionListEntry) -> "SessionView | None":
        """Return the tab in which a session is open."""
        for view in self._views:
            chat_session = view.chat_session
            if chat_session is None or chat_session.session is None or chat_session.configured_agent is None:
                continue
            if (chat_session.configured_agent.name, chat_session.session.id) == (
                entry.agent,
                entry.session_id,
            ):
                return view
        return None

    def agent_view(self, agent: str) -> "SessionView | None":
        """Return a tab with this agent."""
        for view in self._views:
            if (
                view.chat_session is not None
                and view.chat_session.configured_agent is not None
                and view.chat_session.configured_agent.name == agent
            ):
                return view
        return None

    @asynccontextmanager
    async def stored_for(self, entry: SessionListEntry) -> AsyncGenerator[StoredSessions]:
        """Return the stored sessions of its agent; start the agent if it does not run."""
        view = self.agent_view(entry.agent)
        stored = None if view is None else self._stored_of(view)
        if stored is not None:
            yield stored
            return
        configured = self._configured_agent(entry)
        if configured is None:
            yield StoredSessions(entry.agent, self.records, self._note)
            return
        async with open_stored_sessions(
            configured, _existing_folder(entry.cwd), self.records, self._note
        ) as stored:
            yield stored

    def _configured_agent(self, entry: SessionListEntry) -> ConfiguredAgent | None:
        try:
            return load(_existing_folder(entry.cwd), trust=leave_out)[entry.agent]
        except UnknownAgent:
            return None


def _existing_folder(cwd: str) -> str:
    return cwd if os.path.isdir(cwd) else os.getcwd()


def _ignore_note(text: str) -> None:
    """Drop notes of the session list."""


def open_agent_list(app: "ChatApp") -> None:
    """Let the user choose an agent and open a session with it."""
    view = app.view

    def on_choice(choice: Any) -> None:
        if isinstance(choice, AgentOffer):
            from accord.tui.welcome_actions import open_agent

            app.run_worker(open_agent(app, choice), group="welcome", exclusive=True)
        elif choice is not None:
            app.run_worker(open_session(app, start_options(app, view, None, view.start.cwd)))

    app.push_screen(AgentsScreen(view), on_choice)


def start_options(
    app: "ChatApp", view: "SessionView", name: str | None, cwd: str, session: str | None = None
) -> ChatStart:
    """Return the start options of a session; without a name, with the agent of this tab."""
    same_agent = replace(view.start, cwd=cwd, session=session, newest=False)
    choose_agent = app.choose_agent
    if name is None or choose_agent is None:
        return same_agent

    def find(trusting: "TrustCallback") -> ConfiguredAgent:
        return choose_agent(name, cwd, trusting)

    # Command-line options apply only to the first agent.
    return ChatStart(find_agent=find, cwd=cwd, name=name, permissions=view.start.permissions, session=session)


async def open_session(app: "ChatApp", start: ChatStart) -> None:
    """Open a session in a new tab; close the current tab if it was not used."""
    previous_view = app.view
    await app.open(start)
    if _is_unused(previous_view):
        await app.close(previous_view)


def _is_unused(view: "SessionView") -> bool:
    session = view.chat_session.session if view.chat_session is not None else None
    has_history = session is not None and session.state.timeline
    return not (has_history or view.turns or len(view.queue) or view.prompt.draft or view.dialog)


class AgentsScreen(ListScreen):
    """Lists the configured agents, then the known agents."""

    def __init__(self, view: "SessionView") -> None:
        self._current_view = view
        self._current_row = ListRow(
            "", view.status.agent or view.start.name, "the agent of this session", current=True
        )
        super().__init__("New session with", [self._current_row])

    def on_mount(self) -> None:
        super().on_mount()
        self.show_message("Looking for agents…")
        self.run_worker(self._find())

    async def _find(self) -> None:
        try:
            rows = [_row(one) for one in await asyncio.to_thread(agent_offers, self._current_view.start.cwd)]
        except AccordError as error:
            self.show_message(error_line(error), bad=True)
            return
        self.show_rows([self._current_row, *rows])
        self.show_message("")


_GROUPS: Final[dict[str, str]] = {
    "configured": "Configured",
    "untrusted": "From this project, if you trust it",
    "installed": "Installed",
    "missing": "Not installed",
}


def _row(offer: AgentOffer) -> ListRow:
    note = " · ".join(filter(None, (offer.title if offer.title != offer.name else "", offer.needs)))
    note = note.replace("not installed · ", "")
    right = "default" if offer.default else "Enter installs" if offer.installs else ""
    return ListRow(offer, offer.name, note, right=right, group=_GROUPS[offer.group])


class SessionsScreen(ListScreen):
    """Lists earlier sessions: search, continue, rename, archive, fork, export, delete.

    Those of this folder come first. The search also finds what was said in a session.
    """

    ENTER_HINT: ClassVar[str] = "continue"
    KEYS: ClassVar[Sequence["KeyHint"]] = (
        ("Ctrl+R", "rename"),
        ("Ctrl+F", "fork"),
        ("Ctrl+X", "delete"),
        ("Ctrl+A", "archive"),
        ("Ctrl+E", "export"),
        ("Ctrl+L", "all agents"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+f", "fork", "Fork", show=False, priority=True),
        Binding("ctrl+r", "rename", "Rename", show=False, priority=True),
        Binding("ctrl+a", "archive", "Archive", show=False, priority=True),
        Binding("ctrl+e", "export", "Export", show=False, priority=True),
        Binding("delete,ctrl+x", "delete", "Delete", show=False, priority=True),
        Binding("f5,ctrl+l", "ask_all", "Ask all agents", show=False, priority=True),
    ]

    def __init__(self, app: "ChatApp") -> None:
        super().__init__(
            "Sessions",
            placeholder="Search: title, folder, agent, what was said",
            empty_text="No sessions yet",
        )
        self._said: dict[tuple[str, str], str] = {}
        """Passages with the words of the search, by agent and id."""
        self._chat = app
        self._cwd = app.view.start.cwd
        self._catalog = SessionCatalog(app.views, self.show_message)

    def on_mount(self) -> None:
        super().on_mount()
        self._run(self._load())

    def on_unmount(self) -> None:
        self._catalog.close()

    def _run(self, work: "Coroutine[Any, Any, None]") -> None:
        self.run_worker(self._report_errors(work), group="sessions", exclusive=True)

    async def _report_errors(self, work: "Coroutine[Any, Any, None]") -> None:
        try:
            await work
        except AccordError as error:
            self.show_message(error_line(error), bad=True)

    # -- loading --

    async def _load(self) -> None:
        try:
            self._catalog.load_recorded()
        finally:
            self._show()
        self.show_message("Asking the running agents…")
        await self._catalog.add_running_agents()
        self._show()
        self.show_message("")

    def action_ask_all(self) -> None:
        """Start every configured agent and list its sessions."""
        self._run(self._query_all())

    async def _query_all(self) -> None:
        self.show_message("Asking all agents…")
        await self._catalog.add_other_agents(self._cwd)
        self._show()
        self.show_message(f"Asked {', '.join(sorted(self._catalog.queried_agents))}")

    @on(Input.Changed, "#filter")
    def _search(self, event: Input.Changed) -> None:
        """Also search what was said, once the user stops typing."""
        self._said = {}
        if len(event.value.strip()) >= _MIN_SEARCH:
            self.run_worker(self._search_texts(event.value), group="search", exclusive=True)

    async def _search_texts(self, query: str) -> None:
        await self._chat.clock.sleep(_SEARCH_PAUSE)
        try:
            hits = await asyncio.to_thread(search_sessions, query)
        except AccordError as error:
            self.show_message(error_line(error), bad=True)
            return
        for hit in hits:
            self._catalog.add_hit(hit)
            passage = next((match.text for match in hit.matches if match.role != "title"), "")
            self._said[hit.agent, hit.session_id] = f"“{passage}” {query}" if passage else query
        self._show()

    def _show(self) -> None:
        groups = ("This folder", "Other folders", "Archived")
        rows = [self._row(entry, groups[self._group(entry)]) for entry in self._catalog.entries]
        self.show_rows(sorted(rows, key=lambda row: groups.index(row.group)))

    def _group(self, entry: SessionListEntry) -> int:
        return 2 if entry.archived else 0 if same_directory(entry.cwd, self._cwd) else 1

    def _row(self, entry: SessionListEntry, group: str) -> ListRow:
        location = "" if group == "This folder" else cut_path(shorten_home(entry.cwd), 36)
        said = self._said.get((entry.agent, entry.session_id), "")
        passage = said[: said.rfind("”") + 1]
        return ListRow(
            entry,
            entry.shown_title,
            " · ".join(
                filter(
                    None,
                    (
                        passage,
                        location,
                        (f"at {one_line(entry.node, 24)}" if entry.node else "")
                        + (", which does not run" if entry.node_is_lost else ""),
                        "running elsewhere" if entry.running_in is not None else "",
                        "recorded here" if entry.source == "recorded" else "",
                    ),
                )
            ),
            right=" · ".join(filter(None, (one_line(entry.agent, 24), entry.when))),
            group=group,
            current=self._catalog.view_of(entry) is not None,
            search_text=f"{entry.session_id} {entry.cwd} {said}",
        )

    @property
    def _entry(self) -> SessionListEntry | None:
        row = self.list.selected
        return None if row is None else row.value

    # -- one session --

    async def choose(self, row: ListRow) -> None:
        entry: SessionListEntry = row.value
        view = self._catalog.view_of(entry)
        if view is not None:
            self.dismiss(None)
            self._chat.tabs.show(view)
        else:
            self._open(entry, entry.session_id)

    def _open(self, entry: SessionListEntry, session_id: str) -> None:
        """Continue a session in a new tab."""
        agent_view = self._catalog.agent_view(entry.agent)
        if not os.path.isdir(entry.cwd) and (agent_view is None or agent_view.start.remote is None):
            self.show_message(f"The folder {entry.cwd} no longer exists", bad=True)
            return
        if agent_view is None and " " in entry.agent:
            self.show_message(f"Run: accord chat --session {session_id} -- {entry.agent}", bad=True)
            return
        start = start_options(
            self._chat,
            agent_view or self._chat.view,
            None if agent_view is not None else entry.agent,
            entry.cwd,
            session_id,
        )
        self.dismiss(None)
        self._chat.run_worker(open_session(self._chat, start))

    def action_fork(self) -> None:
        """Fork the selected session."""
        entry = self._entry
        if entry is not None:
            self._run(self._fork(entry))

    async def _fork(self, entry: SessionListEntry) -> None:
        self.show_message(f"Forking {entry.shown_title}…")
        async with self._catalog.stored_for(entry) as stored:
            new_id = await stored.fork(entry)
        self._open(entry, new_id)

    def action_rename(self) -> None:
        """Give the selected session a title."""
        entry = self._entry
        if entry is None:
            return

        def rename(title: str) -> str | None:
            self._run(self._rename(entry, title))
            return None

        title = entry.shown_title if entry.title else ""
        self._chat.push_screen(TextInputScreen("Title of the session", title, rename))

    async def _rename(self, entry: SessionListEntry, title: str) -> None:
        async with self._catalog.stored_for(entry) as stored:
            title = await stored.rename(entry, title)
        self._catalog.replace(entry, title=title)
        view = self._catalog.view_of(entry)
        if view is not None:
            view.rename(title)
        self._show()
        self.show_message(f"Renamed: {title}")

    def action_archive(self) -> None:
        """Archive the selected session, or show it in the list again."""
        entry = self._entry
        if entry is not None:
            self._run(self._archive(entry))

    async def _archive(self, entry: SessionListEntry) -> None:
        async with self._catalog.stored_for(entry) as stored:
            await stored.archive(entry, archived=not entry.archived)
        self._catalog.replace(entry, archived=not entry.archived)
        self._show()
        self.show_message(f"{'In the list again' if entry.archived else 'Archived'}: {entry.shown_title}")

    def action_export(self) -> None:
        """Write the selected session to a Markdown file."""
        entry = self._entry
        if entry is None:
            return
        path = suggested_path(self._cwd, entry.title or entry.session_id)

        def write(text: str) -> str | None:
            self._run(self._export(entry, text))
            return None

        self._chat.push_screen(TextInputScreen("Export the session as Markdown to", path, write))

    async def _export(self, entry: SessionListEntry, text: str) -> None:
        path = new_file_path(text)
        async with self._catalog.stored_for(entry) as stored:
            write_new_file(path, markdown(await stored.transcript(entry)))
        self.show_message(f"Exported to {path}")

    def action_delete(self) -> None:
        """Delete the selected session after a confirmation."""
        entry = self._entry
        if entry is None:
            return
        if self._catalog.view_of(entry) is not None:
            self.show_message("The session is open: close its tab first", bad=True)
            return

        def on_answer(confirmed: Any) -> None:
            if confirmed:
                self._run(self._delete(entry))

        question = ConfirmScreen(
            f"Delete {entry.shown_title} of {one_line(entry.agent)}, {entry.when}?",
            "Delete permanently",
            "Keep it",
        )
        self._chat.push_screen(question, on_answer)

    async def _delete(self, entry: SessionListEntry) -> None:
        self.show_message(f"Deleting {entry.shown_title}…")
        async with self._catalog.stored_for(entry) as stored:
            location = await stored.delete(entry)
        self._catalog.forget(entry)
        self._show()
        self.show_message(f"Deleted {location}: {entry.shown_title}")
