"""The benchmark client on Accord: runs one workload and prints its figures as JSON."""

import asyncio

import accord
from accord.schema import Diff, TextContent
from benchmarks.contenders.stopwatch import Stopwatch


async def take(watch: Stopwatch, session: accord.ClientSession, prompt: str) -> None:
    """Run one turn and handle its events by type, as an application does."""
    async for event in session.prompt(prompt):
        if isinstance(event, accord.AgentMessageChunk) and isinstance(event.content, TextContent):
            watch.received(event.content.text)
        elif isinstance(event, accord.ToolCallChanged):
            for item in event.patch.content or []:
                if isinstance(item, Diff):
                    watch.received(item.new_text)


async def take_awaiting(watch: Stopwatch, session: accord.ClientSession, prompt: str) -> None:
    """Run one turn with a handler that awaits for a varying time."""
    async for event in session.prompt(prompt):
        if isinstance(event, accord.AgentMessageChunk) and isinstance(event.content, TextContent):
            await watch.dwell(event.content.text)
            watch.received(event.content.text)


async def run(watch: Stopwatch) -> None:
    handlers = accord.ClientHandlers(
        workspace=accord.local_workspace, extensions={"_benchmark/echo": lambda params: params}
    )
    async with accord.connect(*watch.agent, handlers=handlers, protocol=watch.protocol) as agent:
        session = await agent.new_session(watch.folder)
        await take(watch, session, watch.warm_up)
        if watch.measure == "sessions":
            await sessions(watch, agent)
        elif watch.measure == "order":
            await order(watch, session)
        else:
            watch.start()
            await take(watch, session, watch.job)
            watch.stop()
            watch.report()


async def sessions(watch: Stopwatch, agent: accord.RemoteAgent) -> None:
    opened = [await agent.new_session(watch.folder) for _ in range(watch.repeat)]
    watch.start()
    await asyncio.gather(*(take(watch, session, watch.job) for session in opened))
    watch.stop()
    watch.report()


async def order(watch: Stopwatch, session: accord.ClientSession) -> None:
    expected = list(range(watch.expected))
    disordered = incomplete = 0
    watch.start()
    for _ in range(watch.repeat):
        watch.numbers.clear()
        await take_awaiting(watch, session, watch.job)
        disordered += watch.numbers != sorted(watch.numbers)
        incomplete += sorted(watch.numbers) != expected
    watch.stop()
    watch.report(disordered=disordered, incomplete=incomplete)


if __name__ == "__main__":
    watched = Stopwatch.from_arguments()
    if watched.loop == "uvloop":
        import uvloop

        uvloop.run(run(watched))
    else:
        asyncio.run(run(watched))
