"""An agent for fault tests: `count N` says N numbers, `die` kills it mid-turn. It keeps nothing when it
ends.
"""

import os
import signal

import accord

agent = accord.Agent("counting", version="1.0")


@agent.prompt
async def reply(turn: accord.Turn) -> None:
    word, _, number = turn.text.partition(" ")
    if word == "die":
        await turn.say("last words")
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "ask":
        async with turn.tool_call("Touch it", kind="edit") as call:
            allowed = await call.ask_permission()
            await turn.say("allowed" if allowed else "refused")
        return
    if word == "pid":
        await turn.say(str(os.getpid()))
        return
    for one in range(int(number or 0)):
        await turn.say(f"{one} ")


if __name__ == "__main__":
    agent.serve()
