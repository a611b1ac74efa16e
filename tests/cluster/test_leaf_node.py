"""A node that dials out to the NATS servers of a cluster, as a laptop behind NAT does."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest
from tests.certificates import Certificate, new_certificate
from tests.cluster.nats_servers import (
    RunningServer,
    documented_permissions,
    jetstream_of,
    nats_server,
)
from tests.cluster.test_many_nodes import prompt_and_answer, running_node, texts
from tests.gateway.breakable_proxy import breakable_proxy
from tests.gateway.gateway_harness import open_session
from tests.patience import PATIENCE

from accord.cluster import server as server_module
from accord.cluster.cluster_access import cluster_report
from accord.cluster.cluster_node import run_node
from accord.cluster.connection import NatsUnavailable
from accord.cluster.settings import ClusterSettings, LeaseTimes
from accord.errors import UsageError

_HUB = """
authorization {
  users: [
    { user: node, password: n }
    { user: laptop, password: l, permissions: %s }
  ]
}
leafnodes { listen: "127.0.0.1:-1", tls { cert_file: "%s", key_file: "%s" } }
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return new_certificate(tmp_path_factory.mktemp("certificate"), "hub")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Generator[RunningServer]:
    more = _HUB % (documented_permissions("laptop"), certificate.file, certificate.key)
    with nats_server(tmp_path_factory.mktemp("hub"), more=more, domain="hub") as server:
        yield server


@pytest.fixture
def leaf(hub: RunningServer, certificate: Certificate, tmp_path: Path) -> ClusterSettings:
    """The settings of the laptop."""
    password = tmp_path / "laptop-password"
    password.write_text("l\n")
    settings = hub.settings(prefix="acc", user="laptop", password_file=str(password), monitors=())
    return msgspec.structs.replace(settings, servers=(hub.leaf_url,), leaf="hub", tls_ca=certificate.file)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))


def hub_settings(hub: RunningServer, tmp_path: Path) -> ClusterSettings:
    password = tmp_path / "node-password"
    password.write_text("n\n")
    return hub.settings(prefix="acc", user="node", password_file=str(password))


async def test_a_laptop_serves_its_sessions_through_the_hub(
    hub: RunningServer, leaf: ClusterSettings, tmp_path: Path
) -> None:
    settings = hub_settings(hub, tmp_path)
    async with (
        running_node(settings, tmp_path, "front") as front,
        running_node(leaf, tmp_path, "laptop") as laptop,
    ):
        assert laptop.node.notes[0] == f"Node laptop of the cluster at {hub.leaf_url}, as a leaf node."
        owner, phone = await laptop.harness.client(), await front.harness.client()
        await open_session(laptop.harness, owner, tmp_path)
        assert await prompt_and_answer(laptop, owner, ["one"]) == ["one"]
        history, _ = await asyncio.wait_for(phone.load("s1", str(tmp_path)), PATIENCE)
        assert texts(history) == ["go", "one"]
        words = [f"{number} " for number in range(100)]
        assert await prompt_and_answer(laptop, phone, words) == words
        entry = front.node.book.index.find("hand", "s1")
        assert entry is not None
        assert (entry.node, entry.stream) == ("laptop", "ACC_LOG_laptop")
        report = await cluster_report(msgspec.structs.replace(leaf, node="laptop"))
        assert {node.node: node.sessions for node in report.nodes} == {"front": 0, "laptop": 1}
        assert "ACC_LOG_laptop" in [stream.name for stream in report.streams]
        with pytest.raises(NatsUnavailable):  # its user may not write to the logs of other nodes
            await laptop.node.streams.jetstream.append("acc.log.00.x", b"", {}, seconds=0.3)


async def test_a_laptop_that_loses_its_hub_gives_up_and_comes_back(
    hub: RunningServer, leaf: ClusterSettings, tmp_path: Path
) -> None:
    times = LeaseTimes(renew=0.2, deadline=1.0, lease=1.5)
    settings = msgspec.structs.replace(hub_settings(hub, tmp_path), prefix="away", times=times)
    async with jetstream_of(settings) as jetstream, breakable_proxy(_port(hub.leaf_url)) as proxy:
        leaf = msgspec.structs.replace(
            leaf,
            servers=(f"nats://127.0.0.1:{proxy.port}",),
            times=times,
            prefix="away",
            user="node",
            password_file=settings.password_file,
        )
        assert jetstream.connection.is_connected
        async with running_node(leaf, tmp_path, "laptop") as laptop:
            client = await laptop.harness.client()
            await open_session(laptop.harness, client, tmp_path)
            assert await prompt_and_answer(laptop, client, ["one"]) == ["one"]
            fenced, revived = asyncio.Event(), asyncio.Event()
            laptop.node.fence.on_fenced = lambda _: fenced.set()
            laptop.node.fence.on_revived = revived.set
            with proxy.broken():
                await asyncio.wait_for(fenced.wait(), PATIENCE)
                assert laptop.node.unready == "this node has no lease"
            await asyncio.wait_for(revived.wait(), PATIENCE)
            assert laptop.node.unready == ""


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"servers": ("nats://127.0.0.1:1",)}, "no hub answers at nats://127.0.0.1:1 .*connection refused"),
        ({"user": "other"}, "the hub at .* rejects this leaf node"),
        ({"tls_ca": None}, "the hub at .* rejects this leaf node .*certificate"),
        ({"leaf": "elsewhere"}, "has the JetStream domain 'hub', and the setting leaf is 'elsewhere'"),
        ({"node": "07"}, "the name '07' of a leaf node needs a letter"),
    ],
    ids=["no hub", "credentials", "certificate", "domain", "name"],
)
async def test_what_a_laptop_cannot_reach_is_one_clear_line(
    leaf: ClusterSettings,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    message: str,
) -> None:
    monkeypatch.setattr(server_module, "CONNECT_SECONDS", 1.0)
    settings = msgspec.structs.replace(leaf, **{"node": "laptop", **changes})
    with pytest.raises(UsageError, match=message) as raised:
        async with run_node(settings, []):
            pass
    assert "\n" not in str(raised.value)
