"""How chunks are grouped into messages, and the content of a message."""

import pytest
from tests.session.session_driver import SessionDriver, text

from accord.schema import AgentMessageChunk, ImageContent, TextContent
from accord.session import GrowingContent, Message, MessageChanged, SessionState, text_of


@pytest.mark.rule("prompt.message-id-starts-message")
def test_a_new_message_id_starts_a_new_message() -> None:
    driver = SessionDriver()
    driver.agent_text("One ", "m1")
    driver.agent_text("and on.", "m1")
    driver.agent_text("Two.", "m2")
    assert driver.message_texts == [("agent", "One and on."), ("agent", "Two.")]
    assert [message.id for message in driver.state.messages] == ["m1", "m2"]


@pytest.mark.rule("prompt.message-id-opaque")
def test_ids_are_opaque_and_may_be_absent_or_null() -> None:
    driver = SessionDriver()
    driver.agent_text("a", "0")
    driver.agent_text("b", " ")
    driver.update("agent_message_chunk", content=text("c"), messageId=None)
    driver.agent_text("d")
    driver.agent_text("e", "ünï/{}")
    driver.update("agent_message_chunk", content=text("f"), messageId=7)
    assert driver.message_texts == [("agent", "a"), ("agent", "bcd"), ("agent", "ef")]


def test_chunks_with_equal_ids_make_one_message_even_when_interrupted() -> None:
    driver = SessionDriver()
    driver.agent_text("One", "m1")
    driver.tool_call("t1")
    driver.agent_text("Two", "m2")
    driver.agent_text(", more of one", "m1")
    assert driver.timeline_summary == ["One, more of one", "ToolCallState", "Two"]


def test_each_kind_of_message_has_its_own_ids() -> None:
    driver = SessionDriver()
    driver.thought_text("hmm", "1")
    driver.agent_text("Yes.", "1")
    driver.thought_text("...", "1")
    assert driver.message_texts == [("thought", "hmm..."), ("agent", "Yes.")]


def test_without_ids_a_change_of_kind_starts_a_new_message() -> None:
    driver = SessionDriver()
    driver.user_text("Hi")
    driver.thought_text("a ")
    driver.thought_text("greeting")
    driver.agent_text("Hello")
    driver.thought_text("done")
    assert driver.message_texts == [
        ("user", "Hi"),
        ("thought", "a greeting"),
        ("agent", "Hello"),
        ("thought", "done"),
    ]


def test_without_ids_a_tool_call_starts_a_new_message_but_its_updates_do_not() -> None:
    driver = SessionDriver()
    driver.agent_text("Let me look.")
    driver.tool_call("t1")
    driver.agent_text("It ")
    driver.tool_call_update("t1", status="completed")
    driver.agent_text("works.")
    assert driver.timeline_summary == ["Let me look.", "ToolCallState", "It works."]


def test_without_ids_plans_titles_and_usage_do_not_split_a_message() -> None:
    driver = SessionDriver()
    driver.agent_text("a")
    driver.update("plan", entries=[])
    driver.update("session_info_update", title="T")
    driver.update("usage_update", used=1, size=2)
    driver.update("notice", severity="info", title="n")
    driver.agent_text("b")
    assert driver.message_texts == [("agent", "ab")]


def test_without_ids_the_start_and_end_of_a_turn_split_messages() -> None:
    driver = SessionDriver()
    driver.start_turn("one")
    driver.agent_text("First.")
    driver.end_turn()
    driver.agent_text("Afterwards.")
    assert driver.message_texts == [("user", "one"), ("agent", "First."), ("agent", "Afterwards.")]


def test_the_echo_of_a_prompt_adds_no_second_user_message() -> None:
    driver = SessionDriver()
    driver.start_turn("Fix the bug")
    driver.user_text("Fix ", "u1")
    driver.user_text("the bug", "u1")
    driver.agent_text("Done.")
    driver.end_turn()
    assert driver.message_texts == [("user", "Fix the bug"), ("agent", "Done.")]
    assert driver.state.messages[0].id == "u1"


def test_a_user_message_that_only_starts_like_the_prompt_is_kept_whole() -> None:
    driver = SessionDriver()
    driver.start_turn("Fix the bug")
    driver.user_text("Fix ", "u1")
    driver.user_text("something else", "u1")
    assert driver.message_texts == [("user", "Fix the bug"), ("user", "Fix something else")]


def test_a_user_message_after_the_echo_is_a_separate_message() -> None:
    driver = SessionDriver()
    driver.start_turn("go")
    driver.user_text("go")
    driver.user_text("and a reminder")
    assert driver.message_texts == [("user", "go"), ("user", "and a reminder")]


def test_adjacent_text_is_merged_and_other_blocks_stay_separate() -> None:
    driver = SessionDriver()
    driver.agent_text("a")
    driver.agent_text("b")
    driver.update("agent_message_chunk", content={"type": "image", "data": "QQ==", "mimeType": "image/png"})
    driver.agent_text("c")
    driver.agent_text("d")
    [message] = driver.state.messages
    image = ImageContent(data="QQ==", mime_type="image/png")
    assert message.blocks == (TextContent(text="ab"), image, TextContent(text="cd"))
    assert message.text == "abcd"


def test_annotated_text_is_not_merged() -> None:
    driver = SessionDriver()
    driver.agent_text("a")
    driver.update("agent_message_chunk", content={**text("b"), "annotations": {"audience": ["user"]}})
    driver.agent_text("c")
    [message] = driver.state.messages
    assert [text_of(block) for block in message.blocks] == ["a", "b", "c"]
    assert message.text == "abc"


def test_reading_a_body_between_appends_does_not_change_it() -> None:
    read_often, read_once = GrowingContent(), GrowingContent()
    for word in "abcdef":
        block = TextContent(text=word)
        read_often.append(block)
        assert read_often.blocks == (TextContent(text=read_often.text),)
        read_once.append(block)
    assert read_often == read_once


def test_a_whole_message_replaces_the_content_and_later_chunks_append_to_it() -> None:
    state = SessionState()
    state.apply(AgentMessageChunk(content=TextContent(text="A"), message_id="m"))
    state.apply(MessageChanged("agent", "m", [TextContent(text="C")]))
    state.apply(AgentMessageChunk(content=TextContent(text="D"), message_id="m"))
    assert state.messages == [Message("agent", "m", [TextContent(text="CD")])]
    state.apply(MessageChanged("agent", "m"))
    assert state.messages[0].text == "CD"
    state.apply(MessageChanged("agent", "m", None))
    assert state.messages[0].blocks == ()
