"""Faults in operation: agents, gateways and clients that are killed, connections that are cut. Nothing is
lost or repeated.
"""

import asyncio
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
from tests.gateway.breakable_proxy import breakable_proxy
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as dial

import accord
from accord.client import ClientHandlers, ClientSession

AGENT = str(Path(__file__).with_name("counting_agent.py"))
COUNTING = ("--", sys.executable, AGENT)


def connect_to(
    gateway: GatewayProcess, port: int | None = None, handlers: ClientHandlers | None = None
) -> Any:
    """Connect a client of the library to the gateway, or to a proxy in front of it."""
    return accord.connect(
        f"ws://127.0.0.1:{port or gateway.port}/acp", token=gateway.token, handlers=handlers
    )


async def answer(session: ClientSession, prompt: str) -> str:
    return (await session.ask(prompt)).text


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class RawClient:
    """A client driven message by message, for what a correct client never does."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._id = 0

    async def ask(self, method: str, **params: Any) -> int:
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        await self.socket.send(json.dumps(message))
        return self._id

    async def call(self, method: str, **params: Any) -> Any:
        id = await self.ask(method, **params)
        return (await self.until(lambda message: message.get("id") == id and "method" not in message))[
            "result"
        ]

    async def until(self, wanted: Any) -> dict[str, Any]:
        while True:
            message = json.loads(await self.socket.recv())
            if wanted(message):
                return message

    def drop_connection(self) -> None:
        self.socket.transport.abort()


@asynccontextmanager
async def raw_client(gateway: GatewayProcess) -> AsyncGenerator[RawClient]:
    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with dial(gateway.websocket, proxy=None, additional_headers=headers, max_size=None) as socket:
        client = RawClient(socket)
        await client.call("initialize", protocolVersion=1)
        yield client


async def test_an_agent_killed_mid_turn_is_reported_and_restarted(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "home", *COUNTING) as gateway:
        async with raw_client(gateway) as client:
            session = (await client.call("session/new", cwd=str(tmp_path), mcpServers=[]))["sessionId"]
            prompt = [{"type": "text", "text": "die"}]
            id = await client.ask("session/prompt", sessionId=session, prompt=prompt)
            error = (await client.until(lambda message: message.get("id") == id))["error"]
            assert error["data"]["signal"] == "SIGKILL"
            again = (await client.call("session/new", cwd=str(tmp_path), mcpServers=[]))["sessionId"]
            prompt = [{"type": "text", "text": "count 3"}]
            assert (await client.call("session/prompt", sessionId=again, prompt=prompt))[
                "stopReason"
            ] == "end_turn"
            await client.ask("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            await client.until(lambda message: "last words" in json.dumps(message))


async def test_a_turn_is_complete_after_its_client_disconnects(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "home", *COUNTING) as gateway:
        async with raw_client(gateway) as client:
            session = (await client.call("session/new", cwd=str(tmp_path), mcpServers=[]))["sessionId"]
            prompt = [{"type": "text", "text": "count 5000"}]
            await client.ask("session/prompt", sessionId=session, prompt=prompt)
            await client.until(lambda message: message.get("method") == "session/update")
            client.drop_connection()
        async with raw_client(gateway) as client:
            overview: dict[str, Any] = {"state": "running"}
            listed = await client.call("_accord/sessions", subscribe=True)
            overview = next(entry for entry in listed["sessions"] if entry["sessionId"] == session)
            while overview["state"] != "idle":
                note = await client.until(lambda message: message.get("method") == "_accord/sessions")
                overview = note["params"]["changed"]
        async with connect_to(gateway) as agent:
            state = (await agent.load_session(session, cwd=tmp_path)).state
            said = "".join(message.text for message in state.messages if message.kind == "agent")
            assert said == "".join(f"{number} " for number in range(5000))


async def test_a_connection_that_is_cut_repeatedly_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "home", *COUNTING) as gateway:
        async with breakable_proxy(gateway.port) as proxy, connect_to(gateway, proxy.port) as agent:
            session = await agent.new_session(cwd=tmp_path)
            proxy.cut_every(100_000)
            said = await answer(session, "count 5000")
            assert said == "".join(f"{number} " for number in range(5000))
            assert proxy.cuts >= 3
            proxy.cut()
            assert await answer(session, "count 2") == "0 1 "


@pytest.mark.parametrize("cut_first", [False, True])
async def test_a_permission_request_is_answered_after_a_cut_connection(
    tmp_path: Path, cut_first: bool
) -> None:
    with running_gateway(tmp_path / "home", *COUNTING) as gateway:
        async with breakable_proxy(gateway.port) as proxy:

            async def allow(request: accord.PermissionRequest) -> str:
                if cut_first:
                    proxy.cut()
                chosen = next(option for option in request.options if option.kind == "allow_once")
                return chosen.option_id

            async with connect_to(gateway, proxy.port, ClientHandlers(permissions=allow)) as agent:
                session = await agent.new_session(cwd=tmp_path)
                assert await answer(session, "ask") == "allowed"


async def test_a_gateway_killed_mid_turn_comes_back_with_its_sessions(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running_gateway(home, *COUNTING) as gateway:
        token = gateway.token
        async with raw_client(gateway) as client:
            session = (await client.call("session/new", cwd=str(tmp_path), mcpServers=[]))["sessionId"]
            turn = await client.ask(
                "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "pid"}]
            )
            update = await client.until(
                lambda m: m.get("method") == "session/update" and "content" in m["params"]["update"]
            )
            pid = int(update["params"]["update"]["content"]["text"])
            await client.until(lambda m: m.get("id") == turn and "method" not in m)  # the session is free
            await client.ask(
                "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "count 100000"}]
            )
            seen = 0
            while seen < 300:
                await client.until(lambda message: message.get("method") == "session/update")
                seen += 1
            gateway.signal(signal.SIGKILL)
            gateway.end()
            client.drop_connection()  # else it waits 10 seconds for a closing handshake behind unread updates
    while is_alive(pid):
        await asyncio.to_thread(os.sched_yield)
    with running_gateway(home, *COUNTING) as gateway:
        gateway.token = token
        async with connect_to(gateway) as agent:
            listed = [info.session_id async for info in agent.list_sessions()]
            assert listed == [session]
            state = (await agent.load_session(session, cwd=tmp_path)).state
            said = "".join(message.text for message in state.messages if message.kind == "agent")
            numbers = said.removeprefix(str(pid)).split()
            assert len(numbers) >= 299
            assert numbers == [str(number) for number in range(len(numbers))]


async def test_no_process_is_left_when_the_gateway_stops(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "home", *COUNTING) as gateway:
        async with connect_to(gateway) as agent:
            session = await agent.new_session(cwd=tmp_path)
            pid = int(await answer(session, "pid"))
            assert is_alive(pid)
        gateway.signal()
        code, _ = gateway.end()
        assert code == 0
    assert not is_alive(pid)
