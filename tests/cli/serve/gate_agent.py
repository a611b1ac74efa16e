"""An agent whose turn begins, says so, and ends when somebody opens the gate: a named pipe that the prompt names."""

import asyncio
from pathlib import Path

import accord

agent = accord.Agent("gate", version="1.0")


@agent.prompt
async def reply(turn: accord.Turn) -> None:
    await turn.say("at the gate")
    await asyncio.get_running_loop().run_in_executor(None, Path(turn.text).read_bytes)
    await turn.say("through")


if __name__ == "__main__":
    agent.serve()
