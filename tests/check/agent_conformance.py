"""Run `accord check agent` on Accord's agents and on agents on the official SDKs, and write
docs/conformance.md.

Usage: `python -m tests.check.agent_conformance`. `python -m tests.check.client_conformance` does the same for
clients, in the second half of the page.

Every finding on an agent must be confirmed in `confirmed_findings.json` by what the specification says.
Otherwise the page is not written. The agents without `findings` are the control set: the checker must have
no finding about them.
"""

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
from msgspec import Struct

from accord import __version__
from accord.check.agent.agent_under_test import AgentProcessLauncher
from accord.check.check_run import CheckOptions, check_agent
from accord.check.check_script import AgentCheckScript, read_script
from accord.check.findings import VERDICTS, CheckReport, Finding

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
    findings: str = ""
    """Its name in the confirmed findings; empty: there must be none."""


class ConfirmedFinding(Struct, frozen=True):
    """What the specification says, in our words, about a rule that these programs break."""

    rule: str
    programs: tuple[str, ...]
    observed: str
    """The start of what the checker observed."""
    source: str
    """The page and section, or the type of the schema."""
    says: str

    def confirms(self, checked: CheckedProgram, finding: Finding) -> bool:
        """Whether it is about this finding."""
        return (
            finding.rule.slug == self.rule
            and checked.findings in self.programs
            and finding.why.startswith(self.observed)
        )


CONFIRMED = msgspec.json.decode((HERE / "confirmed_findings.json").read_bytes(), type=list[ConfirmedFinding])


def confirmation(checked: CheckedProgram, finding: Finding) -> ConfirmedFinding | None:
    """The confirmation of a finding, if there is one."""
    return next((one for one in CONFIRMED if one.confirms(checked, finding)), None)


def unconfirmed(reports: "Sequence[tuple[CheckedProgram, CheckReport]]") -> list[str]:
    """The findings that nothing in the specification confirms, as texts."""
    return [
        f"{checked.name}: {finding.rule.slug} {finding.verdict}: {finding.why}"
        for checked, report in reports
        for finding in report.of("fail", "warn")
        if confirmation(checked, finding) is None
    ]


def guide_agent(folder: Path) -> Path:
    """Write the `mcp_agent.py` of docs/writing-agents.md to a file."""
    text = (ROOT / "docs" / "writing-agents.md").read_text("utf-8")
    path = folder / "mcp_agent.py"
    path.write_text(re.findall(r"```python\n# mcp_agent\.py\n(.*?)```", text, re.DOTALL)[-1], "utf-8")
    return path


def control_set(folder: Path) -> list[CheckedProgram]:
    """Agents that keep every rule: the checker must have no finding about them."""
    own, python = f"accord {__version__}", sys.executable
    return [
        CheckedProgram("`accord agent` on `rehearsal`", own, (python, "-m", "accord.cli", "agent")),
        CheckedProgram(
            "`mcp_agent.py` of [Write an agent](writing-agents.md)",
            own,
            (python, str(guide_agent(folder))),
        ),
        CheckedProgram(
            "`examples/agent.py`", own, (python, str(ROOT / "examples/agent.py")), HERE / "example.json"
        ),
        CheckedProgram(
            "an agent without a library (`tests/check/peers/raw_agent.py`)",
            "the standard library of Python",
            (python, "-I", "-S", str(HERE / "peers/raw_agent.py")),
            HERE / "peers/raw_agent.json",
        ),
    ]


def agents(folder: Path) -> list[CheckedProgram]:
    """The agents that can be started here."""
    own = f"accord {__version__}"
    sdk = ROOT / "tests/node/node_modules/@agentclientprotocol/sdk/package.json"
    python, node = sys.executable, shutil.which("node")
    found = [
        *control_set(folder),
        CheckedProgram(
            "the test agent on Accord",
            own,
            (python, str(PEERS / "accord_agent.py")),
            HERE / "interop.json",
            "accord",
        ),
        CheckedProgram(
            "the test agent on the official Python SDK",
            f"agent-client-protocol {version('agent-client-protocol')}",
            (python, str(PEERS / "official_python_agent.py")),
            HERE / "interop.json",
            "python",
        ),
    ]
    if node and sdk.exists():
        found.append(
            CheckedProgram(
                "the test agent on the official TypeScript SDK",
                f"@agentclientprotocol/sdk {json.loads(sdk.read_text())['version']}",
                (node, str(PEERS / "official_ts_agent.mjs")),
                HERE / "interop.json",
                "typescript",
            )
        )
    return found


async def check(checked: CheckedProgram) -> CheckReport:
    """Check one agent against all rules."""
    options = CheckOptions(script=read_script(checked.script, AgentCheckScript) if checked.script else None)
    return await check_agent(AgentProcessLauncher(checked.command), options=options)


ESCAPED_BAR = "\\|"
CLIENTS = "\n# Clients\n"
"""The heading of the half about clients."""
HEAD = """# Conformance

Run the checker on Accord's agents and on agents that use the official SDKs, and write the results to this
page:

```console
$ python -m tests.check.agent_conformance   # agents
$ python -m tests.check.client_conformance  # clients, the second half of this page
```

The rules and verdicts are those of [`accord check`](check.md).

Four agents are the control set: `accord agent`, the agent of the guide, the example, and an agent that uses
no library at all. They keep every rule, so a finding about one of them would be a mistake of the checker.

Every finding about another agent was compared with the specification. The last column of its table says in
our words what the documentation, the schema or JSON-RPC says, and where. The page is not written while a
finding has no such confirmation (`tests/check/confirmed_findings.json`).

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
        confirmed = [confirmation(checked, one) for one in broken]
        if not broken:
            lines.append("No rule is broken.")
        elif any(confirmed):
            lines += ["| rule | verdict | text | observed | specification |", "|---|---|---|---|---|"]
        else:
            lines += ["| rule | verdict | text | observed |", "|---|---|---|---|"]
        for one, source in zip(broken, confirmed, strict=True):
            cells = [one.rule.label, one.verdict, one.rule.text, one.why.split("; ")[0][:180]]
            cells += [f"{source.says} ({source.source})"] if source else []
            lines.append(f"| {' | '.join(cell.replace('|', ESCAPED_BAR) for cell in cells)} |")
        unseen = ", ".join(one.rule.label for one in report.of("not shown"))
        lines += ["", f"Not shown: {unseen}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Check the agents one after the other and write the page."""
    with TemporaryDirectory() as folder:
        reports = [(checked, asyncio.run(check(checked))) for checked in agents(Path(folder))]
    if problems := unconfirmed(reports):
        sys.exit("findings without a confirmation in confirmed_findings.json:\n" + "\n".join(problems))
    _, mark, clients = PAGE.read_text("utf-8").partition(CLIENTS)
    PAGE.write_text(page(HEAD, "agent", reports, f"{datetime.now(UTC):%Y-%m-%d}") + mark + clients, "utf-8")


if __name__ == "__main__":
    main()
