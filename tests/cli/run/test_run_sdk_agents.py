"""`accord run` with agents built on the official SDKs."""

import json

import pytest
from tests.cli.run.run_harness import RunHarness, RunResult
from tests.interop.conversation import NOTES, PEERS, command_of

SCRIPT = json.loads((PEERS / "script.json").read_text())

pytestmark = pytest.mark.parametrize("sdk", ["python", "typescript"])


def run(harness: RunHarness, sdk: str, *words: str) -> RunResult:
    (harness.cwd / "notes.txt").write_text(NOTES)
    return harness.run(*words, "--", *command_of("agent", sdk), SCRIPT="script.json")


def test_a_turn_completes(harness: RunHarness, sdk: str) -> None:
    ran = run(harness, sdk, "text", "--format", "json")
    assert (ran.code, ran.result["text"]) == (0, "".join(SCRIPT["pieces"]))
    kinds = [event["type"] for event in ran.events]
    assert kinds[:2] == ["opened", "turn_started"]
    assert kinds[-2:] == ["turn_ended", "result"]
    assert {"agent_thought_chunk", "plan_changed", "agent_message_chunk"} <= set(kinds)


def test_permissions_are_applied(harness: RunHarness, sdk: str) -> None:
    ran = run(harness, sdk, "permission", "--format", "quiet")
    assert (ran.code, ran.out) == (5, "rejected\n")
    ran = run(harness, sdk, "permission", "--format", "quiet", "--permissions", "all")
    assert (ran.code, ran.out) == (0, "allowed\n")


def test_files_are_written(harness: RunHarness, sdk: str) -> None:
    ran = run(harness, sdk, "files", "--format", "quiet", "--permissions", "all")
    assert ran.code == 0, ran.err
    assert (harness.cwd / "new.txt").read_text() == SCRIPT["files"]["text"]


def test_mode_and_model_are_set(harness: RunHarness, sdk: str) -> None:
    ran = run(harness, sdk, "text", "--mode", "code", "--model", "Large", "--format", "json")
    assert ran.code == 0, ran.err
    ran = run(harness, sdk, "text", "--mode", "nope")
    assert ran.code == 2
