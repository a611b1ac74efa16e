"""How the events of a session reach the widgets of its view.

Loaded before the first paint: keep the client out.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from accord.clock import Clock
from accord.tui.session_panels import PlanPanel, Status
from accord.tui.shell_command import ShellItem
from accord.tui.transcript.transcript_layout import NoteItem
from accord.tui.transcript.transcript_view import TranscriptView

if TYPE_CHECKING:
    from accord.client import AgentEnded, ClientEvent, ClientSession, RemoteAgent
    from accord.errors import AccordError
    from accord.session import TurnEnded
    from accord.tui.chat_types import Phase
    from accord.tui.parts.note_part import Tone
    from accord.tui.transcript.transcript_follower import TranscriptFollower


_UPDATE_INTERVAL: Final = 0.1
"""Seconds between two updates of the plan and the status."""


class ScreenDisplay:
    """The `SessionDisplay` of the screen: updates transcript, plan and status."""

    def __init__(
        self,
        transcript: "TranscriptView",
        plans: "tuple[PlanPanel, ...]",
        status: "Status",
        clock: Clock,
        *,
        changed: Callable[[], None],
        queue_changed: Callable[[], None],
    ) -> None:
        """`changed` is called when the status has changed, `queue_changed` when the queue of prompts has."""
        self.turns: int = 0
        """Number of ended turns."""
        self.queue_changed = queue_changed
        self._transcript = transcript
        self._plans = plans
        self._status = status
        self._clock = clock
        self._changed = changed
        self._session: ClientSession | None = None
        self._remote = False
        self._gateway_lost = False  # whether a note says so
        self._follower: TranscriptFollower | None = None
        self._started_at = 0.0
        self._update_scheduled = False

    def phase_changed(self, phase: "Phase") -> None:
        if phase == "running":
            self._started_at = self._clock.now()
        if phase in ("lost", "ready", "dead"):
            self._status.link_lost = False
        if phase in ("ready", "dead"):
            self._gateway_lost = False
        self._status.set_phase(phase)
        self._changed()

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        from accord.tui.transcript.transcript_follower import TranscriptFollower

        notes = [item for item in self._transcript.items if isinstance(item, NoteItem | ShellItem)]
        self._session, self._remote = session, agent.remote
        self._follower = TranscriptFollower(session, self._transcript, self._clock)
        self._transcript.add(*notes)
        if agent.info is not None:
            self._status.agent = agent.name
        self._update_panels()

    def link_changed(self, lost: str) -> None:
        self._status.link_lost = bool(lost)
        if lost:
            self._note_loss(lost)
        elif self._gateway_lost:
            self._gateway_lost = False
            self.note("Connected to the gateway again.", "good")
        self._changed()

    def _note_loss(self, reason: str) -> None:
        """Say once that the gateway is lost, until it is back."""
        if not self._gateway_lost:
            self._gateway_lost = True
            self.note(
                f"The gateway is lost: {reason}",
                "bad",
                "This chat reconnects by itself. What you type is kept, and sent when the gateway is back.",
            )

    def event_received(self, event: "ClientEvent") -> None:
        from accord.client import AgentEnded
        from accord.session import TurnEnded

        assert self._follower is not None
        self._follower.apply(event)
        if isinstance(event, TurnEnded):
            self._follower.turn_ended()
        elif isinstance(event, AgentEnded):
            self._show_end(event)
        if not self._update_scheduled:
            self._update_scheduled = True
            self._transcript.set_timer(_UPDATE_INTERVAL, self._update_panels)

    def _show_end(self, event: "AgentEnded") -> None:
        if not self._remote:
            self.note(f"The agent has ended: {event.error.message}", "bad", event.stderr)
        else:
            self._note_loss(event.error.message)

    def _update_panels(self) -> None:
        """Update plan and status. Called at most ten times per second, regardless of the events."""
        self._update_scheduled = False
        if self._session is None:
            return
        state = self._session.state
        for plan in self._plans:
            plan.show(state.plan)
        if self._status.update_from(state):
            self._changed()

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        self._transcript.add(NoteItem(text, tone, details))

    def failed(self, error: "AccordError", details: str) -> None:
        self.note(str(error), "bad", details)

    def turn_ended(self, ended: "TurnEnded | None", error: "AccordError | None") -> None:
        from accord.errors import ConnectionClosed
        from accord.frontend.display_text import duration_text, turn_status
        from accord.text_width import count_text

        self.turns += 1
        self._changed()
        if error is not None and not isinstance(error, ConnectionClosed):
            self.note(str(error), "bad")
        if error is not None or ended is None:
            return  # already shown
        summary = [turn_status(ended), duration_text(self._clock.now() - self._started_at)]
        if ended.usage is not None:
            summary.append(count_text(ended.usage.total_tokens, "token"))
        tone: Tone = "quiet" if ended.stop_reason in ("end_turn", "cancelled") else "warn"
        self.note(" · ".join(summary), tone)

    def tick(self) -> None:
        """Update the elapsed time of the running turn."""
        from accord.frontend.display_text import duration_text

        self._status.elapsed = duration_text(self._clock.now() - self._started_at)
        if self._follower is not None:
            self._follower.tick()
