"""Nodes as real processes: `accord serve --cluster` several times on one NATS server."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets
from tests.cli.serve.gateway_process import GatewayProcess, running_gateway
from tests.cluster.nats_servers import RunningServer
from tests.gateway.test_gateway_faults import is_alive
from tests.patience import PATIENCE

import accord
from accord.cli import main
from accord.cluster.cluster_access import cluster_access
from accord.errors import ConnectionClosed, RpcError
from accord.gateway.access.access_tokens import new_token

AGENT = str(Path(__file__).with_name("stored_agent.py"))
TIMES = {"renew": 0.5, "deadline": 5.0, "lease": 6.0}


@contextmanager
def node(
    server: RunningServer, home: Path, prefix: str, name: str, **cluster: Any
) -> Generator[GatewayProcess]:
    """One node with the stored agent."""
    settings = {
        "prefix": prefix,
        "replicas": 1,
        "shards": 1,
        "logBytes": 50_000_000,
        "monitors": [server.monitor],
        "times": TIMES,
        **cluster,
    }
    config = home / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "serve.json").write_text(json.dumps({"cluster": settings}))
    agent = () if cluster.get("front") else ("--", sys.executable, AGENT)
    words = (f"--cluster={server.url}", "--node", name, *agent)
    with running_gateway(home, *words) as running:
        yield running


async def new_shared_token(server: RunningServer, prefix: str) -> str:
    """The text of a token that all nodes accept."""
    token, text = new_token("test", now=time.time())
    async with cluster_access(server.settings(prefix=prefix)) as access:
        await access.tokens.add(token)
    return text


@asynccontextmanager
async def client(node: GatewayProcess, token: str, **more: Any) -> AsyncGenerator[Any]:
    async with accord.connect(node.websocket, token=token, **more) as agent:
        yield agent


async def test_clients_of_two_nodes_share_a_session(server: RunningServer, tmp_path: Path) -> None:
    home, prefix = tmp_path / "home", server.settings().prefix
    token = await new_shared_token(server, prefix)
    with node(server, home, prefix, "a") as a, node(server, home, prefix, "b") as b:
        assert f"Node a of the cluster at {server.url}." in a.output
        async with client(a, token) as at_a, client(b, token) as at_b:
            first = await at_a.new_session(tmp_path)
            await first.ask("count 3")
            second = await at_b.load_session(first.id, tmp_path)
            answer = await second.ask("count 500")
            assert answer.text == "".join(f"{number} " for number in range(500))
            assert (await first.ask("count 1")).text == "0 "
        async with client(a, token) as at_a, client(b, token) as at_b:  # each reads the whole log
            for agent in (at_a, at_b):
                loaded = await agent.load_session(first.id, tmp_path)
                texts = [message.text for message in loaded.state.messages]
                assert texts == ["count 3", "0 1 2 ", "count 500", answer.text, "count 1", "0 "]
        await _answer_elsewhere_after_a_front_was_killed(a, b, token, first.id, tmp_path)


async def _answer_elsewhere_after_a_front_was_killed(
    a: GatewayProcess, b: GatewayProcess, token: str, session_id: str, folder: Path
) -> None:
    """The turn and its question outlast the node of the client that began it."""
    calls: dict[str, dict[str, Any]] = {
        "initialize": {"protocolVersion": 1},
        "session/load": {"sessionId": session_id, "cwd": str(folder), "mcpServers": []},
        "session/prompt": {"sessionId": session_id, "prompt": [{"type": "text", "text": "ask"}]},
    }
    bearer = {"Authorization": f"Bearer {token}"}
    async with websockets.connect(b.websocket, additional_headers=bearer, proxy=None) as socket:
        for number, (method, params) in enumerate(calls.items()):
            call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            await socket.send(json.dumps(call))
        async with asyncio.timeout(PATIENCE):
            while json.loads(await socket.recv()).get("method") != "session/request_permission":
                pass
        b.signal(signal.SIGKILL)

    async def allow(request: accord.PermissionRequest) -> str:
        return request.options[0].option_id

    async with (
        client(a, token, handlers=accord.ClientHandlers(permissions=allow)) as at_a,
        asyncio.timeout(PATIENCE),
    ):
        loaded = await at_a.load_session(session_id, folder)
        events = loaded.events()
        while loaded.state.messages[-1].text != "allowed":
            await anext(events)


async def list_sessions(at: GatewayProcess, project: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `accord sessions --url` prints, without the time."""
    words = ["sessions", "--url", at.websocket, "--cwd", str(project)]
    assert await asyncio.to_thread(main, words) == 0
    id, _, _, *title = capsys.readouterr().out.split()
    return " ".join([id, *title])


async def test_another_node_goes_on_when_the_owner_is_killed(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, prefix, project = tmp_path / "home", server.settings().prefix, tmp_path / "project"
    project.mkdir()
    (project / ".accord-volume").write_text("v1")
    shared = {"volumes": {"team": str(project)}, "homes": {Path(sys.executable).name: "h1"}}
    token = await new_shared_token(server, prefix)
    with node(server, home, prefix, "b", **shared) as b, node(server, home, prefix, "a", **shared) as a:
        async with client(b, token) as at_b:
            async with client(a, token) as at_a:
                first = await at_a.new_session(project)
                await first.ask("count 3")
            session = await at_b.load_session(first.id, project)

            async def kill_the_owner_during_a_turn() -> None:
                async for event in session.prompt("wait"):
                    if "waiting" in str(event):
                        a.signal(signal.SIGKILL)

            assert session.state.node == "a"
            with pytest.raises(RpcError, match="node a of the session does not answer: it does not run"):
                await kill_the_owner_during_a_turn()
            monkeypatch.setenv("ACCORD_HOME", str(home))
            monkeypatch.setenv("ACCORD_TOKEN", token)
            async with asyncio.timeout(PATIENCE):
                while not (await list_sessions(b, project, capsys)).endswith("(at a, which does not run)"):
                    pass
            answer = await session.ask("count 3")
            assert answer.text == "0 1 2 "
            assert session.state.node == "b"
            notices = [notice.title for notice in session.state.notices]
            assert notices == [
                "Node a does not answer",
                "Waiting for the lease of node a",
                "Moved to b; the turn was interrupted.",
            ]
            texts = [message.text for message in session.state.messages]
            assert texts == ["count 3", "0 1 2 ", "wait", "waiting", "count 3", "0 1 2 "]


async def test_a_paused_node_kills_its_agents_when_it_wakes(server: RunningServer, tmp_path: Path) -> None:
    home, prefix, project = tmp_path / "home", server.settings().prefix, tmp_path / "project"
    project.mkdir()
    (project / ".accord-volume").write_text("v1")
    shared = {"volumes": {"team": str(project)}, "homes": {Path(sys.executable).name: "h1"}}
    token = await new_shared_token(server, prefix)
    with node(server, home, prefix, "b", **shared) as b, node(server, home, prefix, "a", **shared) as a:
        notices: list[str] = []
        options = accord.ClientOptions(on_notice=lambda _, notice: notices.append(notice.title))
        async with client(b, token, options=options) as at_b, client(a, token) as at_a:
            first = await at_a.new_session(project)
            old_agent = int((await first.ask("pid")).text)
            turn = asyncio.ensure_future(first.ask("wait"))
            a.signal(signal.SIGSTOP)
            session = await at_b.load_session(first.id, project)
            assert notices == ["Waiting for the lease of node a"]
            assert (await session.ask("count 3")).text == "0 1 2 "
            a.signal(signal.SIGCONT)
            with pytest.raises((ConnectionClosed, RpcError)):
                await turn
            a.wait_for("gives its sessions up")
            await asyncio.to_thread(wait_until_gone, old_agent)
            assert (await session.ask("count 1")).text == "0 "


async def test_clients_of_a_front_go_on_when_a_node_with_agents_is_killed(
    server: RunningServer, tmp_path: Path
) -> None:
    home, prefix, project = tmp_path / "home", server.settings().prefix, tmp_path / "project"
    project.mkdir()
    (project / ".accord-volume").write_text("v1")
    shared = {"volumes": {"team": str(project)}, "homes": {Path(sys.executable).name: "h1"}}
    token = await new_shared_token(server, prefix)
    with node(server, home, prefix, "b", **shared), node(server, home, prefix, "f", front=True) as front:
        assert "Agents: those of the other nodes" in front.output
        async with client(front, token) as at_front:
            with node(server, home, prefix, "a", **shared) as a:
                session = await at_front.new_session(project)  # at a, the first of equals
                first = await session.ask("pid")
                a.signal(signal.SIGKILL)
                with pytest.raises(RpcError, match="the prompt was perhaps not received"):
                    await session.ask("lost")
            answer = await session.ask("pid")
            assert answer.text != first.text


async def test_two_nodes_are_restarted_one_after_the_other_and_no_session_is_lost(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, prefix, project = tmp_path / "home", server.settings().prefix, tmp_path / "project"
    project.mkdir()
    (project / ".accord-volume").write_text("v1")
    shared = {"volumes": {"team": str(project)}, "homes": {Path(sys.executable).name: "h1"}}
    shared["times"] = {}  # the usual ones: no node may look lost because the machine is busy
    token = await new_shared_token(server, prefix)
    monkeypatch.setenv("ACCORD_HOME", str(home))

    async def drain(name: str) -> str:
        assert await asyncio.to_thread(main, ["cluster", "drain", name, "--cluster", server.url]) == 0
        return capsys.readouterr().out

    monkeypatch.setenv("ACCORD_TOKEN", token)
    with node(server, home, prefix, "b", **shared) as b:
        async with client(b, token) as at_b:
            with node(server, home, prefix, "a", **shared) as a:
                async with client(a, token) as at_a:
                    first = await at_a.new_session(project)
                    await first.ask("count 3")
                session = await at_b.load_session(first.id, project)
                assert await list_sessions(b, project, capsys) == f"{first.id} count 3 (at a)"
                assert "Node a has given its sessions up" in await drain("a")
                a.signal(signal.SIGTERM)
                a.wait_for("the gateway has stopped")
            assert (await session.ask("count 2")).text == "0 1 "  # at b, without waiting for a lease
        with node(server, home, prefix, "a", **shared) as a:
            assert "Node b has given its sessions up" in await drain("b")
            b.signal(signal.SIGTERM)
            b.wait_for("the gateway has stopped")
            async with client(a, token) as at_a:
                session = await at_a.load_session(first.id, project)
                assert (await session.ask("count 1")).text == "0 "
                texts = [message.text for message in session.state.messages]
                assert texts == ["count 3", "0 1 2 ", "count 2", "0 1 ", "count 1", "0 "]


def wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while is_alive(process):
        assert time.monotonic() < deadline
        time.sleep(0.01)
