"""An agent program: echoes prompts, prints to stdout, can wait for a cancel, lists its modules."""

import asyncio
import sys
from typing import Any

import accord

agent = accord.Agent("echo", version="1.0")


@agent.prompt
async def reply(turn: accord.Turn) -> None:
    print("a stray line on stdout")  # noqa: T201 - stray output must not break the protocol
    await turn.say(f"You said: {turn.text}\n🎉")
    if turn.text == "wait":
        await asyncio.Event().wait()
    if turn.text == "exit":
        sys.exit(9)


@agent.load_session
async def load(session: accord.AgentSession) -> None:
    """Accepts any session."""


@agent.on("_echo/modules")
def modules(params: Any, call: accord.ClientRequest) -> list[str]:
    return sorted(sys.modules)


if __name__ == "__main__":
    agent.serve(strict="--strict" in sys.argv, uvloop="--uvloop" in sys.argv)
