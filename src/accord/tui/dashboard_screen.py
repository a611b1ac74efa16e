"""The dashboard: all sessions, and what each waits for.

Imported on first use.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from textual.binding import Binding, BindingType

from accord.errors import AccordError, StoreError
from accord.frontend.recording import RecordedSession, RecordedSessions
from accord.frontend.transcript import SessionListEntry
from accord.safe_text import clean_line, one_line
from accord.session import PermissionAsked, SessionState, ToolCallState
from accord.text_width import count_text
from accord.tui.list_screen import ListRow, ListScreen
from accord.tui.session_panels import cut_path, shorten_home
from accord.tui.session_tabs import MARKS
from accord.tui.sessions_screen import open_session, start_options

if TYPE_CHECKING:
    from accord.tui.chat_app import ChatApp
    from accord.tui.key_footer import KeyHint
    from accord.tui.session_view import SessionView

_UPDATE_SECONDS: Final = 1.0
_MAX_ELSEWHERE: Final = 20
"""Number of sessions in other programs that are shown."""
_MAX_FOLDER: Final = 24
_MIN_WIDTH_FOR_PLACES: Final = 100
"""On smaller screens, agents and folders would hide what the sessions wait for."""
_GATEWAY_LIMIT: Final = 200
_STATES: Final = {"waiting": "asks for an answer", "running": "working", "lost": "its node is lost"}


class Elsewhere(NamedTuple):
    """A session that another program runs."""

    agent: str
    session_id: str
    cwd: str
    title: str
    waits_for: str
    where: str
    opener: Any = None
    """The tab whose agent can open the session here; None if it runs in another program."""


class DashboardScreen(ListScreen):
    """Lists the open tabs with their sub-agents, then the running sessions of other programs and clients."""

    ENTER_HINT: ClassVar[str] = "go there"
    KEYS: ClassVar[Sequence["KeyHint"]] = (("Ctrl+X", "close the tab"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+x,delete", "close_tab", "Close", show=False, priority=True)
    ]

    def __init__(self, app: "ChatApp") -> None:
        super().__init__("All sessions")
        self._chat = app
        self._elsewhere: list[Elsewhere] = []

    def on_mount(self) -> None:
        super().on_mount()
        self._update(at_current=True)
        self.set_interval(_UPDATE_SECONDS, self._update)
        self.run_worker(self._look_elsewhere(), group="elsewhere")

    async def _look_elsewhere(self) -> None:
        open_ids = {(agent_of(view), session_id_of(view)) for view in self._chat.views}
        try:
            found = await asyncio.to_thread(_running_elsewhere)
            for view in self._chat.views:
                found += await _at_gateway(view)
        except AccordError as error:
            self.show_message(f"cannot list other sessions: {error}", bad=True)
            return
        unique = {(other.agent, other.session_id): other for other in found}
        self._elsewhere = [other for key, other in unique.items() if key not in open_ids]
        self._update()

    def _update(self, *, at_current: bool = False) -> None:
        rows = [
            row for number, view in enumerate(self._chat.views, 1) for row in self._tab_rows(view, number)
        ]
        rows += [
            ListRow(
                other,
                other.title or "Untitled",
                other.waits_for,
                right=_place(other.agent, shorten_home(other.cwd)),
                group=other.where,
            )
            for other in self._elsewhere
        ]
        if self.size.width < _MIN_WIDTH_FOR_PLACES:
            rows = [replace(row, right="") for row in rows]
        if at_current or rows != list(self.all_rows):
            self.show_rows(rows, at_current=at_current)

    def _tab_rows(self, view: "SessionView", number: int) -> Iterator[ListRow]:
        status = view.status
        name = f"{number} {clean_line(status.title or status.agent)}{MARKS[self._chat.tabs.mark(view)]}"
        right = f"{_place(status.agent, status.folder)} {status.branch_text}".rstrip()
        is_current = view is self._chat.view
        yield ListRow(view, name, wait_text(view), right=right, current=is_current, group="Open here")
        for child in state_of(view).history.subagents.values():
            title = clean_line(child.title or child.session_id)
            activity = {"requires_action": "asks for an answer", "running": "working"}
            shown = activity.get(child.activity, clean_line(child.activity))
            yield ListRow(view, f"   ↳ {one_line(title, 60)}", shown, group="Open here")

    async def choose(self, row: ListRow) -> None:
        value: Any = row.value
        if not isinstance(value, Elsewhere):
            self.dismiss(None)
            self._chat.tabs.show(value)
            return
        view = value.opener
        if view is None:
            self.show_message(f"{value.where}: it can be opened here when it has ended there", bad=True)
            return
        self.dismiss(None)
        await open_session(
            self._chat, start_options(self._chat, view, None, view.start.cwd, value.session_id)
        )

    def action_close_tab(self) -> None:
        """Close the tab of the selected row; ask first if a turn runs in it."""
        row = self.list.selected
        if row is not None and not isinstance(row.value, Elsewhere):
            self._chat.ask_to_close(row.value)


def _place(agent: str, folder: str) -> str:
    return f"{one_line(clean_line(agent), 30)} · {cut_path(clean_line(folder), _MAX_FOLDER)}"


def agent_of(view: "SessionView") -> str:
    """The configured name of the agent of a tab."""
    chat = view.chat_session
    return view.start.name if chat is None or chat.configured_agent is None else chat.configured_agent.name


def session_id_of(view: "SessionView") -> str:
    """The id of the session of a tab; empty before it is open."""
    return (
        "" if view.chat_session is None or view.chat_session.session is None else view.chat_session.session.id
    )


def state_of(view: "SessionView") -> SessionState:
    """The state of the session of a tab."""
    session = None if view.chat_session is None else view.chat_session.session
    return SessionState() if session is None else session.state


def wait_text(view: "SessionView") -> str:
    """What a session waits for, or does."""
    chat, dialog = view.chat_session, view.dialog
    if dialog is not None:
        subject = getattr(dialog, "subject", "")
        return f"waits for your answer: {dialog.title}" + (f" · {subject}" if subject else "")
    phase = "connecting" if chat is None else chat.phase
    if phase in ("running", "cancelling"):
        calls = [entry for entry in state_of(view).history.latest_turn if isinstance(entry, ToolCallState)]
        current = next((call for call in reversed(calls) if call.open), None)
        doing = f": {one_line(clean_line(current.label), 80)}" if current is not None else ""
        return " ".join(filter(None, (view.status.activity, view.status.elapsed))) + doing
    if phase == "ready" and view.queue.paused:
        return f"waits for you: {count_text(len(view.queue), 'prompt')} paused"
    if phase == "ready":
        return "done; waits for your next prompt" if view.turns else "waits for your first prompt"
    return {
        "dead": "its agent has ended: Ctrl+R restarts it",
        "failed": "not connected: Ctrl+R tries again",
    }.get(phase, view.status.activity)


def _running_elsewhere() -> list[Elsewhere]:
    """The sessions that other programs of this machine run now. Blocking."""
    found: list[Elsewhere] = []
    try:
        records = RecordedSessions.open()
    except StoreError:
        return found
    try:
        for recorded in records.list(used_only=True):
            entry = SessionListEntry.from_recording(recorded)
            if entry.running_in is not None:
                where = f"In another program (process {entry.running_in})"
                waits_for = _recorded_wait(records, recorded)
                found.append(
                    Elsewhere(entry.agent, entry.session_id, entry.cwd, entry.shown_title, waits_for, where)
                )
            if len(found) == _MAX_ELSEWHERE:
                break
    finally:
        records.close()
    return found


def _recorded_wait(records: RecordedSessions, recorded: RecordedSession) -> str:
    state = SessionState()
    try:
        for event in records.events(recorded):
            state.apply(event)
    except StoreError:
        return ""
    asked: PermissionAsked | None = next(iter(state.permissions.values()), None)
    if asked is not None:
        title = "" if asked.call is None else one_line(clean_line(asked.call.label), 80)
        return f"waits for an answer: {title}" if title else "asks for an answer"
    return "working" if state.turn != "idle" else "waits for a prompt"


async def _at_gateway(view: "SessionView") -> list[Elsewhere]:
    """The sessions of the gateway behind a tab that do something now. Raises AccordError."""
    agent = None if view.chat_session is None else view.chat_session.agent
    if view.start.remote is None or agent is None or view.chat_session is None:
        return []
    if view.chat_session.phase in ("lost", "connecting", "failed"):
        return []
    try:
        answer = await agent.request("_accord/sessions", {"limit": _GATEWAY_LIMIT})
        inbox = await agent.request("_accord/inbox", {})
    except AccordError:
        return []  # a remote agent without a gateway
    own_id = session_id_of(view)
    entries = answer.get("sessions", ())
    own_agent = next((entry["agent"] for entry in entries if entry["sessionId"] == own_id), None)
    asked = {item["sessionId"]: _inbox_text(item) for item in inbox.get("items", ()) if "sessionId" in item}
    return [
        Elsewhere(
            str(entry["agent"]),
            str(entry["sessionId"]),
            str(entry["cwd"]),
            one_line(clean_line(str(entry.get("title", ""))), 120),
            asked.get(entry["sessionId"]) or _STATES.get(entry["state"], ""),
            "At the gateway" if entry["agent"] == own_agent else f"At the gateway, agent {entry['agent']}",
            view if own_agent in (None, entry["agent"]) else None,
        )
        for entry in entries
        if entry.get("state") in _STATES and entry["sessionId"] != own_id
    ]


def _inbox_text(item: Any) -> str:
    call: Any = item.get("params", {}).get("toolCall", {})
    title = one_line(clean_line(str(call.get("title") or "")), 80)
    return f"waits for an answer: {title}" if title else "asks for an answer"
