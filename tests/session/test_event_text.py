"""The `.text` of events: message chunks, messages, tool calls, plans, notices, compactions and prompts."""

import pytest

from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionSummaryChunk,
    CompactionUpdate,
    Content,
    ContentBlock,
    Diff,
    ImageContent,
    Notice,
    PlanEntry,
    PlanFile,
    PlanItems,
    PlanMarkdown,
    SessionMessage,
    SessionMessageChunk,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallContent,
    ToolCallUpdate,
    UserMessageChunk,
)
from accord.session import (
    MessageChanged,
    PlanChanged,
    SessionState,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
    text_of,
)

HELLO = TextContent(text="hello ")
WORLD = TextContent(text="world")
IMAGE = ImageContent(data="AA==", mime_type="image/png")
STEPS = [
    PlanEntry(content="read", priority="high", status="completed"),
    PlanEntry(content="write", priority="high", status="pending"),
]


@pytest.mark.parametrize("chunk", [UserMessageChunk, AgentMessageChunk, AgentThoughtChunk])
def test_message_chunk_has_the_text_of_its_block(
    chunk: type[UserMessageChunk | AgentMessageChunk | AgentThoughtChunk],
) -> None:
    assert chunk(content=WORLD).text == "world"
    assert chunk(content=IMAGE).text == ""


def test_chunks_of_summaries_and_session_messages_have_text() -> None:
    assert CompactionSummaryChunk(compaction_id="c", content=WORLD).text == "world"
    assert SessionMessageChunk(message_id="m", content=WORLD).text == "world"
    assert SessionMessageChunk(message_id="m", content=IMAGE).text == ""


def test_whole_messages_join_their_text_blocks() -> None:
    blocks: list[ContentBlock] = [HELLO, IMAGE, WORLD]
    assert MessageChanged("agent", content=blocks).text == "hello world"
    assert SessionMessage(message_id="m", content=blocks).text == "hello world"
    assert CompactionUpdate(compaction_id="c", status="completed", summary=blocks).text == "hello world"
    assert TurnStarted(blocks).text == "hello world"


def test_text_is_empty_where_the_content_is_absent_or_null() -> None:
    assert MessageChanged("agent").text == ""
    assert MessageChanged("agent", content=None).text == ""
    assert SessionMessage(message_id="m").text == ""
    assert CompactionUpdate(compaction_id="c", status="in_progress").text == ""
    assert TurnStarted().text == ""


def test_tool_call_event_joins_the_text_blocks_of_the_content() -> None:
    content: list[ToolCallContent] = [
        Content(content=HELLO),
        Diff(path="/a", new_text="x"),
        Content(content=WORLD),
    ]
    assert ToolCallChanged(ToolCallUpdate("t", content=content)).text == "hello world"
    assert ToolCallChanged(ToolCallUpdate("t")).text == ""


def test_tool_call_event_has_the_text_of_the_whole_call() -> None:
    state = SessionState()
    state.apply(ToolCall(tool_call_id="t", title="Read", content=[Content(content=WORLD)]))
    event = state.apply(ToolCallChange(tool_call_id="t", status="completed"))
    assert isinstance(event, ToolCallChanged)
    assert event.text == event.call.text == "world"


def test_plans_have_one_line_per_step_or_their_markdown() -> None:
    assert PlanChanged("p", PlanItems(plan_id="p", entries=STEPS)).text == "read\nwrite"
    assert PlanChanged("p", PlanMarkdown(plan_id="p", content="# Plan")).text == "# Plan"
    assert PlanChanged("p", PlanFile(plan_id="p", uri="file:///plan.md")).text == ""
    assert PlanChanged("p", None).text == ""


def test_notice_has_its_title_and_description() -> None:
    assert Notice(severity="info", title="Slow").text == "Slow"
    assert Notice(severity="info", title="Slow", description="Try later.").text == "Slow\nTry later."


def test_text_of_takes_blocks_events_and_lists_of_them() -> None:
    assert text_of(WORLD) == "world"
    assert text_of(IMAGE) == ""
    assert text_of(Content(content=WORLD)) == "world"
    assert text_of([HELLO, IMAGE, WORLD]) == "hello world"
    assert text_of([AgentMessageChunk(content=HELLO), AgentMessageChunk(content=WORLD)]) == "hello world"
    assert text_of(TurnEnded("end_turn")) == ""


def test_text_is_not_written_to_the_wire() -> None:
    from accord.schema.codec import encode

    assert b'"text"' not in encode(Notice(severity="info", title="Slow"))
