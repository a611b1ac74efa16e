"""`python -m benchmarks.proxy`: the processor time of `accord proxy` beside a program that copies lines.

An agent streams updates to a client, directly behind a program that copies lines one by one, and behind the
proxy with middlewares that change nothing. Start-up is not measured.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import processes, report

HERE = Path(__file__).parent
AGENT = [sys.executable, str(HERE.parent / "gateway/stream_agent.py")]
COUNT = 50_000
TARGETS = {
    "proxy without a hook for updates, relative to copying": "1.5 at most",
    "proxy with a hook for permissions, relative to copying": "1.5 at most",
}
WORKLOADS = {
    "proxy without a hook for updates": "Prompts",
    "proxy with a hook for permissions": "Permissions",
    "proxy with a hook for updates": "Updates",
}


def prompt(id: int, count: int) -> bytes:
    blocks = [{"type": "text", "text": json.dumps({"count": count})}]
    params = {"sessionId": "bench", "prompt": blocks}
    message = {"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}
    return json.dumps(message).encode() + b"\n"


def read_turn(out: Any, id: int) -> None:
    """Read until the response to the prompt."""
    end = b'"id": %d,' % id
    tail = b""
    while end not in tail:
        data = out.read1(1 << 20)
        assert data, "the program ended"
        tail = (tail + data)[-200:]


def measure(into: Any, out: Any, pid: int) -> float:
    """Run one short and one long turn; return the processor seconds of the long one."""
    for id, count in ((1, 1000), (2, COUNT)):
        before = processes.read(pid).cpu
        into.write(prompt(id, count))
        into.flush()
        read_turn(out, id)
    return processes.read(pid).cpu - before


def copied() -> float:
    """Copy the agent's lines with the program of the gateway's benchmark."""
    copier = [sys.executable, str(HERE.parent / "gateway/copy_lines.py")]
    with (
        subprocess.Popen(AGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent,
        subprocess.Popen(copier, stdin=agent.stdout, stdout=subprocess.PIPE) as copy,
    ):
        assert agent.stdin
        assert copy.stdout
        used = measure(agent.stdin, copy.stdout, copy.pid)
        agent.stdin.close()
        return used


def proxied(middleware: str) -> float:
    command = [
        sys.executable,
        "-m",
        "accord.cli",
        "proxy",
        "--use",
        f"benchmarks.proxy.middlewares:{middleware}",
    ]
    with subprocess.Popen([*command, "--", *AGENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as proxy:
        assert proxy.stdin
        assert proxy.stdout
        used = measure(proxy.stdin, proxy.stdout, proxy.pid)
        proxy.stdin.close()
        return used


def main() -> None:
    options = report.options("benchmarks.proxy", __doc__, WORKLOADS)
    before = os.getloadavg()[0]
    figures: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        base = copied()
        figures.setdefault("copied line, CPU µs", []).append(base / COUNT * 1e6)
        for name in options.only:
            used = proxied(WORKLOADS[name])
            figures.setdefault(f"{name}, CPU µs", []).append(used / COUNT * 1e6)
            figures.setdefault(f"{name}, relative to copying", []).append(used / base)
    head = [report.rounds(options.rounds), report.load(before), ""]
    report.publish("proxy", "\n".join([*head, report.table(figures, TARGETS)]), into_docs=options.write_docs)


if __name__ == "__main__":
    main()
