"""`accord run` follows the protocol: the whole kit for clients on the real program, faults included."""

import sys

import pytest

from accord.check.bounds import Bounds
from accord.check.client.launch import ProcessLauncher
from accord.check.client.run import check_client, client_rules
from accord.check.client.scenes import UNTRIED
from accord.check.run import Options

RUN = (sys.executable, "-m", "accord.cli", "run", "{prompt}", "--", "{agent}")
NOT_OFFERED = {244, 261, 316, 365, 367, 368, 378, 381}
"""It offers all files, terminals and forms, wants notices, is no MCP server, and has no sub-agents."""
NEVER_DOES = {47, 80, 86, 113, 126, 282, 295, 330, 339, 341, 346, 351, 357}
"""Extensions of its own, logging in at a terminal (`accord agents login` does) and out, closing, deleting, forks, providers, archive, status, titles, system prompts."""
PROVEN = [
    rule
    for rule in client_rules()
    if isinstance(rule, int) and rule not in NOT_OFFERED | NEVER_DOES | set(UNTRIED)
]


@pytest.mark.timeout(400)
@pytest.mark.rule(*PROVEN)
async def test_accord_run_breaks_no_rule() -> None:
    options = Options(bounds=Bounds().times(5), jobs=3)
    report = await check_client(ProcessLauncher(RUN), options=options)
    assert (report.kind, report.name, report.script) == ("client", "accord", "accord run")
    assert {one.subject.id: (one.why, one.frames) for one in report.of("fail", "warn")} == {}
    passed = {one.subject.id for one in report.of("pass")}
    assert {str(rule) for rule in PROVEN} - passed == set()
    assert {rule for rule in client_rules() if isinstance(rule, str)} <= passed
