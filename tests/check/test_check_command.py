"""`accord check agent` and `accord check client` on the command line: their output, their files, their exit
codes.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from tests.check.commands import MODEL, ODD_AGENT, PLACEHOLDERS, SIMPLE_CLIENT, model_script, printed_report
from tests.cli.run.run_harness import alive
from tests.cli.terminal import in_terminal

from accord.cli import main

CLI = (sys.executable, "-m", "accord.cli")


class Kind(NamedTuple):
    """An agent or a client that keeps its rules, and one that breaks the rule on unknown methods."""

    name: str
    good_command: tuple[str, ...]
    broken_command: tuple[str, ...]
    rule: str
    slug: str
    other_rule: str
    head: str
    frames: tuple[str, str]
    case: str


AGENT = Kind(
    name="agent",
    good_command=MODEL,
    broken_command=(*MODEL, "framing.agent-unknown-method"),
    rule="15",
    slug="framing.agent-unknown-method",
    other_rule="17",
    head="model 1.0, with the script: ",
    frames=('"method": "nope/nope"', '"code": -32603'),
    case="ids, unknown methods, notifications",
)
CLIENT = Kind(
    name="client",
    good_command=(*SIMPLE_CLIENT, "good", *PLACEHOLDERS),
    broken_command=(*SIMPLE_CLIENT, "wrong", *PLACEHOLDERS),
    rule="16",
    slug="framing.client-unknown-method",
    other_rule="58",
    head="simple 1, with the script: ",
    frames=('"method": "nope/nope"', '"code": -32000'),
    case="ids, unknown methods, bad params",
)


@pytest.fixture(params=[AGENT, CLIENT], ids=["agent", "client"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


def check(kind: Kind, arguments: list[str], command: tuple[str, ...], folder: Path) -> list[str]:
    """The arguments of a check, with the script that the model agent needs."""
    script = ["--script", model_script(folder)] if kind.name == "agent" else []
    return ["check", kind.name, *arguments, *script, "--", *command]


def test_a_conforming_program_passes(kind: Kind, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--only", kind.slug, "--only", f"{kind.other_rule}, schema", "--skip", "schema"]
    assert main(check(kind, arguments, kind.good_command, tmp_path)) == 0
    output = capsys.readouterr().out
    assert output.startswith(kind.head)
    assert output.endswith("\n2 pass, 0 fail, 0 warn, 0 not applicable, 0 not shown\n")


def test_a_broken_rule_is_printed_with_its_frames_and_exits_with_1(
    kind: Kind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(check(kind, ["--only", kind.rule], kind.broken_command, tmp_path)) == 1
    output = capsys.readouterr().out
    assert f"x {kind.slug} ({kind.rule})  fail  Unknown request method" in output
    assert all(frame in output for frame in kind.frames)


def test_quiet_prints_only_the_totals_and_broken_rules(
    kind: Kind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(check(kind, ["--only", kind.rule, "--quiet"], kind.good_command, tmp_path)) == 0
    name = kind.head.partition(",")[0]
    assert capsys.readouterr().out == f"{name}: 1 pass, 0 fail, 0 warn, 0 not applicable, 0 not shown\n"
    assert main(check(kind, ["--only", kind.rule, "--quiet"], kind.broken_command, tmp_path)) == 1
    assert capsys.readouterr().out.startswith(f"  x {kind.slug} ({kind.rule})  fail  ")


def test_reports_as_json_junit_and_html(
    kind: Kind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit, page = tmp_path / "report.xml", tmp_path / "report.html"
    arguments = [
        "--only",
        f"{kind.rule},{kind.other_rule}",
        "--json",
        "--junit",
        str(junit),
        "--html",
        str(page),
    ]
    assert main(check(kind, arguments, kind.broken_command, tmp_path)) == 1
    report = printed_report(capsys)
    assert report["checked"] == kind.name
    assert (report["counts"]["pass"], report["counts"]["fail"]) == (1, 1)
    broken = report["rules"][0]
    assert (broken["id"], broken["slug"], broken["verdict"]) == (kind.rule, kind.slug, "fail")
    assert broken["level"] == "MUST"
    assert (broken["source"], bool(broken["how"])) == ("JSON-RPC 2.0", True)
    assert {frame["from"] for frame in broken["frames"]} == {"agent", "client"}
    suites = list(ElementTree.parse(junit).getroot())
    assert sum(int(suite.get("tests", "0")) for suite in suites) == 2
    assert sum(int(suite.get("failures", "0")) for suite in suites) == 1
    assert [
        case.get("name", "").split()[0] for suite in suites for case in suite.findall("testcase[failure]")
    ] == [kind.slug]
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    assert '<details class="fail">' in html
    assert "nope/nope" in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "<script src" not in html


def test_a_terminal_shows_the_progress(kind: Kind, tmp_path: Path) -> None:
    arguments = check(kind, ["--only", kind.rule], kind.good_command, tmp_path)
    with in_terminal(*arguments, env=dict(os.environ)) as terminal:
        terminal.expect(f"[0/1] {kind.case}")
        terminal.expect("1 pass, 0 fail")
        assert terminal.end() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--", "/nonexistent/program", "{agent}"], 3, "cannot start"),
        (["--", sys.executable, "-c", "import sys; sys.exit('no key')", "{agent}"], 3, "no key"),
        ([], 2, " command; use `accord check "),
        (["node", "mine.mjs", "--port", "3"], 2, "... -- node mine.mjs --port 3"),
        (["--onyl", "15", "--", "x", "{agent}"], 2, "unknown option '--onyl'"),
        (["--only", "zzz", "--", "x", "{agent}"], 2, "unknown rule 'zzz'"),
        (["--only", "1²", "--", "x", "{agent}"], 2, "unknown rule '1²'"),
        (["--only", "9999-99999999999", "--", "x", "{agent}"], 2, "unknown rule"),
        (["--only", "schema", "--skip", "schema", "--", "x", "{agent}"], 2, "no rules are left"),
        (["--script", "/nonexistent.json", "--", "x", "{agent}"], 2, "cannot read the script"),
        (["--html", "/nonexistent/x.html", "--", "x", "{agent}"], 2, "its folder does not exist"),
        (["--jobs", "0", "--", "x", "{agent}"], 2, "--jobs 0 is not a number above 0"),
        (["--slow", "0", "--", "x", "{agent}"], 2, "--slow 0 is not a number above 0"),
        (["--slow", "nan", "--", "x", "{agent}"], 2, "--slow nan is not a number above 0"),
        (["--slow", "inf", "--", "x", "{agent}"], 2, "--slow inf is not a number above 0"),
    ],
)
def test_an_error_is_reported_once_without_a_traceback(
    kind: Kind, arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", kind.name, *arguments]) == code
    output = capsys.readouterr()
    assert output.err.count(message) == 1
    assert "Traceback" not in output.err
    assert output.out == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"name": "x", "acts": {"dance": []}}', "unknown act 'dance'"),
        ('{"name": "x", "act": {}}', "unknown field"),
        ("{", "invalid script"),
    ],
)
def test_an_invalid_script_is_rejected(
    kind: Kind, content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "script.json"
    path.write_text(content.replace("[]", '"please"' if kind.name == "agent" else "[]"))
    assert main(["check", kind.name, "--script", str(path), "--", "x", "{agent}"]) == 2
    assert message in capsys.readouterr().err


def test_no_temporary_files_are_left(kind: Kind, tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    arguments = check(kind, ["--only", kind.rule], kind.good_command, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli", *arguments],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_check_and_its_process_tree(
    kind: Kind, number: signal.Signals, tmp_path: Path
) -> None:
    folder, pid_file = tmp_path / "tmp", tmp_path / "pids"
    folder.mkdir()
    os.mkfifo(pid_file)
    command = {
        "agent": (*ODD_AGENT, "hangs", str(pid_file)),
        "client": (*SIMPLE_CLIENT, "hangs", str(pid_file), "--", "{agent}"),
    }[kind.name]
    # Restores the handler of SIGINT, which may be ignored in a background run.
    check = subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "check", kind.name, "--", *command],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with pid_file.open() as file:  # opens once the first program opens it too
        pids = [int(pid) for pid in file.readline().split()]
    check.send_signal(number)
    out, err = check.communicate()
    assert (check.returncode, out) == (128 + number, b"")
    assert err.decode() == (
        f"accord check: interrupted before the first case; the {kind.name} was not checked\n"
    )
    assert list(folder.iterdir()) == []
    assert not any(map(alive, pids))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_check_reports_what_ran(kind: Kind, number: signal.Signals, tmp_path: Path) -> None:
    """In every format, with the exit code of the signal; rules of unfinished cases are not shown."""
    folder, pid_file = tmp_path / "tmp", tmp_path / "pids"
    junit, page = tmp_path / "report.xml", tmp_path / "report.html"
    folder.mkdir()
    os.mkfifo(pid_file)
    command = {
        "agent": (*ODD_AGENT, "hangs", str(pid_file)),
        "client": (*SIMPLE_CLIENT, "hangs", str(pid_file), "--", "{agent}"),
    }[kind.name]
    formats = ("--json", "--junit", str(junit), "--html", str(page))
    check = subprocess.Popen(
        [*CLI, "check", kind.name, "--jobs", "1", "--slow", "0.1", *formats, "--", *command],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    started: list[str] = []
    while len(started) < 3:  # the third program belongs to the second case
        with pid_file.open() as file:
            started += file.readlines()
    pids = [int(pid) for line in started for pid in line.split()]
    check.send_signal(number)
    check.send_signal(number)  # a second one does not disturb the report
    with open(os.open(pid_file, os.O_RDWR)):  # no program waits for a reader
        out, err = check.communicate()
    assert check.returncode == 128 + number, err
    report = json.loads(out)
    ran, total = map(int, re.findall(r"\d+", report["interrupted"]))
    assert report["interrupted"] == f"{ran} of {total} cases ran"
    assert 1 <= ran < total
    verdicts = [rule["verdict"] for rule in report["rules"]]
    assert verdicts.count("not shown") > len(verdicts) / 2
    interrupted = [rule for rule in report["rules"] if "interrupted before this was tested" in rule["why"]]
    assert 0 < len(interrupted) < len(verdicts)
    if kind is AGENT:
        assert set(verdicts) & {"pass", "fail", "warn"}, "the finished case has a verdict"
    errors = ElementTree.parse(junit).getroot().findall("testsuite/testcase/error")
    assert [error.get("message") for error in errors] == [f"interrupted: {report['interrupted']}"]
    assert f"interrupted: {report['interrupted']}" in page.read_text()
    assert list(folder.iterdir()) == []
    assert not any(map(alive, pids))


def test_the_progress_of_a_long_run_is_printed(kind: Kind) -> None:
    """Also without a terminal, on stderr, unless `--quiet` is given."""
    command = {"agent": (*ODD_AGENT, "rejects"), "client": (*SIMPLE_CLIENT, "good", *PLACEHOLDERS)}[kind.name]
    done = subprocess.run(
        [*CLI, "check", kind.name, "--only", "framing,faults", "--slow", "0.2", "--", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stderr.splitlines()
    assert 5 <= len(lines) <= 9, done.stderr
    assert all(re.match(r"accord check: \d+ of \d+ cases done, running: \w", line) for line in lines)
    done = subprocess.run(
        [*CLI, "check", kind.name, "--only", "framing", "--quiet", "--slow", "0.2", "--", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
