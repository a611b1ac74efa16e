"""The hostile agent as a run_hostile_agent: its names, its options, and its usage errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import accord
from accord.errors import UsageError
from accord.schema.dialects import DIALECTS
from accord.testing import hostile_command
from accord.testing.hostile import behaviors
from accord.testing.hostile.dialect_agents import CLIENT_ROWS, DIALECT_ROWS, ROWS_OF_OTHER_AGENTS


def run_hostile_agent(*words: str, code: int = 0, stdin: str = "") -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "accord.testing", "hostile", *words],
        input=stdin, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == code, ran.stderr
    return ran.stdout if code == 0 else ran.stderr


def test_without_a_name_the_behaviors_are_listed():
    listed = run_hostile_agent()
    assert [line.split()[0] for line in listed.splitlines()[2:]] == list(behaviors())
    assert run_hostile_agent("--help") == listed


@pytest.mark.parametrize("words", [["nonsense"], ["wild", "--once"], ["wild", "--loud", "yes"]])
def test_a_usage_error_is_one_line(words: list[str]):
    stderr = run_hostile_agent(*words, code=2)
    assert stderr.startswith("accord.testing: ")
    assert stderr.count("\n") == 1


def test_an_unknown_behavior_has_no_command():
    with pytest.raises(UsageError, match="unknown behavior 'polite'"):
        hostile_command("polite")


def test_it_misbehaves_once_and_logs_the_messages_it_received(tmp_path: Path):
    once, log = tmp_path / "once", tmp_path / "log"
    words = ("dies-in-initialize", "--once", str(once), "--log", str(log))
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    assert "the disk is full" in run_hostile_agent(*words, code=7, stdin=json.dumps(hello) + "\n")
    assert once.exists()
    answer = json.loads(run_hostile_agent(*words, stdin=json.dumps(hello) + "\n"))
    assert (answer["id"], answer["result"]["protocolVersion"]) == (0, 1)
    first, second, *_ = map(json.loads, log.read_text().splitlines())
    assert list(first) == ["pid"]
    assert second == hello


async def test_the_example_of_the_guide_works(tmp_path: Path):
    async with accord.connect(*hostile_command("dies-in-turn")) as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises(accord.Crashed):
            await session.ask("go")


def test_every_dialect_is_spoken_by_a_hostile_agent_or_by_clients():
    assert {*DIALECT_ROWS, *CLIENT_ROWS, *ROWS_OF_OTHER_AGENTS} == set(DIALECTS)
    assert len(DIALECT_ROWS) + len(CLIENT_ROWS) + len(ROWS_OF_OTHER_AGENTS) == len(DIALECTS)
    assert set(ROWS_OF_OTHER_AGENTS.values()) <= set(behaviors())
