"""One run of one contender on one workload: starts its client (or only its agent), reads its figures."""

import json
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from typing import Any

from .contenders import ENVIRONMENT, ROOT, Contender
from .processes import Reading, below, read, read_all
from .workloads import Workload

TIME_LIMIT = 120.0
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}

Figures = dict[str, float]


class Failed(Exception):
    """The contender did not do the work: what it said."""


def measure(contender: Contender, workload: Workload) -> Figures:
    if workload.measure == "start":
        return starts(contender.agent, workload.repeat)
    return run(contender, workload)


def run(contender: Contender, workload: Workload) -> Figures:
    """Start the client, which starts its agent; look at both whenever the client marks a moment."""
    order = {
        "measure": workload.measure,
        "repeat": workload.repeat,
        "job": workload.job,
        "loop": contender.loop,
    }
    cores = os.sched_getaffinity(0)
    if workload.one_core:  # inherited by the client and its agent
        os.sched_setaffinity(0, {min(cores)})
    with tempfile.TemporaryFile("w+") as complaints:
        try:
            client = subprocess.Popen(
                [*contender.client, json.dumps(order), *contender.agent],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                cwd=ROOT,
                env=ENVIRONMENT,
            )
        finally:
            os.sched_setaffinity(0, cores)
        alarm = threading.Timer(TIME_LIMIT, end, [client.pid])
        alarm.start()
        try:
            figures = follow(client, workload)
        finally:
            alarm.cancel()
            end(client.pid)
            client.communicate()
        if figures is None:
            complaints.seek(0)
            lines = complaints.read().strip().splitlines()
            raise Failed(lines[-1] if lines else "it ended without figures")
        return figures


def follow(client: subprocess.Popen[str], workload: Workload) -> Figures | None:
    assert client.stdin is not None
    assert client.stdout is not None
    marks: dict[str, dict[int, Reading]] = {}
    for line in client.stdout:
        said: dict[str, Any] = json.loads(line)
        if "figures" in said:
            return said["figures"] | resources(client.pid, marks, workload)
        marks[said["mark"]] = read_all([client.pid, *below(client.pid)])
        client.stdin.write("\n")
        client.stdin.flush()
    return None


def resources(client: int, marks: dict[str, dict[int, Reading]], workload: Workload) -> Figures:
    """Processor time and memory between the two marks."""
    before, after = marks["start"], marks["stop"]
    pids = before.keys() & after.keys()
    figures: Figures = {
        "cpu": sum(after[pid].cpu - before[pid].cpu for pid in pids),
        "peak": float(sum(after[pid].peak for pid in pids)),
    }
    if size := workload.job.get("size"):
        growth = {pid: max(0, after[pid].peak - before[pid].rss) for pid in pids}
        figures["client_copies"] = growth.pop(client) / size
        figures["agent_copies"] = sum(growth.values()) / size
    return figures


def starts(command: tuple[str, ...], count: int) -> Figures:
    """The medians of several starts, one after the other."""
    each = [start(command) for _ in range(count)]
    return {key: statistics.median(one[key] for one in each) for key in each[0]}


def start(command: tuple[str, ...]) -> Figures:
    """Start an agent alone and ask for `initialize`, so that nobody's client counts."""
    began = time.perf_counter()
    agent = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=ENVIRONMENT,
    )
    alarm = threading.Timer(TIME_LIMIT, end, [agent.pid])
    alarm.start()
    try:
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        agent.stdin.flush()
        answer = agent.stdout.readline()
        seconds = time.perf_counter() - began
        if b'"protocolVersion"' not in answer:
            raise Failed(f"initialize was answered with {answer!r}")
        reading = read(agent.pid)
        time.sleep(0.1)  # let it finish what it does after the answer; memory is that of an agent at rest
        rest = read(agent.pid)
        return {
            "seconds": seconds,
            "cpu": reading.cpu,
            "rss": float(rest.rss),
            "pss": float(rest.pss),
        }
    finally:
        alarm.cancel()
        end(agent.pid)
        agent.communicate()


def end(root: int) -> None:
    """End a client or agent that we started, with everything below it."""
    for pid in [*below(root), root]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
