"""Servers for the scripted agents, started for a test and ended after it."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.certificates import new_certificate
from tests.requirements import need_node, need_npm

PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class AgentServer:
    """A running server."""

    url: str
    certificate: str | None
    process: "subprocess.Popen[bytes]"
    token: str | None = None
    """The token of the gateway's front."""


@contextmanager
def run_agent_server(peer: str, scheme: str, folder: Path) -> Generator[AgentServer]:
    """Run a scripted agent behind a URL: `python`, `typescript`, or `accord` behind the gateway's front.

    The scheme is `ws`, `http`, `wss` or `https` (with HTTP/2). The folder is for the certificate;
    its subfolder `record` is for the messages that the gateway's front records.
    """
    certificate: str | None = None
    env = {**os.environ, "RECORD": str(folder / "record")}
    if peer in ("python", "accord"):
        program = "official_python_server.py" if peer == "python" else "accord_gateway.py"
        command = [sys.executable, str(PEERS / program)]
        if scheme in ("https", "wss"):
            certificate, key = make_certificate(folder)
            command += [certificate, key]
    else:
        need_npm("@agentclientprotocol/sdk")
        need_npm("ws")
        command = [need_node(), str(PEERS / "official_ts_server.mjs")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            token = process.stdout.readline().decode().strip() if peer == "accord" else None
            yield AgentServer(f"{scheme}://127.0.0.1:{port}/acp", certificate, process, token)
        finally:
            process.kill()


make_certificate = cache(new_certificate)
