"""How long the network transports wait for what, in seconds, and how they pause between tries."""

import random

from msgspec import Struct


class Times(Struct, frozen=True):
    """Patience with a server and the way to it."""

    connect: float = 20.0
    """Until a connection stands; also for each try to get one back."""
    leave: float = 2.0
    """For what is unsent, and for the server to say goodbye, when this side closes."""
    ping: float = 20.0
    """Silence after which a sign of life is asked for; after as much again, the server counts as gone."""
    silence: float = 60.0
    """Silence of an event stream, on which signs of life come by themselves, before it counts as gone."""
    back: float = 120.0
    """How long a connection that dropped is tried to be had back."""
    pause: float = 0.1
    """Before the second try; it doubles from then on."""
    longest_pause: float = 5.0

    def pause_before(self, number: int) -> float:
        """The pause before a try: none before the first, then longer and longer, never all at the same moment."""
        if number == 0:
            return 0.0
        longest = min(self.pause * 2.0 ** (number - 1), self.longest_pause)
        return longest * random.uniform(0.5, 1.0)
