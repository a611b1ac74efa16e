"""A small agent: it plans, reads a file through the client, asks before it writes, and reports the result.

Start it from a client, for example with `python examples/client.py`. It speaks ACP on its stdin and stdout.
It connects to the MCP servers of the client and names their tools; this needs `pip install "accord[mcp]"`.
"""

import asyncio
import logging

import accord
from accord.schema import McpServerStdio

agent = accord.Agent("example-agent", version="0.1.0", title="Example agent")


@agent.new_session
async def begin(session: accord.AgentSession) -> None:
    session.data = []
    for server in session.mcp_servers:
        if isinstance(server, McpServerStdio):
            session.spawn(attach(session, server))


async def attach(session: accord.AgentSession, server: McpServerStdio) -> None:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    env = {variable.name: variable.value for variable in server.env}
    command = StdioServerParameters(command=server.command, args=server.args, env=env, cwd=session.cwd)
    try:
        async with Client(command) as client:
            session.data += [f"{server.name}/{tool.name}" for tool in (await client.list_tools()).tools]
            await asyncio.Event().wait()  # stay connected until the session ends
    except Exception as error:  # noqa: BLE001 - the session works without the server
        logging.warning("MCP server %s: %s", server.name, error)


@agent.prompt
async def answer(turn: accord.Turn) -> None:
    await turn.think("The user wants their notes tidied. I look at them first.")
    await turn.plan([("Read notes.txt", "in_progress"), "Sort its lines"])

    notes = await read_notes(turn)
    tidy = "".join(sorted(notes.splitlines(keepends=True)))
    await turn.plan([("Read notes.txt", "completed"), ("Sort its lines", "in_progress")])

    async with turn.tool_call("Sort notes.txt", kind="edit", locations=["notes.txt"]) as call:
        await call.diff("notes.txt", old=notes, new=tidy)
        allowed = await call.ask_permission()
        if allowed:
            await turn.client.write_text_file("notes.txt", tidy)

    if turn.session.data:
        await turn.say(f"I could also use {', '.join(turn.session.data)}. ")
    if allowed:
        await turn.plan([("Read notes.txt", "completed"), ("Sort its lines", "completed")])
        for piece in ("Done: ", "your notes ", "are in order."):
            await turn.say(piece)
    else:
        await turn.say("I left your notes as they are.")


async def read_notes(turn: accord.Turn) -> str:
    async with turn.tool_call("Read notes.txt", kind="read", locations=["notes.txt"], start=True) as call:
        notes = await turn.client.read_text_file("notes.txt")
        await call.text(notes)
        return notes


if __name__ == "__main__":
    agent.serve()
