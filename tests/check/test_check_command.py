"""`accord check agent` as people type it: what it prints, what it writes, how it ends."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from tests.check.model.launch import SCRIPT
from tests.cli.terminal import in_terminal

from accord.check.agent.script import ACTS, AgentScript
from accord.check.script import shipped
from accord.cli import main

MODEL = (sys.executable, "-m", "tests.check.model")
CRASHING = (sys.executable, str(Path(__file__).with_name("crashing_agent.py")))


@pytest.fixture
def script(tmp_path: Path) -> str:
    """The script of the model agent, in a file."""
    path = tmp_path / "script.json"
    path.write_bytes(msgspec.json.encode(SCRIPT))
    return str(path)


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_sound_agent_passes(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", "agent", "--only", "15,17", "--script", script, "--", *MODEL])
    shown = capsys.readouterr().out
    assert code == 0
    assert shown.startswith("model 1.0, with the script: the model agent\n")
    assert "Framing and envelope: 2 pass" in shown
    assert shown.endswith("2 pass, 0 fail, 0 warn, 0 not applicable, 0 not shown\n")


def test_a_broken_rule_is_shown_with_its_frames_and_ends_in_1(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["check", "agent", "--only", "15", "--script", script, "--", *MODEL, "15"])
    shown = capsys.readouterr().out
    assert code == 1
    assert "x     15  fail  Unknown request method" in shown
    assert '"method": "nope/nope"' in shown
    assert '"code": -32603' in shown


def test_what_only_should_be_is_a_warning(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", "agent", "--only", "17", "--json", "--script", script, "--", *MODEL, "17"])
    report = told(capsys)
    assert code == 0
    assert report["counts"]["warn"] == 1
    (rule,) = report["rules"]
    assert rule["verdict"] == "warn"
    assert rule["level"] == "SHOULD"
    assert rule["source"] == "the prose of the v1 documentation"
    assert [frame["from"] for frame in rule["frames"]] == ["client", "agent"]


def test_the_reports_for_machines_and_browsers(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit, page = tmp_path / "report.xml", tmp_path / "report.html"
    words = ["--only", "15-17", "--script", script, "--junit", str(junit), "--html", str(page)]
    assert main(["check", "agent", *words, "--", *MODEL, "15"]) == 1
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is not None for case in suite] == [True, False]
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    assert '<details class="fail">' in html
    assert "nope/nope" in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "<script src" not in html


def test_an_agent_that_crashes_is_started_again(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", "agent", "--only", "31,62,72", "--json", "--", *CRASHING])
    verdicts = {rule["id"]: rule for rule in told(capsys)["rules"]}
    assert code == 1
    assert verdicts["31"]["verdict"] == "warn"
    assert "the agent ended" in verdicts["31"]["why"]
    assert verdicts["62"]["verdict"] == "pass"
    assert verdicts["72"]["verdict"] == "fail"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--", "/nonexistent/agent"], 3, "was not started"),
        (["--", sys.executable, "-c", "import sys; sys.exit('no key')"], 3, "no key"),
        ([], 2, "needs the agent's command"),
        (["--only", "zzz", "--", "x"], 2, "there is no rule 'zzz'"),
        (["--only", "2", "--", "x"], 2, "there is no rule '2'"),
        (["--only", "15", "--skip", "15", "--", "x"], 2, "no rule is left"),
        (["--script", "/nonexistent.json", "--", "x"], 2, "cannot read the script"),
        (["--html", "/nonexistent/x.html", "--", "x"], 2, "there is no such folder"),
        (["--jobs", "0", "--", "x"], 2, "--jobs"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "agent", *words]) == code
    shown = capsys.readouterr()
    assert says in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_a_script_with_a_mistake_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "script.json"
    for content, says in (
        ('{"name": "x", "acts": {"dance": "please"}}', "unknown act 'dance'"),
        ('{"name": "x", "act": {}}', "unknown field"),
        ("{", "cannot be used"),
    ):
        path.write_text(content)
        assert main(["check", "agent", "--script", str(path), "--", "x"]) == 2
        assert says in capsys.readouterr().err


def test_a_terminal_shows_how_far_it_is(script: str) -> None:
    words = ["check", "agent", "--only", "15", "--script", script, "--", *MODEL]
    with in_terminal(*words, env=dict(os.environ)) as terminal:
        terminal.expect("[0/1] ids, unknown methods, notifications")
        terminal.expect("1 pass, 0 fail")
        assert terminal.end() == 0


def test_the_rules_and_how_they_are_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "rules", "--json"]) == 0
    rows = {row["id"]: row for row in told(capsys)}
    assert len(rows) == 219
    assert rows["15"]["scenes"] == [
        "ids, unknown methods, notifications: requests under all kinds of ids, methods that nobody has, "
        "notifications that need no answer"
    ]
    assert "person" in rows["89"]["untried"]


def test_the_page_tells_every_act() -> None:
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text()
    table = page.partition("| act |")[2].partition("The other members")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.partition(" | ")[0])}
    assert named == set(ACTS)


def test_the_scripts_that_ship_are_sound() -> None:
    assert shipped("accord", AgentScript).agents == ("accord",)
    assert shipped("accord", AgentScript).strict == ("--strict",)
    assert shipped("plain", AgentScript).agents == ()


def test_nothing_else_is_left_behind(script: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "accord.cli",
        "check",
        "agent",
        "--only",
        "15",
        "--script",
        script,
        "--",
        *MODEL,
    ]
    folder = tmp_path / "tmp"
    folder.mkdir()
    done = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert list(folder.iterdir()) == []
