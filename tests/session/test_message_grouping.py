"""Which chunks make one message, and what its content is."""

import pytest
from tests.session.scene import Scene, text

from accord.schema import AgentMessageChunk, ImageContent, TextContent
from accord.session import Body, Message, MessageChanged, SessionState, text_of


@pytest.mark.rule(149)
def test_a_new_message_id_starts_a_new_message() -> None:
    scene = Scene()
    scene.agent("One ", "m1")
    scene.agent("and on.", "m1")
    scene.agent("Two.", "m2")
    assert scene.spoken == [("agent", "One and on."), ("agent", "Two.")]
    assert [message.id for message in scene.state.messages] == ["m1", "m2"]


@pytest.mark.rule(148)
def test_ids_are_opaque_and_may_be_absent_or_null() -> None:
    scene = Scene()
    scene.agent("a", "0")
    scene.agent("b", " ")
    scene.says("agent_message_chunk", content=text("c"), messageId=None)
    scene.agent("d")
    scene.agent("e", "ünï/{}")
    scene.says("agent_message_chunk", content=text("f"), messageId=7)
    assert scene.spoken == [("agent", "a"), ("agent", "bcd"), ("agent", "ef")]


def test_equal_ids_are_one_message_whatever_comes_between() -> None:
    scene = Scene()
    scene.agent("One", "m1")
    scene.call("t1")
    scene.agent("Two", "m2")
    scene.agent(", more of one", "m1")
    assert scene.order == ["One, more of one", "ToolCallState", "Two"]


def test_each_kind_of_message_has_its_own_ids() -> None:
    scene = Scene()
    scene.thought("hmm", "1")
    scene.agent("Yes.", "1")
    scene.thought("...", "1")
    assert scene.spoken == [("thought", "hmm..."), ("agent", "Yes.")]


def test_without_ids_a_change_of_kind_is_a_boundary() -> None:
    scene = Scene()
    scene.user("Hi")
    scene.thought("a ")
    scene.thought("greeting")
    scene.agent("Hello")
    scene.thought("done")
    assert scene.spoken == [
        ("user", "Hi"),
        ("thought", "a greeting"),
        ("agent", "Hello"),
        ("thought", "done"),
    ]


def test_without_ids_a_tool_call_is_a_boundary_and_its_updates_are_none() -> None:
    scene = Scene()
    scene.agent("Let me look.")
    scene.call("t1")
    scene.agent("It ")
    scene.patch("t1", status="completed")
    scene.agent("works.")
    assert scene.order == ["Let me look.", "ToolCallState", "It works."]


def test_without_ids_plans_titles_and_usage_divide_nothing() -> None:
    scene = Scene()
    scene.agent("a")
    scene.says("plan", entries=[])
    scene.says("session_info_update", title="T")
    scene.says("usage_update", used=1, size=2)
    scene.says("notice", severity="info", title="n")
    scene.agent("b")
    assert scene.spoken == [("agent", "ab")]


def test_without_ids_the_edge_of_a_turn_is_a_boundary() -> None:
    scene = Scene()
    scene.prompts("one")
    scene.agent("First.")
    scene.answers()
    scene.agent("Afterwards.")
    assert scene.spoken == [("user", "one"), ("agent", "First."), ("agent", "Afterwards.")]


def test_a_prompt_is_the_users_message_and_its_echo_is_not_another() -> None:
    scene = Scene()
    scene.prompts("Fix the bug")
    scene.user("Fix ", "u1")
    scene.user("the bug", "u1")
    scene.agent("Done.")
    scene.answers()
    assert scene.spoken == [("user", "Fix the bug"), ("agent", "Done.")]
    assert scene.state.messages[0].id == "u1"


def test_what_only_began_like_an_echo_is_kept_whole() -> None:
    scene = Scene()
    scene.prompts("Fix the bug")
    scene.user("Fix ", "u1")
    scene.user("something else", "u1")
    assert scene.spoken == [("user", "Fix the bug"), ("user", "Fix something else")]


def test_a_user_message_after_the_echo_is_another_one() -> None:
    scene = Scene()
    scene.prompts("go")
    scene.user("go")
    scene.user("and a reminder")
    assert scene.spoken == [("user", "go"), ("user", "and a reminder")]


def test_adjacent_text_becomes_one_block_and_other_blocks_stay_apart() -> None:
    scene = Scene()
    scene.agent("a")
    scene.agent("b")
    scene.says("agent_message_chunk", content={"type": "image", "data": "QQ==", "mimeType": "image/png"})
    scene.agent("c")
    scene.agent("d")
    [message] = scene.state.messages
    image = ImageContent(data="QQ==", mime_type="image/png")
    assert message.blocks == (TextContent(text="ab"), image, TextContent(text="cd"))
    assert message.text == "abcd"


def test_annotated_text_stays_a_block_of_its_own() -> None:
    scene = Scene()
    scene.agent("a")
    scene.says("agent_message_chunk", content={**text("b"), "annotations": {"audience": ["user"]}})
    scene.agent("c")
    [message] = scene.state.messages
    assert [text_of(block) for block in message.blocks] == ["a", "b", "c"]
    assert message.text == "abc"


def test_reading_in_between_changes_nothing() -> None:
    read_often, read_once = Body(), Body()
    for word in "abcdef":
        block = TextContent(text=word)
        read_often.append(block)
        assert read_often.blocks == (TextContent(text=read_often.text),)
        read_once.append(block)
    assert read_often == read_once


def test_a_whole_message_replaces_and_a_chunk_goes_on_from_it() -> None:
    state = SessionState()
    state.apply(AgentMessageChunk(content=TextContent(text="A"), message_id="m"))
    state.apply(MessageChanged("agent", "m", [TextContent(text="C")]))
    state.apply(AgentMessageChunk(content=TextContent(text="D"), message_id="m"))
    assert state.messages == [Message("agent", "m", [TextContent(text="CD")])]
    state.apply(MessageChanged("agent", "m"))
    assert state.messages[0].text == "CD"
    state.apply(MessageChanged("agent", "m", None))
    assert state.messages[0].blocks == ()
