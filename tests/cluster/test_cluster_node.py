"""One node on JetStream: a gateway with its sessions on a real NATS server."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs
from tests.cluster.nats_servers import RunningServer
from tests.gateway.breakable_proxy import breakable_proxy
from tests.gateway.gateway_harness import gateway_harness, open_session
from tests.patience import PATIENCE

from accord.cli.serve_command import read_arguments
from accord.cluster.cluster_node import run_node
from accord.cluster.placement import MARKER
from accord.cluster.settings import ClusterSettings, LeaseTimes, read_cluster_settings
from accord.errors import UsageError
from accord.gateway.access.audit_log import AuditLog


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))


@pytest.fixture
def audit(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path / "audit.jsonl")


async def test_a_name_is_used_once_on_a_machine(server: RunningServer) -> None:
    settings = server.settings(node="b1")
    async with run_node(settings, ["hand"]) as node:
        assert node.notes[0] == f"Node b1 of the cluster at {server.url}."
        with pytest.raises(UsageError, match="node 'b1' runs already on this machine"):
            async with run_node(settings, ["hand"]):
                pass


@pytest.mark.parametrize("name", ["", "a b", "a.b", "*", ">", "a\n", "x" * 64])
def test_a_name_that_is_no_part_of_a_subject_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a node of a cluster; use letters, digits, - and _"):
        read_cluster_settings({"node": name}, "serve.json")


async def test_different_volumes_of_one_name_are_reported(server: RunningServer, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / MARKER).write_text(folder.name)
    first = server.settings(node="b1", volumes={"team": str(folders[0])})
    async with run_node(first, []):
        second = structs.replace(first, node="b2", volumes={"team": str(folders[1])})
        async with run_node(second, []) as node:
            assert (
                f"Volume team is not the one of node b1 ({folders[1]} with id two, there {folders[0]} "
                "with id one): sessions in it do not move between these nodes."
            ) in node.notes


async def test_the_child_server_keeps_sessions_over_a_restart() -> None:
    settings = ClusterSettings(node="b1", shards=1)
    async with run_node(settings, ["hand"]) as node:
        log = node.book.open_log("hand", "s1", "/project", new=True)
        node.book.commit()
        await node.book.aclose()
        assert log.committed == log.noted
        assert any("One NATS server keeps each record" in note for note in node.notes)
    async with run_node(settings, ["hand"]) as again:
        assert [found.session_id for page in again.book.pages() for found in page] == ["s1"]
        assert await again.book.open_log("hand", "s1", "/project").claim() == []
        await again.book.aclose()


async def test_frames_wait_until_the_servers_answer(
    server: RunningServer, audit: AuditLog, tmp_path: Path
) -> None:
    async with breakable_proxy(server.port) as proxy:
        settings = server.settings(node="b1", servers=(f"nats://127.0.0.1:{proxy.port}",))
        async with (
            run_node(settings, ["hand"]) as node,
            gateway_harness(book=node.book, fence=node.fence, audit=audit) as harness,
        ):
            node.attach(harness.gateway)
            client = await harness.client()
            await open_session(harness, client, tmp_path)
            prompted = client.prompt("s1")
            request = await harness.agent.until_method("session/prompt")
            proxy.cut()  # what the agent says now is shown when it is in the log
            harness.agent.say("s1", "one")
            harness.agent.reply(request, {"stopReason": "end_turn"})
            updates, _ = await asyncio.wait_for(client.updates_until(prompted), PATIENCE)
            assert [update["content"]["text"] for update in updates] == ["one"]
            await node.book.aclose()


async def test_a_node_that_lost_its_lease_closes_its_connections(
    server: RunningServer, audit: AuditLog, tmp_path: Path
) -> None:
    times = LeaseTimes(renew=0.2, deadline=PATIENCE, lease=PATIENCE * 2)
    async with (
        run_node(server.settings(node="b1", times=times), ["hand"]) as node,
        gateway_harness(book=node.book, fence=node.fence, audit=audit) as harness,
    ):
        node.attach(harness.gateway)
        await harness.client()
        assert len(harness.gateway.clients) == 1
        revived = asyncio.Event()
        node.fence.on_revived = revived.set
        incarnation = node.fence.incarnation
        entry = await node.registry.bucket.get("b1")
        assert entry is not None
        assert await node.registry.break_lease("b1", incarnation, 0, node.book.clock)
        await asyncio.wait_for(revived.wait(), PATIENCE)
        assert harness.gateway.clients == []
        assert node.fence.incarnation != incarnation
        await node.book.aclose()


@pytest.mark.parametrize(
    ("words", "servers", "agents"),
    [
        ([], None, ()),
        (["claude", "--cluster"], (), ("claude",)),
        (["--cluster", "claude"], (), ("claude",)),
        (["--cluster=nats://a:1,nats://b:2", "claude"], ("nats://a:1", "nats://b:2"), ("claude",)),
        (["--cluster", "nats://a:1", "claude"], ("nats://a:1",), ("claude",)),
    ],
)
def test_the_option_takes_no_agent_for_an_address(
    words: list[str], servers: tuple[str, ...] | None, agents: tuple[str, ...]
) -> None:
    settings = read_arguments(words).settings
    found = None if settings.cluster is None else tuple(settings.cluster.get("servers", ()))
    assert (found, settings.agents) == (servers, agents)
