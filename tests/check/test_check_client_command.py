"""`accord check client` as people type it: what it prints, what it writes, how it ends, what it leaves."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.cli.run.running import alive

from accord.check.client.command import ready
from accord.check.client.script import ClientScript
from accord.check.script import shipped
from accord.cli import main

PEERS = Path(__file__).with_name("peers")
SIMPLE = (sys.executable, str(PEERS / "simple_client.py"))
PLAIN = (*SIMPLE, "good", "{prompt}", "--", "{agent}")


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_sound_client_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "client", "--only", "58,60,16", "--", *PLAIN]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("simple 1, with the script: no script\n")
    assert shown.endswith("3 pass, 0 fail, 0 warn, 0 not applicable, 0 not shown\n")


def test_a_broken_rule_is_shown_with_its_frames_and_ends_in_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "client", "--only", "16", "--", *SIMPLE, "wrong", "{prompt}", "--", "{agent}"]) == 1
    shown = capsys.readouterr().out
    assert "x     16  fail  Unknown request method" in shown
    assert '"method": "nope/nope"' in shown
    assert '"code": -32000' in shown


def test_a_client_that_hangs_is_ended_with_all_it_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = tmp_path / "pids"
    words = (*SIMPLE, "hangs", str(noted), "--", "{agent}")
    assert main(["check", "client", "--only", "37", "--slow", "0.1", "--json", "--", *words]) == 0
    (rule,) = told(capsys)["rules"]
    assert rule["verdict"] == "not shown"  # it stays after every turn; nothing can be said
    pids = [int(pid) for pid in noted.read_text().split()]
    assert len(pids) >= 2
    assert not any(alive(pid) for pid in pids)


def test_a_client_that_crashes_is_started_again(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*SIMPLE, "crashes", "{prompt}", "--", "{agent}")
    assert main(["check", "client", "--only", "16,49,60", "--json", "--", *words]) == 0
    verdicts = {rule["id"]: rule["verdict"] for rule in told(capsys)["rules"]}
    assert verdicts == {"16": "pass", "49": "warn", "60": "pass"}


def test_the_reports_for_machines_and_browsers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit, page = tmp_path / "report.xml", tmp_path / "report.html"
    words = ["--only", "16,58", "--junit", str(junit), "--html", str(page)]
    assert main(["check", "client", *words, "--", *SIMPLE, "wrong", "{prompt}", "--", "{agent}"]) == 1
    root = ElementTree.parse(junit).getroot()
    assert root.get("name") == "accord check client: simple"
    assert [suite.get("failures") for suite in root] == ["1", "0"]
    assert "nope/nope" in page.read_text()
    assert "1 pass, 1 fail" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--", "/nonexistent/client", "{agent}"], 3, "was not started"),
        (
            ["--", sys.executable, "-c", "import sys; sys.exit('no such option')", "{agent}"],
            3,
            "no such option",
        ),
        ([], 2, "needs the client's command"),
        (["--", "client"], 2, "needs {agent}"),
        (["--only", "15", "--", "x", "{agent}"], 2, "there is no rule '15'"),
        (["--script", "/nonexistent.json", "--", "x", "{agent}"], 2, "cannot read the script"),
        (["--html", "/nonexistent/x.html", "--", "x", "{agent}"], 2, "there is no such folder"),
        (["--jobs", "0", "--", "x", "{agent}"], 2, "--jobs"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "client", *words]) == code
    shown = capsys.readouterr()
    assert says in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_a_script_with_a_mistake_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "script.json"
    for content, says in (
        ('{"name": "x", "acts": {"dance": ["please"]}}', "unknown act 'dance'"),
        ('{"name": "x", "act": {}}', "unknown field"),
    ):
        path.write_text(content)
        assert main(["check", "client", "--script", str(path), "--", "x", "{agent}"]) == 2
        assert says in capsys.readouterr().err


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


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    command = [sys.executable, "-m", "accord.cli", "check", "client", "--only", "58", "--", *PLAIN]
    done = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(folder.iterdir()) == []
