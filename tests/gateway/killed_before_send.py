"""A gateway that is killed when it sends the first text of the agent. Its record is committed by then."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.gateway.gateway_harness import MemoryClientConnection, gateway_harness, open_session

from accord.gateway.access.audit_log import AuditLog
from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.contracts import RecordMark
from accord.store.sqlite_store import SqliteStore


async def main(folder: Path) -> None:
    send = MemoryClientConnection.send

    def killing_send(
        self: MemoryClientConnection,
        frames: Sequence[OutgoingFrame],
        stream: str | None,
        mark: RecordMark | None = None,
    ) -> None:
        if any(b"agent_message_chunk" in frame.body for frame in frames):
            os.kill(os.getpid(), signal.SIGKILL)
        send(self, frames, stream, mark)

    MemoryClientConnection.send = killing_send
    store = SqliteStore(folder / "gateway.db")
    async with gateway_harness(store=store, audit=AuditLog(folder / "audit.jsonl")) as harness:
        client = await harness.client()
        await open_session(harness, client, folder)
        client.prompt("s1")
        await harness.agent.until_method("session/prompt")
        harness.agent.say("s1", "committed")
        await client.update()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
