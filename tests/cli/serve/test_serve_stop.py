"""Stopping the gateway: running turns end first, and a second signal stops at once."""

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serve.gateway_process import GatewayProcess, running_gateway
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

AGENT = str(Path(__file__).with_name("blocking_agent.py"))


class RawClient:
    """A client that waits for messages with a given text."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, id: int, method: str, **params: Any) -> None:
        await self._socket.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))

    async def until(self, text: str) -> dict[str, Any]:
        """Return the next message with this text in it."""
        while text not in (message := str(await self._socket.recv())):
            pass
        return json.loads(message)


@asynccontextmanager
async def blocked_turn(gateway: GatewayProcess, folder: Path) -> AsyncGenerator[tuple[RawClient, Path, str]]:
    """Start a turn that blocks. Yield the client, the pipe that unblocks it, and the session id."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with connect(gateway.websocket, proxy=None, additional_headers=headers) as socket:
        client = RawClient(socket)
        await client.send(0, "initialize", protocolVersion=1)
        await client.until('"id":0')
        await client.send(1, "session/new", cwd=str(folder), mcpServers=[])
        session = (await client.until('"id":1'))["result"]["sessionId"]
        await client.send(
            2, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": str(pipe)}]
        )
        await client.until("turn started")
        yield client, pipe, session


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_running_turn_ends_before_the_gateway_does(tmp_path: Path, number: signal.Signals) -> None:
    with running_gateway(tmp_path / "home", "--", sys.executable, AGENT) as gateway:
        async with blocked_turn(gateway, tmp_path) as (client, pipe, session):
            gateway.signal(number)
            gateway.wait_for("waiting up to 30 seconds for running turns")
            await client.send(
                3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "more"}]
            )
            assert "the gateway is stopping" in (await client.until('"id":3'))["error"]["message"]
            pipe.write_bytes(b"open")
            await client.until("turn continued")
            assert (await client.until('"id":2'))["result"]["stopReason"] == "end_turn"
            with pytest.raises(ConnectionClosed) as closed:
                await client.until("never said")
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
        code, log = gateway.end()
    assert code == 0
    assert "ending the turns" not in log


async def test_a_second_signal_does_not_wait_for_turns(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "home", "--", sys.executable, AGENT) as gateway:
        async with blocked_turn(gateway, tmp_path) as (_, pipe, _session):
            gateway.signal()
            gateway.wait_for("for running turns")
            gateway.signal()
            code, log = gateway.end()
        # The agent blocked in a read of the pipe. If it were alive, the pipe would have a reader.
        with pytest.raises(OSError, match="No such device"):
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    assert code == 0
    assert "ending the turns that still run" in log
