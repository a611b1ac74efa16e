"""Starts the agent under test and connects to it as its client."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol, cast

from accord.check.agent.client_responder import ClientResponder
from accord.check.checked_connection import (
    ABSENT,
    CallAnswer,
    CheckedConnection,
    CheckTimeouts,
    has_capability,
)
from accord.check.findings import RuleId, RuleNotes
from accord.check.program_launch import ProgramLauncher, StartOptions
from accord.clock import SYSTEM_CLOCK, Clock
from accord.trace.trace_format import Side
from accord.trace.trace_steps import at
from accord.trace.wire_line import Evidence, WireLine
from accord.wire.envelope import Message
from accord.wire.process import ProcessTransport, spawn
from accord.wire.process_tree import StopTimeouts
from accord.wire.remote.address import RemoteLauncher, read_address
from accord.wire.transport import DEFAULT_LIMIT, Transport, TransportEnd

_FEEDER_PROGRAM: Final = str(Path(__file__).parent.with_name("feeder_program.py"))


class LaunchedAgent(Protocol):
    """One running agent."""

    @property
    def transport(self) -> Transport:
        """The connection to it."""
        ...

    @property
    def stderr(self) -> str:
        """The last lines of stderr."""
        ...

    async def close(self) -> str:
        """Close its input and wait for its exit. Returns a description if it had to be killed, else empty."""
        ...


class AgentLauncher(Protocol):
    """Starts agents."""

    async def __call__(self, options: StartOptions) -> LaunchedAgent:
        """Start one; raises `NeverStarted`."""
        ...


class ProcessAgent:
    """An agent in a process of its own."""

    def __init__(self, transport: ProcessTransport, exit_timeout: float, clock: Clock) -> None:
        self.transport = transport
        self._exit_timeout = exit_timeout
        self._clock = clock

    @property
    def stderr(self) -> str:
        return self.transport.stderr

    async def close(self) -> str:
        began = self._clock.now()
        await self.transport.aclose()
        if self._clock.now() - began < self._exit_timeout:
            return ""
        return f"it still ran {self._exit_timeout:g} seconds after its input was closed, and was killed"


class AgentProcessLauncher(ProgramLauncher):
    """Starts agents by a command line, in the current folder, so that relative paths work."""

    def __init__(self, command: Sequence[str], *, exit_timeout: float = 5.0, **more: Any) -> None:
        super().__init__(command, **more)
        self._exit_timeout = exit_timeout

    async def __call__(self, options: StartOptions) -> ProcessAgent:
        command_prefix = [sys.executable, "-I", "-S", _FEEDER_PROGRAM] if options.byte_by_byte else []
        transport = await spawn(
            [*command_prefix, *self.command, *options.arguments],
            env=self.environment(options),
            timeouts=StopTimeouts(leave=self._exit_timeout),
            clock=self._clock,
        )
        return ProcessAgent(transport, self._exit_timeout, self._clock)


class ConnectedAgent:
    """An agent at an address: one connection to it."""

    stderr = ""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def close(self) -> str:
        await self.transport.aclose()
        return ""


class AddressLauncher:
    """Connects to an agent at an address instead of starting one."""

    def __init__(self, address: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Raises `UsageError` for an invalid address."""
        self._launcher = RemoteLauncher(read_address(address), clock=clock)
        self.address: str = str(self._launcher)

    async def __call__(self, options: StartOptions) -> ConnectedAgent:
        """Connect; raises `NeverStarted`."""
        del options
        return ConnectedAgent(await self._launcher.start(None, DEFAULT_LIMIT))


class AgentUnderTest(CheckedConnection):
    """A connection to the agent as its client. The responder answers the agent's requests."""

    peer_side: ClassVar[Side] = "agent"
    own_side: ClassVar[Side] = "client"
    answer_rule: ClassVar[RuleId] = "framing.agent-one-answer"
    protocol: ClassVar[int] = 1
    capability_members: ClassVar[tuple[str, str]] = ("clientCapabilities", "agentCapabilities")
    """Where `initialize` has the capabilities of the client and of the agent."""
    info_member: ClassVar[str] = "agentInfo"
    introduction: ClassVar[Message] = {}
    """What `initialize` always has besides."""

    def __init__(
        self,
        name: str,
        launched: LaunchedAgent,
        responder: ClientResponder,
        notes: RuleNotes,
        timeouts: CheckTimeouts,
        clock: Clock,
    ) -> None:
        super().__init__(name, notes, timeouts, clock)
        self.launched = launched
        self.responder = responder
        self.client_capabilities: Any = ABSENT
        """The client capabilities as sent."""
        self.initialize_result: Message = {}
        """The result of `initialize`."""
        self.lines_at_close: int | None = None
        """The number of lines when the checker closed the connection."""
        launched.transport.start(self)

    def transmit(self, data: bytes) -> None:
        self.launched.transport.send(data)

    def stop_reading(self) -> None:
        self.launched.transport.pause()

    def serve(self, line: WireLine) -> None:
        reply = self.responder.serve(line)
        if reply is not None:
            self.reply(line, reply)
        for request, late_reply in self.responder.ready_replies():
            self.reply(request, late_reply)

    def describe_end(self, end: TransportEnd) -> str:
        return f"the agent ended ({end.reason})"

    def last_stderr_line(self) -> str:
        return "".join(self.launched.stderr.strip().splitlines()[-1:])

    # -- common requests

    async def initialize(
        self, capabilities: Any = ABSENT, *, version: Any = None, rule: RuleId | None = None, **more: Any
    ) -> CallAnswer:
        """Send `initialize` with these client capabilities."""
        params = {
            "protocolVersion": self.protocol if version is None else version,
            **self.introduction,
            **more,
        }
        if capabilities is not ABSENT:
            params[self.capability_members[0]] = capabilities
        self.client_capabilities = capabilities
        answer = await self.call("initialize", params, rule=rule)
        found = answer.result
        if answer.ok and isinstance(found, dict):
            self.initialize_result = cast(Message, found)
        return answer

    def advertises(self, path: str) -> bool:
        """Whether the agent advertises a capability: a dotted path in its capabilities."""
        return has_capability(at(self.initialize_result, self.capability_members[1]), path)

    async def new_session(self, cwd: str, **more: Any) -> CallAnswer:
        """Send `session/new`."""
        return await self.call("session/new", {"cwd": cwd, "mcpServers": [], **more})

    def prompt(self, session: str, prompt: Any, **more: Any) -> WireLine:
        """Send a prompt without waiting."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        return self.send_request("session/prompt", {"sessionId": session, "prompt": blocks, **more})

    async def run_turn(self, session: str, prompt: Any, *, rule: RuleId = "prompt.answered") -> "AgentTurn":
        """Run a turn: send a prompt and wait for its answer."""
        request = self.prompt(session, prompt)
        return await self.finish_turn(request, rule=rule)

    async def finish_turn(
        self, request: WireLine, *, rule: RuleId = "prompt.answered", timeout: float | None = None
    ) -> "AgentTurn":
        """Wait for the end of a running turn."""
        answer = await self.wait_for_answer(
            request, rule=rule, timeout=self.timeouts.turn if timeout is None else timeout
        )
        return AgentTurn(answer, self.lines[request.number : answer.line.number - 1])

    async def close(self) -> str:
        """Close the connection and wait for the exit. Returns a description if the agent was killed."""
        if self.lines_at_close is None:
            self.lines_at_close = len(self.lines)
        return await self.launched.close()

    def cancel(self, session: str) -> WireLine:
        """Send `session/cancel`."""
        return self.notify("session/cancel", {"sessionId": session})


class AgentTurn(NamedTuple):
    """A finished turn: its answer, and all lines between prompt and answer."""

    answer: CallAnswer
    lines: list[WireLine]

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Prompt and answer as evidence."""
        return self.answer.evidence

    @property
    def stop_reason(self) -> Any:
        """The stop reason; None for an error."""
        return at(self.answer.result, "stopReason")

    @property
    def text(self) -> str:
        """The agent's text."""
        return chunk_text(self.lines, "agent_message_chunk")

    @property
    def all_text(self) -> str:
        """All visible text: messages, thoughts and tool calls."""
        return "".join(visible_text(line) for line in self.lines)

    def updates(self, *kinds: str) -> list[WireLine]:
        """The updates of these kinds."""
        return [line for line in self.lines if line.sender == "agent" and line.kind in kinds]

    def requests(self, *methods: str) -> list[WireLine]:
        return [
            line
            for line in self.lines
            if line.sender == "agent" and line.is_request and line.method in methods
        ]


def chunk_text(lines: list[WireLine], kind: str) -> str:
    texts = [at(line.update, "content", "text") for line in lines if line.kind == kind]
    return "".join(text for text in texts if isinstance(text, str))


def visible_text(line: WireLine) -> str:
    """The visible text in a line of the agent."""
    if line.sender != "agent" or not line.update:
        return ""
    if line.kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
        text = at(line.update, "content", "text")
        return text if isinstance(text, str) else ""
    if line.kind in ("tool_call", "tool_call_update"):
        return "\n" + json.dumps(line.update, ensure_ascii=False) + "\n"
    return ""
