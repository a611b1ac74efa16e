"""`accord doctor`: what works on this machine, and for everything that does not, what to do about it."""

import asyncio
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence

from accord import __version__
from accord.cli.health import BROKEN, Finding, findings
from accord.cli.parser import Parser
from accord.cli.serving.finding import gateway_finding
from accord.cli.surroundings import surroundings
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
    """Print the report, and fail if something is broken; with names of extras, succeed only if they are installed."""
    parser = Parser("accord doctor", "What works here, what is missing.")
    parser.add_argument("extra", nargs="*", help="succeed only if these extras are installed")
    wanted = parser.parse_args(arguments).extra
    for extra in wanted:
        if extra not in EXTRAS:
            raise UsageError(f"no extra is called {extra!r}; there are: {', '.join(EXTRAS)}")
        require(extra, "what you asked for")
    if wanted:
        return 0
    system = platform.system()
    found = [
        Finding("accord", __version__),
        Finding("python", platform.python_version(), sys.executable),
        Finding("platform", system, _TESTED.get(system, "untested")),
        Finding(
            "node",
            "found" if shutil.which("node") else "missing",
            "only tests against the TypeScript SDK need it",
        ),
        *findings(),
        *surroundings(),
        asyncio.run(_sandbox()),
        gateway_finding(),
    ]
    for extra, purpose in _FOR.items():
        if is_installed(extra):
            found.append(Finding(f"[{extra}]", "installed", purpose))
        else:
            found.append(Finding(f"[{extra}]", "missing", f"{purpose}: pip install 'accord[{extra}]'"))
    for name, state, remark in found:
        print(f"{name:<10} {state:<10} {remark}".rstrip())
    return 1 if any(finding.state == BROKEN for finding in found) else 0


async def _sandbox() -> Finding:
    """What confines the commands of the coding agent here, after trying it."""
    from accord.policy.sandbox import Sandbox, contradictions, self_test

    with tempfile.TemporaryDirectory(prefix="accord-doctor-") as root, Sandbox([root]) as sandbox:
        boundary = sandbox.boundary
        broken = contradictions(boundary, await self_test(sandbox))
    if broken:
        return Finding("sandbox", BROKEN, "; ".join(map(str, broken)))
    remarks = [boundary.summary().partition(": ")[2], *boundary.why]
    if boundary.backend == "none":
        remarks.append("every command is asked about: install bubblewrap (docs/sandbox.md)")
    else:
        remarks.insert(1, "tried, and held")
    return Finding("sandbox", boundary.backend, "; ".join(remarks))
