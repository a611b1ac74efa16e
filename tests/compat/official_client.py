"""A client that knows only the official SDK. Prints what it sees."""

import asyncio
import random
import sys
from typing import Any

from acp import RequestError, spawn_agent_process, text_block
from acp.schema import ReadTextFileResponse


def show(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


class OfficialClient:
    """Handles each update after a random number of steps, so that tasks side by side would mix them up."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        for _step in range(random.Random(update.content.text).randrange(5)):
            await asyncio.sleep(0)
        show(update.content.text)

    async def read_text_file(self, path: str, session_id: str, **_: Any) -> ReadTextFileResponse:
        return ReadTextFileResponse(content="hello from the client")


async def main(command: list[str]) -> None:
    client: Any = OfficialClient()
    async with spawn_agent_process(client, command[0], *command[1:]) as (agent, _):
        show("connection:", type(vars(agent)["_conn"]).__name__)
        await agent.initialize(protocol_version=1)
        session_id = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        await agent.prompt(session_id=session_id, prompt=[text_block("count")])
        answer = await agent.prompt(session_id=session_id, prompt=[text_block("read")])
        show("stop:", answer.stop_reason)
        try:
            await agent.prompt(session_id=session_id, prompt=[text_block("nonsense")])
        except RequestError as error:
            show("error:", error.code, error)
        show("extension:", await agent.ext_method("echo", {"a": 1}))
        waiting = asyncio.ensure_future(agent.prompt(session_id=session_id, prompt=[text_block("wait")]))
        await asyncio.sleep(0)
        await agent.cancel(session_id=session_id)
        show("stop:", (await waiting).stop_reason)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
