"""A long conversation between the clients and agents of the official SDKs: recorded, checked against the
rules, and replayed to both sides.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop.conversation import NOTES, command_of
from tests.trace.recorder_process import RECORD

TRACE = [sys.executable, "-m", "accord.cli", "trace"]


def make_work_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "notes.txt").write_text(NOTES)
    return folder


@pytest.fixture(scope="module", params=["python", "typescript"])
def language(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def recording(language: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("official")
    file = folder / "trace.jsonl"
    client, agent = command_of("client", language), command_of("agent", language)
    between = [*RECORD, "--no-redact", "-o", str(file), "--"]
    done = subprocess.run(
        [*client, str(make_work_folder(folder / "work")), *between, *agent], capture_output=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {"scenario": "end", "what": "exit", "code": 7}
    return file


def test_the_unanswered_prompt_of_the_crash_is_the_only_violation(recording: Path):
    done = subprocess.run(
        [*TRACE, "show", str(recording), "--faults"], capture_output=True, text=True, check=True
    )
    assert [line.split("!")[1].strip() for line in done.stdout.splitlines() if "!" in line] == [
        "session/prompt was never answered (rule framing.agent-one-answer, 11)"
    ]


def test_replay_matches_the_client_that_was_recorded(recording: Path, language: str, tmp_path: Path):
    report = tmp_path / "report.json"
    client = [*command_of("client", language), str(make_work_folder(tmp_path / "work"))]
    subprocess.run(
        [*client, *TRACE, "replay", str(recording), "--report", str(report)], capture_output=True, check=True
    )
    result = json.loads(report.read_text())
    assert result["played"] == result["of"] > 150
    assert result["deviations"] == []


def test_replay_as_client_matches_the_agent_that_was_recorded(recording: Path, language: str, tmp_path: Path):
    command = [
        *TRACE,
        "replay",
        str(recording),
        "--as-client",
        "--cwd",
        str(make_work_folder(tmp_path / "work")),
        "--",
    ]
    done = subprocess.run(
        [*command, *command_of("agent", language)], capture_output=True, text=True, check=False
    )
    assert [line for line in done.stdout.splitlines() if not line.startswith("=")][:-1] == []
    calls = int(done.stdout.splitlines()[-1].split()[0])
    assert calls > 80
    assert done.stdout.splitlines()[-1] == f"{calls} calls, {calls} answered as recorded"
