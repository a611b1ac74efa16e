"""The model history: stored, read back, and repaired into a form that every provider accepts."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    assistant,
    decode_message,
    repair,
    result,
    text_of,
    user,
    uses_of,
)


def use(name: str, use_id: str, **arguments: object) -> ToolUse:
    return ToolUse(use_id, name, arguments)


READ = use("read_file", "1", path="a.py")
LIST = use("list_files", "2", path=".")


@pytest.mark.parametrize(
    "message",
    [
        user("hello", ImagePart(b"\x89PNG\x00", "image/png")),
        AssistantMessage(
            (ThoughtPart("hm", {"signature": "abc"}), TextPart("I read."), READ), "anthropic", {"system": "x"}
        ),
        assistant(ToolUse("3", "bash", '{"command": ')),
        result(READ, "print(1)"),
        result(LIST, failed=True),
    ],
)
def test_message_round_trips_through_the_log(message: Message) -> None:
    assert decode_message(msgspec.json.encode(message)) == message


def test_valid_history_is_unchanged() -> None:
    history = [
        user("read both"),
        assistant(ThoughtPart("first a"), "Reading.", READ, LIST),
        result(READ, "print(1)"),
        result(LIST),
        assistant("Done."),
        user("thanks"),
    ]
    assert repair(history) == history


def test_call_without_a_result_gets_an_interrupted_result() -> None:
    history = [user("go"), assistant(READ, LIST), result(LIST, "a.py"), user("and now?")]
    assert repair(history) == [
        user("go"),
        assistant(READ, LIST),
        result(READ, INTERRUPTED, failed=True),
        result(LIST, "a.py"),
        user("and now?"),
    ]


def test_results_directly_follow_their_calls_in_order() -> None:
    history = [assistant(READ, LIST), user("hurry"), result(LIST, "b"), assistant("Wait."), result(READ, "a")]
    assert repair(history) == [
        assistant(READ, LIST),
        result(READ, "a"),
        result(LIST, "b"),
        user("hurry"),
        assistant("Wait."),
    ]


def test_repeated_and_unmatched_results_are_dropped() -> None:
    history = [
        result(LIST, "early"),
        assistant(READ),
        result(READ, "a"),
        result(READ, "again"),
        result(LIST, "?"),
    ]
    assert repair(history) == [assistant(READ), result(READ, "a")]


def test_repeated_call_ids_become_unique() -> None:
    first, second = use("bash", "call_0", command="a"), use("bash", "call_0", command="b")
    history = [assistant(first), result(first, "A"), assistant(second), result(second, "B")]
    renamed = ToolUse("call_0-2", "bash", {"command": "b"})
    assert repair(history) == [
        assistant(first),
        result(first, "A"),
        assistant(renamed),
        result(renamed, "B"),
    ]


def test_equal_ids_in_one_answer_are_matched_in_order() -> None:
    first, second = use("bash", "x", command="a"), use("glob", "x", pattern="*")
    repaired = repair([assistant(first, second), result(first, "A"), result(second, "B")])
    assert [part.id for part in uses_of(repaired[0])] == ["x", "x-2"]
    assert [(item.id, text_of(item)) for item in repaired[1:] if isinstance(item, ToolResult)] == [
        ("x", "A"),
        ("x-2", "B"),
    ]


def test_blank_text_empty_messages_and_trailing_thoughts_are_dropped() -> None:
    history = [
        user("hi"),
        assistant(ThoughtPart("I was cut off here", {"signature": "s"})),
        user(" \n"),
        assistant("  ", READ, ThoughtPart("and then")),
        result(READ, ""),
        assistant(),
        user("still there?"),
    ]
    assert repair(history) == [
        user("hi"),
        assistant(READ),
        ToolResult("1", "read_file", ()),
        user("still there?"),
    ]


def test_signed_thought_without_text_is_kept() -> None:
    sealed = assistant(ThoughtPart("", {"signature": "s"}), ThoughtPart(""), "So.")
    assert repair([sealed]) == [assistant(ThoughtPart("", {"signature": "s"}), "So.")]


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
            pending = uses_of(message)
            for call in pending:
                assert call.id
                assert call.id not in seen
                seen.add(call.id)
    assert not pending


@settings(max_examples=120, deadline=None)
@given(_HISTORIES)
def test_any_history_becomes_valid_and_stays_valid(history: list[Message]) -> None:
    repaired = repair(history)
    assert_valid(repaired)
    assert repair(repaired) == repaired


@settings(max_examples=120, deadline=None)
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
        return [(call.name, call.arguments) for message in messages for call in uses_of(message)]

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
    torn = repair([*whole[:cut], user("go on")])
    assert_valid(torn)
    assert torn[-1] == user("go on")


def test_many_equal_ids_are_numbered() -> None:
    answers = [assistant(use("read_file", "call_0")) for _ in range(3000)]
    ids = [use.id for message in repair(answers) for use in uses_of(message)]
    assert ids == ["call_0", *(f"call_0-{number}" for number in range(2, 3001))]
