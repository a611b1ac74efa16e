"""Three NATS servers and three nodes of a cluster as processes, all on this machine."""

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

from accord.cluster.cluster_access import cluster_access
from accord.cluster.server import find_program
from accord.cluster.settings import ClusterSettings
from accord.errors import AccordError
from accord.gateway.access.access_tokens import new_token
from benchmarks import processes
from benchmarks.gateway.servers import Server

AGENT = Path(__file__).parents[1] / "gateway/stream_agent.py"
LEASE = 6.0
_TIMES = {"renew": 2.0, "deadline": 5.0, "lease": LEASE}
_START_SECONDS = 60.0


class Cluster:
    """The running programs."""

    def __init__(self, folder: Path) -> None:
        self.project: Path = folder / "project"
        self.nats: list[subprocess.Popen[bytes]] = []
        self.settings: ClusterSettings = ClusterSettings()
        self.token: str = ""
        self.folder: Path = folder
        self._profile_ports: list[int] = []
        self._nodes: dict[str, tuple[subprocess.Popen[str], int]] = {}

    async def start(self) -> None:
        """Start the servers; return when their streams exist."""
        self.project.mkdir(parents=True)
        (self.project / ".accord-volume").write_text("v1")
        ports = _free_ports(9)
        self._profile_ports = ports[6:]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports[3:6])
        for number in range(3):
            folder = self.folder / f"s{number}"
            folder.mkdir()
            (folder / "server.conf").write_text(
                f'server_name: s{number}\nlisten: "127.0.0.1:{ports[number]}"\nmax_payload: 1MB\n'
                f"prof_port: {ports[6 + number]}\n"
                f'jetstream {{ store_dir: "{folder}", sync_interval: always }}\n'
                f'cluster {{ name: c, listen: "127.0.0.1:{ports[3 + number]}", routes: [{routes}] }}\n'
            )
            self.nats.append(self._started(number))
        servers = tuple(f"nats://127.0.0.1:{port}" for port in ports[:3])
        self.settings = ClusterSettings(servers=servers, shards=4, log_bytes=512 * 1024 * 1024)
        token, self.token = new_token("bench", now=time.time())
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                async with cluster_access(self.settings) as access:
                    await access.tokens.add(token)
                return
            except AccordError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)

    def _started(self, number: int) -> "subprocess.Popen[bytes]":
        command = [find_program(), "-c", str(self.folder / f"s{number}" / "server.conf")]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def nats_memory(self) -> float:
        """The resident bytes of one NATS server, on average."""
        return sum(processes.read(server.pid).rss for server in self.nats) / len(self.nats)

    def collect_garbage(self) -> None:
        """Let the NATS servers collect their garbage, as each does by itself every two minutes."""
        for port in self._profile_ports * 3:  # buffers in pools are freed by the second collection
            with urlopen(f"http://127.0.0.1:{port}/debug/pprof/heap?gc=1", timeout=60) as answer:
                answer.read()

    def kill_server(self, number: int) -> None:
        self.nats[number].kill()
        self.nats[number].wait()

    def start_server(self, number: int) -> None:
        """Start a server again that was killed."""
        self.nats[number] = self._started(number)

    def start_node(self, name: str) -> Server:
        """Start a node; return when it listens."""
        home = self.folder / f"home-{name}"
        (home / "config").mkdir(parents=True, exist_ok=True)
        cluster = {
            "node": name,
            "servers": self.settings.servers,
            "shards": 4,
            "times": _TIMES,
            "volumes": {"team": str(self.project)},
            "homes": {Path(sys.executable).name: "h1"},
        }
        limits = {"connections": 2000, "sessions": 2000, "totalSessions": 2000, "totalConnections": 4000}
        (home / "config" / "serve.json").write_text(json.dumps({"cluster": cluster, "limits": limits}))
        command = [sys.executable, "-m", "accord.cli", "serve", "--port", "0", "--no-qr", "--stop-wait", "1"]
        running = subprocess.Popen(
            [*command, "--", sys.executable, str(AGENT)],
            env={**os.environ, "ACCORD_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert running.stdout
        port = 0
        for line in running.stdout:
            if "listening on" in line:
                port = int(line.rstrip().rpartition(":")[2])
            if line.startswith("Press Ctrl-C"):
                break
        assert port, f"node {name} did not start"
        self._nodes[name] = running, port
        return self.node(name)

    def node(self, name: str) -> Server:
        running, port = self._nodes[name]
        return Server(port, running.pid, self.token)

    def kill_node(self, name: str) -> None:
        running, _ = self._nodes[name]
        running.send_signal(signal.SIGKILL)
        running.wait()

    def end(self) -> None:
        """End everything."""
        for running, _ in self._nodes.values():
            running.terminate()
        for running, _ in self._nodes.values():
            running.wait()
            assert running.stdout
            running.stdout.close()
        for server in self.nats:
            server.kill()
            server.wait()


@asynccontextmanager
async def running_cluster(folder: Path) -> AsyncGenerator[Cluster]:
    """Run a cluster with the nodes a, b and c for the block."""
    cluster = Cluster(folder)
    try:
        await cluster.start()
        for name in ("a", "b", "c"):
            await asyncio.to_thread(cluster.start_node, name)
        yield cluster
    finally:
        cluster.end()


def _free_ports(count: int) -> list[int]:
    """Ports that nothing uses now, and that no connection gets as its own port."""
    ports: list[int] = []
    with ExitStack() as stack:
        while len(ports) < count:
            one = stack.enter_context(socket.socket())
            try:
                one.bind(("127.0.0.1", random.randrange(10_000, 32_000)))
            except OSError:
                continue  # another process uses it
            ports.append(one.getsockname()[1])
    return ports
