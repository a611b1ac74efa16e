"""An agent that follows a script, in memory or as a program, and the steps of a script.

A step is an async function that takes the `ScriptedTurn`, so tests can add their own. It returns None to
continue, or a stop reason to end the turn.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from accord.agent import Agent, Turn
from accord.agent.app import AgentConnection
from accord.agent.tool_call_scope import ToolCallScope
from accord.errors import RpcError, UsageError
from accord.testing.raw_peer import RecordingTransport, WireLog
from accord.trace.trace_format import Side
from accord.wire.envelope import Message
from accord.wire.memory_transport import MemoryTransport, memory_pair
from accord.wire.transport import Transport

Step: TypeAlias = Callable[["ScriptedTurn"], Awaitable[Any]]
"""A step of a scripted turn."""


def say(*pieces: str) -> Step:
    """Send text, one chunk per argument."""

    async def step(turn: "ScriptedTurn") -> None:
        for piece in pieces:
            await turn.say(piece)

    return step


def think(text: str) -> Step:
    """Send a thought."""
    return lambda turn: turn.think(text)


def plan(*entries: Any) -> Step:
    """Send a plan: texts, or pairs of text and status."""
    steps: list[Any] = [entry if isinstance(entry, str) else tuple(entry) for entry in entries]
    return lambda turn: turn.turn.plan(steps)


def tool(title: str, *steps: Step, kind: Any = None, **more: Any) -> Step:
    """Make a tool call and run the steps inside it.

    `kind` and `more` are arguments of `Turn.tool_call`: `name`, `locations`, `raw_input` and `start`.
    """

    async def step(turn: "ScriptedTurn") -> Any:
        async with turn.turn.tool_call(title, kind=kind, **more) as call:
            inside = turn.inside(call)
            for inner in steps:
                stop_reason = await inner(inside)
                if stop_reason is not None:
                    return stop_reason
        return None

    return step


def ask(*options: Any) -> Step:
    """Ask permission for the tool call around this step.

    After a refusal the call has failed, and the turn ends with `end_turn` without the steps that follow.
    `options` are `PermissionOption` objects; the default is to allow or to reject it once.
    """

    async def step(turn: "ScriptedTurn") -> Any:
        if turn.call is None:
            raise UsageError("ask() must be inside tool(...)")
        answer = await turn.call.ask_permission(options or None)
        turn.agent.outcomes.append(bool(answer))
        return None if answer else "end_turn"

    return step


def read_file(path: str, **more: Any) -> Step:
    """Read a file of the client; its text is appended to the agent's `replies`.

    `more` are further arguments of `SessionClient.read_text_file`.
    """

    async def step(turn: "ScriptedTurn") -> None:
        turn.agent.replies.append(await turn.turn.client.read_text_file(path, **more))

    return step


def write_file(path: str, text: str) -> Step:
    """Write a file of the client."""
    return lambda turn: turn.turn.client.write_text_file(path, text)


def terminal(command: str, *arguments: str, **more: Any) -> Step:
    """Run a command in a terminal of the client; the result is appended to the agent's `replies`.

    `more` are further arguments of `Turn.run`.
    """

    async def step(turn: "ScriptedTurn") -> None:
        turn.agent.replies.append(await turn.turn.run(command, list(arguments), call=turn.call, **more))

    return step


def update(update: dict[str, Any]) -> Step:
    """Send a session update, given as its wire dict; it is not validated."""

    async def step(turn: "ScriptedTurn") -> None:
        params = {"sessionId": turn.turn.session.id, "update": update}
        turn.send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    return step


def send(line: str | bytes | dict[str, Any]) -> Step:
    """Send any line."""

    async def step(turn: "ScriptedTurn") -> None:
        turn.send(line)

    return step


def wait_for_cancel() -> Step:
    """Wait until the client cancels."""

    async def step(turn: "ScriptedTurn") -> None:
        await asyncio.Event().wait()

    return step


def stop(reason: str = "end_turn") -> Step:
    """End the turn with this stop reason."""

    async def step(turn: "ScriptedTurn") -> str:
        return reason

    return step


def fail(code: int = -32603, message: str = "scripted failure", **data: Any) -> Step:
    """End the turn with an error answer. `data` becomes the object `data` of the error."""

    async def step(turn: "ScriptedTurn") -> None:
        raise RpcError.of(code, message, data) if data else RpcError.of(code, message)

    return step


def die(exit_code: int = 1) -> Step:
    """Exit the agent's process at once. An agent in memory has none: its connection ends instead."""

    async def step(turn: "ScriptedTurn") -> None:
        await turn.agent.die(exit_code)

    return step


STEPS: Final[dict[str, Callable[..., Step]]] = {
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


def parse_step(value: Any) -> Step:
    """Parse the JSON form of a step.

    The form is an object with one member: the step's name, and its argument or a list or object of arguments.
    """
    if not isinstance(value, dict) or len(cast(dict[str, Any], value)) != 1:
        raise UsageError(f"a step must be an object with one member, not {value!r}")
    ((name, argument),) = cast(dict[str, Any], value).items()
    if name == "tool":
        return _parse_tool(argument)
    make = STEPS.get(name)
    if make is None:
        raise UsageError(f"unknown step {name!r}; known steps: tool, {', '.join(STEPS)}")
    try:
        if isinstance(argument, dict) and name not in ("update", "send"):
            return make(**cast(dict[str, Any], argument))
        return make(*cast(Sequence[Any], argument)) if isinstance(argument, list) else make(argument)
    except TypeError as error:
        raise UsageError(f"the step {name!r} does not take {argument!r}: {error}") from None


def _parse_tool(argument: Any) -> Step:
    if not isinstance(argument, dict) or "title" not in argument:
        raise UsageError(f"the step 'tool' needs an object with a title, not {argument!r}")
    members = dict(cast(dict[str, Any], argument))
    inner = [parse_step(item) for item in members.pop("steps", [])]
    try:
        return tool(members.pop("title"), *inner, **members)
    except TypeError as error:
        raise UsageError(f"the step 'tool' does not take {argument!r}: {error}") from None


class ScriptedTurn:
    """The argument of a step: the turn, the tool call around the step, and a way to send raw lines."""

    def __init__(self, agent: "ScriptedAgent", turn: Turn, call: ToolCallScope | None = None) -> None:
        self.agent: ScriptedAgent = agent
        self.turn: Turn = turn
        self.call: ToolCallScope | None = call

    async def say(self, text: str) -> None:
        """Send text."""
        await self.turn.say(text)

    async def think(self, text: str) -> None:
        """Send a thought."""
        await self.turn.think(text)

    def send(self, line: str | bytes | dict[str, Any]) -> None:
        """Send any line."""
        self.agent.send(line)

    def inside(self, call: ToolCallScope) -> "ScriptedTurn":
        """The same turn, for the steps inside a tool call."""
        return ScriptedTurn(self.agent, self.turn, call)


class ScriptedAgent:
    """Runs one list of steps per turn. After the last one it echoes prompts."""

    def __init__(self, turns: Sequence[Sequence[Step]] = (), *, agent: Agent | None = None) -> None:
        """`agent` can add modes, `session/load` or capabilities. The script replaces its prompt handler."""
        self.outcomes: list[bool] = []
        """For each `ask` step, whether the permission was granted."""
        self.replies: list[Any] = []
        """The results of the `read_file` and `terminal` steps."""
        self.prompts: list[str] = []
        """The text of every prompt."""
        self.wire: WireLog = WireLog()
        """The messages of both sides."""
        self.app: Agent = Agent("scripted", version="1") if agent is None else agent
        self.app.prompt(self._run_script)
        self._turns = [list(steps) for steps in turns]
        self._pending_scripts: dict[Any, list[Step] | None] = {}
        # By the id of the prompt, from its arrival until its answer.
        self.wire.on_message = self._assign_script
        self._transport: Transport | None = None
        self._memory_transport: MemoryTransport | None = None

    def transport(self) -> Transport:
        """Connect in memory; returns the client's end."""
        ours, theirs = memory_pair()
        self.connect(ours)
        return theirs

    def connect(self, transport: Transport) -> AgentConnection:
        """Serve this transport."""
        self._memory_transport = transport if isinstance(transport, MemoryTransport) else None
        self._transport = RecordingTransport(transport, side="agent", log=self.wire)
        return self.app.connect(self._transport)

    def send(self, line: str | bytes | dict[str, Any]) -> None:
        """Send any line."""
        if self._transport is None:
            raise UsageError("cannot send before a client is connected")
        text = json.dumps(line) if isinstance(line, dict) else line
        self._transport.send(text.encode() if isinstance(text, str) else text)

    async def die(self, exit_code: int) -> None:
        """Exit the process of an agent on stdio at once; end the connection of an agent in memory."""
        if self._memory_transport is None:
            os._exit(exit_code)
        await self._memory_transport.aclose()

    def _assign_script(self, side: Side, message: Message) -> None:
        """Assign a script to a prompt on arrival, so that a prompt canceled before its turn uses it up."""
        if side == "client" and message.get("method") == "session/prompt":
            self._pending_scripts[message.get("id")] = self._turns.pop(0) if self._turns else None
        elif side == "agent" and "method" not in message:
            self._pending_scripts.pop(message.get("id"), None)

    def _next_script(self) -> list[Step] | None:
        """The script of the oldest prompt whose turn has not started; None: echo."""
        if not self._pending_scripts:  # not connected through `connect`
            return self._turns.pop(0) if self._turns else None
        return self._pending_scripts.pop(next(iter(self._pending_scripts)))

    async def _run_script(self, turn: Turn) -> Any:
        self.prompts.append(turn.text)
        steps = self._next_script()
        if steps is None:
            await turn.say(turn.text)
            return None
        scripted = ScriptedTurn(self, turn)
        for step in steps:
            stop_reason = await step(scripted)
            if stop_reason is not None:
                return stop_reason
        return None


def read_script(path: Path) -> list[list[Step]]:
    """Read a script file: a JSON list of turns, each a list of steps."""
    try:
        turns = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"the script {path} is not JSON: {error}") from None
    if not isinstance(turns, list):
        raise UsageError(f"the script {path} must be a list of turns")
    return [[parse_step(step) for step in steps] for steps in cast(list[list[Any]], turns)]


class AgentScript:
    """Creates scripted agents. Call it with the steps of one turn."""

    def __init__(self, folder: Path) -> None:
        """`folder` is for the script files of `command`."""
        self._folder = folder
        self._files = 0

    def __call__(self, *steps: Step, agent: Agent | None = None) -> ScriptedAgent:
        """An agent with one scripted turn."""
        return ScriptedAgent([steps] if steps else [], agent=agent)

    def turns(self, *turns: Sequence[Step], agent: Agent | None = None) -> ScriptedAgent:
        """An agent with several scripted turns."""
        return ScriptedAgent(turns, agent=agent)

    def command(self, turns: list[list[dict[str, Any]]]) -> list[str]:
        """A command line that runs a script in its JSON form, for clients that start a process."""
        self._files += 1
        script = self._folder / f"script-{self._files}.json"
        script.write_text(json.dumps(turns))
        return [sys.executable, "-m", "accord.testing", str(script)]
