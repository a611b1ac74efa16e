"""The measured servers: the gateway, the official TypeScript server, and a line copier as the baseline."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NODE = ROOT / "tests/node"


class Server(NamedTuple):
    """A running server."""

    port: int
    pid: int
    token: str | None = None


@contextmanager
def gateway(home: Path, version: int = 1) -> Generator[Server]:
    """Run `accord serve` with the streaming agent, which speaks one protocol version."""
    config = home / "config"
    config.mkdir(parents=True)
    limits = {"connections": 2000, "sessions": 2000, "totalSessions": 2000, "totalConnections": 4000}
    (config / "serve.json").write_text(json.dumps({"limits": limits}))
    command = [sys.executable, "-m", "accord.cli", "serve", "--port", "0", "--no-qr"]
    command += ["--protocol", str(version), "--", sys.executable, str(HERE / "stream_agent.py"), str(version)]
    env = {**os.environ, "ACCORD_HOME": str(home)}
    new_token = [sys.executable, "-m", "accord.cli", "serve", "token", "new", "--plain"]
    token = subprocess.run(new_token, env=env, capture_output=True, text=True, check=True).stdout.strip()
    with subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        assert running.stdout
        port = 0
        try:
            for line in running.stdout:
                if "listening on" in line:
                    port = int(line.rstrip().rpartition(":")[2])
                if line.startswith("Press Ctrl-C"):
                    break
            assert port, "the gateway did not start"
            yield Server(port, running.pid, token)
        finally:
            running.terminate()


def typescript_missing() -> str | None:
    """Return why the TypeScript server cannot run here, or None."""
    if shutil.which("node") is None:
        return "Node is not installed"
    if not (NODE / "node_modules/@agentclientprotocol/sdk").exists():
        return "its SDK is not installed; run `make node`"
    return None


@contextmanager
def typescript() -> Generator[Server]:
    """Run the WebSocket server of the official TypeScript SDK."""
    env = {**os.environ, "ACP_TS_HOME": str(NODE)}
    with subprocess.Popen(
        ["node", str(HERE / "ts_server.mjs")], env=env, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        try:
            yield Server(int(running.stdout.readline()), running.pid)
        finally:
            running.terminate()


def copy_lines(lines: list[bytes]) -> float:
    """Copy the lines from pipe to pipe, one by one, and return the processor seconds."""
    with subprocess.Popen(
        [sys.executable, str(HERE / "copy_lines.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdin
        assert running.stdout
        out = running.stdout
        pid = os.fork()
        if pid == 0:
            with running.stdin as pipe:
                pipe.writelines(lines)
            os._exit(0)
        running.stdin.close()
        while out.read(1 << 20):
            pass
        os.waitpid(pid, 0)
        _, _, used = os.wait4(running.pid, 0)
        running.returncode = 0
        return used.ru_utime + used.ru_stime
