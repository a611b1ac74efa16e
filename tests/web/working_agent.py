"""An agent in version 2 whose tool calls and commands the user can stop alone."""

import asyncio
from contextlib import suppress

from accord import Agent, Turn

agent = Agent("working", version="1", protocol=(2,))


@agent.prompt
async def work(turn: Turn) -> None:
    for name in ("build", "test"):
        await run_until_stopped(turn, name)
        await turn.say(f"The user stopped the {name}.\n\n")
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


async def run_until_stopped(turn: Turn, name: str) -> None:
    command = asyncio.get_running_loop().create_future()
    with suppress(asyncio.CancelledError):
        async with (
            turn.tool_call(f"Run {name}", kind="execute", start=True, cancel=command.cancel) as call,
            turn.session.show_terminal(f"make {name}") as terminal,
        ):
            await call.terminal(terminal)
            await terminal.print(f"{name} of 1 file\n")
            await command


background: set[asyncio.Task[None]] = set()

if __name__ == "__main__":
    agent.serve()
