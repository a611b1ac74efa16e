"""The list of sessions: search it, and resume, fork or delete what it shows."""

import os
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType

from accord.cleaning import clean_line, one_line
from accord.client.stored.transcript import Entry
from accord.errors import AccordError
from accord.tui.agents import open_in_place, start_with
from accord.tui.lists.line import SureScreen
from accord.tui.lists.rows import Row
from accord.tui.lists.screen import ListScreen
from accord.tui.stored.gathering import Gathered
from accord.tui.words import at_home, end_of, first_line

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from accord.tui.app import ChatApp


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
        self._gathered = Gathered(app.views, self.tell)

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

    def _row(self, entry: Entry, group: str) -> Row:
        where = "" if group == "This folder" else end_of(at_home(entry.cwd), 36)
        title = entry.title or entry.session_id
        return Row(
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
    def _entry(self) -> Entry | None:
        row = self.list.marked
        return None if row is None else row.value

    # -- one of them --------------------------------------------------------------------------------------------

    async def take(self, row: Row) -> None:
        entry: Entry = row.value
        view = self._gathered.view_of(entry)
        if view is not None:
            self.dismiss(None)
            self._chat.desk.show(view)
        else:
            self._open(entry, entry.session_id)

    def _open(self, entry: Entry, session_id: str) -> None:
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

    async def _fork(self, entry: Entry) -> None:
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

        question = SureScreen(
            f"Delete {entry.label} of {one_line(entry.agent)}?", "Delete it for good", "Keep it"
        )
        self._chat.push_screen(question, answered)

    async def _delete(self, entry: Entry) -> None:
        self.tell(f"Deleting {entry.label}…")
        async with self._gathered.stored_for(entry) as stored:
            where = await stored.delete(entry)
        self._gathered.forget(entry)
        self._show()
        self.tell(f"Deleted {where}: {entry.label}")


def _same(folder: str, other: str) -> bool:
    return os.path.realpath(folder) == os.path.realpath(other)
