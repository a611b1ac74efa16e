"""The tool calls of a turn: live lines while they run, lines that stay once they are done."""

from copy import copy
from typing import TYPE_CHECKING, Final

from accord.cli.output.style import DIM, Style
from accord.cli.output.toolcalls import ShownCall, call_line, details, last_words
from accord.cli.output.width import cut
from accord.clock import Clock
from accord.session import ToolCallState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accord.client import ClientSession, TerminalView

_MOST_LIVE: Final = 6


class Calls:
    """What is known of each call, and what of it is on the screen."""

    def __init__(self, style: Style, clock: Clock) -> None:
        self._style = style
        self._clock = clock
        self._session: ClientSession | None = None
        self._known: dict[str, ShownCall] = {}
        self._running: dict[str, ShownCall] = {}

    def opened(self, session: "ClientSession") -> None:
        """The session whose calls come."""
        self._session = session

    def changed(self, call: ToolCallState) -> list[str]:
        """A call appeared or changed: the lines that are to stay, often none."""
        shown = self._known.get(call.tool_call_id)
        if shown is None:
            shown = self._known[call.tool_call_id] = ShownCall(call, self._clock.now())
            self._running[call.tool_call_id] = shown
        shown.call = call
        return [] if call.open else self._ended(shown)

    def waited(self, call_id: str) -> None:
        """A call waited for an answer until now: that is not its own time."""
        if call_id in self._running:
            self._running[call_id].began = self._clock.now()

    def left_open(self) -> list[str]:
        """The turn is over: the lines of the calls that never ended."""
        lines: list[str] = []
        for call_id, shown in list(self._running.items()):
            known = None if self._session is None else self._session.state.tool_calls.get(call_id)
            shown.call = copy(known or shown.call)
            shown.call.give_up("ended_without_result")
            lines += self._ended(shown)
        return lines

    def live(self, width: int, frame: str) -> list[str]:
        """The calls that run, and what their commands printed last."""
        lines: list[str] = []
        running = list(self._running.values())
        for shown in running[:_MOST_LIVE]:
            took = self._clock.now() - shown.began
            lines.append(call_line(shown, self._style, took, self._cwd, width=width, frame=frame))
            last = self._last_words(shown.call)
            if last:
                lines.append(self._style.paint(cut(f"    {last}", width), DIM))
        if len(running) > _MOST_LIVE:
            lines.append(self._style.paint(f"and {len(running) - _MOST_LIVE} more", DIM))
        return lines

    @property
    def _cwd(self) -> str:
        return "" if self._session is None else self._session.state.cwd

    @property
    def _views(self) -> "Mapping[str, TerminalView]":
        return {} if self._session is None else self._session.terminals

    def _last_words(self, call: ToolCallState) -> str:
        views = self._views
        for terminal_id in reversed(call.terminal_ids):
            if terminal_id in views:
                return last_words(views[terminal_id])
        return ""

    def _ended(self, shown: ShownCall) -> list[str]:
        self._running.pop(shown.call.tool_call_id, None)
        lines: list[str] = []
        if not shown.told:
            shown.told = True
            shown.took = self._clock.now() - shown.began
            lines.append(call_line(shown, self._style, shown.took, self._cwd))
        if not shown.detailed:  # some agents tell that it is done first, and then what came of it
            came = details(shown.call, self._style, self._cwd, self._views)
            shown.detailed = bool(came)
            lines += came
        return lines
