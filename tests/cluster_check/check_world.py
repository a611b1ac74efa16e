"""The world of a cluster check: three NATS servers and three nodes as processes, with a relay on each way."""

import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Final, Protocol

from tests.cli.agent_process import environment
from tests.cluster.nats_servers import free_ports
from tests.cluster_check.tcp_relay import TcpRelay, tcp_relay
from tests.patience import PATIENCE
from tests.soak.soak_world import descendants

from accord.cluster.cluster_access import cluster_access
from accord.cluster.server import find_program
from accord.cluster.settings import ClusterSettings
from accord.errors import StoreError, UsageError
from accord.gateway.access.access_tokens import new_token

ROOT: Final = Path(__file__).parents[2]
AGENT: Final = Path(__file__).with_name("checked_agent.py")
SHORT_TIMES: Final = {"renew": 0.5, "deadline": 3.0, "lease": 4.0}
SERVERS: Final = ("s1", "s2", "s3")
NODES: Final = ("a", "b", "c")
PREFIX: Final = "check"
_LOG_BYTES: Final = 64 * 1024 * 1024
_HEAL_SECONDS: Final = 120.0
_NOWHERE: Final = "127.0.0.1:1"
"""What servers tell each other as their address, so that they use the relays alone."""


class Program(Protocol):
    """A server or a node that can be killed and started."""

    name: str
    process: "subprocess.Popen[bytes] | None"

    async def start(self) -> None: ...


class NatsServer:
    """One of the three servers."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name: str = name
        self.process: subprocess.Popen[bytes] | None = None
        self.port, self.route_port = free_ports(2)
        self._folder = folder / name
        self._log = folder / f"nats-{name}.log"
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.routes: list[int] = []

    async def start(self) -> None:
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self.routes)
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "server.conf"
        config.write_text(
            f'server_name: {self.name}\nlisten: "127.0.0.1:{self.port}"\nmax_payload: 1MB\n'
            f'max_pending: 64MB\nwrite_deadline: "10s"\nping_interval: "2s"\n'
            f'jetstream {{ store_dir: "{self._folder}", sync_interval: always }}\n'
            f'cluster {{ name: check, listen: "127.0.0.1:{self.route_port}", no_advertise: true, '
            f'advertise: "{_NOWHERE}", routes: [{routes}] }}\n'
        )
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [find_program(), "-c", str(config)], stdin=subprocess.DEVNULL, stderr=log, stdout=log
            )

    def fill_disk(self) -> None:
        """No file of the server can grow."""
        assert self.process is not None
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (1, self._limits[1]))


class CheckedNode:
    """One of the three nodes: `accord serve --cluster` with the scripted agent."""

    def __init__(self, name: str, world: "CheckWorld") -> None:
        self.name: str = name
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.home: Path = world.folder / f"home-{name}"
        self.relays: list[TcpRelay] = []
        self._world = world

    async def start(self) -> None:
        """Start it; return when it listens or has ended."""
        world, folder = self._world, self._world.folder
        servers = [f"nats://127.0.0.1:{relay.port}" for relay in self.relays]
        settings = {**world.cluster, "node": self.name, "servers": servers}
        (self.home / "config").mkdir(parents=True, exist_ok=True)
        (self.home / "config" / "serve.json").write_text(json.dumps({"cluster": settings}))
        output = folder / f"node-{self.name}.out"
        words = ("serve", "--port", "0", "--no-qr", "--stop-wait", "2", "--", sys.executable, str(AGENT))
        node = [sys.executable, "-m", "tests.cluster_check.checked_node", str(folder), self.name, world.bug]
        with output.open("wb") as out, (folder / f"node-{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*node, *words, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                cwd=ROOT,
                env=environment(self.home, PYTHONPATH=f"{ROOT}{os.pathsep}{ROOT / 'src'}"),
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            found = re.search(rb"listening on http://\S+?:(\d+)[^$]*Press Ctrl-C", output.read_bytes())
            if found:
                self.port = int(found[1])
                return
            await asyncio.sleep(0.05)

    @property
    def is_ready(self) -> bool:
        """Whether it serves and has a lease."""
        if self.process is None or self.process.poll() is not None or not self.port:
            return False
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def agents(self) -> list[int]:
        """The process ids of its agents."""
        if self.process is None:
            return []
        return [pid for pid, command in descendants(self.process.pid).items() if AGENT.name in command]


class CheckWorld:
    """All programs of a run, in one folder."""

    def __init__(self, folder: Path, bug: str, times: dict[str, float]) -> None:
        self.folder: Path = folder
        self.bug: str = bug
        self.token = ""
        self.project: Path = folder / "project"
        self.project.mkdir(parents=True)
        (self.project / ".accord-volume").write_text("v1")
        self.servers: dict[str, NatsServer] = {name: NatsServer(name, folder) for name in SERVERS}
        self.routes: dict[str, list[TcpRelay]] = {name: [] for name in SERVERS}
        """By server: the relays between it and the other servers."""
        self.nodes: dict[str, CheckedNode] = {name: CheckedNode(name, self) for name in NODES}
        self.cluster = {
            "prefix": PREFIX,
            "shards": 2,
            "logBytes": _LOG_BYTES,
            "times": times,
            "volumes": {"team": str(self.project)},
            "homes": {Path(sys.executable).name: "h1"},
        }
        self.log_bytes: int = _LOG_BYTES
        self.lease: float = times["lease"]

    @property
    def settings(self) -> ClusterSettings:
        """The way of the check itself to the servers, past the relays."""
        servers = tuple(f"nats://127.0.0.1:{server.port}" for server in self.servers.values())
        return ClusterSettings(servers=servers, prefix=PREFIX, shards=2, log_bytes=_LOG_BYTES)

    @property
    def relays(self) -> list[TcpRelay]:
        between = [relay for relays in self.routes.values() for relay in relays]
        return [*between, *(relay for node in self.nodes.values() for relay in node.relays)]

    async def start(self, stack: AsyncExitStack) -> None:
        """Start everything; return when all nodes serve."""
        for name, other in permutations(SERVERS, 2):
            relay = await stack.enter_async_context(tcp_relay(self.servers[other].route_port))
            self.servers[name].routes.append(relay.port)
            self.routes[name].append(relay)
            self.routes[other].append(relay)
        for node in self.nodes.values():
            for server in self.servers.values():
                node.relays.append(await stack.enter_async_context(tcp_relay(server.port)))
        for server in self.servers.values():
            await server.start()
        token, self.token = new_token("check", now=time.time())
        end = time.monotonic() + PATIENCE
        while True:
            try:
                async with cluster_access(self.settings) as access:
                    await access.tokens.add(token)
                break
            except (UsageError, StoreError):
                ended = [server.name for server in self.servers.values() if not is_running(server.process)]
                if ended or time.monotonic() > end:
                    raise NotHealed(
                        f"the NATS servers do not start (ended: {ended}); see their logs"
                    ) from None
                await asyncio.sleep(0.2)
        await asyncio.gather(*(node.start() for node in self.nodes.values()))

    async def heal(self) -> None:
        """Undo all damage; return when all nodes serve again."""
        for relay in self.relays:
            relay.heal()
        for program in (*self.servers.values(), *self.nodes.values()):
            await self.revive(program)
        end = time.monotonic() + _HEAL_SECONDS
        while True:
            ready = [await asyncio.to_thread(lambda node=node: node.is_ready) for node in self.nodes.values()]
            if all(ready):
                return
            if time.monotonic() > end:
                raise NotHealed(
                    f"nodes are not ready after {_HEAL_SECONDS:g} s: {dict(zip(NODES, ready, strict=True))}"
                )
            for node in self.nodes.values():
                await self.revive(node)
            await asyncio.sleep(0.2)

    async def revive(self, program: Program) -> None:
        """Start a program again if it has ended, and let it run if it was stopped."""
        process = program.process
        if process is not None and is_running(process):
            process.send_signal(signal.SIGCONT)
        else:
            await program.start()

    def end_nodes(self) -> list[str]:
        """End the nodes. Return what was wrong with that."""
        findings: list[str] = []
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
                node.process.terminate()
        for node in self.nodes.values():
            if node.process is None:
                continue
            try:
                code = node.process.wait(60)
                if code != 0:
                    findings.append(f"node {node.name} ended with code {code} after SIGTERM")
            except subprocess.TimeoutExpired:
                findings.append(f"node {node.name} did not end within 60 s of SIGTERM")
                kill_tree(node.process)
        return findings

    def end_servers(self) -> None:
        for server in self.servers.values():
            if server.process is not None:
                kill_tree(server.process)


class NotHealed(Exception):
    """The cluster does not work again although nothing is broken any more."""


def is_running(process: "subprocess.Popen[bytes] | None") -> bool:
    return process is not None and process.poll() is None


def kill_tree(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and all below it."""
    for pid in (*descendants(process.pid), process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


@asynccontextmanager
async def check_world(folder: Path, bug: str, times: dict[str, float]) -> AsyncGenerator[CheckWorld]:
    """Run a world. It is ended here only if the run did not end it."""
    world = CheckWorld(folder, bug, times)
    async with AsyncExitStack() as stack:
        try:
            await world.start(stack)
            yield world
        finally:
            for program in (*world.nodes.values(), *world.servers.values()):
                if program.process is not None and program.process.poll() is None:
                    kill_tree(program.process)
