"""An agent whose turn starts, reports it, and ends when the named pipe in the prompt is written."""

import asyncio
from pathlib import Path

import accord

agent = accord.Agent("blocking", version="1.0")


@agent.prompt
async def reply(turn: accord.Turn) -> None:
    await turn.say("turn started")
    await asyncio.get_running_loop().run_in_executor(None, Path(turn.text).read_bytes)
    await turn.say("turn continued")


if __name__ == "__main__":
    agent.serve()
