"""The outcome of one turn, for callers who do not want to see it happen."""

from dataclasses import dataclass

from accord.schema import StopReason, Usage
from accord.session import Message, SessionState, TurnEnded


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent said in one turn, and why it stopped."""

    messages: tuple[Message, ...]
    stop_reason: StopReason | None
    """None for a reason this version does not know; `raw_reason` has it."""
    raw_reason: str
    usage: Usage | None

    @property
    def text(self) -> str:
        """The agent's messages of this turn, thoughts aside, with an empty line between them."""
        return "\n\n".join(message.text for message in self.messages if message.text)

    @staticmethod
    def of(state: SessionState, ended: TurnEnded) -> "Answer":
        """From the state right after the turn."""
        said = tuple(
            entry
            for entry in state.history.latest_turn
            if isinstance(entry, Message) and entry.kind == "agent"
        )
        return Answer(said, ended.stop_reason, ended.raw_reason, ended.usage)
