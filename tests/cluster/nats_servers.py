"""Real `nats-server` processes for tests."""

import re
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
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
jetstream { store_dir: "%s", sync_interval: %s }
"""
_prefixes = count(1)


@dataclass
class RunningServer:
    """A running server without a password, unless its config has one."""

    process: "subprocess.Popen[str]"
    url: str
    monitor: str

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


@contextmanager
def nats_server(folder: Path, *, more: str = "", sync: str = "2m") -> Generator[RunningServer]:
    """Run a server with its data in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "test.conf"
    config.write_text(_CONFIG % (more, folder, sync))
    process = subprocess.Popen(
        [find_program(), "-c", str(config)], stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    )
    assert process.stderr is not None
    try:
        urls: dict[str, str] = {}
        output = ""
        for line in process.stderr:
            output += line
            if found := re.search(r"(http monitor|client connections) on (\S+)", line):
                urls[found[1]] = found[2]
            if "Server is ready" in line:
                break
        assert "client connections" in urls, output
        yield RunningServer(process, f"nats://{urls['client connections']}", f"http://{urls['http monitor']}")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


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
