"""The checker tells the truth: agents that keep every rule have no finding, and every finding on
docs/conformance.md is confirmed by the specification.
"""

import re
from pathlib import Path

import pytest
from tests.check.agent_conformance import CONFIRMED, PAGE, CheckedProgram, control_set, unconfirmed
from tests.repetitions import IN_LONG_RUNS

from accord.check.agent.agent_under_test import AgentProcessLauncher
from accord.check.check_run import CheckOptions, check_agent
from accord.check.check_script import AgentCheckScript, read_script
from accord.check.checked_connection import CheckTimeouts
from accord.check.findings import CheckReport, Finding, checked_rule
from accord.schema.conformance_rules import RULES

PROGRAMS = {
    "The test agent on Accord": "accord",
    "The test agent on the official Python SDK": "python",
    "The test agent on the official TypeScript SDK": "typescript",
}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(1, id="guide", marks=IN_LONG_RUNS),
        pytest.param(2, id="example", marks=IN_LONG_RUNS),
        pytest.param(3, id="raw"),
    ],
)
async def test_an_agent_that_keeps_every_rule_has_no_finding(number: int, tmp_path: Path) -> None:
    """`accord agent`, the first of the set, is checked by `make conform`."""
    checked = control_set(tmp_path)[number]
    script = read_script(checked.script, AgentCheckScript) if checked.script else None
    options = CheckOptions(script=script, timeouts=CheckTimeouts().scaled(5))
    report = await check_agent(AgentProcessLauncher(checked.command, exit_timeout=40.0), options=options)
    assert {one.rule.slug: (one.why, one.frames) for one in report.of("fail", "warn")} == {}
    passed = {one.rule.slug for one in report.of("pass")}
    assert {"session.stdio-mcp-server", "session.every-mcp-server", "session.broken-mcp-server"} <= passed, (
        "it attaches real MCP servers"
    )
    assert len(passed) >= 60


def page_findings() -> list[tuple[str, str, str, str]]:
    """The findings about agents on the page: program, rule, what was observed, the specification."""
    found: list[tuple[str, str, str, str]] = []
    for part in PAGE.read_text("utf-8").partition("\n# Clients\n")[0].split("\n## ")[1:]:
        for line in re.findall(r"^\| \S+(?: \(\d+\))? \| (?:fail|warn) \| .*$", part, re.MULTILINE):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            slug = cells[0].split()[0]
            found.append((PROGRAMS.get(part.splitlines()[0], ""), slug, cells[3], cells[4]))
    return found


def test_every_finding_on_the_page_is_confirmed_by_the_specification() -> None:
    rows = page_findings()
    assert rows
    used = [
        one
        for program, rule, observed, specification in rows
        for one in CONFIRMED
        if rule == one.rule
        and program in one.programs
        and observed.replace("\\|", "|").startswith(one.observed[:100])
        and specification == f"{one.says} ({one.source})"
    ]
    assert len(used) == len(rows), "a finding without a confirmation; run tests.check.agent_conformance"
    assert [one for one in CONFIRMED if one not in used] == [], "confirmations of findings that are gone"


def test_a_confirmation_names_a_rule_and_a_place_in_the_specification() -> None:
    for one in CONFIRMED:
        assert one.rule.startswith("fault-") or one.rule in RULES.by_slug
        assert re.match(r"(docs, [A-Z]|schema, [A-Z]|JSON-RPC 2\.0, [A-Z])", one.source), one
        assert one.says
        assert one.observed


def test_an_unconfirmed_finding_is_named() -> None:
    """The generator ends with these texts and does not write the page."""
    checked = CheckedProgram("an agent", "its SDK", (), findings="python")
    findings = [
        Finding(
            checked_rule("framing.agent-survives-invalid-json"),
            "warn",
            "after {oops the agent did not answer; expected -32700",
        ),
        Finding(checked_rule("framing.agent-survives-invalid-json"), "warn", "the agent ended"),
        Finding(checked_rule("framing.agent-unknown-method"), "fail", "it gave a result"),
    ]
    report = CheckReport("agent", "x", "1", "s", findings)
    assert unconfirmed([(checked, report)]) == [
        "an agent: framing.agent-survives-invalid-json warn: the agent ended",
        "an agent: framing.agent-unknown-method fail: it gave a result",
    ]
