"""The whole check on real programs: `accord agent`, `accord run`, and clients on the official SDKs.

docs/conformance.md has all results.
"""

import shutil
import sys

import pytest
from tests.check.client_conformance import ONE_TURN, PEERS, PLACEHOLDERS
from tests.check.proven_rules import AGENT_PROVEN, RUN_PROVEN
from tests.repetitions import ALL

from accord.check.agent.agent_under_test import AgentProcessLauncher
from accord.check.check_run import AGENTS, CLIENTS, CheckOptions, check_agent, check_client
from accord.check.check_script import ClientCheckScript, read_script
from accord.check.checked_connection import CheckTimeouts
from accord.check.client.client_process import ClientProcessLauncher
from accord.check.findings import RuleId
from accord.schema.conformance_rules import RULES

AGENT = (sys.executable, "-m", "accord.cli", "agent")
RUN = (sys.executable, "-m", "accord.cli", "run", "{prompt}", "--", "{agent}")
conform = pytest.mark.skipif(not ALL, reason="`make conform` needs the same rules, with the command itself")
NODE = shutil.which("node") or ""
KEPT_BY_OFFICIAL_CLIENTS: list[RuleId] = [
    "framing.client-unknown-method",
    "initialize.first",
    "session.new-members",
    "prompt.client-serves-during-turn",
    "permission.served",
    "file.read-result",
    "terminal.exit-status",
    "fault-twice",
    "fault-pieces",
]


@conform
@pytest.mark.timeout(1800)
@pytest.mark.rule(*AGENT_PROVEN)
async def test_accord_agent_breaks_no_rule() -> None:
    launcher = AgentProcessLauncher(AGENT, exit_timeout=40.0)
    report = await check_agent(launcher, options=CheckOptions(timeouts=CheckTimeouts().scaled(5)))
    assert report.name == "accord"
    assert report.script == "accord agent on rehearsal"
    assert {one.rule.slug: (one.why, one.frames) for one in report.of("fail", "warn")} == {}
    passed = {one.rule.slug for one in report.of("pass")}
    assert {str(rule) for rule in AGENT_PROVEN} - passed == set()
    assert {rule for rule in AGENTS.rules if rule not in RULES.by_slug} <= passed


@conform
@pytest.mark.timeout(1800)
@pytest.mark.rule(*RUN_PROVEN)
async def test_accord_run_breaks_no_rule() -> None:
    options = CheckOptions(timeouts=CheckTimeouts().scaled(5), jobs=3)
    report = await check_client(ClientProcessLauncher(RUN), options=options)
    assert (report.kind, report.name, report.script) == ("client", "accord", "accord run")
    assert {one.rule.slug: (one.why, one.frames) for one in report.of("fail", "warn")} == {}
    passed = {one.rule.slug for one in report.of("pass")}
    assert {str(rule) for rule in RUN_PROVEN} - passed == set()
    assert {rule for rule in CLIENTS.rules if rule not in RULES.by_slug} <= passed


@pytest.mark.parametrize(
    "command",
    [
        pytest.param((sys.executable, str(PEERS / "official_python_client.py")), id="python"),
        pytest.param(
            (NODE, str(PEERS / "official_ts_client.mjs")),
            id="typescript",
            marks=pytest.mark.skipif(not NODE, reason="needs node"),
        ),
    ],
)
async def test_official_clients_pass_the_rules_they_keep(command: tuple[str, ...]) -> None:
    options = CheckOptions(
        script=read_script(ONE_TURN, ClientCheckScript), timeouts=CheckTimeouts().scaled(5)
    )
    launcher = ClientProcessLauncher((*command, *PLACEHOLDERS))
    report = await check_client(launcher, KEPT_BY_OFFICIAL_CLIENTS, options)
    assert {one.rule.slug: (one.verdict, one.why) for one in report.findings if one.verdict != "pass"} == {}
