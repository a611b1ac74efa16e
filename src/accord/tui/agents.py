"""Another session, with any agent that can be launched here: in a tab of its own, or in the place of one that was not used."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accord.client.servers import Server, Servers, leave_out, load
from accord.errors import AccordError
from accord.tui.lists.rows import Row
from accord.tui.lists.screen import ListScreen
from accord.tui.start import Start
from accord.tui.words import first_line

if TYPE_CHECKING:
    from accord.client.servers.trusting import Trusting
    from accord.tui.app import ChatApp
    from accord.tui.sessionview import SessionView


def pick_agent(app: "ChatApp") -> None:
    """Choose an agent, and begin a session with it."""
    here = app.view

    async def chosen(name: Any) -> None:
        if name is not None:
            await open_in_place(app, start_with(app, here, name or None, here.start.cwd))

    app.push_screen(AgentsScreen(here), chosen)


def start_with(
    app: "ChatApp", here: "SessionView", name: str | None, cwd: str, session: str | None = None
) -> Start:
    """How a session with an agent begins; without a name with the one that is here."""
    same = replace(here.start, cwd=cwd, session=session, newest=False)
    choose = app.choose
    if name is None or choose is None:
        return same

    def find(trusting: "Trusting") -> Server:
        return choose(name, cwd, trusting)

    # What was said of one agent on the command line is not said of another.
    return Start(find=find, cwd=cwd, name=name, permissions=here.start.permissions, session=session)


async def open_in_place(app: "ChatApp", start: Start) -> None:
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
        self._own = Row("", here.status.agent or here.start.name, "the agent of this session", current=True)
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


def _rows(cwd: str) -> list[Row]:
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


def _row(server: Server, servers: Servers, group: str) -> Row:
    known = server.known
    note = server.description or (known.name if known is not None and known.name != server.name else "")
    right = "default" if server.name == servers.default.name else ""
    if group.startswith("Known") and known is not None:
        note = known.how_to_get
    return Row(server.name, server.name, note, right=right, group=group)
