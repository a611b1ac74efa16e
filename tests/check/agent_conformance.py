"""Run `accord check agent` on Accord's agents and on agents on the official SDKs, and write
docs/conformance.md.

Usage: `python -m tests.check.agent_conformance`. `python -m tests.check.client_conformance` does the same for
clients, in the second half of the page.
"""

import asyncio
import json
import shutil
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from accord import __version__
from accord.check.agent.agent_under_test import AgentProcessLauncher
from accord.check.check_run import CheckOptions, check_agent
from accord.check.check_script import AgentCheckScript, read_script
from accord.check.findings import VERDICTS, CheckReport

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "tests" / "interop" / "peers"
HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "conformance.md"


class CheckedProgram(NamedTuple):
    """One program: its name, what it is built on, its command and its script."""

    name: str
    built_on: str
    command: tuple[str, ...]
    script: Path | None = None


def agents() -> list[CheckedProgram]:
    """The agents that can be started here."""
    own = f"accord {__version__}"
    sdk = ROOT / "tests/node/node_modules/@agentclientprotocol/sdk/package.json"
    python, node = sys.executable, shutil.which("node")
    found = [
        CheckedProgram("`accord agent` on `rehearsal`", own, (python, "-m", "accord.cli", "agent")),
        CheckedProgram(
            "`examples/agent.py`", own, (python, str(ROOT / "examples/agent.py")), HERE / "example.json"
        ),
        CheckedProgram(
            "the test agent on Accord", own, (python, str(PEERS / "accord_agent.py")), HERE / "interop.json"
        ),
        CheckedProgram(
            "the test agent on the official Python SDK",
            f"agent-client-protocol {version('agent-client-protocol')}",
            (python, str(PEERS / "official_python_agent.py")),
            HERE / "interop.json",
        ),
    ]
    if node and sdk.exists():
        found.append(
            CheckedProgram(
                "the test agent on the official TypeScript SDK",
                f"@agentclientprotocol/sdk {json.loads(sdk.read_text())['version']}",
                (node, str(PEERS / "official_ts_agent.mjs")),
                HERE / "interop.json",
            )
        )
    return found


async def check(checked: CheckedProgram) -> CheckReport:
    """Check one agent against all rules."""
    options = CheckOptions(script=read_script(checked.script, AgentCheckScript) if checked.script else None)
    return await check_agent(AgentProcessLauncher(checked.command), options=options)


CLIENTS = "\n# Clients\n"
"""The heading of the half about clients."""
HEAD = """# Conformance

Run the checker on Accord's agents and on agents that use the official SDKs, and write the results to this
page:

```console
$ python -m tests.check.agent_conformance   # agents
$ python -m tests.check.client_conformance  # clients, the second half of this page
```

The rules and verdicts are those of [`accord check`](check.md). `accord agent` is the program that Accord
ships: it breaks no rule.

The test agents are small programs with a fixed script (`tests/interop/peers`), the same in each language.
Some of the rules they break are the program's fault: it connects to no MCP servers, it ignores the client's
capabilities, and its tool calls have fixed ids. The others are the library's: for the same program, the
library alone decides whether the rules on lines, envelopes, params and capabilities are kept.

"""


def page(head: str, kind: str, reports: list[tuple[CheckedProgram, CheckReport]], date: str) -> str:
    """The page about agents, or its half about clients."""
    lines = [
        head + f"Run on {date}.",
        "",
        f"| {kind} | built on | {' | '.join(VERDICTS)} |",
        "|---" * 7 + "|",
    ]
    for checked, report in reports:
        counts = " | ".join(str(count) for count in report.counts.values())
        lines.append(f"| {checked.name} | {checked.built_on} | {counts} |")
    for checked, report in reports:
        lines += ["", f"## {checked.name[0].upper()}{checked.name[1:]}", ""]
        broken = report.of("fail", "warn")
        if not broken:
            lines.append("No rule is broken.")
        else:
            lines += ["| rule | verdict | text | observed |", "|---|---|---|---|"]
        for one in broken:
            why = one.why.split("; ")[0][:180].replace("|", "\\|")
            rule = one.rule.text.replace("|", "\\|")
            lines.append(f"| {one.rule.id} | {one.verdict} | {rule} | {why} |")
        unseen = ", ".join(one.rule.id for one in report.of("not shown"))
        lines += ["", f"Not shown: {unseen}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Check the agents one after the other and write the page."""
    reports = [(checked, asyncio.run(check(checked))) for checked in agents()]
    _, mark, clients = PAGE.read_text("utf-8").partition(CLIENTS)
    PAGE.write_text(page(HEAD, "agent", reports, f"{datetime.now(UTC):%Y-%m-%d}") + mark + clients, "utf-8")


if __name__ == "__main__":
    main()
