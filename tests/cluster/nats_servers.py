"""Real `nats-server` processes for tests."""

import random
import re
import socket
import subprocess
import threading
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from accord.cluster.connection import NatsConnection, connect
from accord.cluster.jetstream import JetStream
from accord.cluster.server import find_program
from accord.cluster.settings import ClusterSettings

_CONFIG = """
listen: "127.0.0.1:-1"
http: "127.0.0.1:-1"
max_payload: 1MB
write_deadline: "10s"
%s
jetstream { store_dir: "%s", sync_interval: %s%s }
"""
_prefixes = count(1)


@dataclass
class RunningServer:
    """A running server without a password, unless its config has one."""

    process: "subprocess.Popen[str]"
    url: str
    monitor: str
    leaf_url: str = ""
    """Where leaf nodes connect, if the config has a port for them."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def settings(self, **changes: object) -> ClusterSettings:
        """Settings of a set of sessions that no other test uses."""
        values: dict[str, object] = {
            "servers": (self.url,),
            "prefix": f"t{next(_prefixes)}",
            "replicas": 1,
            "shards": 1,
            "log_bytes": 50_000_000,
            "monitors": (self.monitor,),
        }
        return ClusterSettings(**{**values, **changes})  # type: ignore[arg-type]


def documented_permissions(user: str) -> str:
    """The permissions of a NATS user in the page about clusters, as they are in the config of a server."""
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text("utf-8")
    found = re.search(rf"\{{ user: {user}, password: ..., permissions: (\{{.*?\}}) \}}\n", page, re.DOTALL)
    assert found is not None
    return found[1]


@contextmanager
def nats_server(
    folder: Path, *, more: str = "", sync: str = "2m", domain: str = ""
) -> Generator[RunningServer]:
    """Run a server with its data in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "test.conf"
    config.write_text(_CONFIG % (more, folder, sync, f", domain: {domain}" if domain else ""))
    process = subprocess.Popen(
        [find_program(), "-c", str(config)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    reading: threading.Thread | None = None
    try:
        urls: dict[str, str] = {}
        output = ""
        for line in process.stderr:
            output += line
            if found := re.search(r"(http monitor|client connections|leafnode connections) on (\S+)", line):
                urls[found[1]] = found[2]
            if "Server is ready" in line:
                break
        assert "client connections" in urls, output
        # A full pipe would stop the server, and all tests that wait for it.
        reading = threading.Thread(target=deque, args=(process.stderr, 0), daemon=True)
        reading.start()
        yield RunningServer(
            process,
            f"nats://{urls['client connections']}",
            f"http://{urls['http monitor']}",
            f"nats://{urls.get('leafnode connections', '')}",
        )
    finally:
        process.kill()
        process.wait()
        if reading is not None:
            reading.join()
        process.stderr.close()


class NatsCluster:
    """Three servers that can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: tuple[str, ...] = ("s1", "s2", "s3")
        ports = free_ports(6)
        self._ports: dict[str, int] = dict(zip(self._names, ports[:3], strict=True))
        self._routes: dict[str, int] = dict(zip(self._names, ports[3:], strict=True))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def settings(self) -> ClusterSettings:
        servers = tuple(f"nats://127.0.0.1:{port}" for port in self._ports.values())
        return ClusterSettings(servers=servers, shards=1, log_bytes=10_000_000, monitors=())

    def start_all(self) -> None:
        for name in self._names:
            if name not in self._processes:
                self._start(name)

    def _start(self, name: str) -> None:
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes.values())
        (folder / "test.conf").write_text(
            f'server_name: {name}\nlisten: "127.0.0.1:{self._ports[name]}"\nmax_payload: 1MB\n'
            f'jetstream {{ store_dir: "{folder}" }}\n'
            f'cluster {{ name: c, listen: "127.0.0.1:{self._routes[name]}", routes: [{routes}] }}\n'
        )
        self._processes[name] = subprocess.Popen(
            [find_program(), "-c", str(folder / "test.conf")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self, name: str) -> None:
        """Kill a server."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def stop_one_more(self) -> None:
        self.stop(next(iter(self._processes)))

    def stop_all(self) -> None:
        for name in tuple(self._processes):
            self.stop(name)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nothing uses now, and that no connection gets as its own port."""
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


@contextmanager
def nats_cluster(folder: Path) -> Generator[NatsCluster]:
    """Run three servers that know each other, with their data in this folder."""
    cluster = NatsCluster(folder)
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


@asynccontextmanager
async def connected(settings: ClusterSettings, name: str = "n1") -> AsyncGenerator[NatsConnection]:
    """Connect to the servers of the settings for the block."""
    connection = await connect(settings, name)
    try:
        yield connection
    finally:
        await connection.aclose()


@asynccontextmanager
async def jetstream_of(settings: ClusterSettings, name: str = "n1") -> AsyncGenerator[JetStream]:
    """JetStream on a connection of its own."""
    async with connected(settings, name) as connection:
        yield JetStream(connection)
