"""Agents that exit, hang, leave child processes behind, or do not answer."""

import os
import signal
import subprocess
import sys
from typing import ClassVar, Final

from accord.testing.hostile.hostile_agent import PERMISSION_OPTIONS, HostileAgent, Json, WellBehaved


class DiesAtStart(HostileAgent):
    """Exits with code 7 and a line on stderr before it reads anything."""

    name = "dies-at-start"

    def start(self) -> None:
        self.die()


class DiesInInitialize(HostileAgent):
    """Exits on `initialize` without a response."""

    name = "dies-in-initialize"

    def initialize(self, request: Json) -> None:
        self.die()


class DiesOpening(HostileAgent):
    """Exits when a session is opened."""

    name = "dies-opening"

    def new_session(self, request: Json) -> None:
        self.die()


class DiesInTurn(HostileAgent):
    """Sends half a sentence, then exits with code 7 and a line on stderr."""

    name = "dies-in-turn"
    capabilities: ClassVar[Json] = WellBehaved.capabilities

    def prompt(self, request: Json) -> None:
        self.say("I was just about to")
        self.die()

    def other(self, request: Json) -> None:
        WellBehaved.other(self, request)  # type: ignore[arg-type]


class DiesUnheard(DiesInTurn):
    """Exits on the prompt, before it says or does anything."""

    name = "dies-unheard"

    def prompt(self, request: Json) -> None:
        self.die()


class KilledInTurn(HostileAgent):
    """Is killed by a signal during a turn, with a tool call in progress."""

    name = "killed-in-turn"

    def prompt(self, request: Json) -> None:
        self.update("tool_call", toolCallId="c1", title="Think hard", kind="think", status="in_progress")
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


class DiesAsking(HostileAgent):
    """Asks for permission and exits before the answer."""

    name = "dies-asking"

    def prompt(self, request: Json) -> None:
        call = {"toolCallId": "c1", "title": "Delete everything", "kind": "delete"}
        self.send_request("session/request_permission", {"toolCall": call, "options": PERMISSION_OPTIONS})
        self.die()


class DiesAfterAnswer(HostileAgent):
    """Answers the prompt correctly and exits with code 7 right after."""

    name = "dies-after-answer"

    def prompt(self, request: Json) -> None:
        self.say("Done, and gone.")
        self.finish(request)
        self.die()


class HangsUp(HostileAgent):
    """Closes its stdout during a turn and keeps running."""

    name = "hangs-up"

    def prompt(self, request: Json) -> None:
        self.say("Wait a moment")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        self.hang()


class IgnoresTheEnd(HostileAgent):
    """Answers correctly, but ignores the end of stdin, SIGINT and SIGTERM."""

    name = "ignores-the-end"

    def start(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end(self) -> int:
        self.hang()


class LeavesChildren(HostileAgent):
    """Starts two processes that ignore SIGTERM, one in its own session, and exits first."""

    name = "leaves-children"

    def prompt(self, request: Json) -> None:
        self.start_child(own_session=False)
        self.start_child(own_session=True)
        self.say("Two children.")
        self.finish(request)

    def start_child(self, *, own_session: bool) -> None:
        # The byte on stdout says that the child ignores the signals.
        program = (
            "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
            "signal.signal(signal.SIGHUP, signal.SIG_IGN); "
            "sys.stdout.write('x'); sys.stdout.close(); signal.pause()"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=own_session,
        )
        assert child.stdout is not None
        child.stdout.read(1)


class SilentAtStart(HostileAgent):
    """Never answers `initialize`."""

    name = "silent-at-start"

    def initialize(self, request: Json) -> None:
        pass


class SilentOpening(HostileAgent):
    """Never answers `session/new`."""

    name = "silent-opening"

    def new_session(self, request: Json) -> None:
        pass


class SilentInTurn(HostileAgent):
    """Never answers a prompt and sends nothing; ignores cancel, the end of stdin and SIGTERM."""

    name = "silent-in-turn"

    def prompt(self, request: Json) -> None:
        self.hang()


class SilentAfterCancel(HostileAgent):
    """Sends text, waits for cancel, and does not answer it."""

    name = "silent-after-cancel"

    def prompt(self, request: Json) -> None:
        self.say("This will take a while.")
        self.wait_for_cancel()
        self.hang()


class WaitsForCancel(HostileAgent):
    """Sends text, then waits for cancel and ends the turn correctly."""

    name = "waits-for-cancel"

    def prompt(self, request: Json) -> None:
        self.say("This will take a while.")
        self.wait_for_cancel()
        self.finish(request, "cancelled")


BEHAVIORS: Final[tuple[type[HostileAgent], ...]] = (
    DiesAtStart, DiesInInitialize, DiesOpening, DiesInTurn, DiesUnheard, KilledInTurn, DiesAsking,
    DiesAfterAnswer, HangsUp, IgnoresTheEnd, LeavesChildren, SilentAtStart, SilentOpening, SilentInTurn,
    SilentAfterCancel, WaitsForCancel,
)  # fmt: skip
