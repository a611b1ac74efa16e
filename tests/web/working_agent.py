"""An agent in version 2 whose tool calls and commands the user can stop alone."""

import asyncio

from accord import Agent, Turn

agent = Agent("working", version="1", protocol=(2,))


@agent.prompt
async def work(turn: Turn) -> None:
    stopped = asyncio.Event()
    async with (
        turn.tool_call("Build", kind="execute", cancel=stopped.set) as call,
        turn.session.show_terminal("make") as terminal,
    ):
        await call.terminal(terminal)
        await terminal.print("compiled 1 file\n")
        await stopped.wait()
    await turn.say("The user stopped the build.")
    ended = asyncio.Event()
    server = turn.session.show_terminal("serve --port 1", cancel=ended.set)
    await server.__aenter__()
    async with turn.tool_call("Serve", kind="execute") as call:
        await call.terminal(server)
    await turn.session.show_background([server])

    async def serve() -> None:
        await ended.wait()
        await server.exit(None, "SIGTERM")
        await turn.session.show_background([])

    background.add(asyncio.create_task(serve()))


background: set[asyncio.Task[None]] = set()

if __name__ == "__main__":
    agent.serve()
