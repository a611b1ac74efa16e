"""What happens in a session, put on the screen: into the conversation, the plan and the lines at the edges."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from accord.clock import Clock
from accord.tui.shell import ShellItem
from accord.tui.transcript.item import NoteItem

if TYPE_CHECKING:
    from accord.client import ClientEvent, ClientSession, RemoteAgent
    from accord.errors import AccordError
    from accord.session import TurnEnded
    from accord.tui.parts.note import Tone
    from accord.tui.plan import PlanPanel
    from accord.tui.stage import Phase
    from accord.tui.status import Status
    from accord.tui.transcript.follower import Follower
    from accord.tui.transcript.view import Transcript

_GLANCE: Final = 0.1
"""Seconds between two looks at what stands at the edges."""


class Showing:
    """The stage of a conversation that is a screen."""

    def __init__(
        self,
        transcript: "Transcript",
        plans: "tuple[PlanPanel, ...]",
        status: "Status",
        clock: Clock,
        *,
        changed: Callable[[], None],
        queue_changed: Callable[[], None],
    ) -> None:
        """`changed` is called when the lines at the edges tell something else, `queue_changed` when a prompt left the queue or returned to it."""
        self.turns = 0
        """Turns that are over."""
        self.queue_changed = queue_changed
        self._transcript = transcript
        self._plans = plans
        self._status = status
        self._clock = clock
        self._changed = changed
        self._session: ClientSession | None = None
        self._follower: Follower | None = None
        self._began = 0.0
        self._looking = False

    def phase_changed(self, phase: "Phase") -> None:
        """Something else goes on now."""
        if phase == "running":
            self._began = self._clock.now()
        self._status.enter(phase)
        self._changed()

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        """The session is there."""
        from accord.tui.transcript.follower import Follower

        notes = [item for item in self._transcript.items if isinstance(item, NoteItem | ShellItem)]
        self._session = session
        self._follower = Follower(session, self._transcript, self._clock)
        self._transcript.add(*notes)
        if agent.info is not None:
            self._status.agent = agent.name
        self._glance()

    def happened(self, event: "ClientEvent") -> None:
        """An event of the session."""
        from accord.client import AgentEnded
        from accord.session import TurnEnded

        assert self._follower is not None
        self._follower.take(event)
        if isinstance(event, TurnEnded):
            self._follower.turn_ended()
        elif isinstance(event, AgentEnded):
            self.note(f"The agent has ended: {_first_line(str(event.error))}", "bad", event.stderr)
        if not self._looking:
            self._looking = True
            self._transcript.set_timer(_GLANCE, self._glance)

    def _glance(self) -> None:
        """However much has happened, the edges of the screen are looked at a few times a second only."""
        self._looking = False
        if self._session is None:
            return
        state = self._session.state
        for plan in self._plans:
            plan.show(state.plan)
        if self._status.read(state):
            self._changed()

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Tell the user something."""
        self._transcript.add(NoteItem(text, tone, details))

    def failed(self, error: "AccordError", details: str) -> None:
        """It could not be connected."""
        self.note(str(error), "bad", details)

    def turn_over(self, ended: "TurnEnded | None", error: "AccordError | None") -> None:
        """A turn is over."""
        from accord.client.words import ending, seconds
        from accord.errors import ConnectionClosed

        self.turns += 1
        self._changed()
        if error is not None and not isinstance(error, ConnectionClosed):
            self.note(str(error), "bad")
        if error is not None or ended is None:
            return  # the end of the agent has been told already
        words = [ending(ended), seconds(self._clock.now() - self._began)]
        if ended.usage is not None:
            words.append(f"{ended.usage.total_tokens:,} tokens")
        tone: Tone = "quiet" if ended.stop_reason in ("end_turn", "cancelled") else "warn"
        self.note(" · ".join(words), tone)

    def tick(self) -> None:
        """Time passes while a turn runs."""
        from accord.client.words import seconds

        self._status.since = seconds(self._clock.now() - self._began)
        if self._follower is not None:
            self._follower.tick()


def _first_line(text: str) -> str:
    return text.partition("\n")[0].partition("; its last words")[0]
