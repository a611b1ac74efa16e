"""The fixture of one case with a client: clean folders, script, the client and each agent it starts."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct

from accord.check import findings
from accord.check.check_script import ClientCheckScript, fill, write_files
from accord.check.checked_connection import CheckTimeouts, ConnectionOver
from accord.check.client.agent_responder import AgentResponder
from accord.check.client.client_process import ClientLauncher, ClientTask, LaunchedClient
from accord.check.client.client_under_test import AgentPipe, ClientUnderTest
from accord.check.findings import CaseUnavailable, Rule, RuleNotes
from accord.clock import SYSTEM_CLOCK, Clock, within

# MERGED check.client.watch: The watch over a client: what every line of every conversation shows, whatever the scene was about.


async def check_client_record(part: "ClientUnderTest", ledger: RuleNotes) -> None:
    """Look over a conversation that is over."""
    from accord.check.client import client_rules
    from accord.check.client.client_rules import ClientRecord
    from accord.check.wire_rules import look_over

    await look_over(
        ClientRecord(part),
        ledger,
        [
            client_rules.check_messages,
            client_rules.check_schema,
            client_rules.check_capabilities,
            client_rules.check_calls,
        ],
    )


# MERGED check.client.stage: The stage of one scene: clean folders, the script, the ledger, the client, and every agent that the client starts.

PROMPT: Final = "Say hello."


class ClientTraits(Struct, frozen=True):
    """What the first run of the client showed of it."""

    info: Any = None
    offered: Any = None
    shows: bool = False
    """What the agent says is to be read in what the client prints."""
    leaves: bool = False
    """It ends when the turn has ended."""


class ClientFixture:
    """What a scene is played on. `folder` is the session's folder, `outside` is none of it."""

    def __init__(
        self,
        root: Path,
        launcher: ClientLauncher,
        script: ClientCheckScript,
        ledger: RuleNotes,
        *,
        bounds: CheckTimeouts,
        traits: ClientTraits | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.script = script
        self.ledger = ledger
        self.bounds = bounds
        self.clock = clock
        self.traits = traits or ClientTraits()
        self.desk = AgentResponder()
        self.parts: list[ClientUnderTest] = []
        self.logins: list[AgentPipe] = []
        """The times that the client started the agent's login at a terminal."""
        self.clients: list[LaunchedClient] = []
        self._launcher = launcher
        self._joined: asyncio.Future[None] | None = None
        self.root = root.resolve()
        self.folder, self.home, self.extra, self.outside = (
            self.root / name for name in ("project", "home", "extra", "outside")
        )
        for path in (self.folder, self.home, self.extra, self.outside):
            path.mkdir(parents=True)
        (self.folder / "notes.txt").write_text("one\ntwo\nthree\n")
        (self.outside / "secret.txt").write_text("thistle\n")

    # -- the client

    @property
    def client(self) -> LaunchedClient:
        """The client that runs now."""
        return self.clients[-1]

    @property
    def prompts(self) -> bool:
        """Whether the client can be told what to prompt."""
        return self._launcher.prompts

    def need(self, *acts: str) -> None:
        """End the scene where the script has no words for these acts."""
        for name in acts:
            if self.script.act(name) is None:
                raise CaseUnavailable(f"the script does not say how to make the client {name!r}")

    def can(self, act: str) -> bool:
        """Whether the script has words for it."""
        return self.script.act(act) is not None

    def if_can(self, *acts: str) -> tuple[str, ...]:
        """Those of the acts that the script has words for."""
        return tuple(act for act in acts if self.can(act))

    async def start(self, *acts: str, prompt: str = PROMPT, **values: str) -> None:
        """Start the client with a prompt and with these acts."""
        known = {"folder": str(self.folder), "home": str(self.home), "extra": str(self.extra), **values}
        words: list[str] = []
        environment = dict(self.script.environment)
        terminal = False
        for name in acts:
            act = self.script.act(name)
            if act is None:
                raise CaseUnavailable(f"the script does not say how to make the client {name!r}")
            words += [fill(word, known) for word in act.words]
            environment |= act.environment
            terminal = terminal or act.terminal
            write_files(act, known)
        order = ClientTask(prompt, self.folder, self.home, words, environment, terminal)
        self.clients.append(await self._launcher(order, self._join))

    def _join(self, wire: AgentPipe) -> None:
        if wire.words:  # not how an agent is started: a login at a terminal, which succeeds
            self.logins.append(wire)
            wire.die(0)
            return
        name = f"{self.ledger.scene} {len(self.parts) + 1}"
        self.parts.append(ClientUnderTest(name, wire, self.desk, self.ledger, self.bounds, self.clock))
        if self._joined is not None and not self._joined.done():
            self._joined.set_result(None)

    async def agent(self, number: int = 1, *, owes: Rule | None = None) -> ClientUnderTest:
        """The agent that the client starts as the first, the second..."""
        deadline = self.clock.now() + self.bounds.answer
        while len(self.parts) < number:
            left = deadline - self.clock.now()
            if left <= 0 or self.client.exit is not None:
                why = "the client did not start the agent"
                if owes is not None:
                    self.ledger.broken(owes, why)
                raise ConnectionOver(why)
            self._joined = asyncio.get_running_loop().create_future()
            await within(self.clock, min(left, 0.2), self._joined)
        return self.parts[number - 1]

    async def turn(
        self, *acts: str, prompt: str = PROMPT, owes: Rule | None = None, **values: str
    ) -> "ClientTurn":
        """Start the client, and go as far as its prompt."""
        number = len(self.parts) + 1
        await self.start(*acts, prompt=prompt, **values)
        part = await self.agent(number)
        return ClientTurn(part, await part.prompted(owes=owes))

    async def over(self) -> bool:
        """Wait for the client to end by itself; whether it did. Those that stay are not waited for."""
        if not self.traits.leaves:
            await self.client.wait(0.2)
            return self.client.exit is not None
        return await self.client.wait(self.bounds.soon)

    async def finish(self, turn: "ClientTurn", marker: str = "", rules: Sequence[Rule] = ()) -> None:
        """Say a last word, end the turn, and see that the client took it in and shows it: what these rules ask for."""
        if marker:
            turn.part.say(marker)
        last = turn.part.stop(turn.prompt)
        await self.over()
        shown = [last.shown]
        if self.client.exit is not None and self.client.exit.signal is not None:
            for rule in rules:
                self.ledger.broken(rule, f"the client crashed: it {self.client.exit}", shown)
            return
        for rule in rules:
            if marker and self.traits.shows:
                kept = marker in self.client.printed
                bad = f"what was said afterwards is not shown; the client says: {tail(self.client.output)}"
                self.ledger.judge(rule, kept, "the turn went on, and what was said is shown", bad, shown)
            elif not any(note.outcome == "broken" for note in self.ledger.of(rule)):
                self.ledger.kept(rule, "the turn went on", shown)

    async def aclose(self) -> None:
        """End the client with everything it started, and look over all that was said."""
        for client in self.clients:
            await client.end()
        for part in self.parts:
            await check_client_record(part, self.ledger)

    def last_words(self) -> str:
        """The end of what the client printed."""
        return tail(self.client.output) if self.clients else ""


class ClientTurn(Struct, frozen=True):
    """A turn that the client began."""

    part: ClientUnderTest
    prompt: Any


def tail(text: str, most: int = 300) -> str:
    """The last words of a client."""
    words = " ".join(text.split())
    return f"...{words[-most:]}" if len(words) > most else words or "(nothing)"


# MERGED check.client.scene: A scene with a client: the checker plays the agent.

ClientCase: TypeAlias = findings.CheckCase[ClientFixture]
