"""The benchmark client on the official Python SDK: runs one workload and prints its figures as JSON."""

import asyncio
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES
from acp.interfaces import Client
from acp.schema import (
    AgentMessageChunk,
    ClientCapabilities,
    FileEditToolCallContent,
    FileSystemCapabilities,
    ReadTextFileResponse,
    TextContentBlock,
    ToolCallStart,
)

from benchmarks.contenders.stopwatch import Stopwatch


class Listener(Client):
    """Handles updates by type, as an application does."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch = watch

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            self.watch.received(update.content.text)
        elif isinstance(update, ToolCallStart):
            for item in update.content or []:
                if isinstance(item, FileEditToolCallContent):
                    self.watch.received(item.new_text)

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> ReadTextFileResponse:
        return ReadTextFileResponse(content=Path(path).read_text())


class AwaitingListener(Listener):
    """Handles updates and awaits for a varying time."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            await self.watch.dwell(update.content.text)
            self.watch.received(update.content.text)


async def run(watch: Stopwatch) -> None:
    # As in the SDK's guides: the class inherits the methods that it does not implement.
    kind = AwaitingListener if watch.measure == "order" else Listener
    listener = kind(watch)  # pyright: ignore[reportAbstractUsage]
    command, *arguments = watch.agent
    # Use the limit of the SDK's agent side; the default of its client side is 64 KiB.
    limits = {"limit": DEFAULT_STDIO_BUFFER_LIMIT_BYTES}
    async with spawn_agent_process(listener, command, *arguments, transport_kwargs=limits) as (conn, _):
        capabilities = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True))
        await conn.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=capabilities)
        session = (await conn.new_session(cwd=watch.folder, mcp_servers=[])).session_id
        await conn.prompt(session, [text_block(watch.warm_up)])
        if watch.measure == "sessions":
            await sessions(watch, conn)
        elif watch.measure == "order":
            await order(watch, conn, session)
        else:
            watch.start()
            await conn.prompt(session, [text_block(watch.job)])
            watch.stop()
            watch.report()


async def sessions(watch: Stopwatch, conn: ClientSideConnection) -> None:
    ids = [(await conn.new_session(cwd=watch.folder, mcp_servers=[])).session_id for _ in range(watch.repeat)]
    watch.start()
    await asyncio.gather(*(conn.prompt(session, [text_block(watch.job)]) for session in ids))
    watch.stop()
    watch.report()


async def order(watch: Stopwatch, conn: ClientSideConnection, session: str) -> None:
    expected = list(range(watch.expected))
    disordered = incomplete = 0
    watch.start()
    for _ in range(watch.repeat):
        watch.numbers.clear()
        await conn.prompt(session, [text_block(watch.job)])
        disordered += watch.numbers != sorted(watch.numbers)
        incomplete += sorted(watch.numbers) != expected
    watch.stop()
    watch.report(disordered=disordered, incomplete=incomplete)


if __name__ == "__main__":
    watched = Stopwatch.from_arguments()
    asyncio.run(run(watched))
