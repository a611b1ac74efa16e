"""What a turn, and a session, has cost: tokens, and money where the prices are known."""

from msgspec import UNSET, Struct

from accord.coder.models.model import Usage
from accord.schema.prompts import Usage as TurnUsage
from accord.schema.updates import Cost, UsageUpdate


class Spending(Struct):
    """A sum of model requests."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached_read: int = 0
    cached_write: int = 0
    thought: int = 0
    cost: float = 0.0
    priced: bool = True
    """Whether the cost is that of every request."""

    def add(self, usage: Usage) -> None:
        """One more request."""
        self.requests += 1
        self.input += usage.input
        self.output += usage.output
        self.cached_read += usage.cached_read
        self.cached_write += usage.cached_write
        self.thought += usage.thought
        self.cost += usage.cost or 0.0
        self.priced = self.priced and usage.cost is not None

    def of_turn(self) -> TurnUsage | None:
        """As the answer to a prompt says it; None where no model was asked."""
        if not self.requests:
            return None
        return TurnUsage(
            self.input + self.output,
            self.input,
            self.output,
            self.thought or UNSET,
            self.cached_read or UNSET,
            self.cached_write or UNSET,
        )

    def of_window(self, used: int, size: int) -> UsageUpdate:
        """How full the context is, and what the session has cost so far where that is known."""
        known = self.priced and self.requests > 0
        return UsageUpdate(max(used, 0), size, Cost(round(self.cost, 6), "USD") if known else UNSET)
