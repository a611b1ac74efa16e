"""Child sessions as their parent tells of them, and the messages between sessions. Unstable."""

import pytest
from tests.session.scene import Scene, text

from accord.session import SubagentState


def child(scene: Scene) -> SubagentState:
    return scene.state.history.subagents["c1"]


@pytest.mark.rule(377)
def test_child_patches_keep_clear_and_replace_whole() -> None:
    scene = Scene()
    scene.says(
        "subagent_update",
        sessionId="c1",
        title="Tests",
        description="runs them",
        capabilities={"cancel": {}},
        state={"state": "running"},
        cwd="/home/me/app",
        additionalDirectories=["/a", "/b"],
    )
    scene.says("subagent_update", sessionId="c1")
    assert (child(scene).title, child(scene).description, child(scene).activity) == (
        "Tests",
        "runs them",
        "running",
    )
    assert child(scene).may_cancel
    scene.says("subagent_update", sessionId="c1", title="T2", capabilities={}, additionalDirectories=["/c"])
    assert (child(scene).title, child(scene).may_cancel) == ("T2", False)
    assert child(scene).additional_directories == ["/c"]
    scene.says("subagent_update", sessionId="c1", title=None, description=None, capabilities=None, cwd=None)
    assert (child(scene).title, child(scene).description, child(scene).cwd) == (None, None, None)
    assert child(scene).additional_directories == ["/c"]
    assert scene.state.timeline == [child(scene)]


def test_a_null_capability_grants_nothing() -> None:
    scene = Scene()
    scene.says("subagent_update", sessionId="c1", capabilities={"cancel": None})
    assert not child(scene).may_cancel


@pytest.mark.rule(380)
def test_an_unknown_or_cleared_state_is_not_shown_as_the_old_one_and_settles_nothing() -> None:
    scene = Scene()
    scene.prompts()
    scene.call("t1", status="in_progress")
    for told, shown in (
        ({"state": "running"}, "running"),
        ({"state": "unknown"}, "unknown"),
        ({"state": "requires_action"}, "requires_action"),
        (None, "unknown"),
        ({"state": "_dreaming", "of": "sheep"}, "_dreaming"),
        ({"state": "idle", "stopReason": "error", "error": {"code": 1, "message": "m"}}, "idle"),
    ):
        scene.says("subagent_update", sessionId="c1", state=told)
        assert child(scene).activity == shown
        assert scene.the_call("t1").open
        assert scene.state.turn == "running"


@pytest.mark.rule(381)
def test_unset_roots_are_inherited_each_for_itself() -> None:
    scene = Scene()
    scene.says("subagent_update", sessionId="c1")
    assert scene.state.roots_of("c1") == ("/home/me/app", ["/home/me/lib"])
    scene.says("subagent_update", sessionId="c1", cwd="/tmp/child")
    assert scene.state.roots_of("c1") == ("/tmp/child", ["/home/me/lib"])
    scene.says("subagent_update", sessionId="c1", cwd=None, additionalDirectories=[])
    assert scene.state.roots_of("c1") == ("/home/me/app", [])
    assert scene.state.roots_of("never announced") is None


@pytest.mark.rule(382)
def test_messages_between_sessions_are_patched_by_id_and_chunks_may_come_first() -> None:
    scene = Scene()
    scene.says("session_message_chunk", messageId="x1", content=text("Run "))
    scene.says("session_message", messageId="x1", senderSessionId="s1", recipientSessionId="c1")
    scene.says("session_message_chunk", messageId="x1", content=text("the tests"))
    message = scene.state.history.session_messages["x1"]
    assert (message.text, message.sender_session_id, message.recipient_session_id) == (
        "Run the tests",
        "s1",
        "c1",
    )
    scene.says(
        "session_message", messageId="x1", senderSessionId=None, content=[text("Stop")], senderMessageId="m"
    )
    scene.says("session_message_chunk", messageId="x1", content=text("!"))
    assert (message.text, message.sender_session_id, message.sender_message_id) == ("Stop!", None, "m")
    scene.says("session_message", messageId="x1", content=[])
    assert message.blocks == ()
    assert scene.state.timeline == [message]
