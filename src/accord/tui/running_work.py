"""What an agent runs now and stops alone on request: tool calls, and commands in its terminals.

Only agents of protocol version 2 offer that.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord.client import ClientSession
    from accord.session import SessionState
    from accord.tui.session_view import SessionView


@dataclass(frozen=True, slots=True)
class RunningWork:
    """One tool call or terminal that can be stopped."""

    kind: Literal["call", "command"]
    id: str
    title: str

    async def stop(self, session: "ClientSession") -> None:
        """Ask the agent to stop it. Its end comes as an event. Raises AccordError if the agent refuses."""
        if self.kind == "call":
            await session.cancel_tool_call(self.id)
        else:
            await session.cancel_terminal(self.id)


def running_work(state: "SessionState") -> list[RunningWork]:
    """What can be stopped now. A command that a listed call shows is left out: both end together."""
    calls = [call for call in state.tool_calls.values() if call.cancellable and call.open]
    shown = {terminal_id for call in calls for terminal_id in call.terminal_ids}
    return [RunningWork("call", call.tool_call_id, call.label) for call in calls] + [
        RunningWork("command", terminal.terminal_id, terminal.command or terminal.terminal_id)
        for terminal in state.terminals.values()
        if terminal.cancellable and terminal.exit is None and terminal.terminal_id not in shown
    ]


def stop_work(view: "SessionView") -> None:
    """Stop the selected or the only running work, or let the user choose."""
    from accord.tui.list_screen import ListRow, ListScreen
    from accord.tui.theme import app_of

    session = None if view.chat_session is None else view.chat_session.session
    if session is None or not (found := running_work(session.state)):
        view.notify("Nothing runs that the agent can stop alone; Esc stops the whole turn")
        return
    if (selected := selected_work(view, found)) is not None:
        found = [selected]
    if len(found) == 1:
        view.run_worker(_stop(view, session, found[0]), group="stop")
        return

    def chosen(work: RunningWork | None) -> None:
        if work is not None:
            view.run_worker(_stop(view, session, work), group="stop")

    rows = [
        ListRow(work, work.title, group="Tool calls" if work.kind == "call" else "Commands") for work in found
    ]
    app_of(view).push_screen(ListScreen("Stop one of these", rows), chosen)


def selected_work(view: "SessionView", found: "Sequence[RunningWork]") -> RunningWork | None:
    """The one of these that the selected item of the transcript shows."""
    from accord.tui.transcript.transcript_items import CallItem

    item = view.transcript.selected if view.transcript.has_focus else None
    if not isinstance(item, CallItem):
        return None
    ids = {item.call.tool_call_id, *item.call.terminal_ids}
    return next((work for work in found if work.id in ids), None)


async def _stop(view: "SessionView", session: "ClientSession", work: RunningWork) -> None:
    from accord.errors import AccordError

    try:
        await work.stop(session)
    except AccordError as error:
        view.note(f"cannot stop {work.title}: {error}", "warn")
