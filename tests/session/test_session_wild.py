"""What real agents did against the letter or the habit of the protocol, as far as it meets the state of a session."""

import pytest
from tests.session.scene import Scene, text

from accord.schema import NewSessionResponse, Unknown
from accord.schema.codec import read
from accord.session import PermissionAnswered, v1


def test_updates_before_the_answer_that_names_the_session_are_not_undone_by_it() -> None:
    scene = Scene()
    scene.says("available_commands_update", availableCommands=[{"name": "web", "description": "Search"}])
    scene.says("current_mode_update", currentModeId="code")
    scene.agent("Welcome.")
    scene.state.apply(v1.opened("s1", read(NewSessionResponse, {"sessionId": "s1"})))
    assert [command.name for command in scene.state.commands] == ["web"]
    assert scene.state.settings.current_mode_id == "code"
    assert scene.order == ["Welcome."]


def test_updates_this_version_does_not_know_are_handed_on_and_change_nothing() -> None:
    scene = Scene()
    scene.agent("a")
    before = scene.state.snapshot()
    event = scene.says("vendor/telemetry", load=3)
    assert isinstance(event, Unknown)
    assert event.kind == "vendor/telemetry"
    assert scene.state.snapshot() == before


@pytest.mark.parametrize("reason", ["cancelled", "end_turn"])
def test_a_rejection_may_end_the_turn_without_a_word(reason: str) -> None:
    scene = Scene()
    scene.prompts()
    scene.asks("1", toolCallId="t1", title="Run rm")
    scene.state.apply(PermissionAnswered("1"))
    scene.answers(reason)
    assert (scene.state.turn, scene.state.stop_reason) == ("idle", reason)
    assert not scene.the_call("t1").open


def test_a_call_whose_updates_come_before_it_and_after_the_turn() -> None:
    scene = Scene()
    scene.prompts()
    scene.patch("t1", status="completed", rawOutput="ok")
    scene.call("t1", "Run", kind="execute", status="pending")
    scene.answers()
    scene.says("usage_update", used=5, size=9)
    scene.patch("t1", content=[{"type": "content", "content": text("late")}])
    call = scene.the_call("t1")
    assert (call.title, call.kind, call.status, call.raw_output, call.mark) == (
        "Run",
        "execute",
        "completed",
        "ok",
        "",
    )
    assert len(call.content) == 1


def test_ten_thousand_chunks_make_one_message() -> None:
    scene = Scene()
    for count in range(10_000):
        scene.agent(f"{count} ", "m")
    [message] = scene.state.messages
    assert message.text == "".join(f"{count} " for count in range(10_000))
    assert len(message.blocks) == 1
