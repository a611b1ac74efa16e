"""The workloads: yardsticks, appends, the way to a client, catching up, a thousand clients, memory, takeover.

Each returns figures by name. The takeover comes last, because it ends a node.
"""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from accord.cluster import connection as nats
from accord.cluster.book import ClusterBook
from accord.cluster.jetstream import EXPECTED, JetStream
from accord.cluster.log_message import HEADER, encode_commit, new_log_id
from accord.cluster.log_reader import ClusterLogReader
from accord.cluster.streams import ClusterStreams, prepare_streams
from accord.errors import StoreError
from accord.schema import AgentMessageChunk, TextContent
from accord.store.records import EVENT, event_payload
from benchmarks import processes
from benchmarks.cluster.servers import LEASE, Cluster
from benchmarks.gateway.servers import Server
from benchmarks.gateway.websocket_client import WebSocketClient, connect
from benchmarks.gateway.workloads import Figures, job

_RECORDS = 10_000


def percentile(values: list[float], percent: int) -> float:
    """A percentile of some seconds, in milliseconds."""
    return sorted(values)[min(len(values) * percent // 100, len(values) - 1)] * 1e3


class BenchLease:
    """The lease of a benchmark never ends."""

    incarnation = "bench"

    def check(self) -> None: ...


async def nothing_is_free(node: str, incarnation: str) -> bool:
    return False


@asynccontextmanager
async def open_streams(cluster: Cluster) -> AsyncGenerator[ClusterStreams]:
    connection = await nats.connect(cluster.settings, "bench")
    try:
        yield await prepare_streams(JetStream(connection), cluster.settings)
    finally:
        await connection.aclose()


async def _timed(count: int, work: Callable[[int], Awaitable[object]]) -> list[float]:
    times: list[float] = []
    for number in range(count):
        began = time.perf_counter()
        await work(number)
        times.append(time.perf_counter() - began)
    return times


async def appends(cluster: Cluster) -> Figures:
    """One append after the other with an expected sequence, beside the yardsticks of this machine."""
    figures: Figures = {}
    async with open_streams(cluster) as streams:
        jetstream, connection = streams.jetstream, streams.jetstream.connection

        async def echo(message: nats.NatsMessage) -> None:
            await connection.publish(message.reply, message.data)

        pending: set[asyncio.Task[None]] = set()

        def on_request(message: nats.NatsMessage) -> None:
            task = asyncio.ensure_future(echo(message))
            pending.add(task)
            task.add_done_callback(pending.discard)

        await connection.subscribe("bench.echo", on_request)
        await connection.flush()
        core = await _timed(300, lambda _: connection.request("bench.echo", b"x" * 1024))
        figures["core request and reply of 1 KB, p50 ms"] = percentile(core, 50)
        figures["fdatasync of 1 KB, p50 ms"] = percentile(_syncs(cluster.project), 50)
        figures["SQLite commit (FULL) of 1 KB, p50 ms"] = percentile(_commits(cluster.project), 50)
        for name, size, count in (("1 KB", 1024, 300), ("64 KB", 65_536, 100)):
            subject, last = streams.names.log_subject("00", new_log_id()), 0
            times: list[float] = []
            for _ in range(count):
                began = time.perf_counter()
                last = await jetstream.append(subject, b"x" * size, {EXPECTED: str(last)})
                times.append(time.perf_counter() - began)
            await jetstream.purge(streams.names.log_stream("00"), subject)
            figures[f"append {name}, p50 ms"] = percentile(times, 50)
            figures[f"append {name}, p99 ms"] = percentile(times, 99)
    ratio = figures["append 1 KB, p50 ms"] / figures["core request and reply of 1 KB, p50 ms"]
    figures["append 1 KB relative to core request and reply, times"] = ratio
    return figures


def _syncs(folder: Path) -> list[float]:
    times: list[float] = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(100):
            began = time.perf_counter()
            file.write(b"x" * 1024)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return times


def _commits(folder: Path) -> list[float]:
    times: list[float] = []
    database = sqlite3.connect(folder / "sync.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE t (data BLOB)")
    for _ in range(100):
        began = time.perf_counter()
        database.execute("INSERT INTO t VALUES (?)", (b"x" * 1024,))
        times.append(time.perf_counter() - began)
    database.close()
    return times


async def group_commit(cluster: Cluster) -> Figures:
    """One session gets 2,000 records of 300 bytes a second: from each record to its acknowledgment."""
    rate, seconds, batch = 2000, 4, 10
    times: list[float] = []
    async with open_streams(cluster) as streams:
        book = ClusterBook(streams, "bench", fence=BenchLease(), may_claim=nothing_is_free)
        await book.start()
        log = book.open_log("bench", "bench-group", "/bench", new=True)
        done = asyncio.Event()

        def note(number: int) -> None:
            began = time.perf_counter()

            def on_commit(error: StoreError | None) -> None:
                assert error is None
                times.append(time.perf_counter() - began)
                if len(times) == rate * seconds // batch:
                    done.set()

            log.when(number, on_commit)

        began = time.perf_counter()
        appended = streams.jetstream.append_counts.appends
        for number in range(rate * seconds // batch):
            for _ in range(batch):
                log.append(AgentMessageChunk(TextContent("x" * 230)))
            book.commit()
            note(log.noted)
            await asyncio.sleep(max(began + (number + 1) * batch / rate - time.perf_counter(), 0))
        await done.wait()
        took = time.perf_counter() - began
        commits = streams.jetstream.append_counts.appends - appended
        await book.delete("bench", "bench-group")
        await book.aclose()
    return {
        "2,000 records/s in one session: record to ack, p50 ms": percentile(times, 50),
        "2,000 records/s in one session: record to ack, p99 ms": percentile(times, 99),
        "2,000 records/s in one session: commits per second": commits / took,
    }


async def new_session(cluster: Cluster, server: Server) -> tuple[WebSocketClient, str]:
    client = await connect(server.port, server.token)
    opened = await client.call("session/new", cwd=str(cluster.project), mcpServers=[])
    return client, opened["sessionId"]


async def join(cluster: Cluster, server: Server, name: str) -> WebSocketClient:
    client = await connect(server.port, server.token)
    await client.call("session/resume", sessionId=name, cwd=str(cluster.project), mcpServers=[])
    return client


def _watch(client: WebSocketClient, lags: list[float]) -> None:
    def watch(frame: bytes) -> None:
        at = frame.find(b'"text":"') if b"agent_message_chunk" in frame else -1
        if at > 0:
            lags.append((time.monotonic_ns() - int(frame[at + 8 : at + 48])) / 1e9)

    client.watch = watch


async def to_clients(cluster: Cluster) -> Figures:
    """From the agent to a client of the owner, and to a client of another node, at 20 updates a second."""
    rate, seconds = 20, 5
    client, name = await new_session(cluster, cluster.node("a"))
    other = await join(cluster, cluster.node("b"), name)
    near: list[float] = []
    far: list[float] = []
    _watch(client, near)
    _watch(other, far)
    await client.call("session/prompt", sessionId=name, prompt=job(count=rate * seconds, every=1 / rate))
    while len(far) < rate * seconds:
        await asyncio.sleep(0.01)
    for one in (client, other):
        one.close()
    return {
        "agent to a client of the owner, p50 ms": percentile(near, 50),
        "agent to a client of the owner, p99 ms": percentile(near, 99),
        "agent to a client of another node, p50 ms": percentile(far, 50),
        "agent to a client of another node, p99 ms": percentile(far, 99),
    }


async def _until_stored(streams: ClusterStreams, stream: str, count: int) -> None:
    while True:
        info = json.loads(await streams.jetstream.api(f"STREAM.INFO.{stream}"))
        if info["state"]["messages"] >= count:
            return
        await asyncio.sleep(0.02)


async def catch_up(cluster: Cluster) -> Figures:
    """Read 10,000 records: one and 20 a message, and with `session/load` at another node."""
    figures: Figures = {}
    async with open_streams(cluster) as streams:
        for each in (1, 20):
            log_id = new_log_id()
            address = streams.address(streams.names.log_stream("01"), log_id)
            payload = event_payload(AgentMessageChunk(TextContent("x" * 40)))
            for first in range(1, _RECORDS + 1, 1000):
                messages = [
                    message
                    for number in range(first, first + 1000, each)
                    for message in encode_commit(1, number, "bench:bench", [(EVENT, payload)] * each, 0)
                ]
                for head, body in messages:
                    await streams.jetstream.connection.publish(address.subject, body, **{HEADER: head.text})
                await _until_stored(streams, address.stream, (first + 999) // each)
            began = time.perf_counter()
            reader = ClusterLogReader(streams.jetstream, address, lambda: None)
            await reader.read_state()
            took = time.perf_counter() - began
            assert reader.last == _RECORDS
            await streams.jetstream.purge(address.stream, address.subject)
            kind = "one a message" if each == 1 else f"{each} a message"
            figures[f"read 10,000 records, {kind}, ms"] = took * 1e3
    client, name = await new_session(cluster, cluster.node("a"))
    for _ in range(100):  # 100 turns, so that the history is not one long message
        await client.call("session/prompt", sessionId=name, prompt=job(count=100))
    back = await connect(cluster.node("b").port, cluster.token)
    first_update: list[float] = []

    def watch(_frame: bytes) -> None:
        if not first_update:
            first_update.append(time.perf_counter())

    back.watch = watch
    began = time.perf_counter()
    await back.call("session/load", sessionId=name, cwd=str(cluster.project), mcpServers=[])
    figures["load 10,000 updates at another node: first update, ms"] = (first_update[0] - began) * 1e3
    figures["load 10,000 updates at another node: response, ms"] = (time.perf_counter() - began) * 1e3
    for one in (client, back):
        one.close()
    return figures


async def crowd(cluster: Cluster) -> Figures:
    """1,000 clients over three nodes: 20 sessions at 20 updates a second, each with 50 clients."""
    sessions, watching, rate, seconds = 20, 50, 20, 5
    lags: list[float] = []
    nodes = [cluster.node(name) for name in ("a", "b", "c")]
    clients: list[WebSocketClient] = []
    prompting: list[tuple[WebSocketClient, str]] = []
    for _ in range(sessions):
        first, name = await new_session(cluster, nodes[0])
        prompting.append((first, name))
        clients += [first, *[await join(cluster, nodes[n % 3], name) for n in range(watching - 1)]]
    for client in clients:
        _watch(client, lags)
    cpu, began = sum(processes.read(node.pid).cpu for node in nodes), time.perf_counter()
    await asyncio.gather(
        *(
            client.request("session/prompt", sessionId=name, prompt=job(count=rate * seconds, every=1 / rate))
            for client, name in prompting
        )
    )
    wanted = sessions * rate * seconds * watching
    while len(lags) < wanted:
        await asyncio.sleep(0.02)
    took = time.perf_counter() - began
    used = sum(processes.read(node.pid).cpu for node in nodes) - cpu
    for client in clients:
        client.close()
    return {
        "1,000 clients over three nodes: frames per second": wanted / took,
        "1,000 clients over three nodes: p50 lag, ms": percentile(lags, 50),
        "1,000 clients over three nodes: p99 lag, ms": percentile(lags, 99),
        "1,000 clients over three nodes: CPU of the nodes, cores": used / took,
    }


async def memory(cluster: Cluster) -> Figures:
    """The memory of an idle session: with one client at its owner, and one of 20,000 at a NATS server."""
    count = 200
    owner = cluster.node("a")
    clients = [(await new_session(cluster, owner))[0]]
    await asyncio.sleep(1)
    before = processes.read(owner.pid).rss
    clients += [(await new_session(cluster, owner))[0] for _ in range(count)]
    after = processes.read(owner.pid).rss
    for client in clients:
        client.close()
    sessions, subjects = await asyncio.gather(
        _nats_memory(cluster.folder / "sessions", _store_sessions),
        _nats_memory(cluster.folder / "subjects", _store_subjects),
    )
    return {
        "idle attached session at its node, KiB": (after - before) / count / 1024,
        "idle session at a NATS server, KiB": sessions / 1024,
        "one message with a subject of its own at a NATS server, KiB": subjects / 1024,
    }


_IDLE_SESSIONS = 20_000
_IDLE_SECONDS = 125.0
"""After this time without an append, a NATS server keeps the subjects of a stream only once."""


async def _nats_memory(folder: Path, store: Callable[[ClusterStreams], Awaitable[None]]) -> float:
    """The bytes that one of three new NATS servers needs for each of the stored sessions, when all are idle.

    Everything that the servers take above their memory without any session counts.
    """
    cluster = Cluster(folder)
    try:
        await cluster.start()
        before = cluster.nats_memory()
        async with open_streams(cluster) as streams:
            await store(streams)
        await asyncio.sleep(_IDLE_SECONDS)
        await asyncio.to_thread(cluster.collect_garbage)
        await asyncio.sleep(10)  # they return memory slowly
        return (cluster.nats_memory() - before) / _IDLE_SESSIONS
    finally:
        cluster.end()


async def _store_sessions(streams: ClusterStreams) -> None:
    book = ClusterBook(streams, "bench", fence=BenchLease(), may_claim=nothing_is_free)
    await book.start()

    async def store(number: int) -> None:
        log = book.open_log("bench", f"bench-memory-{number}", "/bench", new=True)
        log.append(AgentMessageChunk(TextContent("x" * 230)))
        await log.release()

    await _each_session(store)
    await book.aclose()


async def _store_subjects(streams: ClusterStreams) -> None:
    """The least that a session could be: one message, in a stream without any other setting."""
    config = {"name": "BENCH", "subjects": ["bench.*"], "storage": "file", "num_replicas": 3}
    await streams.jetstream.api("STREAM.CREATE.BENCH", config)
    await _each_session(lambda number: streams.jetstream.append(f"bench.{number}", b"x" * 230, {}))


async def _each_session(store: Callable[[int], Awaitable[object]], at_once: int = 100) -> None:
    for first in range(0, _IDLE_SESSIONS, at_once):
        await asyncio.gather(*(store(number) for number in range(first, first + at_once)))


async def takeover(cluster: Cluster) -> Figures:
    """From kill -9 of the owner to the answer of a prompt at another node.

    The lease counts from the owner's last sign of life, so this can take less than the lease.
    """
    client, name = await new_session(cluster, cluster.node("a"))
    await client.call("session/prompt", sessionId=name, prompt=job(count=10))
    other = await join(cluster, cluster.node("b"), name)
    began = time.perf_counter()
    cluster.kill_node("a")
    while "result" not in await other.request("session/prompt", sessionId=name, prompt=job(count=1)):
        await asyncio.sleep(0.05)
    took = time.perf_counter() - began
    other.close()
    return {f"takeover after kill -9, with a lease of {LEASE:g} s, s": took}
