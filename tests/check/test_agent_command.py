"""`accord check agent`: agents that misbehave, and options that only this command has."""

import re
import sys
from pathlib import Path

import pytest
from tests.check.commands import MODEL, ODD_AGENT, model_script, printed_report, verdicts

from accord.check.agent.agent_under_test import AgentProcessLauncher
from accord.check.check_fixture import ProgramTraits
from accord.check.check_run import AGENTS, CheckOptions, agent_run, check_agent
from accord.check.check_script import AGENT_ACTIONS, AgentCheckScript, shipped_script
from accord.check.checked_connection import CheckTimeouts
from accord.check.findings import Finding, RuleId
from accord.cli import main


async def findings(behavior: str, *rules: RuleId, turn: float = 100.0) -> dict[str, Finding]:
    """The findings for a misbehaving agent. The checker hardly waits for it to exit."""
    timeouts = CheckTimeouts(answer=100.0, turn=turn, soon=turn, exit=0.2)
    launcher = AgentProcessLauncher((*ODD_AGENT, behavior), exit_timeout=timeouts.exit)
    report = await check_agent(launcher, rules, CheckOptions(timeouts=timeouts))
    return {one.rule.slug: one for one in report.findings}


def test_a_broken_should_rule_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--only", "17", "--json", "--script", model_script(tmp_path)]
    assert main(["check", "agent", *arguments, "--", *MODEL, "framing.agent-unknown-extension"]) == 0
    report = printed_report(capsys)
    assert report["counts"]["warn"] == 1
    (rule,) = report["rules"]
    assert rule["verdict"] == "warn"
    assert rule["level"] == "SHOULD"
    assert rule["source"] == "the prose of the documentation"
    assert [frame["from"] for frame in rule["frames"]] == ["client", "agent"]


def test_an_agent_that_crashes_is_restarted(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", "agent", "--only", "31,62,72", "--json", "--", *ODD_AGENT, "crashes"])
    rules = {rule["id"]: rule for rule in printed_report(capsys)["rules"]}
    assert code == 1
    assert rules["31"]["verdict"] == "warn"
    assert "the agent ended" in rules["31"]["why"]
    assert "stderr: what is _check/barrier?" in rules["31"]["why"]
    assert rules["62"]["verdict"] == "pass"
    assert rules["72"]["verdict"] == "fail"


async def test_an_agent_that_hangs_is_abandoned_and_ended() -> None:
    found = await findings("hangs", "framing.agent-unknown-method", "prompt.answered", "fault-dies", turn=0.5)
    assert found["framing.agent-unknown-method"].verdict == "pass"
    assert found["prompt.answered"].verdict == "fail"
    assert "session/prompt was not answered within 0.5 seconds" in found["prompt.answered"].why
    assert found["fault-dies"].verdict == "fail"
    assert "it still ran 0.2 seconds after its input was closed" in found["fault-dies"].why


async def test_an_agent_that_hangs_in_every_turn_does_not_keep_the_check_busy(tmp_path: Path) -> None:
    """After three cases without an answered turn, the next ones wait only for the short limit."""
    timeouts = CheckTimeouts(answer=100.0, turn=0.5, soon=0.25, exit=0.2)
    launcher = AgentProcessLauncher((*ODD_AGENT, "hangs"), exit_timeout=timeouts.exit)
    options = CheckOptions[AgentCheckScript](timeouts=timeouts, jobs=1)
    run = agent_run(launcher, tmp_path, shipped_script("plain", AgentCheckScript), ProgramTraits(), options)
    names = ["a plain turn"] * 3 + ["cancel without a turn"]
    cases = {case.name: case for case in AGENTS.cases}
    notes = await run.run_cases([cases[name] for name in names])
    limits = [note.reason.rpartition(" within ")[2] for note in notes.for_rule("prompt.answered")]
    assert limits == ["0.5 seconds"] * 3 + ["0.25 seconds"]


async def test_an_agent_that_does_not_read_lines_fails() -> None:
    timeouts = CheckTimeouts(answer=5.0, exit=0.2)
    launcher = AgentProcessLauncher((*ODD_AGENT, "reads_chunks"), exit_timeout=timeouts.exit)
    report = await check_agent(launcher, ["fault-pieces"], CheckOptions(timeouts=timeouts))
    (found,) = report.findings
    assert (found.verdict, found.why) == ("fail", "initialize was not answered within 5 seconds")
    found = await findings("rejects", "fault-pieces")
    assert found["fault-pieces"].verdict == "pass"


@pytest.mark.parametrize("behavior", ["floods", "floods_requests"])
async def test_a_flood_of_messages_ends_in_a_verdict(behavior: str) -> None:
    found = await findings(behavior, "schema", "framing.agent-returns-id", "framing.agent-unknown-method")
    assert found["framing.agent-returns-id"].verdict == "fail"
    assert re.search(
        r"_check/id was not answered in a flood: \d+ lines, \d+ bytes", found["framing.agent-returns-id"].why
    )
    assert found["framing.agent-unknown-method"].verdict == "not shown"
    assert found["schema"].verdict == "not shown"


@pytest.mark.parametrize(
    ("behavior", "reason"),
    [("answers_too_long", "bytes, over the limit of 64 MiB"), ("nests_deeply", "nested over 100 levels")],
)
async def test_a_message_that_is_too_big_is_not_judged(behavior: str, reason: str) -> None:
    found = await findings(behavior, "schema", "framing.agent-returns-id", "framing.agent-no-batch")
    assert found["framing.agent-no-batch"].verdict == "pass"
    assert {found[id].verdict for id in ("schema", "framing.agent-returns-id")} == {"not shown"}
    assert reason in found["schema"].why
    assert reason in found["framing.agent-returns-id"].why


async def test_an_error_without_an_id_counts_as_the_answer() -> None:
    """The report shows what the agent answered, and the check does not wait for another answer."""
    found = await findings("answers_without_id", "framing.agent-returns-id", "accord.agent-lone-surrogate")
    assert found["framing.agent-returns-id"].verdict == "fail"
    assert found["framing.agent-returns-id"].why == "the id -7 gave error -32700: Parse error, without the id"
    assert [frame.sender for frame in found["framing.agent-returns-id"].frames] == ["client", "agent"]
    assert (
        found["accord.agent-lone-surrogate"].why == "half of a surrogate pair gave error -32700: Parse error"
    )


async def test_an_array_may_answer_a_batch_and_nothing_else() -> None:
    found = await findings(
        "answers_batches", "framing.agent-returns-id", "framing.agent-no-batch", "framing.survives-batch"
    )
    assert {id: one.verdict for id, one in found.items()} == dict.fromkeys(found, "pass")
    found = await findings("sends_batches", "framing.agent-no-batch", "framing.survives-batch")
    assert (found["framing.agent-no-batch"].verdict, found["framing.agent-no-batch"].why) == (
        "fail",
        "an array of messages",
    )
    assert found["framing.survives-batch"].verdict == "pass"


async def test_a_second_prompt_is_judged_only_while_the_first_turn_runs() -> None:
    found = await findings("ends_busy_turns", "accord.prompt-during-turn")
    assert found["accord.prompt-during-turn"].verdict == "not shown"
    assert "the busy turn ended by itself" in found["accord.prompt-during-turn"].why


async def test_a_turn_that_ends_before_the_cancel_or_close_shows_nothing() -> None:
    rules = ("cancel.stop-reason", "cancel.soon", "session.close-cancels-turn")
    found = await findings("ends_turns_by_itself", *rules)
    assert {rule: found[rule].verdict for rule in rules} == dict.fromkeys(rules, "not shown")
    assert "the busy turn ended" in found["session.close-cancels-turn"].why


async def test_a_held_prompt_must_end_with_the_cancel() -> None:
    found = await findings("holds_prompts", "accord.prompt-during-turn", turn=2.0)
    assert found["accord.prompt-during-turn"].verdict == "warn"
    assert "ended a held prompt with" in found["accord.prompt-during-turn"].why


async def test_a_warning_of_the_agent_need_not_be_replayed() -> None:
    found = await findings("warns", "session.load-replays")
    assert (found["session.load-replays"].verdict, found["session.load-replays"].why) == (
        "pass",
        "the whole conversation is replayed",
    )
    found = await findings("loses_text", "session.load-replays")
    assert (found["session.load-replays"].verdict, found["session.load-replays"].why) == (
        "fail",
        "the text of the agent is not replayed",
    )


async def test_a_version_below_all_of_the_agent_may_be_refused_as_version_2_asks(tmp_path: Path) -> None:
    program = tmp_path / "both_versions.py"
    program.write_text(
        "import accord\nagent = accord.Agent('both', protocol=(1, 2))\n"
        "@agent.prompt\nasync def reply(turn): ...\nagent.serve()\n"
    )
    launcher = AgentProcessLauncher((sys.executable, str(program)), exit_timeout=40.0)
    report = await check_agent(launcher, ("initialize.version-offered",))
    (found,) = report.findings
    assert found.verdict == "pass", found.why


async def test_members_that_were_official_for_a_while_are_not_custom() -> None:
    found = await findings("names_variables", "extension.agent-no-custom-members")
    assert found["extension.agent-no-custom-members"].verdict == "pass"
    assert (
        "$.authMethods[0].vars was official in releases 0.15 to 1.3"
        in found["extension.agent-no-custom-members"].why
    )
    found = await findings("names_passwords", "extension.agent-no-custom-members")
    assert found["extension.agent-no-custom-members"].verdict == "fail"
    assert "$.authMethods[0].type: unknown member" in found["extension.agent-no-custom-members"].why


def test_the_schema_rule_alone_is_checked_in_all_cases(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", "agent", "--json", "--only"]
    assert main([*arguments, "schema", "--", *ODD_AGENT, "sends_invalid_plans"]) == 1
    (rule,) = printed_report(capsys)["rules"]
    assert rule["why"] == "plan: $.update.entries: expected array, got number"
    # A more specific rule is blamed instead, if it is selected.
    assert main([*arguments, "schema,205,142", "--", *ODD_AGENT, "sends_invalid_plans"]) == 1
    assert verdicts(capsys) == {"schema": "pass", "205": "fail", "142": "pass"}


def test_selected_rules_that_were_not_shown_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "agent", "--only", "205", "--", *ODD_AGENT, "rejects"]) == 0
    assert "? plan.entry-members (205)  not shown" in capsys.readouterr().out


def test_a_needed_rule_that_was_not_shown_fails(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", "agent", "--only", "15,205", "--need", "205"]
    assert main([*arguments, "--", *ODD_AGENT, "rejects"]) == 1
    output = capsys.readouterr().out
    assert "x plan.entry-members (205)  fail" in output
    assert "required, but not shown: " in output
    assert main(["check", "agent", "--need", "2", "--", *ODD_AGENT, "rejects"]) == 2


def test_the_rules_are_listed_with_their_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "rules", "--json"]) == 0
    rows = {row["id"]: row for row in printed_report(capsys)}
    assert len(rows) == 221
    assert rows["15"]["scenes"] == [
        "ids, unknown methods, notifications: requests with various ids, unknown methods, "
        "unknown notifications"
    ]
    assert rows["15"]["source"] == "JSON-RPC 2.0"
    assert "needs a user" in rows["89"]["untried"]


def test_the_docs_list_every_act() -> None:
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text()
    table = page.partition("| act |")[2].partition("The other members")[0]
    documented = {
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.partition(" | ")[0])
    }
    assert documented == set(AGENT_ACTIONS)


def test_the_shipped_agent_scripts_are_valid() -> None:
    assert shipped_script("accord", AgentCheckScript).agents == ("accord",)
    assert shipped_script("accord", AgentCheckScript).strict == ("--strict",)
    assert shipped_script("plain", AgentCheckScript).agents == ()
