"""Proves the checks of agents: an agent that keeps every rule passes, and for each rule an agent that breaks
it fails exactly that rule.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.check.idle_clock import idle_clock
from tests.check.model_agent.launcher import SCRIPT, ModelLauncher
from tests.check.model_agent.sessions import Sessions
from tests.check.model_agent.state import Message, Session
from tests.check.model_agent.state import options as model_options

from accord.check.check_run import AGENTS, CheckOptions, agent_run, check_agent, initialize_agent
from accord.check.checked_connection import CheckTimeouts
from accord.check.findings import RuleNotes, make_findings
from accord.clock import SYSTEM_CLOCK

LACKS = {"initialize.unadvertised-methods": ("session/status",)}
"""Capabilities that the model agent must lack to show a rule."""
WITH_REAL_PROCESSES = ("session.stdio-mcp-server", "session.every-mcp-server")
TIMEOUTS = CheckTimeouts(answer=100.0, turn=100.0, soon=1.0)
"""With real time: long for what must come, short for what must not come."""
CANNOT_FAIL = {"session.list-page-size": "a page of any size may be a bounded one"}
FALLIBLE = [rule for rule in AGENTS.rules if rule not in AGENTS.untested and rule not in CANNOT_FAIL]


async def notes_of(rule: Any, folder: Path, cases_of: Any = None, *, ours: bool = True) -> RuleNotes:
    """The notes about an agent with the defect of a rule, in all cases for this rule or for `cases_of`."""
    context = nullcontext(SYSTEM_CLOCK) if rule in WITH_REAL_PROCESSES else idle_clock()
    async with context as clock:
        launcher = ModelLauncher(rule, lacks=LACKS.get(rule, ()))
        script = structs.replace(SCRIPT, ours=ours)
        options = CheckOptions(
            script=script,
            jobs=1,
            clock=clock,
            timeouts=TIMEOUTS if rule in WITH_REAL_PROCESSES else CheckTimeouts(),
        )
        traits = await initialize_agent(launcher, folder / "first", options)
        run = agent_run(launcher, folder, script, traits, options)
        return await run.run_cases([case for case in AGENTS.cases if (cases_of or rule) in case.rules])


async def broken_rules(rule: Any, folder: Path, *, ours: bool = True) -> set[Any]:
    """The rules that an agent with this defect is found to break, in all cases for the rule."""
    notes = await notes_of(rule, folder, ours=ours)
    assert {note.rule for note in notes.entries} <= {*AGENTS.rules}, "a note about an unknown rule"
    return {note.rule for note in notes.entries if note.outcome == "fail"}


@pytest.mark.parametrize("rule", FALLIBLE)
async def test_an_agent_that_breaks_one_rule_fails_exactly_that_rule(rule: Any, tmp_path: Path) -> None:
    assert await broken_rules(rule, tmp_path) == {rule}


@pytest.mark.parametrize(
    "rule",
    [
        "accord.agent-unknown-session",
        "accord.prompt-during-turn",
        "accord.request-before-initialize",
        "accord.unknown-value",
    ],
)
async def test_other_agents_may_use_any_code_where_the_protocol_names_none(rule: int, tmp_path: Path) -> None:
    assert await broken_rules(rule, tmp_path, ours=False) == set()


async def test_an_agent_that_ignores_capabilities_is_not_said_to_misread_them(tmp_path: Path) -> None:
    """It reads files without any capability, which another rule is about."""
    notes = await notes_of(
        "file.read-needs-capability", tmp_path, cases_of="initialize.agent-malformed-capability"
    )
    findings = {
        one.rule.slug: one
        for one in make_findings(
            notes, ["initialize.agent-malformed-capability", "file.read-needs-capability"], ours=True
        )
    }
    assert findings["initialize.agent-malformed-capability"].verdict == "not shown"
    assert "without any capability" in findings["initialize.agent-malformed-capability"].why
    assert findings["file.read-needs-capability"].verdict == "fail"


async def test_an_agent_that_keeps_every_rule_passes_every_rule() -> None:
    options = CheckOptions(script=SCRIPT, jobs=1, timeouts=CheckTimeouts().scaled(5))
    report = await check_agent(ModelLauncher(), options=options)
    others = {finding.rule.slug: finding.why for finding in report.findings if finding.verdict != "pass"}
    # This rule is about a missing capability, so it is shown by an agent that lacks one.
    assert set(others) == {"initialize.unadvertised-methods", *AGENTS.untested}, others
    report = await check_agent(
        ModelLauncher(lacks=LACKS["initialize.unadvertised-methods"]),
        ["initialize.unadvertised-methods"],
        CheckOptions(script=SCRIPT, jobs=1),
    )
    assert [finding.verdict for finding in report.findings] == ["pass"]


@pytest.mark.parametrize(
    "rule",
    [
        "session.list-changes-nothing",
        "session.mcp-servers-invalid-refused",
        "system-prompt.invalid-refused",
    ],
)
async def test_sessions_of_other_cases_in_the_same_store_change_nothing(
    rule: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_sessions = Sessions.list

    async def list_after_another_case(self: Sessions, params: Message) -> Any:
        store = self.agent.store
        store.add(Session(f"other-{store.list_calls}", "/tmp/accord-check-other/case-1/project"))
        return await list_sessions(self, params)

    monkeypatch.setattr(Sessions, "list", list_after_another_case)
    notes = await notes_of(None, tmp_path, cases_of=rule)
    assert [note.reason for note in notes.for_rule(rule) if note.outcome == "fail"] == []
    assert any(note.outcome == "pass" for note in notes.for_rule(rule))


@pytest.mark.parametrize("rule", [None, "option.set-returns-all", "option.boolean-needs-capability"])
async def test_an_agent_with_only_boolean_options_is_checked(
    rule: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def booleans(session: Session, *, boolean: bool) -> list[Message]:
        second = {"type": "boolean", "id": "quiet", "name": "Quiet", "currentValue": False}
        return [*model_options(session, boolean=True)[-1:], second] if boolean else []

    monkeypatch.setattr("tests.check.model_agent.sessions.options", booleans)
    async with idle_clock() as clock:
        launcher = ModelLauncher(rule)
        check_options = CheckOptions(script=SCRIPT, jobs=1, clock=clock)
        traits = await initialize_agent(launcher, tmp_path / "first", check_options)
        run = agent_run(launcher, tmp_path, SCRIPT, traits, check_options)
        notes = await run.run_cases([case for case in AGENTS.cases if case.name == "options"])
    outcomes = {note.rule: note.outcome for note in notes.entries}
    expected: dict[Any, str] = dict.fromkeys(
        (
            "option.current-value",
            "option.set-returns-all",
            "option.boolean-needs-capability",
            "option.unknown-refused",
        ),
        "pass",
    )
    expected |= dict.fromkeys(
        ("option.current-value-listed", "option.flat-or-grouped", "option.select-without-type"),
        "not applicable",
    )
    if rule is not None:
        expected[rule] = "fail"
    assert {id: outcomes.get(id) for id in expected} == expected


def test_every_rule_has_a_case_or_a_reason_why_not() -> None:
    shown = {rule for case in AGENTS.cases for rule in case.rules}
    assert set(AGENTS.rules) - shown == set(AGENTS.untested)
    assert not shown & set(AGENTS.untested)


async def test_a_repeated_message_is_shown_twice_as_evidence(tmp_path: Path) -> None:
    """The same tool call id twice in a session: both messages are needed to see it."""
    notes = await notes_of("tool-call.unique-id", tmp_path)
    (finding,) = make_findings(notes, ["tool-call.unique-id"], ours=True)
    first, second = finding.frames[:2]
    assert first.connection == second.connection
    assert first.number < second.number
