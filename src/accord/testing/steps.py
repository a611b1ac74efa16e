"""The steps of a scripted turn. Each is an async function of the `Turn`, so that your own fit in between.

A step gives None to go on, or a stop reason to end the turn. `step_of` reads the JSON form: an object with one member,
the step's name, and its argument or a list or object of arguments.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from accord.errors import RpcError, UsageError

if TYPE_CHECKING:
    from accord.testing.agents import ScriptedTurn

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
