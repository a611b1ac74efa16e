"""An agent that does what a script says, for testing clients: in memory, or as a command line that any client can start."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from accord.agent import Agent, Turn
from accord.agent.connection import AgentConnection
from accord.agent.toolcall import ToolCallScope
from accord.errors import UsageError
from accord.testing.steps import Step, step_of
from accord.testing.tap import Tap, WireLog
from accord.testing.wire import Message, Side
from accord.wire.memory import memory_pair
from accord.wire.transport import Transport


class ScriptedTurn:
    """What a step works with: the turn, the tool call it stands in, and the raw wire."""

    def __init__(self, agent: "ScriptedAgent", turn: Turn, call: ToolCallScope | None = None) -> None:
        self.agent = agent
        self.turn = turn
        self.call = call

    async def say(self, text: str) -> None:
        """Say something."""
        await self.turn.say(text)

    async def think(self, text: str) -> None:
        """Think something."""
        await self.turn.think(text)

    def send(self, line: str | bytes | dict[str, Any]) -> None:
        """Put any line on the wire."""
        self.agent.send(line)

    def within(self, call: ToolCallScope) -> "ScriptedTurn":
        """The same turn, inside a tool call."""
        return ScriptedTurn(self.agent, self.turn, call)


class ScriptedAgent:
    """Plays one list of steps a turn; when they are used up, it says what it was told."""

    def __init__(self, turns: Sequence[Sequence[Step]] = (), *, agent: Agent | None = None) -> None:
        """`agent` may bring more: modes, load, capabilities; its prompt function is the script."""
        self.outcomes: list[bool] = []
        """Whether each permission that was asked for was given."""
        self.replies: list[Any] = []
        """What the client gave to `read_file` and `terminal`."""
        self.prompts: list[str] = []
        """The text of every prompt."""
        self.wire = WireLog()
        """Every message, of both sides."""
        self.app = Agent("scripted", version="1") if agent is None else agent
        self.app.prompt(self._play)
        self._turns = [list(steps) for steps in turns]
        self._due: dict[Any, list[Step] | None] = {}  # by the id of its prompt, until that is answered
        self.wire.listener = self._assign
        self._transport: Transport | None = None

    def transport(self) -> Transport:
        """Connect in memory: this is the client's end."""
        ours, theirs = memory_pair()
        self.connect(ours)
        return theirs

    def connect(self, transport: Transport) -> AgentConnection:
        """Serve this transport."""
        self._transport = Tap(transport, ours="agent", log=self.wire)
        return self.app.connect(self._transport)

    def send(self, line: str | bytes | dict[str, Any]) -> None:
        """Put any line on the wire."""
        if self._transport is None:
            raise UsageError("nothing can be sent before a client is connected")
        text = json.dumps(line) if isinstance(line, dict) else line
        self._transport.send(text.encode() if isinstance(text, str) else text)

    def _assign(self, side: Side, message: Message) -> None:
        """A script belongs to its prompt from the moment that arrives, be it cancelled before it is played."""
        if side == "client" and message.get("method") == "session/prompt":
            self._due[message.get("id")] = self._turns.pop(0) if self._turns else None
        elif side == "agent" and "method" not in message:
            self._due.pop(message.get("id"), None)

    def _next_due(self) -> list[Step] | None:
        """The script of the prompt that came first and is not played yet; None: echo."""
        if not self._due:  # connected without this agent's own tap
            return self._turns.pop(0) if self._turns else None
        return self._due.pop(next(iter(self._due)))

    async def _play(self, turn: Turn) -> Any:
        self.prompts.append(turn.text)
        steps = self._next_due()
        if steps is None:
            await turn.say(turn.text)
            return None
        scripted = ScriptedTurn(self, turn)
        for step in steps:
            ended = await step(scripted)
            if ended is not None:
                return ended
        return None


def read_script(path: Path) -> list[list[Step]]:
    """The turns of a script file: a JSON list of turns, each a list of steps."""
    try:
        turns = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"the script {path} is not JSON: {error}") from None
    if not isinstance(turns, list):
        raise UsageError(f"the script {path} must be a list of turns")
    return [[step_of(step) for step in steps] for steps in cast(list[list[Any]], turns)]


class AgentScript:
    """Makes scripted agents; what it is called with are the steps of one turn."""

    def __init__(self, folder: Path) -> None:
        """`folder` is where script files may be written."""
        self._folder = folder
        self._files = 0

    def __call__(self, *steps: Step, agent: Agent | None = None) -> ScriptedAgent:
        """An agent with one scripted turn."""
        return ScriptedAgent([steps] if steps else [], agent=agent)

    def turns(self, *turns: Sequence[Step], agent: Agent | None = None) -> ScriptedAgent:
        """An agent with several."""
        return ScriptedAgent(turns, agent=agent)

    def command(self, turns: list[list[dict[str, Any]]]) -> list[str]:
        """A command line that plays a script in its JSON form, for clients that start a process."""
        self._files += 1
        script = self._folder / f"script-{self._files}.json"
        script.write_text(json.dumps(turns))
        return [sys.executable, "-m", "accord.testing", str(script)]
