"""Proves the checks of agents: an agent that keeps every rule passes, and for each rule an agent that breaks
it fails exactly that rule.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.check.idle_clock import idle_clock
from tests.check.model_agent.launcher import SCRIPT, ModelLauncher

from accord.check.check_run import (
    AGENT_UNTRIED,
    CheckOptions,
    agent_cases,
    agent_rules,
    agent_run,
    check_agent,
    first_words,
)
from accord.check.checked_connection import CheckTimeouts
from accord.clock import SYSTEM_CLOCK

LACKS = {66: ("session/status",)}
"""Capabilities that the model agent must lack to show a rule."""
WITH_REAL_PROCESSES = (95, 96)
BOUNDS = CheckTimeouts(answer=100.0, turn=100.0, soon=1.0)
"""With real time: long for what must come, short for what must not come."""
CANNOT_FAIL = {124: "a page of any size may be a bounded one"}
FALLIBLE = [rule for rule in agent_rules() if rule not in AGENT_UNTRIED and rule not in CANNOT_FAIL]


async def broken_rules(rule: Any, folder: Path) -> set[Any]:
    """The rules that an agent with this defect is found to break, in all scenes for the rule."""
    context = nullcontext(SYSTEM_CLOCK) if rule in WITH_REAL_PROCESSES else idle_clock()
    async with context as clock:
        launcher = ModelLauncher(rule, lacks=LACKS.get(rule, ()))
        options = CheckOptions(
            script=SCRIPT,
            jobs=1,
            clock=clock,
            bounds=BOUNDS if rule in WITH_REAL_PROCESSES else CheckTimeouts(),
        )
        initialized = await first_words(launcher, folder / "first", options)
        run = agent_run(launcher, folder, SCRIPT, initialized, options)
        ledger = await run.play([scene for scene in agent_cases() if rule in scene.rules])
    return {note.rule for note in ledger.notes if note.outcome == "broken"}


@pytest.mark.parametrize("rule", FALLIBLE)
async def test_an_agent_that_breaks_one_rule_fails_exactly_that_rule(rule: Any, tmp_path: Path) -> None:
    assert await broken_rules(rule, tmp_path) == {rule}


async def test_an_agent_that_keeps_every_rule_passes_every_rule() -> None:
    options = CheckOptions(script=SCRIPT, jobs=1, bounds=CheckTimeouts().times(5))
    report = await check_agent(ModelLauncher(), options=options)
    others = {finding.subject.id: finding.why for finding in report.findings if finding.verdict != "pass"}
    # Rule 66 is about a missing capability, so it is shown by an agent that lacks one.
    assert set(others) == {"66", *map(str, AGENT_UNTRIED)}, others
    report = await check_agent(ModelLauncher(lacks=LACKS[66]), [66], CheckOptions(script=SCRIPT, jobs=1))
    assert [finding.verdict for finding in report.findings] == ["pass"]


def test_every_rule_has_a_scene_or_a_reason_why_not() -> None:
    shown = {rule for scene in agent_cases() for rule in scene.rules}
    assert set(agent_rules()) - shown == set(AGENT_UNTRIED)
    assert not shown & set(AGENT_UNTRIED)
