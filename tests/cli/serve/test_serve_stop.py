"""A stop lets running turns end; a second signal does not wait; nothing is left behind."""

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serve.gateways import Served, served
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

AGENT = str(Path(__file__).with_name("gate_agent.py"))


class Talk:
    """A client that waits for what it is interested in."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, id: int, method: str, **params: Any) -> None:
        await self._socket.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))

    async def until(self, text: str) -> dict[str, Any]:
        """The next message with this text in it."""
        while text not in (message := str(await self._socket.recv())):
            pass
        return json.loads(message)


@asynccontextmanager
async def at_the_gate(gateway: Served, folder: Path) -> AsyncGenerator[tuple[Talk, Path, str]]:
    """A turn that runs, the gate it waits at, and its session."""
    gate = folder / "gate"
    os.mkfifo(gate)
    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with connect(gateway.websocket, proxy=None, additional_headers=headers) as socket:
        talk = Talk(socket)
        await talk.send(0, "initialize", protocolVersion=1)
        await talk.until('"id":0')
        await talk.send(1, "session/new", cwd=str(folder), mcpServers=[])
        session = (await talk.until('"id":1'))["result"]["sessionId"]
        await talk.send(2, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": str(gate)}])
        await talk.until("at the gate")
        yield talk, gate, session


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_running_turn_ends_before_the_gateway_does(tmp_path: Path, number: signal.Signals) -> None:
    with served(tmp_path / "home", "--", sys.executable, AGENT) as gateway:
        async with at_the_gate(gateway, tmp_path) as (talk, gate, session):
            gateway.signal(number)
            gateway.wait_for("running turns have 30 seconds to end")
            await talk.send(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "more"}])
            assert "takes no new prompts" in (await talk.until('"id":3'))["error"]["message"]
            gate.write_bytes(b"open")
            await talk.until("through")
            assert (await talk.until('"id":2'))["result"]["stopReason"] == "end_turn"
            with pytest.raises(ConnectionClosed) as closed:
                await talk.until("never said")
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
        code, log = gateway.end()
    assert code == 0
    assert "are ended" not in log


async def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with served(tmp_path / "home", "--", sys.executable, AGENT) as gateway:
        async with at_the_gate(gateway, tmp_path) as (_, gate, _session):
            gateway.signal()
            gateway.wait_for("running turns have")
            gateway.signal()
            code, log = gateway.end()
        # The agent waited in a read of the gate: if it lived, the gate would have a reader.
        with pytest.raises(OSError, match="No such device"):
            os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
    assert code == 0
    assert "turns that still run are ended" in log
