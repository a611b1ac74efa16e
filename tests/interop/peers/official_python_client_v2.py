"""A client of the draft of version 2 on the official Python pre-release: one turn, whose text it prints.

Usage: python official_python_client_v2.py FOLDER PROMPT COMMAND...
"""

# pyright: reportMissingImports=false
# The pre-release is in an environment of its own.
import asyncio
import sys
from asyncio.subprocess import PIPE
from typing import Any

from acp.experimental.v2 import connect_to_agent, schema


class DraftClient:
    def __init__(self) -> None:
        self.text = ""
        self.states: list[str] = []
        self.idle: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def request_permission(self, options: list[Any], **params: Any) -> Any:
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = {"outcome": {"outcome": "selected", "optionId": chosen.option_id}}
        return schema.RequestPermissionResponse.model_validate(outcome)

    async def session_update(self, update: Any, **params: Any) -> None:
        if update.session_update == "agent_message_chunk":
            self.text += update.content.text
        elif update.session_update == "state_update":
            self.states.append(update.state)
            if update.state == "idle" and not self.idle.done():
                self.idle.set_result(update)


async def main(folder: str, prompt: str, *command: str) -> int:
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    client = DraftClient()
    agent = connect_to_agent(client, process.stdin, process.stdout)
    info = schema.Implementation(name="python", version="1")
    await agent.initialize(2, info, schema.ClientCapabilities())
    session = await agent.new_session(folder)
    text = schema.TextContentBlock(type="text", text=prompt)
    answer = await agent.prompt(session.session_id, [text])
    idle = await client.idle
    listed = await agent.list_sessions()
    assert session.session_id in [info.session_id for info in listed.sessions]
    await agent.close_session(session.session_id)
    sys.stdout.write(f"{client.text} {client.states} {idle.stop_reason} {answer.message_id}\n")
    await agent.close()
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()
    return 0


sys.exit(asyncio.run(main(*sys.argv[1:])))
