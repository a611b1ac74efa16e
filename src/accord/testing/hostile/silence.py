"""Agents that do not answer."""

from accord.testing.hostile.agent import HostileAgent, Json


class SilentAtStart(HostileAgent):
    """Never answers `initialize`."""

    habit = "silent-at-start"

    def initialize(self, asked: Json) -> None:
        """Reads it, and that is all."""


class SilentOpening(HostileAgent):
    """Never answers `session/new`."""

    habit = "silent-opening"

    def new_session(self, asked: Json) -> None:
        """Reads it, and that is all."""


class SilentInTurn(HostileAgent):
    """Never answers a prompt, and says nothing; a cancel, the end of stdin and SIGTERM change nothing."""

    habit = "silent-in-turn"

    def prompt(self, asked: Json) -> None:
        """Says nothing."""
        self.live_forever()


class SilentAfterCancel(HostileAgent):
    """Says something, then waits to be cancelled, and does not answer that either."""

    habit = "silent-after-cancel"

    def prompt(self, asked: Json) -> None:
        """Talks first."""
        self.say("This will take a while.")
        self.wait_for_cancel()
        self.live_forever()


class WaitsForCancel(HostileAgent):
    """Says something, then does nothing until the turn is cancelled, and ends it as it should."""

    habit = "waits-for-cancel"

    def prompt(self, asked: Json) -> None:
        """For tests of cancelling that want a good end."""
        self.say("This will take a while.")
        self.wait_for_cancel()
        self.finish(asked, "cancelled")


HABITS = (SilentAtStart, SilentOpening, SilentInTurn, SilentAfterCancel, WaitsForCancel)
