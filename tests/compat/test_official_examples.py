"""The examples of the official Python SDK run unchanged through `accord.compat`.

Not those that need another program: `gemini.py`, and the HTTP examples, which share a fixed port.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.requirements import need_official_examples

import accord

EXAMPLES = need_official_examples()
RUNNER = (sys.executable, "-m", "accord.compat")


def run_example(name: str, *arguments: str, typed: str) -> str:
    done = subprocess.run(
        [*RUNNER, str(EXAMPLES / name), *arguments],
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=EXAMPLES,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["agent.py", "echo_agent.py"])
async def test_an_example_agent_answers_accords_client(name: str, tmp_path: Path) -> None:
    async with accord.connect(*RUNNER, str(EXAMPLES / name)) as agent:
        session = await agent.new_session(tmp_path)
        answer = await session.ask("Is the order kept?")
    assert "Is the order kept?" in answer.text
    assert answer.stop_reason == "end_turn"


def test_the_example_client_drives_the_example_agent() -> None:
    shown = run_example("client.py", *RUNNER, str(EXAMPLES / "agent.py"), typed="Hello there\n")
    assert "| Agent: Hello there" in shown


def test_the_duet_example_prints_the_answer() -> None:
    assert "| Agent: Hello there" in run_example("duet.py", typed="Hello there\n")
