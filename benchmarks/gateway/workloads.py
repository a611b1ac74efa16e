"""The workloads: forwarding, fan-out, 1,000 clients, idle sessions, loading. Each returns figures by name."""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks import processes
from benchmarks.gateway.servers import Server, copy_lines, gateway, typescript, typescript_missing
from benchmarks.gateway.stream_agent import UPDATE
from benchmarks.gateway.websocket_client import WebSocketClient, connect

Figures = dict[str, float]

COUNT = 50_000


def job(**members: float) -> list[dict[str, str]]:
    return [{"type": "text", "text": json.dumps(members)}]


async def new_session(client: WebSocketClient) -> str:
    return (await client.call("session/new", cwd="/tmp", mcpServers=[]))["sessionId"]


async def join_session(server: Server, name: str) -> WebSocketClient:
    client = await connect(server.port, server.token)
    await client.call("session/resume", sessionId=name, cwd="/tmp", mcpServers=[])
    return client


async def stream(server: Server, count: int = COUNT, version: int = 1) -> tuple[float, float]:
    """Stream updates to one client of a protocol version; return the wall and processor seconds."""
    client = await connect(server.port, server.token, version)
    name = await new_session(client)
    await turn(client, name, 1000, version)
    cpu, began = processes.read(server.pid).cpu, time.perf_counter()
    await turn(client, name, count, version)
    took, used = time.perf_counter() - began, processes.read(server.pid).cpu - cpu
    client.close()
    return took, used


async def turn(client: WebSocketClient, name: str, count: int, version: int) -> None:
    """Run a turn to its end, which is a state in version 2."""
    idle = asyncio.Event()

    def watch(frame: bytes) -> None:
        if b'"idle"' in frame:
            idle.set()

    client.watch = watch
    await client.call("session/prompt", sessionId=name, prompt=job(count=count))
    if version == 2:
        await idle.wait()


async def translation(server: Server) -> Figures:
    """Stream between a client and an agent of different versions; compare with forwarding in version 1."""
    _, forwarded = await stream(server)
    _, to_newer = await stream(server, version=2)
    with tempfile.TemporaryDirectory(prefix="accord-bench-") as folder, gateway(Path(folder), 2) as other:
        _, to_older = await stream(other)
    return {
        "agent in version 1, client in 2: message, CPU µs": to_newer / COUNT * 1e6,
        "agent in version 2, client in 1: message, CPU µs": to_older / COUNT * 1e6,
        "agent in version 1, client in 2: relative to forwarding, times": to_newer / forwarded,
        "agent in version 2, client in 1: relative to forwarding, times": to_older / forwarded,
    }


async def forwarding(server: Server) -> Figures:
    """Stream from one agent to one client; compare with copying lines and with the TypeScript server."""
    took, used = await stream(server)
    lines = [UPDATE % (b"bench-1", number) for number in range(COUNT)]
    copied = await asyncio.to_thread(copy_lines, lines)
    figures = {
        "forwarded message, CPU µs": used / COUNT * 1e6,
        "copied line, CPU µs": copied / COUNT * 1e6,
        "forwarding relative to copying, times": used / copied,
        "messages per second, thousands": COUNT / took / 1e3,
    }
    if typescript_missing() is None:
        with typescript() as other:
            theirs, _ = await stream(other)
        figures["messages per second of the TypeScript server, thousands"] = COUNT / theirs / 1e3
        figures["throughput relative to the TypeScript server, times"] = theirs / took
    return figures


async def fan_out(server: Server) -> Figures:
    """Send the same updates to one client and to 100; compute the cost of an additional client."""
    count = 2000
    costs: list[float] = []
    for others in (0, 99):
        client = await connect(server.port, server.token)
        name = await new_session(client)
        crowd = [await join_session(server, name) for _ in range(others)]
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
        "each additional client, CPU µs": (costs[1] - costs[0]) / 99,
    }


async def crowd(server: Server) -> Figures:
    """Measure the lag with 1,000 clients: 20 sessions at 20 updates per second, each with 50 clients."""
    sessions, watching, rate, seconds = 20, 50, 20, 10
    lags: list[int] = []

    def watch(frame: bytes) -> None:
        at = frame.find(b'"text":"') if b"agent_message_chunk" in frame else -1
        if at > 0:
            lags.append(time.monotonic_ns() - int(frame[at + 8 : at + 48]))

    clients: list[WebSocketClient] = []
    prompting: list[tuple[WebSocketClient, str]] = []
    for _ in range(sessions):
        first = await connect(server.port, server.token)
        name = await new_session(first)
        prompting.append((first, name))
        clients += [first, *[await join_session(server, name) for _ in range(watching - 1)]]
    for client in clients:
        client.watch = watch
    cpu, began = processes.read(server.pid).cpu, time.perf_counter()
    turns = [
        client.request("session/prompt", sessionId=name, prompt=job(count=rate * seconds, every=1 / rate))
        for client, name in prompting
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
        "1,000 clients: frames per second": wanted / took,
        "1,000 clients: p50 lag, ms": lags[len(lags) // 2] / 1e6,
        "1,000 clients: p99 lag, ms": lags[len(lags) * 99 // 100] / 1e6,
        "1,000 clients: CPU of the gateway, cores": used / took,
    }


async def idle(server: Server) -> Figures:
    """Measure the memory of an idle session with one client."""
    count = 500
    client = await connect(server.port, server.token)
    await new_session(client)
    before = processes.read(server.pid).rss
    clients: list[WebSocketClient] = []
    for _ in range(count):
        one = await connect(server.port, server.token)
        await new_session(one)
        clients.append(one)
    after = processes.read(server.pid).rss
    for one in (client, *clients):
        one.close()
    return {"idle attached session, KiB": (after - before) / count / 1024}


async def coming_back(server: Server) -> Figures:
    """Load a session of 10,000 events: time to the first update, and to the response."""
    client = await connect(server.port, server.token)
    name = await new_session(client)
    for _ in range(100):  # 100 turns, so that the history is not one long message
        await client.call("session/prompt", sessionId=name, prompt=job(count=100))
    back = await connect(server.port, server.token)
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
        "load: first update, ms": (first[0] - began) * 1e3,
        "load: response, ms": took * 1e3,
        "load: thousand events per second": 10.0 / took,
    }


Workload = Callable[[Server], Awaitable[Figures]]
WORKLOADS: dict[str, Workload] = {
    "forwarding": forwarding,
    "translation": translation,
    "fan-out": fan_out,
    "crowd": crowd,
    "idle": idle,
    "coming-back": coming_back,
}


async def run_workload(workload: Workload) -> Figures:
    """Run a workload on a new gateway."""
    with (
        tempfile.TemporaryDirectory(prefix="accord-bench-") as folder,
        gateway(Path(folder, "home")) as server,
    ):
        return await workload(server)
