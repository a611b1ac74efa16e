"""Proves the checks of clients of version 2: a client that keeps every rule passes, and for each rule a
client that breaks it fails exactly that rule.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.check.idle_clock import idle_clock
from tests.check.model_client_v2 import SCRIPT, ModelLauncherV2

from accord.check.check_run import CLIENTS_V2, CheckOptions, check_client, client_run, observe_client
from accord.check.findings import SCHEMA


async def broken_rules(rule: Any, folder: Path) -> set[Any]:
    """The rules that a client with this defect is found to break, in all cases for the rule."""
    async with idle_clock() as clock:
        options = CheckOptions(script=SCRIPT, jobs=1, clock=clock)
        fixture = CLIENTS_V2.fixture
        traits = await observe_client(ModelLauncherV2(clock=clock), folder / "first", options, fixture)
        launcher = ModelLauncherV2(rule, clock=clock)
        run = client_run(launcher, folder, SCRIPT, traits, options, fixture)
        notes = await run.run_cases([case for case in CLIENTS_V2.cases if rule in case.rules])
    assert {note.rule for note in notes.entries} <= {*CLIENTS_V2.rules}, "a note about an unknown rule"
    return {note.rule for note in notes.entries if note.outcome == "fail"}


@pytest.mark.parametrize("rule", [rule for rule in CLIENTS_V2.rules if rule != SCHEMA])
async def test_a_client_that_breaks_one_rule_fails_exactly_that_rule(rule: Any, tmp_path: Path) -> None:
    assert await broken_rules(rule, tmp_path) == {rule}


async def test_a_client_that_keeps_every_rule_passes_every_rule() -> None:
    async with idle_clock() as clock:
        options = CheckOptions(script=SCRIPT, jobs=1, clock=clock)
        report = await check_client(ModelLauncherV2(clock=clock), options=options, protocol=2)
    others = {finding.rule.slug: finding.why for finding in report.findings if finding.verdict != "pass"}
    assert not others
