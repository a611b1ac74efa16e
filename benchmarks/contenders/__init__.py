"""The contenders: each is a client program and an agent program on the same library."""

import compileall
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TS_SDK = ROOT / "tests/node/node_modules/@agentclientprotocol/sdk"


@dataclass(frozen=True)
class Contender:
    """The two programs of one library. `missing()` returns why they cannot run here, or None."""

    name: str
    title: str
    client: tuple[str, ...]
    agent: tuple[str, ...]
    version: Callable[[], str]
    missing: Callable[[], str | None]
    loop: str = "asyncio"
    protocol: int = 1


def python(
    name: str, title: str, stem: str, package: str, loop: str = "asyncio", protocol: int = 1
) -> Contender:
    """Create a contender in Python. Its agent starts as a file, so that only its own imports count."""
    choice = () if loop == "asyncio" else (loop,)
    needed = ("acp",) if package == "agent-client-protocol" else ("accord", *choice)
    choice = choice if protocol == 1 else (*choice, "v2")
    return Contender(
        name,
        title,
        (sys.executable, "-m", f"benchmarks.contenders.{stem}_client"),
        (sys.executable, str(HERE / f"{stem}_agent.py"), *choice),
        lambda: importlib.metadata.version(package),
        lambda: next((f"{module} is not installed" for module in needed if not installed(module)), None),
        loop,
        protocol,
    )


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def compile_sources() -> None:
    """Compile Accord and the contenders to bytecode, which an installed package has from the start."""
    spec = importlib.util.find_spec("accord")
    assert spec is not None
    assert spec.origin is not None
    compileall.compile_dir(Path(spec.origin).parent, quiet=2)
    compileall.compile_dir(HERE, quiet=2)


def no_node() -> str | None:
    if shutil.which("node") is None:
        return "Node is not installed"
    if not TS_SDK.exists():
        return "the TypeScript SDK is not installed (make node)"
    return None


def ts_version() -> str:
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{json.loads((TS_SDK / 'package.json').read_text())['version']}, Node {node.removeprefix('v')}"


PYTHON = python("python", "official Python", "official_python", "agent-client-protocol")
TYPESCRIPT = Contender(
    "typescript",
    "official TypeScript",
    ("node", str(HERE / "official_ts_client.mjs")),
    ("node", str(HERE / "official_ts_agent.mjs")),
    ts_version,
    no_node,
)
ACCORD = python("accord", "Accord", "accord", "accord")
ACCORD_UVLOOP = python("accord+uvloop", "Accord + uvloop", "accord", "accord", loop="uvloop")
ACCORD_V2 = python("accord-v2", "Accord, version 2", "accord", "accord", protocol=2)

# Programs that respond to the first line without any library: the start-up cost of the interpreters.
BARE = {
    "Python": (sys.executable, "-c", """input(); print('{"protocolVersion": 1}', flush=True); input()"""),
    "Node": ("node", "-e", """process.stdin.once("data", () => console.log('{"protocolVersion": 1}'))"""),
}

CONTENDERS = (PYTHON, TYPESCRIPT, ACCORD, ACCORD_UVLOOP, ACCORD_V2)

ENVIRONMENT = os.environ | {"ACP_TS_SDK": str(TS_SDK / "dist/v1/stable/acp.js")}
