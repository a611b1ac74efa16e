"""Clients of version 1 or 2 with agents of version 1 or 2: directly, at a gateway, and in a cluster.

docs/versions.md has the table.
"""

import asyncio
import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.cli.serve.gateway_process import GatewayProcess, running_gateway
from tests.cluster.nats_servers import nats_server
from tests.cluster.test_node_processes import new_shared_token
from tests.patience import PATIENCE

import accord
from accord.client.client_options import ProtocolChoice
from accord.errors import HandshakeFailed

AGENT = """
import asyncio
import sys
from accord import Agent, Turn

agent = Agent("one-version", version="1", protocol=(int(sys.argv[1]),))


async def work(turn: Turn) -> None:
    stopped = asyncio.Event()
    async with turn.tool_call("Build", kind="execute", cancel=stopped.set) as call:
        async with turn.session.show_terminal("make", cancel=stopped.set) as terminal:
            await call.terminal(terminal)
            await terminal.print("compiled\\n")
            await turn.session.show_background([terminal])
            if turn.text == "work until I stop you":
                await stopped.wait()
        await turn.session.show_background([])
    await turn.notice("Built")
    async with turn.compaction() as compaction:
        await compaction.summary("shorter")


@agent.prompt
async def answer(turn: Turn) -> None:
    if turn.text.startswith("work"):
        await work(turn)
        return
    async with turn.tool_call("Look", kind="read") as call:
        await call.text("seen")
    await turn.say("heard: " + turn.text)


agent.serve()
"""
Version = Literal[1, 2]
VERSIONS: tuple[Version, ...] = (1, 2)
CHOICES: tuple[ProtocolChoice, ...] = (1, 2, "auto")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("versions")
    (folder / "agent.py").write_text(AGENT)
    return folder


def agent_command(folder: Path, version: Version) -> list[str]:
    return [sys.executable, str(folder / "agent.py"), str(version)]


async def turn_of(connection: Any, cwd: Path) -> tuple[str, str, str]:
    """Run a turn; return its text, its stop reason and the status of the tool call."""
    async with asyncio.timeout(PATIENCE), connection as remote:
        session = await remote.new_session(cwd)
        result = await session.ask("hello")
        (call,) = session.state.tool_calls.values()
        return result.text, str(result.stop_reason), str(call.status)


async def stop_work(connection: Any, later: Any, cwd: Path, terminal: bool) -> None:
    """Let an agent in version 2 work until another client stops its terminal, or this one its tool call."""
    async with asyncio.timeout(PATIENCE), connection as remote, later as watcher:
        session = await remote.new_session(cwd)
        stopped = False
        async for _ in session.prompt("work until I stop you"):
            work = session.state.background
            if not work or stopped:
                continue
            stopped = True
            joined = await watcher.load_session(session.id, cwd)
            assert joined.state.terminals[work[0].id].text == "compiled\n"
            if terminal:
                await joined.cancel_terminal(work[0].id)
            else:
                (call,) = session.state.tool_calls.values()
                assert call.terminal_ids == [work[0].id]
                await session.cancel_tool_call(call.tool_call_id)
        assert stopped
        (shown,) = session.state.terminals.values()
        assert (shown.command, shown.exit is not None) == ("make", True)
        assert session.state.background == []
        assert [notice.title for notice in session.state.notices] == ["Built"]
        (compaction,) = session.state.history.compactions.values()
        assert compaction.status == "completed"


async def text_of_work(connection: Any, cwd: Path) -> str:
    """What the tool call of the same work shows to a client in version 1."""
    async with asyncio.timeout(PATIENCE), connection as remote:
        session = await remote.new_session(cwd)
        await session.ask("work")
        (call,) = session.state.tool_calls.values()
        assert [notice.title for notice in session.state.notices] == ["Built"]
        return call.text


DONE = ("heard: hello", "end_turn", "completed")


@pytest.mark.parametrize("agent", VERSIONS)
async def test_a_client_that_asks_for_either_version_works_with_every_agent(
    agent: Version, folder: Path, tmp_path: Path
) -> None:
    connection = accord.connect(*agent_command(folder, agent), protocol="auto")
    assert await turn_of(connection, tmp_path) == DONE


@pytest.mark.parametrize("client", VERSIONS)
@pytest.mark.parametrize("agent", VERSIONS)
async def test_directly_the_versions_must_agree(
    client: Version, agent: Version, folder: Path, tmp_path: Path
) -> None:
    connection = accord.connect(*agent_command(folder, agent), protocol=client)
    if client == agent:
        assert await turn_of(connection, tmp_path) == DONE
    else:
        reason = 'ask for another version with .*"auto"' if client == 1 else "this client speaks only 2"
        with pytest.raises(HandshakeFailed, match=reason):
            await turn_of(connection, tmp_path)


@pytest.fixture(scope="module", params=VERSIONS)
def gateway(request: pytest.FixtureRequest, folder: Path) -> Generator[GatewayProcess]:
    """A gateway with an agent of one version."""
    words = ("--protocol", str(request.param), "--", *agent_command(folder, request.param))
    with running_gateway(folder / f"home-{request.param}", *words) as gateway:
        yield gateway


@pytest.mark.parametrize("client", CHOICES)
async def test_at_a_gateway_every_client_works_with_every_agent(
    client: ProtocolChoice, gateway: GatewayProcess, tmp_path: Path
) -> None:
    connection = accord.connect(gateway.websocket, token=gateway.token, protocol=client)
    assert await turn_of(connection, tmp_path) == DONE


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "tool call"])
@pytest.mark.parametrize("gateway", [2], indirect=True)
async def test_at_a_gateway_work_of_version_2_is_shown_and_stopped(
    terminal: bool, gateway: GatewayProcess, tmp_path: Path
) -> None:
    client, later = (accord.connect(gateway.websocket, token=gateway.token, protocol=2) for _ in range(2))
    await stop_work(client, later, tmp_path, terminal)


@pytest.mark.parametrize("gateway", [2], indirect=True)
async def test_at_a_gateway_version_1_gets_the_work_as_text(gateway: GatewayProcess, tmp_path: Path) -> None:
    connection = accord.connect(gateway.websocket, token=gateway.token, protocol=1)
    assert "compiled" in await text_of_work(connection, tmp_path)


@pytest.fixture(scope="module", params=VERSIONS)
def front(request: pytest.FixtureRequest, folder: Path) -> Generator[tuple[GatewayProcess, str]]:
    """A front node without agents, before a node with an agent of one version, and a token."""
    words = ("--protocol", str(request.param), "--", *agent_command(folder, request.param))
    home = folder / f"cluster-{request.param}"
    with nats_server(folder / f"nats-{request.param}") as server:
        prefix = server.settings().prefix
        settings: dict[str, Any] = {"prefix": prefix, "replicas": 1, "shards": 1, "logBytes": 50_000_000}
        settings["monitors"] = [server.monitor]
        settings["times"] = {"renew": 1, "deadline": PATIENCE, "lease": PATIENCE * 2}  # for a busy machine
        (home / "config").mkdir(parents=True)
        (home / "config" / "serve.json").write_text(json.dumps({"cluster": settings}))
        cluster = f"--cluster={server.url}"
        with (
            running_gateway(home, cluster, "--node", "owner", *words),
            running_gateway(home, cluster, "--node", "front", "--front") as front,
        ):
            token = asyncio.run(new_shared_token(server, prefix))
            yield front, token


@pytest.mark.parametrize("client", CHOICES)
async def test_in_a_cluster_every_client_works_with_every_agent(
    client: ProtocolChoice, front: tuple[GatewayProcess, str], tmp_path: Path
) -> None:
    connection = accord.connect(front[0].websocket, token=front[1], protocol=client)
    assert await turn_of(connection, tmp_path) == DONE


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "tool call"])
@pytest.mark.parametrize("front", [2], indirect=True)
async def test_in_a_cluster_work_of_version_2_is_shown_and_stopped(
    terminal: bool, front: tuple[GatewayProcess, str], tmp_path: Path
) -> None:
    client, later = (accord.connect(front[0].websocket, token=front[1], protocol=2) for _ in range(2))
    await stop_work(client, later, tmp_path, terminal)


@pytest.mark.parametrize("front", [2], indirect=True)
async def test_in_a_cluster_version_1_gets_the_work_as_text(
    front: tuple[GatewayProcess, str], tmp_path: Path
) -> None:
    connection = accord.connect(front[0].websocket, token=front[1], protocol=1)
    assert "compiled" in await text_of_work(connection, tmp_path)
