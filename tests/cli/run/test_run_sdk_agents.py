"""`accord run` with agents on the official SDKs."""

import json

import pytest
from tests.cli.run.running import Place, Ran
from tests.interop.conversation import NOTES, PEERS, command_of

SCRIPT = json.loads((PEERS / "script.json").read_text())

pytestmark = pytest.mark.parametrize("sdk", ["python", "typescript"])


def run(place: Place, sdk: str, *words: str) -> Ran:
    (place.cwd / "notes.txt").write_text(NOTES)
    return place.run(*words, "--", *command_of("agent", sdk), SCRIPT="script.json")


def test_a_turn(place: Place, sdk: str) -> None:
    ran = run(place, sdk, "text", "--format", "json")
    assert (ran.code, ran.result["text"]) == (0, "".join(SCRIPT["pieces"]))
    kinds = [event["type"] for event in ran.events]
    assert kinds[:2] == ["opened", "turn_started"]
    assert kinds[-2:] == ["turn_ended", "result"]
    assert {"agent_thought_chunk", "plan_changed", "agent_message_chunk"} <= set(kinds)


def test_permissions(place: Place, sdk: str) -> None:
    ran = run(place, sdk, "permission", "--format", "quiet")
    assert (ran.code, ran.out) == (5, "rejected\n")
    ran = run(place, sdk, "permission", "--format", "quiet", "--permissions", "all")
    assert (ran.code, ran.out) == (0, "allowed\n")


def test_files(place: Place, sdk: str) -> None:
    ran = run(place, sdk, "files", "--format", "quiet", "--permissions", "all")
    assert ran.code == 0, ran.err
    assert (place.cwd / "new.txt").read_text() == SCRIPT["files"]["text"]


def test_settings(place: Place, sdk: str) -> None:
    ran = run(place, sdk, "text", "--mode", "code", "--model", "Large", "--format", "json")
    assert ran.code == 0, ran.err
    ran = run(place, sdk, "text", "--mode", "nope")
    assert ran.code == 2
