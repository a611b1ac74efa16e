"""How long a check waits before it says so."""

from msgspec import Struct


class Bounds(Struct, frozen=True):
    """Seconds. An agent that thinks with a slow model needs longer ones."""

    answer: float = 20.0
    """For an ordinary request."""
    turn: float = 60.0
    """For a whole prompt turn."""
    soon: float = 10.0
    """For what should follow soon: the end of a cancelled turn, something that a turn was to bring about."""
    leave: float = 5.0
    """For the process to end once its input is closed."""

    def times(self, factor: float) -> "Bounds":
        """All of them longer or shorter."""
        return Bounds(self.answer * factor, self.turn * factor, self.soon * factor, self.leave * factor)
