"""What an agent is connected with: who may be asked, what it is offered, and under which options."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accord.client import ClientHandlers, ClientOptions, Features
from accord.client.askuser import ASK_USER
from accord.client.consent import Consent
from accord.client.guarded import guarded_workspace
from accord.client.options import ClientReport
from accord.client.servers import Server
from accord.client.servers.trusting import Trusting, refuse
from accord.clock import Clock
from accord.policy.rules import Word
from accord.trace import Ring, Tapped
from accord.tui.start import Start

if TYPE_CHECKING:
    from accord.tui.asking import Questions


@dataclass(frozen=True, slots=True)
class Offer:
    """For one connection."""

    start: Start
    questions: "Questions | None"
    """None where nobody can be asked."""
    warn: Callable[[str], None]
    clock: Clock
    ring: Ring
    """Where the frames of the connection go, to be looked at."""
    heard: Callable[[str], None]
    """Gets what the agent writes to stderr."""

    def handlers(self, server: Server) -> ClientHandlers:
        """What the agent may ask for."""
        asked = self.questions
        consent = Consent(server.policy(self._word(server)), asked, self.warn)
        # The agent of this package works on this machine anyway, and keeps its own rules: a detour over us gains nothing.
        offered = server.name != "accord" or bool(server.command)
        return ClientHandlers(
            permissions=consent,
            workspace=guarded_workspace(consent) if offered else None,
            forms=None if asked is None else asked.form,
            urls=None if asked is None else asked.address,
            login=None if asked is None else asked.login,
            extensions={} if asked is None else {ASK_USER: asked.question},
        )

    def options(self, server: Server) -> ClientOptions:
        """How the connection is kept."""
        options = server.options(
            ClientOptions(
                clock=self.clock,
                observer=self._observe,
                wrap=lambda transport: Tapped(transport, self.ring, ours="client"),
                on_stderr=self.heard,
                features=Features(meta={"accord": {"extensions": [ASK_USER] if self.questions else []}}),
            )
        )
        return replace(options, restart=None)  # the user sees what happened, and restarts it with one key

    def trusting(self) -> Trusting:
        """Whether a project's file counts."""
        return refuse if self.questions is None else self.questions.trusting()

    def _word(self, server: Server) -> Word | None:
        """What takes the place of the default in the user's rules: what was said, else what their file says, else by who is there."""
        said = self.start.permissions
        if said is None and self.questions is None and server.unattended is not None:
            return server.unattended
        if said is not None or (server.permissions is not None and server.permissions.word is not None):
            return said
        return "reads" if self.questions is None else "ask"

    def _observe(self, report: ClientReport) -> None:
        if report.kind == "oversized":
            self.warn(f"a message of the agent is left out: {report.detail}")
