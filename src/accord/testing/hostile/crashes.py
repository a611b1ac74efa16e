"""Agents that die, hang, leave children behind, or do not answer."""

import os
import signal
import subprocess
import sys
from typing import Final

from accord.testing.hostile.hostile_agent import YES_NO, HostileAgent, Json, WellBehaved

# MERGED testing.hostile.deaths: Agents that die, and such that leave somebody behind.


class DiesAtStart(HostileAgent):
    """Exits with code 7 and a line on stderr before it reads anything."""

    habit = "dies-at-start"

    def start(self) -> None:
        """Nothing is ever heard."""
        self.die()


class DiesInInitialize(HostileAgent):
    """Exits when it is asked to `initialize`, without an answer."""

    habit = "dies-in-initialize"

    def initialize(self, asked: Json) -> None:
        """No answer."""
        self.die()


class DiesOpening(HostileAgent):
    """Exits when a session shall be opened."""

    habit = "dies-opening"

    def new_session(self, asked: Json) -> None:
        """No answer."""
        self.die()


class DiesInTurn(HostileAgent):
    """Says half a sentence, then exits with code 7 and a line on stderr."""

    habit = "dies-in-turn"
    capabilities = WellBehaved.capabilities

    def prompt(self, asked: Json) -> None:
        """Half of one."""
        self.say("I was just about to")
        self.die()

    def other(self, asked: Json) -> None:
        """Takes its sessions up again, to die in the next turn."""
        WellBehaved.other(self, asked)  # type: ignore[arg-type]


class DiesUnheard(DiesInTurn):
    """Exits when it is prompted, before it has said or done anything."""

    habit = "dies-unheard"

    def prompt(self, asked: Json) -> None:
        """Not a word."""
        self.die()


class KilledInTurn(HostileAgent):
    """Is killed by a signal in the middle of a turn, with a tool call in progress."""

    habit = "killed-in-turn"

    def prompt(self, asked: Json) -> None:
        """As the system does when memory is short."""
        self.update("tool_call", toolCallId="c1", title="Think hard", kind="think", status="in_progress")
        os.kill(os.getpid(), signal.SIGKILL)


class DiesAsking(HostileAgent):
    """Asks for permission and exits before it can be answered."""

    habit = "dies-asking"

    def prompt(self, asked: Json) -> None:
        """The question stays open."""
        call = {"toolCallId": "c1", "title": "Delete everything", "kind": "delete"}
        self.begin("session/request_permission", {"toolCall": call, "options": YES_NO})
        self.die()


class DiesAfterAnswer(HostileAgent):
    """Answers the prompt as it should and exits with code 7 right behind it."""

    habit = "dies-after-answer"

    def prompt(self, asked: Json) -> None:
        """A whole turn."""
        self.say("Done, and gone.")
        self.finish(asked)
        self.die()


class HangsUp(HostileAgent):
    """Closes its stdout in the middle of a turn and lives on."""

    habit = "hangs-up"

    def prompt(self, asked: Json) -> None:
        """Nobody can hear it any more."""
        self.say("Wait a moment")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        self.live_forever()


class IgnoresTheEnd(HostileAgent):
    """Answers well, but ignores the end of its stdin, SIGINT and SIGTERM."""

    habit = "ignores-the-end"

    def start(self) -> None:
        """From the first moment on."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end(self) -> int:
        """It does not."""
        self.live_forever()


class LeavesChildren(HostileAgent):
    """Starts two processes that ignore SIGTERM, one of them in a session of its own, and exits before they do."""

    habit = "leaves-children"

    def prompt(self, asked: Json) -> None:
        """They say that they are there before the turn goes on."""
        self.raise_one(own_session=False)
        self.raise_one(own_session=True)
        self.say("Two children.")
        self.finish(asked)

    def raise_one(self, *, own_session: bool) -> None:
        """Start a process and wait until it ignores what would end it."""
        program = (
            "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
            "signal.signal(signal.SIGHUP, signal.SIG_IGN); sys.stdout.write('x'); sys.stdout.close(); signal.pause()"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=own_session,
        )
        assert child.stdout is not None
        child.stdout.read(1)


CRASHES = (
    DiesAtStart,
    DiesInInitialize,
    DiesOpening,
    DiesInTurn,
    DiesUnheard,
    KilledInTurn,
    DiesAsking,
    DiesAfterAnswer,
    HangsUp,
    IgnoresTheEnd,
    LeavesChildren,
)


# MERGED testing.hostile.silence: Agents that do not answer.


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


HANGS = (SilentAtStart, SilentOpening, SilentInTurn, SilentAfterCancel, WaitsForCancel)


BEHAVIORS: Final = (
    *CRASHES,
    *HANGS,
)
