"""A recorded run as something to play again: what each side said, session by session, in order.

A session's lane begins with the call that made or named it; what belongs to none is in the lane called "".
"""

from collections.abc import Iterable

from msgspec import Struct, field

from accord.trace.exchange import Exchange, Step, at, id_key
from accord.trace.lines import Entry


class Lane(Struct, eq=False):
    """What was said in one session. `place` is how far the play has come."""

    session: str
    steps: list[Step] = field(default_factory=list[Step])
    place: int = 0

    @property
    def over(self) -> bool:
        """Whether all of it is played."""
        return self.place >= len(self.steps)


class Script(Struct):
    """A whole run. `exit` is how the agent ended, where it did so by itself; `left_out` what cannot be played."""

    steps: list[Step]
    lanes: dict[str, Lane]
    exit: Entry | None = None
    left_out: int = 0

    @property
    def redactions(self) -> int:
        """How many messages of the recording had a secret taken out."""
        return sum(step.entry.redacted for step in self.steps)


def read_script(entries: Iterable[Entry]) -> Script:
    """The script of one run."""
    exchange, steps, left_out = Exchange(), list[Step](), 0
    client_closed = agent_left = False
    exit: Entry | None = None
    for entry in entries:
        step = exchange.take(entry)
        if step.side is not None and entry.kind == "frame":
            steps.append(step)
        left_out += entry.kind in ("cut", "lost")
        if entry.kind == "closed":
            agent_left |= entry.sender == "agent" and not client_closed
            client_closed |= entry.sender == "client"
        elif entry.kind == "exit":
            exit = entry
    lanes: dict[str, Lane] = {"": Lane("")}
    calls = {
        ("client", id_key(step.id)): step
        for step in steps
        if step.kind == "request" and step.side == "client"
    }
    last = ""
    for step in steps:
        session = step.session
        if step.method == "$/cancel_request" and not session:
            named = calls.get((step.side or "", id_key(at(step.params, "requestId"))))
            session = named.session if named else ""
        elif step.kind == "noise":
            session = last  # it came between messages of this session, so it comes there again
        last = session
        lanes.setdefault(session, Lane(session)).steps.append(step)
    return Script(steps, lanes, exit if agent_left else None, left_out)
