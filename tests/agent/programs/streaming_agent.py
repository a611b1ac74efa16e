"""An agent program that produces output without an end, in the way that the prompt names.

It prints a line to stderr when its turn starts, and one with the reason when it ends.
"""

import asyncio
import sys

import accord

agent = accord.Agent("stream", version="1.0")


@agent.load_session
async def load(session: accord.AgentSession) -> None:
    """Accepts any session."""


@agent.prompt
async def stream(turn: accord.Turn) -> None:
    print("started", file=sys.stderr, flush=True)  # noqa: T201 - the test waits for it
    try:
        await OUTPUTS[turn.text](turn)
    except BaseException as error:
        print(type(error).__name__, file=sys.stderr, flush=True)  # noqa: T201 - the test reads it
        raise


async def say(turn: accord.Turn) -> None:
    while True:
        await turn.say("on and on and on")


async def think(turn: accord.Turn) -> None:
    while True:
        await turn.think("on and on and on")


async def plan(turn: accord.Turn) -> None:
    while True:
        await turn.plan(["on", "and on"])


async def tool_call(turn: accord.Turn) -> None:
    while True:
        async with turn.tool_call("Run", kind="execute") as call:
            await call.replace([])


async def permission(turn: accord.Turn) -> None:
    """Asks again and again; a client that is gone gives no permission."""
    await turn.say("asking")
    async with turn.tool_call("Run", kind="execute") as call:
        while not await turn.ask_permission(call):
            pass


async def usage(turn: accord.Turn) -> None:
    while True:
        await turn.usage(1, 2)


async def hidden_subagent(turn: accord.Turn) -> None:
    """Updates a child session that the client does not show, so that no message is sent."""
    child = turn.subagent("child")
    await turn.say("started")
    while True:
        await child.set_running()


async def stubborn(turn: accord.Turn) -> None:
    """Ignores cancellation, as a broad `except` may do; only the end of the connection stops it."""
    while True:
        try:
            await turn.say("on and on and on")
        except asyncio.CancelledError:
            continue


async def say_now(turn: accord.Turn) -> None:
    """Uses the calls that do not wait, and lets the event loop run by itself."""
    while True:
        try:
            turn.say_now("on and on and on")
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            continue


OUTPUTS = {
    function.__name__: function
    for function in (say, think, plan, tool_call, permission, usage, hidden_subagent, stubborn, say_now)
}


if __name__ == "__main__":
    agent.options = accord.agent.AgentOptions(cancel_grace=0.1)
    agent.serve()
