"""One conversation with the agent: the checker is the client, and sends what a scene wants."""

import json
from typing import Any, ClassVar, NamedTuple, cast

from accord.check.agent.desk import Desk
from accord.check.agent.launch import Launched
from accord.check.bounds import Bounds
from accord.check.conversation import ABSENT, Answer, Conversation
from accord.check.ledger import Ledger, Rule
from accord.check.lines import Line, Message, Side
from accord.clock import Clock
from accord.trace.exchange import at
from accord.wire.transport import End


class Talk(Conversation):
    """One connection. Requests of the agent are served by the desk as they come."""

    peer: ClassVar[Side] = "agent"
    own: ClassVar[Side] = "client"
    owed: ClassVar[Rule] = 11

    def __init__(
        self, name: str, launched: Launched, desk: Desk, ledger: Ledger, bounds: Bounds, clock: Clock
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

    def serve(self, line: Line) -> None:
        reply = self.desk.serve(line)
        if reply is not None:
            self.reply(line, reply)
        for held, late in self.desk.due():
            self.reply(held, late)

    def gone(self, end: End) -> str:
        return f"the agent ended ({end.reason})"

    def last_words(self) -> str:
        return "".join(self.launched.stderr.strip().splitlines()[-1:])

    # -- the usual phrases

    async def begin(
        self, capabilities: Any = ABSENT, *, version: Any = 1, owes: Rule | None = None, **more: Any
    ) -> Answer:
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

    async def new(self, cwd: str, **more: Any) -> Answer:
        """`session/new`."""
        return await self.call("session/new", {"cwd": cwd, "mcpServers": [], **more})

    def prompt(self, session: str, prompt: Any, **more: Any) -> Line:
        """Begin a turn."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        return self.ask("session/prompt", {"sessionId": session, "prompt": blocks, **more})

    async def turn(self, session: str, prompt: Any, *, owes: Rule = 143) -> "Turn":
        """A whole turn."""
        asked = self.prompt(session, prompt)
        return await self.turn_of(asked, owes=owes)

    async def turn_of(self, asked: Line, *, owes: Rule = 143, bound: float | None = None) -> "Turn":
        """The rest of a turn that has begun."""
        answer = await self.answer(asked, owes=owes, bound=self.bounds.turn if bound is None else bound)
        return Turn(answer, self.lines[asked.number : answer.line.number - 1])

    async def leave(self) -> str:
        """Hang up and see the agent out. Empty when it left by itself; else what had to be done."""
        if self.left is None:
            self.left = len(self.lines)
        return await self.launched.leave()

    def cancel(self, session: str) -> Line:
        """Ask the agent to end the turn."""
        return self.notify("session/cancel", {"sessionId": session})


class Turn(NamedTuple):
    """A turn that is over: its answer, and all lines between prompt and answer."""

    answer: Answer
    lines: list[Line]

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

    def updates(self, *kinds: str) -> list[Line]:
        """The updates of these kinds."""
        return [line for line in self.lines if line.sender == "agent" and line.kind in kinds]

    def asked(self, *methods: str) -> list[Line]:
        """The requests of the agent."""
        return [
            line
            for line in self.lines
            if line.sender == "agent" and line.is_request and line.method in methods
        ]


def text_of(lines: list[Line], kind: str) -> str:
    """The text of all chunks of a kind."""
    texts = [at(line.update, "content", "text") for line in lines if line.kind == kind]
    return "".join(text for text in texts if isinstance(text, str))


def shown_text(line: Line) -> str:
    """The text in a line of the agent that a user would see."""
    if line.sender != "agent" or not line.update:
        return ""
    if line.kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
        text = at(line.update, "content", "text")
        return text if isinstance(text, str) else ""
    if line.kind in ("tool_call", "tool_call_update"):
        return "\n" + json.dumps(line.update, ensure_ascii=False) + "\n"
    return ""
