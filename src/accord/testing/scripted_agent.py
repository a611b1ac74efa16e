"""An agent that follows a script, in memory or as a program, and the steps of a script."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from accord.agent import Agent, Turn
from accord.agent.app import AgentConnection
from accord.agent.tool_call_scope import ToolCallScope
from accord.errors import RpcError, UsageError
from accord.testing.raw_peer import Message, RecordingTransport, Side, WireLog
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Transport

# MERGED testing.steps: The steps of a scripted turn. Each is an async function of the `Turn`, so that your own fit in between.
#
# A step gives None to go on, or a stop reason to end the turn. `step_of` reads the JSON form: an object with one member,
# the step's name, and its argument or a list or object of arguments.

Step = Callable[["ScriptedTurn"], Awaitable[Any]]


def say(*pieces: str) -> Step:
    """Say something, in so many pieces."""

    async def step(turn: "ScriptedTurn") -> None:
        for piece in pieces:
            await turn.say(piece)

    return step


def think(text: str) -> Step:
    """Think something."""
    return lambda turn: turn.think(text)


def plan(*entries: Any) -> Step:
    """Show a plan: texts, or pairs of text and status."""
    steps: list[Any] = [entry if isinstance(entry, str) else tuple(entry) for entry in entries]
    return lambda turn: turn.turn.plan(steps)


def tool(title: str, *steps: Step, kind: Any = None, **more: Any) -> Step:
    """Do something as a tool call; the steps inside belong to it, `ask` among them."""

    async def step(turn: "ScriptedTurn") -> Any:
        async with turn.turn.tool_call(title, kind=kind, **more) as call:
            inside = turn.within(call)
            for inner in steps:
                ended = await inner(inside)
                if ended is not None:
                    return ended
        return None

    return step


def ask(*options: Any) -> Step:
    """Ask permission for the tool call this stands in. A refusal skips the rest of that call."""

    async def step(turn: "ScriptedTurn") -> Any:
        if turn.call is None:
            raise UsageError("ask() stands inside tool(...)")
        answer = await turn.call.ask_permission(options or None)
        turn.agent.outcomes.append(bool(answer))
        return None if answer else "end_turn"

    return step


def read_file(path: str, **more: Any) -> Step:
    """Read a file at the client; its text is kept in the agent's `replies`."""

    async def step(turn: "ScriptedTurn") -> None:
        turn.agent.replies.append(await turn.turn.client.read_text_file(path, **more))

    return step


def write_file(path: str, text: str) -> Step:
    """Write a file at the client."""
    return lambda turn: turn.turn.client.write_text_file(path, text)


def terminal(command: str, *arguments: str, **more: Any) -> Step:
    """Run a command at the client; the result is kept in the agent's `replies`."""

    async def step(turn: "ScriptedTurn") -> None:
        turn.agent.replies.append(await turn.turn.run(command, list(arguments), call=turn.call, **more))

    return step


def update(update: dict[str, Any]) -> Step:
    """Send a session update, as the dict it is on the wire; it is not checked."""

    async def step(turn: "ScriptedTurn") -> None:
        params = {"sessionId": turn.turn.session.id, "update": update}
        turn.send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    return step


def send(line: str | bytes | dict[str, Any]) -> Step:
    """Send any line at all."""

    async def step(turn: "ScriptedTurn") -> None:
        turn.send(line)

    return step


def wait_for_cancel() -> Step:
    """Do nothing until the client cancels."""

    async def step(turn: "ScriptedTurn") -> None:
        await asyncio.Event().wait()

    return step


def stop(reason: str = "end_turn") -> Step:
    """End the turn with this stop reason."""

    async def step(turn: "ScriptedTurn") -> str:
        return reason

    return step


def fail(code: int = -32603, message: str = "scripted failure", **data: Any) -> Step:
    """End the turn with an error answer."""

    async def step(turn: "ScriptedTurn") -> None:
        raise RpcError.of(code, message, data) if data else RpcError.of(code, message)

    return step


def die(exit_code: int = 1) -> Step:
    """End the agent's process on the spot; only for an agent that runs as a command."""

    async def step(turn: "ScriptedTurn") -> None:
        os._exit(exit_code)

    return step


STEPS: dict[str, Callable[..., Step]] = {
    function.__name__: function
    for function in (
        say,
        think,
        plan,
        ask,
        read_file,
        write_file,
        terminal,
        update,
        send,
        wait_for_cancel,
        stop,
        fail,
        die,
    )
}


def step_of(value: Any) -> Step:
    """The step that a JSON value describes."""
    if not isinstance(value, dict) or len(cast(dict[str, Any], value)) != 1:
        raise UsageError(f"a step is an object with one member, not {value!r}")
    ((name, argument),) = cast(dict[str, Any], value).items()
    try:
        if name == "tool":
            inner = [step_of(item) for item in argument.pop("steps", [])]
            return tool(argument.pop("title"), *inner, **argument)
        make = STEPS[name]
        if isinstance(argument, dict) and name not in ("update", "send"):
            return make(**cast(dict[str, Any], argument))
        return make(*cast(Sequence[Any], argument)) if isinstance(argument, list) else make(argument)
    except KeyError as error:
        raise UsageError(
            f"the step {name!r} is unknown or lacks {error}; there are: tool, {', '.join(STEPS)}"
        ) from None
    except TypeError as error:
        raise UsageError(f"the step {name!r} does not take {argument!r}: {error}") from None


# MERGED testing.agents: An agent that does what a script says, for testing clients: in memory, or as a command line that any client can start.


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
        self._transport = RecordingTransport(transport, ours="agent", log=self.wire)
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
