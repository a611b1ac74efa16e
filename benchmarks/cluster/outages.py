"""What the loss of NATS servers and nodes costs: how long writers are silent, and when nodes give up.

These workloads come last, because they damage the cluster. Each heals what it damages.
"""

import asyncio
import json
import resource
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from itertools import pairwise

from accord.cluster.book import ClusterBook
from accord.cluster.jetstream import with_retries
from accord.cluster.streams import ClusterStreams
from accord.errors import StoreError
from accord.schema import AgentMessageChunk, TextContent
from benchmarks.cluster.servers import Cluster
from benchmarks.cluster.workloads import BenchLease, join, new_session, nothing_is_free, open_streams
from benchmarks.gateway.servers import Server
from benchmarks.gateway.websocket_client import connect
from benchmarks.gateway.workloads import Figures, job

_SECONDS = 15.0
"""How long a server is away, or slow."""
_PIECE = 0.05
_PAUSE = 0.2
"""A slow server runs for so long, and then stands still for so long, as one that waits for its disk."""


class _Writer:
    """Appends a record to one session every 20 ms, and notes when each is acknowledged."""

    def __init__(self, book: ClusterBook) -> None:
        self._log = book.open_log("bench", f"bench-{time.monotonic_ns()}", "/bench", new=True)
        self._book = book
        self._acknowledged: list[float] = []

    @property
    def stream(self) -> str:
        return self._log.stream

    async def write(self, until: asyncio.Event) -> float:
        """Write until the end; return the longest time between two acknowledgments."""
        while not until.is_set():
            self._log.append(AgentMessageChunk(TextContent("x" * 230)))
            self._book.commit()
            self._log.when(self._log.noted, self._note)
            await asyncio.sleep(0.02)
        done = asyncio.Event()
        self._log.when(self._log.noted, lambda _: done.set())
        await done.wait()
        times = self._acknowledged
        return max(later - earlier for earlier, later in pairwise(times))

    def _note(self, error: StoreError | None) -> None:
        assert error is None, error
        self._acknowledged.append(time.monotonic())


async def _leader(streams: ClusterStreams, stream: str) -> int:
    """The number of the server that leads a stream."""
    jetstream = streams.jetstream
    info = json.loads(await with_retries(lambda: jetstream.api(f"STREAM.INFO.{stream}"), jetstream))
    return int(info["cluster"]["leader"].removeprefix("s"))


async def _silence(cluster: Cluster, damage: Callable[[int], None], heal: Callable[[int], None]) -> float:
    """The longest silence of a writer while the leader of its stream is damaged."""
    async with open_streams(cluster) as streams:
        book = ClusterBook(streams, "bench", fence=BenchLease(), may_claim=nothing_is_free)
        await book.start()
        writer, end = _Writer(book), asyncio.Event()
        writing = asyncio.ensure_future(writer.write(end))
        await asyncio.sleep(1)
        leader = await _leader(streams, writer.stream)
        damage(leader)
        await asyncio.sleep(_SECONDS)
        heal(leader)
        end.set()
        silence = await writing
        await book.aclose()
    return silence


async def lost_leader(cluster: Cluster) -> Figures:
    """The server that leads a stream is killed, stands still, is slow, or has a full disk."""
    figures: Figures = {}
    slow: list[asyncio.Task[None]] = []

    async def run_in_pieces(number: int) -> None:
        while True:
            cluster.nats[number].send_signal(signal.SIGSTOP)
            await asyncio.sleep(_PAUSE)
            cluster.nats[number].send_signal(signal.SIGCONT)
            await asyncio.sleep(_PIECE)

    def slow_down(number: int) -> None:
        slow.append(asyncio.ensure_future(run_in_pieces(number)))

    def speed_up(number: int) -> None:
        slow.pop().cancel()
        cluster.nats[number].send_signal(signal.SIGCONT)

    def fill_disk(number: int) -> None:
        pid = cluster.nats[number].pid
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]))

    def restart(number: int) -> None:
        cluster.kill_server(number)
        cluster.start_server(number)

    def stop(number: int) -> None:
        cluster.nats[number].send_signal(signal.SIGSTOP)

    def go_on(number: int) -> None:
        cluster.nats[number].send_signal(signal.SIGCONT)

    damages = {
        "kill -9": (cluster.kill_server, cluster.start_server),
        "SIGSTOP": (stop, go_on),
        "slow disk (runs 20 % of the time)": (slow_down, speed_up),
        "full disk": (fill_disk, restart),
    }
    for name, (damage, heal) in damages.items():
        figures[f"stream leader, {name}: longest silence of a writer, s"] = await _silence(
            cluster, damage, heal
        )
        await _until_working(cluster)
    return figures


async def lost_majority(cluster: Cluster) -> Figures:
    """Two of three servers are killed: when a node gives up, and when it works again."""
    node = cluster.node("c")
    client, name = await new_session(cluster, node)
    running = client.request("session/prompt", sessionId=name, prompt=job(count=100_000, every=0.05))
    await asyncio.sleep(1)
    began = time.perf_counter()
    for number in (0, 1):
        cluster.kill_server(number)
    try:
        await running
    except ConnectionError:
        pass
    gave_up = time.perf_counter() - began
    began = time.perf_counter()
    for number in (0, 1):
        cluster.start_server(number)
    await _until_ready(node)
    ready = time.perf_counter() - began
    await _until_working(cluster)
    return {
        "two of three servers killed: the node ends its connections after, s": gave_up,
        "they are back: the node is ready after, s": ready,
    }


async def lost_front(cluster: Cluster) -> Figures:
    """The node of a client is killed: the client connects to another one and loads its session."""
    owner, front = cluster.node("c"), cluster.node("b")
    client, name = await new_session(cluster, owner)
    await client.call("session/prompt", sessionId=name, prompt=job(count=100))
    watching = await join(cluster, front, name)
    cluster.kill_node("b")
    began = time.perf_counter()
    back = await connect(owner.port, owner.token)
    await back.call("session/load", sessionId=name, cwd=str(cluster.project), mcpServers=[])
    took = time.perf_counter() - began
    for one in (client, watching, back):
        one.close()
    return {"node of the client killed: connected and loaded elsewhere after, ms": took * 1e3}


async def _until_working(cluster: Cluster) -> None:
    """Wait until a node opens sessions again: all streams have a leader."""
    while True:
        await _until_ready(cluster.node("c"))
        try:
            client, _ = await new_session(cluster, cluster.node("c"))
        except (AssertionError, ConnectionError):
            await asyncio.sleep(0.5)
        else:
            client.close()
            return


async def _until_ready(server: Server) -> None:
    while not await asyncio.to_thread(_is_ready, server):
        await asyncio.sleep(0.1)


def _is_ready(server: Server) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/readyz", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False
