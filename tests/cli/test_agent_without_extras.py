"""`accord agent` without extras: the rehearsal model works, and other models are refused in one line."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.cli.agent_process import environment, running_agent

import accord

NO_SITE = ("-S",)  # hides all installed packages


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """Variables for a Python that finds only the dependencies of the core."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for name in ("accord", "msgspec", "platformdirs"):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        (folder / name).symlink_to(Path(spec.origin).parent)
    return {"PYTHONPATH": str(folder)}


def run(*words: str, home: Path, bare: dict[str, str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *NO_SITE, "-m", "accord.cli", *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=environment(home, **bare),
    )


def test_the_rehearsal_model_reads_writes_and_runs(tmp_path: Path, bare: dict[str, str]) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with running_agent(home=tmp_path / "home", options=NO_SITE, **bare) as agent:
        result = agent.initialize()
        assert result["agentInfo"]["version"] == accord.__version__
        session = agent.new_session(project)["result"]["sessionId"]
        answer = agent.prompt(
            session, "write notes.txt: hello then read notes.txt then run cat notes.txt then list ."
        )
        assert answer["result"]["stopReason"] == "end_turn"
        assert agent.end() == 0
    ended = [u["status"] for u in agent.updates if u and u.get("status") in ("completed", "failed")]
    assert ended == ["completed"] * 4
    assert (project / "notes.txt").read_text().strip() == "hello"
    assert agent.stderr == ""


@pytest.mark.parametrize("model", ["openai:gpt-5", "anthropic"])
def test_a_real_model_is_refused_with_the_install_command(
    tmp_path: Path, bare: dict[str, str], model: str
) -> None:
    done = run("agent", "--model", model, home=tmp_path / "home", bare=bare)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"accord agent: the model {model} needs the [agent] extra, which is not installed: "
        "pip install 'accord[agent]'\n"
    )


def test_login_works_and_names_the_missing_extra(tmp_path: Path, bare: dict[str, str]) -> None:
    done = run("agent", "--login", "openai", home=tmp_path / "home", bare=bare, stdin="sk-test\n")
    assert done.returncode == 0
    assert "pip install 'accord[agent]'" in done.stderr


def test_the_doctor_names_the_missing_extra(tmp_path: Path, bare: dict[str, str]) -> None:
    run("agent", "--login", "openai", home=tmp_path / "home", bare=bare, stdin="sk-test\n")
    done = run("doctor", home=tmp_path / "home", bare=bare)
    assert done.returncode == 0, done.stderr
    model = next(line for line in done.stdout.splitlines() if line.startswith("model "))
    assert "pip install 'accord[agent]'" in model
