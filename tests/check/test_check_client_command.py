"""`accord check client` with clients that do something odd, and what only it has."""

from pathlib import Path
from typing import Any

import pytest
from tests.check.commands import PLACES, SIMPLE_CLIENT, told, verdicts
from tests.cli.run.running import alive

from accord.check.client.command import ready
from accord.check.client.script import ClientScript
from accord.check.script import shipped
from accord.cli import main


def test_a_client_that_hangs_is_ended_with_all_it_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = tmp_path / "pids"
    words = (*SIMPLE_CLIENT, "hangs", str(noted), "--", "{agent}")
    assert main(["check", "client", "--only", "37", "--slow", "0.1", "--json", "--", *words]) == 0
    (rule,) = told(capsys)["rules"]
    assert rule["verdict"] == "not shown"  # it stays after every turn; nothing can be said
    pids = [int(pid) for pid in noted.read_text().split()]
    assert len(pids) >= 2
    assert not any(alive(pid) for pid in pids)


def test_a_client_that_crashes_is_started_again(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*SIMPLE_CLIENT, "crashes", *PLACES)
    assert main(["check", "client", "--only", "16,49,60", "--json", "--", *words]) == 0
    assert verdicts(capsys) == {"16": "pass", "49": "warn", "60": "pass"}


def test_a_flood_ends_in_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*SIMPLE_CLIENT, "floods", *PLACES)
    assert main(["check", "client", "--only", "10,16", "--json", "--", *words]) == 1
    rules = {rule["id"]: rule for rule in told(capsys)["rules"]}
    assert "was not answered in a flood: 20000 lines" in rules["10"]["why"]
    assert rules["16"]["verdict"] == "not shown"


def test_the_command_needs_a_place_for_the_agent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "client", "--", "client"]) == 2
    assert "needs {agent}" in capsys.readouterr().err


def test_the_rules_and_how_they_are_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "rules", "client", "--json"]) == 0
    rows = {row["id"]: row for row in told(capsys)}
    assert rows["49"]["scenes"] == ["unknown updates: an update and a block that nobody knows"]
    assert "screen" in rows["204"]["untried"]
    assert rows["fault-huge"]["scenes"] == ["a huge message: 8 MiB"]


def test_places_in_the_command() -> None:
    fill: dict[str, Any] = {"agent": ["py", "a b"], "prompt": "say hi", "folder": "/f", "options": ["-x"]}
    assert ready(["run", "{prompt}", "--", "{agent}"], **fill) == ["run", "say hi", "-x", "--", "py", "a b"]
    assert ready(["run", "{options}", "--cmd={agent}", "{folder}"], **fill) == [
        "run",
        "-x",
        "--cmd=py 'a b'",
        "/f",
    ]
    assert ready(["run", "{agent}"], **fill) == ["run", "-x", "py", "a b"]


def test_the_scripts_that_ship_are_sound() -> None:
    assert shipped("run", ClientScript).clients == ("accord",)
    assert shipped("none", ClientScript).acts == {}
