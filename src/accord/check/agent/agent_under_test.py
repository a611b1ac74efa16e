"""Starts the agent and speaks to it as its client."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol, cast

from accord.check.agent.client_responder import ClientResponder
from accord.check.checked_connection import (
    ABSENT,
    CallAnswer,
    CheckedConnection,
    CheckTimeouts,
    Message,
    Side,
    WireLine,
)
from accord.check.findings import Rule, RuleNotes
from accord.clock import SYSTEM_CLOCK, Clock
from accord.trace.trace_steps import at
from accord.wire.process import ProcessTransport, spawn
from accord.wire.process_tree import StopTimeouts
from accord.wire.transport import Transport, TransportEnd

# MERGED check.agent.launch: How the agent under test is started and seen out. A process is the one way that ships; tests bring their own.

_PIECES: Final = str(Path(__file__).parent.with_name("feeder_program.py"))


class AgentStartOptions(NamedTuple):
    """Where an agent starts: a folder that is not the session's, its own data, more words, more environment."""

    spawn: Path
    home: Path
    words: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    pieces: bool = False
    """Whether what is sent to the agent reaches it byte by byte."""


class LaunchedAgent(Protocol):
    """One running agent."""

    @property
    def transport(self) -> Transport:
        """The wire to it."""
        ...

    @property
    def stderr(self) -> str:
        """Its last words."""
        ...

    async def leave(self) -> str:
        """Close its input and see it out. Empty when it left by itself; else what had to be done."""
        ...


class AgentLauncher(Protocol):
    """Starts agents."""

    async def __call__(self, place: AgentStartOptions) -> LaunchedAgent:
        """Start one; raises `NeverStarted`."""
        ...


class ProcessAgent:
    """An agent in a process of its own."""

    def __init__(self, transport: ProcessTransport, leave: float, clock: Clock) -> None:
        self.transport = transport
        self._leave = leave
        self._clock = clock

    @property
    def stderr(self) -> str:
        return self.transport.stderr

    async def leave(self) -> str:
        began = self._clock.now()
        await self.transport.aclose()
        if self._clock.now() - began < self._leave:
            return ""
        return f"it still ran {self._leave:g} seconds after its input was closed, and was ended"


class AgentProcessLauncher:
    """Starts a command line, in the folder of whoever checks: its words may be relative paths."""

    def __init__(self, command: Sequence[str], *, leave: float = 5.0, clock: Clock = SYSTEM_CLOCK) -> None:
        self.command = list(command)
        self._leave = leave
        self._clock = clock

    async def __call__(self, place: AgentStartOptions) -> ProcessAgent:
        environment = {"ACCORD_HOME": str(place.home), **place.environment}
        before = [sys.executable, "-I", "-S", _PIECES] if place.pieces else []
        transport = await spawn(
            [*before, *self.command, *place.words],
            env=environment,
            timeouts=StopTimeouts(leave=self._leave),
            clock=self._clock,
        )
        return ProcessAgent(transport, self._leave, self._clock)


# MERGED check.agent.talk: One conversation with the agent: the checker is the client, and sends what a scene wants.


class AgentUnderTest(CheckedConnection):
    """One connection. Requests of the agent are served by the desk as they come."""

    peer: ClassVar[Side] = "agent"
    own: ClassVar[Side] = "client"
    owed: ClassVar[Rule] = 11

    def __init__(
        self,
        name: str,
        launched: LaunchedAgent,
        desk: ClientResponder,
        ledger: RuleNotes,
        bounds: CheckTimeouts,
        clock: Clock,
    ) -> None:
        super().__init__(name, ledger, bounds, clock)
        self.launched = launched
        self.desk = desk
        self.offered: Any = ABSENT
        """The client capabilities, as they were sent."""
        self.initialized: Message = {}
        """The result of `initialize`."""
        self.left: int | None = None
        """How many lines there were when the client hung up."""
        launched.transport.start(self)

    def transmit(self, data: bytes) -> None:
        self.launched.transport.send(data)

    def hush(self) -> None:
        self.launched.transport.pause()

    def serve(self, line: WireLine) -> None:
        reply = self.desk.serve(line)
        if reply is not None:
            self.reply(line, reply)
        for held, late in self.desk.due():
            self.reply(held, late)

    def gone(self, end: TransportEnd) -> str:
        return f"the agent ended ({end.reason})"

    def last_words(self) -> str:
        return "".join(self.launched.stderr.strip().splitlines()[-1:])

    # -- the usual phrases

    async def begin(
        self, capabilities: Any = ABSENT, *, version: Any = 1, owes: Rule | None = None, **more: Any
    ) -> CallAnswer:
        """`initialize`, with the client capabilities as given."""
        params = {"protocolVersion": version, **more}
        if capabilities is not ABSENT:
            params["clientCapabilities"] = capabilities
        self.offered = capabilities
        answer = await self.call("initialize", params, owes=owes)
        found = answer.result
        if answer.ok and isinstance(found, dict):
            self.initialized = cast(Message, found)
        return answer

    def has(self, path: str) -> bool:
        """Whether the agent advertises a capability, by its path below `agentCapabilities`."""
        found = at(self.initialized, "agentCapabilities", *path.split("."))
        return found is True or isinstance(found, dict)

    async def new(self, cwd: str, **more: Any) -> CallAnswer:
        """`session/new`."""
        return await self.call("session/new", {"cwd": cwd, "mcpServers": [], **more})

    def prompt(self, session: str, prompt: Any, **more: Any) -> WireLine:
        """Begin a turn."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        return self.ask("session/prompt", {"sessionId": session, "prompt": blocks, **more})

    async def turn(self, session: str, prompt: Any, *, owes: Rule = 143) -> "AgentTurn":
        """A whole turn."""
        asked = self.prompt(session, prompt)
        return await self.turn_of(asked, owes=owes)

    async def turn_of(self, asked: WireLine, *, owes: Rule = 143, bound: float | None = None) -> "AgentTurn":
        """The rest of a turn that has begun."""
        answer = await self.answer(asked, owes=owes, bound=self.bounds.turn if bound is None else bound)
        return AgentTurn(answer, self.lines[asked.number : answer.line.number - 1])

    async def leave(self) -> str:
        """Hang up and see the agent out. Empty when it left by itself; else what had to be done."""
        if self.left is None:
            self.left = len(self.lines)
        return await self.launched.leave()

    def cancel(self, session: str) -> WireLine:
        """Ask the agent to end the turn."""
        return self.notify("session/cancel", {"sessionId": session})


class AgentTurn(NamedTuple):
    """A turn that is over: its answer, and all lines between prompt and answer."""

    answer: CallAnswer
    lines: list[WireLine]

    @property
    def stop(self) -> Any:
        """Why it ended; None for an error."""
        return at(self.answer.result, "stopReason")

    @property
    def text(self) -> str:
        """What the agent said."""
        return text_of(self.lines, "agent_message_chunk")

    @property
    def all_text(self) -> str:
        """Everything that a user could read in it: words, thoughts, what tools gave."""
        return "".join(shown_text(line) for line in self.lines)

    def updates(self, *kinds: str) -> list[WireLine]:
        """The updates of these kinds."""
        return [line for line in self.lines if line.sender == "agent" and line.kind in kinds]

    def asked(self, *methods: str) -> list[WireLine]:
        """The requests of the agent."""
        return [
            line
            for line in self.lines
            if line.sender == "agent" and line.is_request and line.method in methods
        ]


def text_of(lines: list[WireLine], kind: str) -> str:
    """The text of all chunks of a kind."""
    texts = [at(line.update, "content", "text") for line in lines if line.kind == kind]
    return "".join(text for text in texts if isinstance(text, str))


def shown_text(line: WireLine) -> str:
    """The text in a line of the agent that a user would see."""
    if line.sender != "agent" or not line.update:
        return ""
    if line.kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
        text = at(line.update, "content", "text")
        return text if isinstance(text, str) else ""
    if line.kind in ("tool_call", "tool_call_update"):
        return "\n" + json.dumps(line.update, ensure_ascii=False) + "\n"
    return ""
