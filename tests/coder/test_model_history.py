"""The model history: stored, read back, and repaired into a form that every provider accepts."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repetitions

from accord.coder.model_history import (
    INTERRUPTED,
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThoughtPart,
    ToolResult,
    ToolUse,
    UserMessage,
    assistant_message,
    repair,
    result_message,
    text_of,
    tool_uses_of,
    user_message,
)


def use(name: str, use_id: str, **arguments: object) -> ToolUse:
    return ToolUse(use_id, name, arguments)


READ = use("read_file", "1", path="a.py")
LIST = use("list_files", "2", path=".")


@pytest.mark.parametrize(
    "message",
    [
        user_message("hello", ImagePart(b"\x89PNG\x00", "image/png")),
        AssistantMessage(
            (ThoughtPart("hm", {"signature": "abc"}), TextPart("I read."), READ), "anthropic", {"system": "x"}
        ),
        assistant_message(ToolUse("3", "bash", '{"command": ')),
        result_message(READ, "print(1)"),
        result_message(LIST, failed=True),
    ],
)
def test_message_round_trips_through_the_log(message: Message) -> None:
    assert msgspec.json.decode(msgspec.json.encode(message), type=Message) == message


def test_valid_history_is_unchanged() -> None:
    history = [
        user_message("read both"),
        assistant_message(ThoughtPart("first a"), "Reading.", READ, LIST),
        result_message(READ, "print(1)"),
        result_message(LIST),
        assistant_message("Done."),
        user_message("thanks"),
    ]
    assert repair(history) == history


def test_call_without_a_result_gets_an_interrupted_result() -> None:
    history = [
        user_message("go"),
        assistant_message(READ, LIST),
        result_message(LIST, "a.py"),
        user_message("and now?"),
    ]
    assert repair(history) == [
        user_message("go"),
        assistant_message(READ, LIST),
        result_message(READ, INTERRUPTED, failed=True),
        result_message(LIST, "a.py"),
        user_message("and now?"),
    ]


def test_results_directly_follow_their_calls_in_order() -> None:
    history = [
        assistant_message(READ, LIST),
        user_message("hurry"),
        result_message(LIST, "b"),
        assistant_message("Wait."),
        result_message(READ, "a"),
    ]
    assert repair(history) == [
        assistant_message(READ, LIST),
        result_message(READ, "a"),
        result_message(LIST, "b"),
        user_message("hurry"),
        assistant_message("Wait."),
    ]


def test_repeated_and_unmatched_results_are_dropped() -> None:
    history = [
        result_message(LIST, "early"),
        assistant_message(READ),
        result_message(READ, "a"),
        result_message(READ, "again"),
        result_message(LIST, "?"),
    ]
    assert repair(history) == [assistant_message(READ), result_message(READ, "a")]


def test_repeated_call_ids_become_unique() -> None:
    first, second = use("bash", "call_0", command="a"), use("bash", "call_0", command="b")
    history = [
        assistant_message(first),
        result_message(first, "A"),
        assistant_message(second),
        result_message(second, "B"),
    ]
    renamed = ToolUse("call_0-2", "bash", {"command": "b"})
    assert repair(history) == [
        assistant_message(first),
        result_message(first, "A"),
        assistant_message(renamed),
        result_message(renamed, "B"),
    ]


def test_equal_ids_in_one_answer_are_matched_in_order() -> None:
    first, second = use("bash", "x", command="a"), use("glob", "x", pattern="*")
    repaired = repair(
        [assistant_message(first, second), result_message(first, "A"), result_message(second, "B")]
    )
    assert [part.id for part in tool_uses_of(repaired[0])] == ["x", "x-2"]
    assert [(item.id, text_of(item)) for item in repaired[1:] if isinstance(item, ToolResult)] == [
        ("x", "A"),
        ("x-2", "B"),
    ]


def test_blank_text_empty_messages_and_trailing_thoughts_are_dropped() -> None:
    history = [
        user_message("hi"),
        assistant_message(ThoughtPart("I was cut off here", {"signature": "s"})),
        user_message(" \n"),
        assistant_message("  ", READ, ThoughtPart("and then")),
        result_message(READ, ""),
        assistant_message(),
        user_message("still there?"),
    ]
    assert repair(history) == [
        user_message("hi"),
        assistant_message(READ),
        ToolResult("1", "read_file", ()),
        user_message("still there?"),
    ]


def test_signed_thought_without_text_is_kept() -> None:
    sealed = assistant_message(ThoughtPart("", {"signature": "s"}), ThoughtPart(""), "So.")
    assert repair([sealed]) == [assistant_message(ThoughtPart("", {"signature": "s"}), "So.")]


_IDS = st.sampled_from(["", "a", "b", "a-2", "call_0"])
_TEXT = st.sampled_from(["", " ", "words", "more"])
_USES = st.builds(ToolUse, _IDS, st.sampled_from(["bash", "grep"]), st.sampled_from([{}, {"a": 1}, "{"]))
_PARTS = st.one_of(st.builds(TextPart, _TEXT), st.just(ImagePart(b"x", "image/png")))
_ANSWERS = st.one_of(st.builds(TextPart, _TEXT), st.builds(ThoughtPart, _TEXT), _USES)
_MESSAGES = st.one_of(
    st.builds(UserMessage, st.lists(_PARTS, max_size=3).map(tuple)),
    st.builds(AssistantMessage, st.lists(_ANSWERS, max_size=5).map(tuple)),
    st.builds(ToolResult, _IDS, st.just("bash"), st.lists(_PARTS, max_size=2).map(tuple), st.booleans()),
)
_HISTORIES = st.lists(_MESSAGES, max_size=12)


def assert_valid(history: Sequence[Message]) -> None:
    """Check what providers require of a history."""
    seen: set[str] = set()
    pending: list[ToolUse] = []
    for message in history:
        if isinstance(message, ToolResult):
            assert pending, "a result without a call before it"
            expected = pending.pop(0)
            assert (message.id, message.name) == (expected.id, expected.name)
            continue
        assert not pending, "a message comes before the results of all calls"
        assert message.parts
        assert all(part.text.strip() for part in message.parts if isinstance(part, TextPart))
        if isinstance(message, AssistantMessage):
            assert not isinstance(message.parts[-1], ThoughtPart)
            pending = tool_uses_of(message)
            for call in pending:
                assert call.id
                assert call.id not in seen
                seen.add(call.id)
    assert not pending


@settings(max_examples=repetitions(120), deadline=None)
@given(_HISTORIES)
def test_any_history_becomes_valid_and_stays_valid(history: list[Message]) -> None:
    repaired = repair(history)
    assert_valid(repaired)
    assert repair(repaired) == repaired


@settings(max_examples=repetitions(120), deadline=None)
@given(_HISTORIES)
def test_repair_keeps_all_text_and_calls_and_invents_no_results(history: list[Message]) -> None:
    repaired = repair(history)

    def text_parts(messages: Sequence[Message]) -> list[str]:
        return [
            part.text
            for message in messages
            if not isinstance(message, ToolResult)
            for part in message.parts
            if isinstance(part, TextPart) and part.text.strip()
        ]

    def tool_calls(messages: Sequence[Message]) -> list[tuple[str, object]]:
        return [(call.name, call.arguments) for message in messages for call in tool_uses_of(message)]

    assert text_parts(repaired) == text_parts(history)
    assert tool_calls(repaired) == tool_calls(history)
    given_results = [tuple(part for part in item.parts) for item in history if isinstance(item, ToolResult)]
    for item in repaired:
        if isinstance(item, ToolResult) and text_of(item) != INTERRUPTED:
            assert any(set(item.parts) <= set(parts) for parts in given_results)


@settings(max_examples=80, deadline=None)
@given(_HISTORIES, st.integers(0, 12))
def test_truncated_history_becomes_valid(history: list[Message], cut: int) -> None:
    whole = repair(history)
    torn = repair([*whole[:cut], user_message("go on")])
    assert_valid(torn)
    assert torn[-1] == user_message("go on")


def test_many_equal_ids_are_numbered() -> None:
    answers = [assistant_message(use("read_file", "call_0")) for _ in range(3000)]
    ids = [use.id for message in repair(answers) for use in tool_uses_of(message)]
    assert ids == ["call_0", *(f"call_0-{number}" for number in range(2, 3001))]
