"""Runs one workload on one contender: starts its client (or only its agent) and reads the figures."""

import json
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.contenders import ENVIRONMENT, ROOT, Contender
from benchmarks.processes import Reading, descendants, read, read_all
from benchmarks.workloads import Workload

TIME_LIMIT = 120.0
NOTES = "The quick brown fox jumps over the dog.\n" * 25
"""The text of the file that the agent reads."""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}

Figures = dict[str, float]


class WorkloadError(Exception):
    """The contender did not finish the workload. The message is the last line of its stderr."""


def measure(contender: Contender, workload: Workload) -> Figures:
    if workload.measure == "start":
        return starts(contender.agent, workload.repeat)
    return run(contender, workload)


def run(contender: Contender, workload: Workload) -> Figures:
    """Start the client, which starts its agent, and read the usage of both at each mark of the client."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "notes.txt").write_text(NOTES)
        return run_in(folder, contender, workload)


def run_in(folder: str, contender: Contender, workload: Workload) -> Figures:
    parameters = {
        "folder": folder,
        "measure": workload.measure,
        "repeat": workload.repeat,
        "job": workload.job,
        "loop": contender.loop,
        "protocol": contender.protocol,
    }
    cores = os.sched_getaffinity(0)
    if workload.one_core:  # inherited by the client and its agent
        os.sched_setaffinity(0, {min(cores)})
    with tempfile.TemporaryFile("w+") as stderr_file:
        try:
            client = subprocess.Popen(
                [*contender.client, json.dumps(parameters), *contender.agent],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr_file,
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
            stderr_file.seek(0)
            lines = stderr_file.read().strip().splitlines()
            raise WorkloadError(lines[-1] if lines else "it exited without figures")
        return figures


def follow(client: subprocess.Popen[str], workload: Workload) -> Figures | None:
    assert client.stdin is not None
    assert client.stdout is not None
    marks: dict[str, dict[int, Reading]] = {}
    for line in client.stdout:
        message: dict[str, Any] = json.loads(line)
        if "figures" in message:
            return message["figures"] | resources(client.pid, marks, workload)
        marks[message["mark"]] = read_all([client.pid, *descendants(client.pid)])
        client.stdin.write("\n")
        client.stdin.flush()
    return None


def resources(client: int, marks: dict[str, dict[int, Reading]], workload: Workload) -> Figures:
    """Compute processor time and memory between the two marks."""
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
    """Start the agent several times in sequence and return the medians."""
    each = [start(command) for _ in range(count)]
    return {key: statistics.median(one[key] for one in each) for key in each[0]}


def start(command: tuple[str, ...]) -> Figures:
    """Start an agent without a client and send `initialize`, so that no client is measured."""
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
            raise WorkloadError(f"unexpected response to initialize: {answer!r}")
        reading = read(agent.pid)
        time.sleep(0.1)  # measure the memory of an idle agent: let it finish its work after the response
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
    """Kill a client or agent that we started, with all its child processes."""
    for pid in [*descendants(root), root]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
