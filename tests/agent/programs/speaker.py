"""An agent as a program: speaks, prints where it should not, waits until it is cancelled, tells what it has imported."""

import asyncio
import sys
from typing import Any

import accord

agent = accord.Agent("speaker", version="1.0")


@agent.prompt
async def reply(turn: accord.Turn) -> None:
    print("a stray line on stdout")  # noqa: T201 - a slip that must do no harm
    await turn.say(f"You said: {turn.text}\n🎉")
    if turn.text == "wait":
        await asyncio.Event().wait()


@agent.load_session
async def load(session: accord.AgentSession) -> None:
    """Any session is known."""


@agent.on("_speaker/modules")
def modules(params: Any, call: accord.ClientRequest) -> list[str]:
    return sorted(sys.modules)


if __name__ == "__main__":
    agent.serve(strict="--strict" in sys.argv, uvloop="--uvloop" in sys.argv)
