"""The scripted agents behind an address: a server each, started for a test and ended after it."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.requirements import need_node, need_npm

PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    url: str
    certificate: str | None
    process: "subprocess.Popen[bytes]"
    token: str | None = None
    """What the gateway's front wants to see."""


@contextmanager
def served(peer: str, carrier: str, folder: Path) -> Generator[Served]:
    """A scripted agent, `python`, `typescript` or `accord` behind the gateway's front, reachable by `ws`, `http` or `https`
    (with HTTP/2). The folder is for its certificate, `record` in it for the wire of the front.
    """
    certificate: str | None = None
    env = {**os.environ, "RECORD": str(folder / "record")}
    if peer in ("python", "accord"):
        program = "official_python_server.py" if peer == "python" else "accord_front.py"
        command = [sys.executable, str(PEERS / program)]
        if carrier in ("https", "wss"):
            certificate, key = certified(folder)
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
            yield Served(f"{carrier}://127.0.0.1:{port}/acp", certificate, process, token)
        finally:
            process.kill()


@cache
def certified(folder: Path) -> tuple[str, str]:
    """A certificate for this machine that nobody has signed, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return str(certificate), str(key)
