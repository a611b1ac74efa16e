"""An agent for cluster tests: `count N` says N numbers, `wait` never ends. Any process of it resumes any
session.
"""

import asyncio
import os

import accord

agent = accord.Agent("stored", version="1.0")


@agent.resume_session
async def resume(session: accord.AgentSession) -> None:
    """Nothing to do: it remembers nothing."""


@agent.prompt
async def reply(turn: accord.Turn) -> None:
    word, _, number = turn.text.partition(" ")
    if word == "pid":
        await turn.say(str(os.getpid()))
    if word == "ask":
        async with turn.tool_call("Touch it", kind="edit") as call:
            allowed = await call.ask_permission()
            await turn.say("allowed" if allowed else "refused")
    if word == "wait":
        await turn.say("waiting")
        await asyncio.Event().wait()
    for one in range(int(number or 0)):
        await turn.say(f"{one} ")


if __name__ == "__main__":
    agent.serve()
