"""`accord doctor`: what works on this machine, and for everything that does not, what to do about it."""

import argparse
import asyncio
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence

from accord import __version__
from accord.errors import UsageError
from accord.extras import EXTRAS, is_installed, require

_TESTED = {"Linux": "tested", "Darwin": "designed for, untested", "Windows": "designed for, untested"}

_FOR = {
    "agent": "the coding agent's models and tools",
    "mcp": "MCP servers",
    "remote": "agents over WebSocket and HTTP",
    "gateway": "agents on the network",
    "tui": "the terminal client",
    "check": "the checker's reports through pytest",
    "uvloop": "a faster event loop",
}


def main(arguments: Sequence[str]) -> int:
    """Print the report; with names of extras, succeed only if they are installed."""
    parser = argparse.ArgumentParser(prog="accord doctor", description="What works here, what is missing.")
    parser.add_argument("extra", nargs="*", help="succeed only if these extras are installed")
    wanted = parser.parse_args(arguments).extra
    for extra in wanted:
        if extra not in EXTRAS:
            raise UsageError(f"no extra is called {extra!r}; there are: {', '.join(EXTRAS)}")
        require(extra, "what you asked for")
    if wanted:
        return 0
    system = platform.system()
    rows = [
        ("accord", __version__, ""),
        ("python", platform.python_version(), sys.executable),
        ("platform", system, _TESTED.get(system, "untested")),
        (
            "node",
            "found" if shutil.which("node") else "missing",
            "only tests against the TypeScript SDK need it",
        ),
        ("sandbox", *asyncio.run(_sandbox())),
    ]
    for extra, purpose in _FOR.items():
        if is_installed(extra):
            rows.append((f"[{extra}]", "installed", purpose))
        else:
            rows.append((f"[{extra}]", "missing", f"{purpose}: pip install 'accord[{extra}]'"))
    for name, state, remark in rows:
        print(f"{name:<10} {state:<10} {remark}".rstrip())
    return 0


async def _sandbox() -> tuple[str, str]:
    """What confines the commands of the coding agent here, after trying it."""
    from accord.policy.sandbox import Sandbox, contradictions, self_test

    with tempfile.TemporaryDirectory(prefix="accord-doctor-") as root, Sandbox([root]) as sandbox:
        boundary = sandbox.boundary
        broken = contradictions(boundary, await self_test(sandbox))
    if broken:
        return "BROKEN", "; ".join(map(str, broken))
    remarks = [boundary.summary().partition(": ")[2], *boundary.why]
    if boundary.backend != "none":
        remarks.insert(1, "tried, and held")
    return boundary.backend, "; ".join(remarks)
