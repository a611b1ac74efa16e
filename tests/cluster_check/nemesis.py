"""The damage of a cluster check: kills, stops, cuts, slows and fills, and undoes it after a while."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, Final

import msgspec
from tests.cluster.nats_servers import jetstream_of
from tests.cluster_check.check_world import CheckedNode, CheckWorld, NatsServer
from tests.cluster_check.history import History
from tests.soak.soak_world import descendants

from accord.cluster.jetstream import with_retries
from accord.errors import AccordError

_STOP_SECONDS: Final = 20.0
_LIMIT_SECONDS: Final = 60.0


class Nemesis:
    """Does one kind of damage after the other, each at least once if there is time."""

    def __init__(self, world: CheckWorld, seed: str, only: list[str] | None = None) -> None:
        self._world = world
        self._random = Random(f"{seed}-nemesis")
        self._history = History(world.folder, "nemesis")
        self._kinds = {name: DAMAGES[name] for name in only or DAMAGES}
        self.done: dict[str, int] = dict.fromkeys(self._kinds, 0)

    async def run(self, end: asyncio.Event) -> None:
        """Do damage until the end: to nodes every other time, and sometimes two kinds at once."""
        names = list(self._kinds)
        nodes = [name for name in names if name in TAKEOVERS] or names
        first = self._random.sample(names, len(names))
        for number in count():
            await self._pause(end, self._random.uniform(1, 4))
            if end.is_set():
                break
            if number % 2 == 0:
                chosen = [self._random.choice(nodes)]
            else:
                chosen = [first.pop() if first else self._random.choice(names)]
                if self._random.random() < 0.2:
                    chosen.append(self._random.choice(names))
            await asyncio.gather(*(self._damage(name) for name in chosen))
        self._history.close()

    async def _damage(self, name: str) -> None:
        lease = self._world.lease
        seconds = (
            self._random.choice([self._random.uniform(0.2, 0.7), *[self._random.uniform(1.1, 2.2)] * 2])
            * lease
        )
        self._history.write("damage", name=name, seconds=round(seconds, 2))
        self.done[name] += 1
        try:
            await self._kinds[name](self, seconds)
        except (AccordError, OSError) as error:
            self._history.write("failed", name=name, error=str(error))
        self._history.write("healed", name=name)

    async def _pause(self, end: asyncio.Event, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await end.wait()

    def _node(self) -> CheckedNode:
        """A node, mostly one that has agents at work."""
        nodes = list(self._world.nodes.values())
        busy = [node for node in nodes if node.agents()]
        return self._random.choice(busy if busy and self._random.random() < 0.8 else nodes)

    def _server(self) -> NatsServer:
        return self._random.choice(list(self._world.servers.values()))

    # -- nodes

    async def kill_node(self, seconds: float) -> None:
        """A node is killed; its agents are left to themselves. It starts again later."""
        node = self._node()
        await _kill(node.process)
        await asyncio.sleep(seconds)
        await self._world.revive(node)

    async def restart_node(self, seconds: float) -> None:
        """A node is stopped as for an upgrade, and starts again."""
        node = self._node()
        process = node.process
        _send(process, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                while process is not None and process.poll() is None:
                    await asyncio.sleep(0.05)
        await _kill(process)
        await self._world.revive(node)

    async def pause_node(self, seconds: float) -> None:
        """A node stands still; its agents go on."""
        node = self._node()
        _send(node.process, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        _send(node.process, signal.SIGCONT)

    async def pause_machine(self, seconds: float) -> None:
        """A node stands still with its agents, as when a machine sleeps."""
        node = self._node()
        pids = [] if node.process is None else [node.process.pid, *descendants(node.process.pid)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            if number == signal.SIGSTOP:
                await asyncio.sleep(seconds)

    async def kill_agent(self, seconds: float) -> None:
        """The agent of a node is killed."""
        for pid in self._node().agents():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def cut_node(self, seconds: float) -> None:
        """A node reaches no server: its connections are reset."""
        relays = self._node().relays
        for relay in relays:
            relay.cut()
        await asyncio.sleep(seconds)
        for relay in relays:
            relay.heal()

    async def silence_node(self, seconds: float) -> None:
        """A node and the servers do not hear each other. What was sent meanwhile comes late, or never."""
        await self._hold(self._node(), seconds, there=True, back=True)

    async def deafen_node(self, seconds: float) -> None:
        """A node is heard, and hears nothing."""
        await self._hold(self._node(), seconds, there=False, back=True)

    async def mute_node(self, seconds: float) -> None:
        """A node hears, and is not heard."""
        await self._hold(self._node(), seconds, there=True, back=False)

    async def _hold(self, node: CheckedNode, seconds: float, *, there: bool, back: bool) -> None:
        for relay in node.relays:
            relay.hold(there=there, back=back)
        await asyncio.sleep(seconds)
        late = self._random.random() < 0.5
        for relay in node.relays:
            relay.heal()
            if not late:
                relay.reset()

    async def slow_network(self, seconds: float) -> None:
        """Everything between a node and the servers, and between the servers, takes longer."""
        delay = self._random.choice([0.05, 0.2])
        relays = [*self._node().relays, *self._world.routes[self._server().name]]
        for relay in relays:
            relay.delay = delay
        await asyncio.sleep(seconds)
        for relay in relays:
            relay.delay = 0.0

    # -- servers

    async def kill_server(self, seconds: float) -> None:
        """A NATS server is killed, and starts again later."""
        server = self._server()
        await _kill(server.process)
        await asyncio.sleep(seconds)
        await self._world.revive(server)

    async def kill_majority(self, seconds: float) -> None:
        """Two of three NATS servers are killed, and start again later."""
        servers = self._random.sample(list(self._world.servers.values()), 2)
        for server in servers:
            await _kill(server.process)
        await asyncio.sleep(seconds)
        for server in servers:
            await self._world.revive(server)

    async def pause_server(self, seconds: float) -> None:
        """A NATS server stands still."""
        server = self._server()
        _send(server.process, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        _send(server.process, signal.SIGCONT)

    async def slow_server(self, seconds: float) -> None:
        """A NATS server stands still most of the time, as one that waits for a slow disk."""
        process = self._server().process
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            _send(process, signal.SIGSTOP)
            await asyncio.sleep(0.2)
            _send(process, signal.SIGCONT)
            await asyncio.sleep(0.05)

    async def cut_server(self, seconds: float) -> None:
        """A NATS server does not reach the other two; nodes still reach all three."""
        relays = self._world.routes[self._server().name]
        if self._random.random() < 0.5:
            for relay in relays:
                relay.cut()
        else:
            for relay in relays:
                relay.hold()
        await asyncio.sleep(seconds)
        for relay in relays:
            relay.heal()
            relay.reset()

    async def split(self, seconds: float) -> None:
        """A partition: one server with one node on one side, the rest on the other."""
        place = self._random.randrange(3)
        server, node = list(self._world.servers.values())[place], self._node()
        cut = [*self._world.routes[server.name]]
        for other in self._world.nodes.values():
            for number, relay in enumerate(other.relays):
                if (other is node) != (number == place):
                    cut.append(relay)
        for relay in cut:
            relay.cut()
        await asyncio.sleep(seconds)
        for relay in cut:
            relay.heal()

    async def full_disk(self, seconds: float) -> None:
        """The disk of a NATS server is full. It starts again when there is room."""
        server = self._server()
        if server.process is not None and server.process.poll() is None:
            server.fill_disk()
        await asyncio.sleep(seconds)
        await _kill(server.process)
        await self._world.revive(server)

    async def full_stream(self, seconds: float) -> None:
        """The streams of session logs reach their limit, which is raised later."""
        await self._limit_streams(1000)
        await asyncio.sleep(min(seconds, 4))
        await self._limit_streams(self._world.log_bytes)

    async def _limit_streams(self, limit: int) -> None:
        await limit_streams(self._world, limit)


async def limit_streams(world: CheckWorld, limit: int) -> None:
    """Change `max_bytes` of the streams of session logs."""
    async with jetstream_of(world.settings, "nemesis") as jetstream:
        for shard in ("00", "01"):
            name = f"CHECK_LOG_{shard}"
            info = await with_retries(lambda name=name: jetstream.api(f"STREAM.INFO.{name}"), jetstream)
            config = {**msgspec.json.decode(info)["config"], "max_bytes": limit}
            await with_retries(
                lambda name=name, config=config: jetstream.api(f"STREAM.UPDATE.{name}", config),
                jetstream,
                seconds=_LIMIT_SECONDS,
            )


def _send(process: Any, number: signal.Signals) -> None:
    if process is not None and process.poll() is None:
        process.send_signal(number)


async def _kill(process: Any) -> None:
    _send(process, signal.SIGKILL)
    if process is not None:
        await asyncio.to_thread(process.wait)


Damage = Callable[[Nemesis, float], Awaitable[None]]
DAMAGES: Final[dict[str, Damage]] = {
    "node killed": Nemesis.kill_node,
    "node restarted": Nemesis.restart_node,
    "node paused": Nemesis.pause_node,
    "machine paused": Nemesis.pause_machine,
    "agent killed": Nemesis.kill_agent,
    "node cut off": Nemesis.cut_node,
    "node silent": Nemesis.silence_node,
    "node deaf": Nemesis.deafen_node,
    "node mute": Nemesis.mute_node,
    "network slow": Nemesis.slow_network,
    "server killed": Nemesis.kill_server,
    "majority killed": Nemesis.kill_majority,
    "server paused": Nemesis.pause_server,
    "server slow": Nemesis.slow_server,
    "server cut off": Nemesis.cut_server,
    "partition": Nemesis.split,
    "disk full": Nemesis.full_disk,
    "stream full": Nemesis.full_stream,
}
TAKEOVERS: Final = (
    "node killed",
    "node restarted",
    "node paused",
    "machine paused",
    "node cut off",
    "node silent",
)
"""The damage after which another node takes sessions over."""
