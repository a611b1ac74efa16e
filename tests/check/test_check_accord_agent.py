"""`accord agent` follows the protocol: the whole kit on the real program, with the model inside the package."""

import sys

import pytest

from accord.check.agent.launch import ProcessLauncher
from accord.check.agent.run import agent_rules, check_agent
from accord.check.bounds import Bounds
from accord.check.run import Options

AGENT = (sys.executable, "-m", "accord.cli", "agent")
WITHOUT_LOGIN = {82, 83, 87, 217, 284, 285}
"""It needs no login to begin with, has no boolean options and no plans by id."""
NOT_OFFERED = {*range(296, 301), *range(331, 339), 342, 343, 344, 347, 348, 349, *range(358, 362), 364}
"""Providers, archive, status, titles, auth status, MCP over ACP."""
UNSEEN = {48, 54, 89, 132, 266, 267, 268, 269, 352, 354, 366, 376}
"""What it does not do, or what cannot be seen from outside."""
BY_THE_MACHINE = {287, 288, 289, 312, 313}
"""Its notices are about the confinement of commands, which is not the same everywhere."""
PROVEN = [
    rule
    for rule in agent_rules()
    if isinstance(rule, int) and rule not in WITHOUT_LOGIN | NOT_OFFERED | UNSEEN | BY_THE_MACHINE
]


@pytest.mark.timeout(400)
@pytest.mark.rule(*PROVEN)
async def test_the_coding_agent_breaks_no_rule() -> None:
    launcher = ProcessLauncher(AGENT, leave=40.0)
    report = await check_agent(launcher, options=Options(bounds=Bounds().times(5)))
    assert report.name == "accord"
    assert report.script == "accord agent on rehearsal"
    assert {one.subject.id: (one.why, one.frames) for one in report.of("fail", "warn")} == {}
    passed = {one.subject.id for one in report.of("pass")}
    assert {str(rule) for rule in PROVEN} - passed == set()
    assert {rule for rule in agent_rules() if isinstance(rule, str)} <= passed
