"""Proves the checks of clients: a client that keeps every rule passes, and for each rule a client that breaks
it fails exactly that rule.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.check.idle_clock import idle_clock
from tests.check.model_client.launcher import SCRIPT, ModelLauncher

from accord.check.check_run import CLIENTS, CheckOptions, check_client, client_run, observe_client
from accord.check.checked_connection import CheckTimeouts
from accord.clock import SYSTEM_CLOCK

LACKS = {
    "file.unadvertised-method": ("fs", "terminal"),
    "elicitation.unadvertised-mode": ("url",),
    "notice.unadvertised": ("notices",),
}
"""Capabilities that the model client must lack to show a rule."""
WITH_REAL_PROCESSES = (
    "framing.client-empty-results",
    "cancel-request.client-still-answered",
    "cancel-request.client-own-abort",
    "cancel.notification",
    "cancel.late-updates-applied",
    *(
        "terminal.create-at-once",
        "terminal.environment",
        "terminal.output-members",
        "terminal.output-limit",
        "terminal.exit-status",
        "terminal.calls-during-wait",
        "terminal.kill-keeps-id",
        "terminal.release-kills",
        "terminal.released-id-fails",
    ),
    "terminal.unknown-id",
    "elicitation.url-only-on-consent",
    "terminal.create-invalid-params",
    "terminal.create-null-params",
)
WAITING = ("cancel-request.client-still-answered", "terminal.create-at-once", "terminal.calls-during-wait")
"""Of those, the rules whose defect is a missing answer."""
FALLIBLE = [rule for rule in CLIENTS.rules if rule not in CLIENTS.untested]


async def broken_rules(rule: Any, folder: Path, *, ours: bool = True) -> set[Any]:
    """The rules that a client with this defect is found to break, in all cases for the rule."""
    real = rule in WITH_REAL_PROCESSES
    async with nullcontext(SYSTEM_CLOCK) if real else idle_clock() as clock:
        launcher = ModelLauncher(rule, lacks=LACKS.get(rule, ()), clock=clock)
        # A defect that waits for its own child process needs a short bound, the others a long one.
        timeouts = (
            CheckTimeouts(answer=3.0 if rule in WAITING else 60.0, soon=60.0, exit=1.0)
            if real
            else CheckTimeouts()
        )
        script = structs.replace(SCRIPT, ours=ours)
        options = CheckOptions(script=script, jobs=1, clock=clock, timeouts=timeouts)
        traits = await observe_client(launcher, folder / "first", options)
        run = client_run(launcher, folder, script, traits, options)
        notes = await run.run_cases([case for case in CLIENTS.cases if rule in case.rules])
    assert {note.rule for note in notes.entries} <= {*CLIENTS.rules}, "a note about an unknown rule"
    return {note.rule for note in notes.entries if note.outcome == "fail"}


@pytest.mark.parametrize("rule", FALLIBLE)
async def test_a_client_that_breaks_one_rule_fails_exactly_that_rule(rule: Any, tmp_path: Path) -> None:
    assert await broken_rules(rule, tmp_path) == {rule}


async def test_other_clients_may_refuse_unknown_sessions_with_any_code(tmp_path: Path) -> None:
    assert await broken_rules("accord.client-unknown-session", tmp_path, ours=False) == set()


async def test_a_client_that_keeps_every_rule_passes_every_rule() -> None:
    report = await check_client(ModelLauncher(), options=CheckOptions(script=SCRIPT, jobs=1))
    others = {one.rule.slug: (one.verdict, one.why) for one in report.findings if one.verdict != "pass"}
    # Rules about missing capabilities are shown by a client that lacks them.
    assert set(others) == {*LACKS, *CLIENTS.untested}, others
    for rule, lacks in LACKS.items():
        report = await check_client(ModelLauncher(lacks=lacks), [rule], CheckOptions(script=SCRIPT, jobs=1))
        assert [one.verdict for one in report.findings] == ["pass"]


def test_every_rule_has_a_case_or_a_reason_why_not() -> None:
    shown = {rule for case in CLIENTS.cases for rule in case.rules}
    assert set(CLIENTS.rules) - shown == set(CLIENTS.untested)
    assert not shown & set(CLIENTS.untested)
