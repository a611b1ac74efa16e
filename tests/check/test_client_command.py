"""`accord check client`: clients that misbehave, and options that only this command has."""

from pathlib import Path
from typing import Any

import pytest
from tests.check.commands import PLACEHOLDERS, SIMPLE_CLIENT, printed_report, verdicts
from tests.cli.run.run_harness import alive

from accord.check.check_script import ClientCheckScript, shipped_script
from accord.check.client.client_process import fill_template
from accord.cli import main


def test_a_client_that_hangs_is_ended_with_its_process_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pid_file = tmp_path / "pids"
    command = (*SIMPLE_CLIENT, "hangs", str(pid_file), "--", "{agent}")
    assert main(["check", "client", "--only", "37", "--slow", "0.1", "--json", "--", *command]) == 0
    (rule,) = printed_report(capsys)["rules"]
    assert rule["verdict"] == "not shown"  # it stays after every turn, so the rule cannot be judged
    pids = [int(pid) for pid in pid_file.read_text().split()]
    assert len(pids) >= 2
    assert not any(alive(pid) for pid in pids)


def test_a_client_that_crashes_is_restarted(capsys: pytest.CaptureFixture[str]) -> None:
    command = (*SIMPLE_CLIENT, "crashes", *PLACEHOLDERS)
    assert main(["check", "client", "--only", "16,49,60", "--json", "--", *command]) == 0
    assert verdicts(capsys) == {"16": "pass", "49": "warn", "60": "pass"}


def test_a_flood_of_messages_ends_in_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    command = (*SIMPLE_CLIENT, "floods", *PLACEHOLDERS)
    assert main(["check", "client", "--only", "10,16", "--json", "--", *command]) == 1
    rules = {rule["id"]: rule for rule in printed_report(capsys)["rules"]}
    assert "was not answered in a flood: 20000 lines" in rules["10"]["why"]
    assert rules["16"]["verdict"] == "not shown"


def test_a_refusal_of_the_user_is_not_a_broken_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """A client that refuses every terminal and file may answer wrong types with the same refusal."""
    command = (*SIMPLE_CLIENT, "refuses", *PLACEHOLDERS)
    assert main(["check", "client", "--only", "239,241,326,327,328", "--json", "--", *command]) == 0
    rules = {rule["id"]: rule for rule in printed_report(capsys)["rules"]}
    assert rules.pop("327")["verdict"] == "pass"
    assert {rule["verdict"] for rule in rules.values()} == {"not shown"}


def test_the_command_needs_the_agent_placeholder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "client", "--", "client"]) == 2
    assert "has no {agent}" in capsys.readouterr().err


def test_the_rules_are_listed_with_their_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "rules", "client", "--json"]) == 0
    rows = {row["id"]: row for row in printed_report(capsys)}
    assert rows["49"]["scenes"] == ["unknown updates: an unknown update and an unknown block"]
    assert "screen" in rows["204"]["untried"]
    assert rows["fault-huge"]["scenes"] == ["a huge message: 8 MiB"]


def test_placeholders_in_the_command_are_filled() -> None:
    fill: dict[str, Any] = {"agent": ["py", "a b"], "prompt": "say hi", "folder": "/f", "options": ["-x"]}
    assert fill_template(["run", "{prompt}", "--", "{agent}"], **fill) == [
        "run",
        "say hi",
        "-x",
        "--",
        "py",
        "a b",
    ]
    assert fill_template(["run", "{options}", "--cmd={agent}", "{folder}"], **fill) == [
        "run",
        "-x",
        "--cmd=py 'a b'",
        "/f",
    ]
    assert fill_template(["run", "{agent}"], **fill) == ["run", "-x", "py", "a b"]


def test_the_shipped_client_scripts_are_valid() -> None:
    assert shipped_script("run", ClientCheckScript).clients == ("accord",)
    assert shipped_script("none", ClientCheckScript).acts == {}
