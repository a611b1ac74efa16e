"""The whole check on real programs: `accord agent`, `accord run`, and clients on the official SDKs.

docs/conformance.md has all results.
"""

import shutil
import sys

import pytest
from tests.check.client_conformance import ONE_TURN, PEERS, PLACEHOLDERS

from accord.check.agent.agent_under_test import AgentProcessLauncher
from accord.check.check_run import (
    CLIENT_UNTESTED,
    CheckOptions,
    agent_rules,
    check_agent,
    check_client,
    client_rules,
)
from accord.check.check_script import ClientCheckScript, read_script
from accord.check.checked_connection import CheckTimeouts
from accord.check.client.client_process import ClientProcessLauncher
from accord.check.findings import RuleId

AGENT = (sys.executable, "-m", "accord.cli", "agent")
AGENT_WITHOUT_LOGIN = {82, 83, 87, 217, 284, 285}
"""It needs no login, and has no boolean options and no plans with ids."""
AGENT_NOT_OFFERED = {
    *range(296, 301),
    *range(331, 339),
    *(342, 343, 344, 347, 348, 349),
    *range(358, 362),
    364,
}
"""Providers, archive, status, titles, auth status, MCP over ACP."""
AGENT_UNSEEN = {48, 54, 89, 124, 132, 266, 267, 268, 269, 352, 354, 366, 376}
"""Behavior that it does not have, or that cannot be seen from outside.

It lists no sessions without a prompt, so the pages of its list (124) are not seen.
"""
AGENT_MACHINE_DEPENDENT = {287, 288, 289, 312, 313}
"""Its notices are about the sandbox for commands, which differs between machines."""
AGENT_PROVEN = [
    rule
    for rule in agent_rules()
    if isinstance(rule, int)
    and rule not in AGENT_WITHOUT_LOGIN | AGENT_NOT_OFFERED | AGENT_UNSEEN | AGENT_MACHINE_DEPENDENT
]

RUN = (sys.executable, "-m", "accord.cli", "run", "{prompt}", "--", "{agent}")
RUN_NOT_OFFERED = {244, 261, 316, 365, 367, 368, 378, 381}
"""It offers files, terminals and forms, wants notices, is no MCP server, and has no subagents."""
RUN_NEVER_DOES = {47, 80, 86, 113, 126, 282, 295, 330, 339, 341, 346, 351, 357}
"""Extensions of its own, login at a terminal (`accord agents login` does that) and logout, close, delete,
fork, providers, archive, status, titles, system prompts.
"""
RUN_PROVEN = [
    rule
    for rule in client_rules()
    if isinstance(rule, int) and rule not in RUN_NOT_OFFERED | RUN_NEVER_DOES | set(CLIENT_UNTESTED)
]

NODE = shutil.which("node") or ""
KEPT_BY_OFFICIAL_CLIENTS: list[RuleId] = [16, 58, 90, 158, 196, 239, 252, "fault-twice", "fault-pieces"]


@pytest.mark.timeout(1800)
@pytest.mark.rule(*AGENT_PROVEN)
async def test_accord_agent_breaks_no_rule() -> None:
    launcher = AgentProcessLauncher(AGENT, exit_timeout=40.0)
    report = await check_agent(launcher, options=CheckOptions(timeouts=CheckTimeouts().scaled(5)))
    assert report.name == "accord"
    assert report.script == "accord agent on rehearsal"
    assert {one.rule.id: (one.why, one.frames) for one in report.of("fail", "warn")} == {}
    passed = {one.rule.id for one in report.of("pass")}
    assert {str(rule) for rule in AGENT_PROVEN} - passed == set()
    assert {rule for rule in agent_rules() if isinstance(rule, str)} <= passed


@pytest.mark.timeout(1800)
@pytest.mark.rule(*RUN_PROVEN)
async def test_accord_run_breaks_no_rule() -> None:
    options = CheckOptions(timeouts=CheckTimeouts().scaled(5), jobs=3)
    report = await check_client(ClientProcessLauncher(RUN), options=options)
    assert (report.kind, report.name, report.script) == ("client", "accord", "accord run")
    assert {one.rule.id: (one.why, one.frames) for one in report.of("fail", "warn")} == {}
    passed = {one.rule.id for one in report.of("pass")}
    assert {str(rule) for rule in RUN_PROVEN} - passed == set()
    assert {rule for rule in client_rules() if isinstance(rule, str)} <= passed


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
    assert {one.rule.id: (one.verdict, one.why) for one in report.findings if one.verdict != "pass"} == {}
