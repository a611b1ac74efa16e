"""An agent of version 1 and 2. Its prompts are shell-like words: each runs until the user stops it.

Prompt: calls NAME... (tool calls at the same time), background LINE (a command that outlasts the turn)
"""

import asyncio

from accord import Agent, Turn

agent = Agent("stoppable", protocol=(1, 2))
_background: set[asyncio.Task[None]] = set()


@agent.prompt
async def reply(turn: Turn) -> None:
    word, _, rest = turn.text.partition(" ")
    if word == "calls":
        await asyncio.gather(*(run_call(turn, name) for name in rest.split()))
        await turn.say("all have ended")
    else:
        shown = asyncio.Event()
        task = asyncio.create_task(run_background(turn, rest, shown))
        _background.add(task)
        task.add_done_callback(_background.discard)
        await shown.wait()
        await turn.say("it runs")


async def run_call(turn: Turn, name: str) -> None:
    stopped = asyncio.Event()
    async with turn.tool_call(f"Wait for {name}", kind="execute", start=True, cancel=stopped.set) as call:
        await stopped.wait()
        await call.text(f"{name} was stopped")


async def run_background(turn: Turn, line: str, shown: asyncio.Event) -> None:
    session, stopped = turn.session, asyncio.Event()
    terminal = session.show_terminal(line, cancel=stopped.set)
    async with terminal:
        async with turn.tool_call(line, kind="execute", start=True) as call:
            await call.terminal(terminal)
            await terminal.print("serving\n")
        shown.set()
        await session.show_background([terminal])
        await stopped.wait()
        await terminal.exit(None, "SIGTERM")
    await session.show_background([])


if __name__ == "__main__":
    agent.serve()
