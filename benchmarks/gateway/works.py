"""The works: forwarding, fan-out, a crowd, idle sessions, coming back. Each gives figures by name."""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from .. import processes
from .servers import Server, copying, gateway, typescript, typescript_missing
from .stream_agent import UPDATE
from .wires import Wire, wire

Figures = dict[str, float]

COUNT = 50_000


def job(**what: float) -> list[dict[str, str]]:
    return [{"type": "text", "text": json.dumps(what)}]


async def session(client: Wire) -> str:
    return (await client.call("session/new", cwd="/tmp", mcpServers=[]))["sessionId"]


async def joined(server: Server, name: str) -> Wire:
    client = await wire(server.port, server.token)
    await client.call("session/resume", sessionId=name, cwd="/tmp", mcpServers=[])
    return client


async def streamed(server: Server, count: int = COUNT) -> tuple[float, float]:
    """Wall and processor seconds for so many updates to one client."""
    client = await wire(server.port, server.token)
    name = await session(client)
    await client.call("session/prompt", sessionId=name, prompt=job(count=1000))
    cpu, began = processes.read(server.pid).cpu, time.perf_counter()
    await client.call("session/prompt", sessionId=name, prompt=job(count=count))
    took, used = time.perf_counter() - began, processes.read(server.pid).cpu - cpu
    client.close()
    return took, used


async def forwarding(server: Server) -> Figures:
    """One agent, one client, as fast as it goes; beside copying lines, and the TypeScript server."""
    took, used = await streamed(server)
    lines = [UPDATE % (b"bench-1", number) for number in range(COUNT)]
    copied = await asyncio.to_thread(copying, lines)
    figures = {
        "forwarded message, CPU µs": used / COUNT * 1e6,
        "copied line, CPU µs": copied / COUNT * 1e6,
        "forwarding against copying, times": used / copied,
        "messages a second, thousands": COUNT / took / 1e3,
    }
    if typescript_missing() is None:
        with typescript() as other:
            theirs, _ = await streamed(other)
        figures["messages a second of the TypeScript server, thousands"] = COUNT / theirs / 1e3
        figures["throughput against the TypeScript server, times"] = theirs / took
    return figures


async def fan_out(server: Server) -> Figures:
    """The same updates to one client and to a hundred: what one more client costs."""
    count = 2000
    costs: list[float] = []
    for others in (0, 99):
        client = await wire(server.port, server.token)
        name = await session(client)
        crowd = [await joined(server, name) for _ in range(others)]
        await client.call("session/prompt", sessionId=name, prompt=job(count=100))
        cpu = processes.read(server.pid).cpu
        await client.call("session/prompt", sessionId=name, prompt=job(count=count))
        for other in crowd:
            await other.until(count + 100)
        costs.append((processes.read(server.pid).cpu - cpu) / count * 1e6)
        for one in (client, *crowd):
            one.close()
    return {
        "update to one client, CPU µs": costs[0],
        "update to 100 clients, CPU µs": costs[1],
        "each further client, CPU µs": (costs[1] - costs[0]) / 99,
    }


async def crowd(server: Server) -> Figures:
    """1 000 clients: 20 sessions at 20 updates a second, each seen by 50 clients; how late the frames are."""
    sessions, watching, rate, seconds = 20, 50, 20, 10
    lags: list[int] = []

    def watch(frame: bytes) -> None:
        at = frame.find(b'"text":"') if b"agent_message_chunk" in frame else -1
        if at > 0:
            lags.append(time.monotonic_ns() - int(frame[at + 8 : at + 48]))

    clients: list[Wire] = []
    asking: list[tuple[Wire, str]] = []
    for _ in range(sessions):
        first = await wire(server.port, server.token)
        name = await session(first)
        asking.append((first, name))
        clients += [first, *[await joined(server, name) for _ in range(watching - 1)]]
    for client in clients:
        client.watch = watch
    cpu, began = processes.read(server.pid).cpu, time.perf_counter()
    turns = [
        client.ask("session/prompt", sessionId=name, prompt=job(count=rate * seconds, every=1 / rate))
        for client, name in asking
    ]
    await asyncio.gather(*turns)
    wanted = sessions * rate * seconds * watching
    for client in clients:
        await client.until(rate * seconds)
    took, used = time.perf_counter() - began, processes.read(server.pid).cpu - cpu
    for client in clients:
        client.close()
    lags.sort()
    return {
        "crowd: frames a second": wanted / took,
        "crowd: p50 lag, ms": lags[len(lags) // 2] / 1e6,
        "crowd: p99 lag, ms": lags[len(lags) * 99 // 100] / 1e6,
        "crowd: CPU of the gateway, cores": used / took,
    }


async def idle(server: Server) -> Figures:
    """What an idle session with a client attached costs in memory."""
    count = 500
    client = await wire(server.port, server.token)
    await session(client)
    before = processes.read(server.pid).rss
    clients: list[Wire] = []
    for _ in range(count):
        one = await wire(server.port, server.token)
        await session(one)
        clients.append(one)
    after = processes.read(server.pid).rss
    for one in (client, *clients):
        one.close()
    return {"idle attached session, KiB": (after - before) / count / 1024}


async def coming_back(server: Server) -> Figures:
    """Coming back to a session of 10 000 events: the first of it, and all of it."""
    client = await wire(server.port, server.token)
    name = await session(client)
    for _ in range(100):  # a hundred turns, so that the history is more than one long message
        await client.call("session/prompt", sessionId=name, prompt=job(count=100))
    back = await wire(server.port, server.token)
    first: list[float] = []

    def watch(_frame: bytes) -> None:
        if not first:
            first.append(time.perf_counter())

    back.watch = watch
    began = time.perf_counter()
    await back.call("session/load", sessionId=name, cwd="/tmp", mcpServers=[])
    took = time.perf_counter() - began
    for one in (client, back):
        one.close()
    return {
        "coming back: the first update, ms": (first[0] - began) * 1e3,
        "coming back: all of it, ms": took * 1e3,
        "coming back: thousand events a second": 10.0 / took,
    }


Work = Callable[[Server], Awaitable[Figures]]
WORKS: dict[str, Work] = {
    "forwarding": forwarding,
    "fan-out": fan_out,
    "crowd": crowd,
    "idle": idle,
    "coming-back": coming_back,
}


async def done(work: Work) -> Figures:
    """One work on a gateway of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="accord-bench-") as folder,
        gateway(Path(folder, "home")) as server,
    ):
        return await work(server)
