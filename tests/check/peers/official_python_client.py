"""One turn with any agent, with a client on the official Python SDK. Prints the agent's text.

Usage: official_python_client.py FOLDER PROMPT [--allow | --reject] [--session ID] -- AGENT [ARGUMENT ...]
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import acp
from acp import schema

sys.path.insert(0, str(Path(__file__).parents[2] / "interop" / "peers"))
from official_python_handlers import RequestHandlers  # pyright: ignore[reportMissingImports, reportUnknownVariableType]


class Client(RequestHandlers):  # pyright: ignore[reportUntypedBaseClass]
    """Serves files, terminals and forms. Decides permissions by its options."""

    def __init__(self, *, allow: bool) -> None:
        super().__init__()
        self.allow = allow
        self.forms = [None] * 10

    def on_connect(self, conn: acp.Agent) -> None:
        self.agent = conn

    def report(self, what: str, **more: Any) -> None:
        pass

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[schema.PermissionOption], **kwargs: Any
    ) -> acp.RequestPermissionResponse:
        wanted = "allow_once" if self.allow else "reject_once"
        self.decision = next((one.option_id for one in options if one.kind == wanted), None)
        if self.decision is None:
            return acp.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return await super().request_permission(session_id, tool_call, options, **kwargs)

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        text = getattr(getattr(update, "content", None), "text", None)
        if isinstance(update, schema.AgentMessageChunk) and text is not None:
            sys.stdout.write(text)
            sys.stdout.flush()


async def main(words: list[str]) -> int:
    place = words.index("--")
    (folder, prompt, *options), command = words[:place], words[place + 1 :]
    client = Client(allow="--allow" in options)
    async with acp.spawn_agent_process(client, *command, use_unstable_protocol=True) as (agent, _):
        begun = await agent.initialize(
            acp.PROTOCOL_VERSION,
            schema.ClientCapabilities(
                fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True),
                terminal=True,
                elicitation=schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities()),
            ),
            schema.Implementation(name="official-python", version="1"),
        )
        if begun.protocol_version != acp.PROTOCOL_VERSION:
            sys.exit(f"the agent speaks version {begun.protocol_version}")
        session = options[options.index("--session") + 1] if "--session" in options else None
        if session is None:
            session = (await agent.new_session(folder, mcp_servers=[])).session_id
        elif begun.agent_capabilities and begun.agent_capabilities.load_session:
            await agent.load_session(folder, session, mcp_servers=[])
        else:
            sys.exit("the agent loads no sessions")
        answer = await agent.prompt(session, [acp.text_block(prompt)])
        sys.stdout.write(f"\n{answer.stop_reason}\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except (acp.RequestError, ConnectionError) as error:
        sys.exit(f"the turn failed: {error}")
