"""Tokens, browser logins and tickets in buckets: the contracts, and what only several nodes can show."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.cluster.nats_servers import RunningServer, jetstream_of, nats_server
from tests.gateway.access.access_contract import CHECKS, AccessNode
from tests.patience import PATIENCE

from accord.clock import OwnedTasks
from accord.cluster.settings import ClusterSettings
from accord.cluster.shared_access import ClusterBrowsers, ClusterTokens, SharedAccess, shared_access
from accord.cluster.shared_devices import ClusterPushDevices
from accord.cluster.streams import ClusterStreams, prepare_streams
from accord.gateway.access.access_tokens import new_token
from accord.gateway.access.request_origin import RequestRefused


class NatsBackend:
    """Every node has a connection and copies of its own."""

    def __init__(self, settings: ClusterSettings, stack: AsyncExitStack) -> None:
        self._settings = settings
        self._stack = stack
        self._nodes: list[AccessNode] = []
        self._tasks = OwnedTasks()
        self._time = 1_800_000_000.0
        self._streams: ClusterStreams | None = None

    async def open(self) -> AccessNode:
        name = f"n{len(self._nodes)}"
        jetstream = await self._stack.enter_async_context(jetstream_of(self._settings, name))
        self._streams = streams = await prepare_streams(jetstream, self._settings)
        self._stack.push_async_callback(self._tasks.end)
        access = SharedAccess(streams, self._tasks, now=self.now)
        for part in (access.tokens, access.browsers, access.devices):
            await part.start()
            self._stack.push_async_callback(part.stop)
        self._nodes.append(AccessNode(access.tokens, access.browsers, access.tickets, access.devices))
        return self._nodes[-1]

    async def settle(self) -> None:
        await self._tasks.wait()
        for node in self._nodes:
            assert isinstance(node.tokens, ClusterTokens)
            assert isinstance(node.browsers, ClusterBrowsers)
            await node.tokens.refresh()
            assert isinstance(node.devices, ClusterPushDevices)
            await node.browsers.refresh()
            await node.devices.refresh()

    async def advance(self, seconds: float) -> None:
        self._time += seconds
        if seconds >= 30 and self._streams is not None:  # as the server does it by the bucket's max_age
            await self._streams.jetstream.purge(self._streams.bucket("tickets").stream, "$KV.>")

    def now(self) -> float:
        return self._time


@pytest.fixture
async def backend(server: RunningServer) -> AsyncGenerator[NatsBackend]:
    async with AsyncExitStack() as stack:
        yield NatsBackend(server.settings(), stack)


@pytest.mark.parametrize("check", CHECKS)
async def test_contract(check: str, backend: NatsBackend) -> None:
    await CHECKS[check](backend)


async def test_a_revocation_reaches_other_nodes_by_itself(backend: NatsBackend) -> None:
    one, two = await backend.open(), await backend.open()
    assert isinstance(two.tokens, ClusterTokens)
    changed = asyncio.Event()
    two.tokens.on_change.append(changed.set)
    token, text = new_token("phone", now=backend.now())
    await one.tokens.add(token)
    await asyncio.wait_for(changed.wait(), PATIENCE)
    assert two.tokens.find(text) == token
    changed.clear()
    await one.tokens.remove(token.id)
    await asyncio.wait_for(changed.wait(), PATIENCE)
    assert two.tokens.find(text) is None


async def test_a_ticket_is_redeemed_once_by_two_nodes_at_once(backend: NatsBackend) -> None:
    one, two = await backend.open(), await backend.open()
    token, text = new_token(now=backend.now())
    await one.tokens.add(token)
    for _ in range(5):
        ticket = await one.tickets.issue(token.id, None, text)
        answers = await asyncio.gather(one.tickets.redeem(ticket), two.tickets.redeem(ticket))
        assert sorted(answers, key=str) == [None, (token.id, text)]


async def test_a_cookie_of_another_node_is_found_before_the_change_arrives(backend: NatsBackend) -> None:
    one, two = await backend.open(), await backend.open()
    token, text = new_token(now=backend.now())
    await one.tokens.add(token)
    await backend.settle()
    cookie = await one.browsers.log_in(token.id, text)
    assert await two.browsers.find(cookie) == token.id
    assert await two.browsers.find("unknown") is None


async def test_without_servers_no_request_is_authenticated(tmp_path: Path) -> None:
    lost = asyncio.Event()
    with nats_server(tmp_path) as server:
        settings = server.settings()
        async with jetstream_of(settings) as jetstream:
            jetstream.connection.on_change.append(lambda connected: None if connected else lost.set())
            streams = await prepare_streams(jetstream, settings)
            async with shared_access(streams, patience=0.0) as access:
                access.tokens.require_current()
                assert access.tokens.is_current
                server.process.kill()
                await asyncio.wait_for(lost.wait(), PATIENCE)
                with pytest.raises(RequestRefused, match="no connection to its NATS servers"):
                    access.tokens.require_current()
                assert not access.tokens.is_current
