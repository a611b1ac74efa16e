"""Run `accord check client` on `accord run` and on clients on the official SDKs, and write the second half of
docs/conformance.md.

Usage: `python -m tests.check.client_conformance`.
"""

import asyncio
import json
import shutil
import sys
from datetime import UTC, datetime
from importlib.metadata import version

from tests.check.agent_conformance import CLIENTS, HERE, PAGE, ROOT, CheckedProgram, page

from accord import __version__
from accord.check.check_run import CheckOptions, check_client
from accord.check.check_script import ClientCheckScript, read_script
from accord.check.client.client_process import ClientProcessLauncher
from accord.check.findings import CheckReport

PEERS = HERE / "peers"
ONE_TURN = PEERS / "client.json"
PLACEHOLDERS = ("{folder}", "{prompt}", "{options}", "--", "{agent}")

HEAD = (
    CLIENTS
    + """
These are the results of `accord check client` for `accord run`, and for two short clients on the official
SDKs (`tests/check/peers`) that also do one turn.

Some of the rules that the two clients break are the program's fault: it does not sign in, and it does not
confine file access. The others are the library's: which params it refuses, and how the connection reacts to a
line that is not a message.

"""
)


def clients() -> list[CheckedProgram]:
    """The clients that can be started here."""
    sdk = ROOT / "tests/node/node_modules/@agentclientprotocol/sdk/package.json"
    python, node = sys.executable, shutil.which("node")
    run = (python, "-m", "accord.cli", "run", "{prompt}", "--", "{agent}")
    found = [
        CheckedProgram("`accord run`", f"accord {__version__}", run),
        CheckedProgram(
            "a client on the official Python SDK",
            f"agent-client-protocol {version('agent-client-protocol')}",
            (python, str(PEERS / "official_python_client.py"), *PLACEHOLDERS),
            ONE_TURN,
        ),
    ]
    if node and sdk.exists():
        found.append(
            CheckedProgram(
                "a client on the official TypeScript SDK",
                f"@agentclientprotocol/sdk {json.loads(sdk.read_text())['version']}",
                (node, str(PEERS / "official_ts_client.mjs"), *PLACEHOLDERS),
                ONE_TURN,
            )
        )
    return found


async def check(checked: CheckedProgram) -> CheckReport:
    """Check one client against all rules."""
    options = CheckOptions(script=read_script(checked.script, ClientCheckScript) if checked.script else None)
    return await check_client(ClientProcessLauncher(checked.command), options=options)


def main() -> None:
    """Check the clients one after the other and write the page."""
    reports = [(checked, asyncio.run(check(checked))) for checked in clients()]
    agents, _, _ = PAGE.read_text("utf-8").partition(CLIENTS)
    PAGE.write_text(agents + page(HEAD, "client", reports, f"{datetime.now(UTC):%Y-%m-%d}"), "utf-8")


if __name__ == "__main__":
    main()
