"""Leases: one per node, renewed by compare-and-set, broken only when their owner can no longer act."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec import structs
from tests.cluster.nats_servers import RunningServer, jetstream_of, nats_server
from tests.gateway.breakable_proxy import breakable_proxy
from tests.patience import PATIENCE

from accord.clock import SYSTEM_CLOCK, OwnedTasks
from accord.cluster import nodes as nodes_module
from accord.cluster.nodes import (
    ClusterDirectory,
    NodeEntry,
    NodeLease,
    NodeRegistry,
    boot_time,
    home_id,
    new_incarnation,
)
from accord.cluster.settings import ClusterSettings, LeaseTimes
from accord.cluster.streams import prepare_streams
from accord.errors import UsageError
from accord.gateway.contracts import Fenced
from accord.schema.codec import encode

TIMES = LeaseTimes(renew=0.02, deadline=PATIENCE, lease=PATIENCE * 2)


class Node:
    """One node of a test: its registry, its lease and a clock that the test can put forward."""

    def __init__(self, registry: NodeRegistry, lease: NodeLease, ahead: list[float]) -> None:
        self.registry = registry
        self.lease = lease
        self.ahead = ahead
        self.fenced: asyncio.Queue[str] = asyncio.Queue()
        self.revived = asyncio.Event()
        lease.on_fenced = self.fenced.put_nowait
        lease.on_revived = self.revived.set
        self.directory = ClusterDirectory(registry, lease, SYSTEM_CLOCK, OwnedTasks())


class Nodes:
    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()

    async def add(self, name: str, *, home: str = "", times: LeaseTimes = TIMES) -> Node:
        jetstream = await self._stack.enter_async_context(jetstream_of(self._settings, name))
        streams = await prepare_streams(jetstream, self._settings)
        tasks = OwnedTasks()
        self._stack.push_async_callback(tasks.end)
        ahead = [0.0]

        def now() -> float:
            return boot_time() + ahead[0]

        registry = NodeRegistry(streams, tasks, now)
        await registry.start()
        self._stack.push_async_callback(registry.stop)
        entry = NodeEntry(name, new_incarnation(), home or f"home of {name}", agents=("claude",))
        lease = NodeLease(registry, entry, times, tasks, clock=SYSTEM_CLOCK, now=now)
        return Node(registry, lease, ahead)

    async def aclose(self) -> None:
        await self._stack.aclose()


@pytest.fixture
async def nodes(server: RunningServer) -> AsyncGenerator[Nodes]:
    nodes = Nodes(server.settings())
    yield nodes
    await nodes.aclose()


async def _until(node: Node, is_true: Callable[[], bool]) -> None:
    """Wait until the registry of a node says so."""
    changed = asyncio.Event()
    node.registry.on_change.append(changed.set)
    while not is_true():
        changed.clear()
        await asyncio.wait_for(changed.wait(), PATIENCE)


def test_the_boot_clock_goes_forward() -> None:
    assert boot_time() <= boot_time()


async def test_a_lease_is_renewed_and_seen_by_other_nodes(nodes: Nodes) -> None:
    first, second = await nodes.add("b1"), await nodes.add("b2")
    with pytest.raises(Fenced, match="node b1 has no lease now"):
        first.lease.check()
    await first.lease.start()
    first.lease.check()
    await second.lease.start()
    await _until(second, lambda: (entry := second.registry.find("b1")) is not None and entry.renewal > 2)
    entry = second.registry.find("b1")
    assert entry is not None
    assert entry.agents == ("claude",)
    assert {entry.node for entry in second.registry} == {"b1", "b2"}
    assert not await second.registry.is_gone("b1", first.lease.incarnation)
    assert not await second.registry.break_lease("b1", first.lease.incarnation, 30, SYSTEM_CLOCK)
    await first.lease.release()
    assert await second.registry.is_gone("b1", first.lease.incarnation)


async def test_a_node_that_slept_notices_before_it_acts_and_comes_back_as_another(nodes: Nodes) -> None:
    node = await nodes.add("b1", times=LeaseTimes(renew=PATIENCE, deadline=PATIENCE * 4, lease=PATIENCE * 5))
    await node.lease.start()
    before = node.lease.incarnation
    node.ahead[0] = PATIENCE * 4 + 1
    with pytest.raises(Fenced):
        node.lease.check()
    assert "could not renew its lease" in node.fenced.get_nowait()
    with pytest.raises(Fenced):
        node.lease.check()
    assert node.fenced.empty()
    assert node.lease.incarnation == before


async def test_a_silent_lease_is_broken_and_its_owner_is_fenced(nodes: Nodes) -> None:
    owner = await nodes.add("b1", times=LeaseTimes(renew=0.3, deadline=PATIENCE, lease=PATIENCE * 2))
    other = await nodes.add("b2")
    await owner.lease.start()
    await other.lease.start()
    first = owner.lease.incarnation
    assert await other.registry.break_lease("b1", first, 0.01, SYSTEM_CLOCK)
    assert await other.registry.is_gone("b1", first)
    assert await asyncio.wait_for(owner.fenced.get(), PATIENCE) == "another node took its lease"
    await asyncio.wait_for(owner.revived.wait(), PATIENCE)
    owner.lease.check()
    assert owner.lease.incarnation != first
    assert await other.registry.is_gone("b1", first)
    assert not await other.registry.is_gone("b1", owner.lease.incarnation)


async def test_a_restarted_node_takes_its_key_at_once(nodes: Nodes) -> None:
    first = await nodes.add("b1", home="same folder")
    await first.lease.start()
    again = await nodes.add("b1", home="same folder")
    await again.lease.start()
    again.lease.check()
    assert await again.registry.is_gone("b1", first.lease.incarnation)
    assert await again.directory.may_claim("b1", first.lease.incarnation)


async def test_another_machine_with_the_same_name_is_refused(nodes: Nodes) -> None:
    first = await nodes.add("b1", home="one machine")
    await first.lease.start()
    other = await nodes.add("b1", home="another machine")
    with pytest.raises(UsageError, match="another machine runs node 'b1' of this cluster"):
        await other.lease.start()


async def test_a_copy_of_a_node_on_another_machine_does_not_take_its_lease_back(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after copying the disk of a virtual machine: the two would kill each other's agents for good."""
    errors: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr(nodes_module.LOG, "error", lambda text, *values: errors.put_nowait(text % values))
    first = await nodes.add("b1", home="copied")
    await first.lease.start()
    copy = await nodes.add("b1", home="copied")
    await copy.lease.start()
    assert await asyncio.wait_for(first.fenced.get(), PATIENCE) == "another node took its lease"
    refusal = await asyncio.wait_for(errors.get(), PATIENCE)
    assert refusal.startswith("this node gets no lease: another machine runs node 'b1' of this cluster")
    copy.lease.check()
    assert not first.lease.is_held
    assert not first.revived.is_set()


async def test_sessions_of_a_living_node_are_never_claimed(nodes: Nodes) -> None:
    owner, other = await nodes.add("b1"), await nodes.add("b2")
    await owner.lease.start()
    await other.lease.start()
    assert not await other.directory.may_claim("b1", owner.lease.incarnation)
    assert await other.directory.may_claim("b1", "an earlier incarnation")
    assert await other.directory.may_claim("a node that never was", "x")


async def test_a_damaged_entry_of_the_registry_is_ignored(nodes: Nodes) -> None:
    node = await nodes.add("b1")
    await node.lease.start()
    await node.registry.bucket.put("b9", b"[", 0)
    await node.registry.bucket.put("b8", encode({"node": "b8", "incarnation": "x"}), 0)
    await _until(node, lambda: node.registry.find("b8") is not None)
    assert node.registry.find("b9") is None


def test_a_data_folder_has_one_id(tmp_path: Path) -> None:
    assert home_id(tmp_path) == home_id(tmp_path)
    assert len(home_id(tmp_path)) == 16


async def test_a_renewal_whose_answer_was_lost_counts_from_its_first_attempt(server: RunningServer) -> None:
    """Other nodes count from when it was stored: a longer lease could overlap with the next one."""
    times = LeaseTimes(renew=PATIENCE, deadline=PATIENCE * 4, lease=PATIENCE * 5)
    settings = server.settings()
    async with breakable_proxy(server.port) as proxy:
        through = Nodes(structs.replace(settings, servers=(f"nats://127.0.0.1:{proxy.port}",)))
        nodes = Nodes(settings)
        owner, other = await through.add("b1", times=times), await nodes.add("b2", times=times)
        await owner.lease.start()
        with proxy.holding("down"):
            changing = asyncio.ensure_future(owner.lease.change(draining=True))
            await _until(other, lambda: (entry := other.registry.find("b1")) is not None and entry.draining)
            owner.ahead[0] = PATIENCE * 2
        with proxy.broken():  # what was held back never arrives
            pass
        await asyncio.wait_for(changing, PATIENCE)
        assert owner.lease.is_held
        assert owner.lease.age >= PATIENCE * 2
        await through.aclose()
        await nodes.aclose()


async def test_a_node_gives_up_in_time_while_a_renewal_is_not_answered(tmp_path: Path) -> None:
    """Before another node may take over, which waits for the whole lease."""
    times = LeaseTimes(renew=0.1, deadline=0.5, lease=4.5)
    with nats_server(tmp_path) as server:
        nodes = Nodes(server.settings())
        node = await nodes.add("n1", times=times)
        await node.lease.start()
        server.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.wait_for(node.fenced.get(), PATIENCE)
            assert node.lease.age < times.lease
        finally:
            server.process.send_signal(signal.SIGCONT)
        await nodes.aclose()
