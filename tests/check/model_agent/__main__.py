"""`python -m tests.check.model_agent [RULE]`: the model agent on stdio, breaking this rule."""

import asyncio
import sys

from tests.check.model_agent.agent import ModelAgent

from accord.wire.stdio import StdioTransport


async def serve(broken: str | None) -> None:
    """Serve until the client disconnects."""
    agent = ModelAgent(StdioTransport(), broken, strict="--strict" in sys.argv)
    agent.start()
    await agent.over.wait()


words = [word for word in sys.argv[1:] if not word.startswith("-")]
asyncio.run(serve(words[0] if words else None))
