"""Programs for the official SDK run unchanged on Accord's connection; the guide names every counterpart."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.agent.connection import AgentSideConnection
from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError
from tests.patience import PATIENCE

import accord
import accord.schema
from accord.compat import CompatConnection
from accord.errors import UsageError

ROOT = Path(__file__).parents[2]
AGENT = Path(__file__).parent / "official_agent.py"
CLIENT = Path(__file__).parent / "official_client.py"
RUNNER = ("-m", "accord.compat")


def test_an_official_client_drives_an_official_agent() -> None:
    """Both programs know only `acp`. The client prints what it sees, in order."""
    command = [sys.executable, *RUNNER, str(CLIENT), sys.executable, *RUNNER, str(AGENT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "connection: CompatConnection",
        *(f"update {number}" for number in range(20)),
        "file: hello from the client",
        "stop: end_turn",
        "error: -32602 Invalid params",
        "extension: {'echo': {'a': 1}}",
        "stop: cancelled",
    ]


async def test_an_official_agent_works_for_accords_client() -> None:
    async with accord.connect(sys.executable, *RUNNER, str(AGENT)) as agent:
        session = await agent.new_session(str(ROOT))
        answer = await session.ask("count")
        assert answer.text == "".join(f"update {number}" for number in range(20))
        assert agent.info is not None
        assert agent.info.name == "official"


def test_a_missing_program_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, *RUNNER], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert done.stderr == "accord.compat: usage: python -m accord.compat PROGRAM.py [ARGUMENT ...]\n"


def test_a_program_that_does_not_exist_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, *RUNNER, "missing.py"], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert done.stderr == "accord.compat: cannot run 'missing.py': there is no such file\n"


def test_without_the_sdk_the_error_names_the_package() -> None:
    program = "import sys; sys.modules['acp'] = None; import accord.compat; accord.compat.install()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert "pip install 'agent-client-protocol" in done.stderr.splitlines()[-1]
    assert UsageError.__name__ in done.stderr.splitlines()[-1]


@asynccontextmanager
async def connections(
    left: Any, right: Any, **options: Any
) -> AsyncGenerator[tuple[CompatConnection, CompatConnection]]:
    """Two connections over a socket, with these handlers."""
    accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    server = await asyncio.start_server(lambda *streams: accepted.put_nowait(streams), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    far_reader, far_writer = await accepted.get()
    async with (
        CompatConnection(left, writer, reader, **options) as near,
        CompatConnection(right, far_writer, far_reader) as far,
    ):
        yield near, far
    server.close()


async def refuse(method: str, params: Any, is_notification: bool) -> Any:
    raise RequestError.method_not_found(method)


async def test_errors_observers_and_the_end_are_those_of_the_sdk() -> None:
    seen: list[tuple[str, str]] = []

    async def slow_observer(event: Any) -> None:
        seen.append((event.direction.value, event.message.get("method", "response")))

    async def fail(method: str, params: Any, is_notification: bool) -> Any:
        if method == "broken":
            raise ValueError('{"why": "JSON"}')
        return await refuse(method, params, is_notification)

    async with connections(refuse, fail, observers=[slow_observer]) as (near, far):
        with pytest.raises(RequestError) as missing:
            await near.send_request("nothing", {})
        assert (missing.value.code, missing.value.data) == (-32601, {"method": "nothing"})
        with pytest.raises(RequestError) as broken:
            await near.send_request("broken", {})
        assert (broken.value.code, broken.value.data) == (-32603, {"why": "JSON"})
        assert seen == [
            ("outgoing", "nothing"),
            ("incoming", "response"),
            ("outgoing", "broken"),
            ("incoming", "response"),
        ]
        await far.close()
        with pytest.raises(ConnectionError, match="Connection closed"):
            await near.send_request("late", {})


async def test_a_canceled_call_cancels_the_handler_of_the_peer() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(method: str, params: Any, is_notification: bool) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with connections(refuse, wait) as (near, _):
        call = asyncio.ensure_future(near.send_request("wait", {}))
        await asyncio.wait_for(started.wait(), PATIENCE)
        call.cancel()
        await asyncio.wait_for(cancelled.wait(), PATIENCE)


async def test_a_silent_peer_ends_the_connection_after_the_receive_timeout() -> None:
    async with connections(refuse, refuse, receive_timeout=0.01, listening=False) as (near, _):
        with pytest.raises(RequestError) as ended:
            await near.main_loop()
        assert ended.value.data == {"details": "Agent timeout"}


def test_the_guide_names_every_public_name_of_the_sdk() -> None:
    guide = (ROOT / "docs" / "official-sdk.md").read_text("utf-8")
    words = set(re.findall(r"\w+", guide))
    calls = {
        name
        for cls in (acp.Agent, acp.Client, AgentSideConnection, ClientSideConnection)
        for name in vars(cls)
        if not name.startswith("_") and name.islower()
    }
    assert calls - words == set()
    renamed = {name for name in acp.__all__ if not hasattr(accord.schema, name)}
    siblings = {
        f"Elicitation{kind}PropertySchema" for kind in ("Number", "Integer", "Boolean", "MultiSelect")
    }
    assert renamed - words - siblings == set()
