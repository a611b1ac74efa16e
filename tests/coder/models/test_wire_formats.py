"""The four wire formats: the members of a request, and answers as providers and compatible servers send them.

No HTTP here: a format builds a body, and a reader gets the data of server-sent events.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.coder.models.harness import KEY, KINDS, NAMES, READ, final_message, of, request

from accord.coder.model_history import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThoughtPart,
    ToolUse,
    assistant_message,
    result_message,
    tool_uses_of,
    user_message,
)
from accord.coder.models import ModelError, ModelEvent, RequestUsage, TextDelta, ThoughtDelta, ToolSpec
from accord.coder.models.credentials import Secret
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import EFFORTS, Effort, Stopped
from accord.coder.models.openai_models import nearest_effort, openai_model, strict_schema
from accord.coder.models.provider_errors import ProviderFailure
from accord.coder.models.provider_request import wire_format
from accord.coder.models.wire_format import WireFormat
from accord.coder.user_config import Kind, ModelFacts
from accord.schema.codec import encode
from accord.testing import model_formats as scripted
from accord.testing.model_script import ModelAnswer, ModelFormat, ModelToolCall, Refusal, Thought

PIXEL = ImagePart(b"\x89PNG", "image/png")
ENCODED = base64.b64encode(PIXEL.data).decode()
OFFICIAL: dict[Kind, str] = {
    "openai-chat": "openai-chat",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "google": "google",
}


def format_of(kind: Kind, model: str = "", *, official: bool = False, **facts: Any) -> WireFormat:
    """A format at the provider's own address, or at a compatible server with the name `mine`."""
    endpoint = (
        Endpoint(OFFICIAL[kind], kind, None, Secret(KEY), True)
        if official
        else Endpoint("mine", kind, "http://127.0.0.1:1/v1", Secret(KEY), True)
    )
    return wire_format(endpoint, model or NAMES[kind], ModelFacts(**facts))


def body(
    kind: Kind,
    *messages: Message,
    model: str = "",
    official: bool = False,
    effort: Effort | None = None,
    tools: Sequence[ToolSpec] = (READ,),
    **facts: Any,
) -> dict[str, Any]:
    asked = request(*messages, effort=effort, tools=tools)
    return format_of(kind, model, official=official, **facts).body(asked, sees_images=True)


def read(kind: Kind, *events: Any, model: str = "", ended: bool = True) -> list[ModelEvent]:
    """What the reader makes of these events; text is passed on as it is."""
    reader = format_of(kind, model).reader()
    found: list[ModelEvent] = []
    for event in events:
        found += reader.read(event if isinstance(event, bytes) else json.dumps(event).encode())
    return [*found, *reader.end("mine:m")] if ended else found


def by_mine(*parts: Any) -> AssistantMessage:
    return AssistantMessage(parts, "mine")


def chat(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call_delta(
    index: int | None, name: str | None, arguments: str | None, call_id: str | None
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return chat(tool_calls=[{"index": index, "id": call_id, "type": "function", "function": function}])


# What all formats have in common.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("official", [False, True])
def test_bodies_can_be_encoded_with_every_effort(kind: Kind, official: bool) -> None:
    use = ToolUse("call_1", "read_file", '{"pa')
    history = [
        user_message("What?", PIXEL),
        AssistantMessage(
            (ThoughtPart("Hm.", {"signature": "c2ln", "id": "t"}), TextPart("So."), use), "other"
        ),
        result_message(use, "a.png:", PIXEL, failed=True),
        user_message("More"),
        user_message("and more"),
    ]
    for effort in EFFORTS:
        sent = json.dumps(body(kind, *history, official=official, effort=effort))
        assert KEY not in sent
        assert "c2ln" not in sent
        assert "INVALID_JSON" in sent
        assert sent.count(ENCODED) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_history_with_only_foreign_thoughts_gives_no_empty_message(kind: Kind) -> None:
    history = [
        user_message("a"),
        AssistantMessage((ThoughtPart("Hm."), ToolUse("c", "read_file", {})), "other"),
        result_message(ToolUse("c", "read_file", {})),
        AssistantMessage((ThoughtPart("Hm."), TextPart("b")), "other"),
        user_message("c"),
    ]
    sent = body(kind, *history)
    messages = sent.get("messages") or sent.get("input") or sent["contents"]
    assert all(message.get("content", message.get("parts", True)) not in ([], "") for message in messages)
    assert "(no output)" in json.dumps(sent)
    assert "Hm." not in json.dumps(sent)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "data",
    [b"{not json", b"3", b"[]", b'"x"', b"\xff", b"[" * 3000, b'{"choices": 3, "type": 3, "candidates": 3}'],
)
def test_unreadable_event_is_a_failure(kind: Kind, data: bytes) -> None:
    with pytest.raises(ProviderFailure, match="unreadable"):
        read(kind, data)


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_events_and_members_are_ignored(kind: Kind) -> None:
    assert read(kind, {"type": "news", "choices": [], "x": [1]}, {}, ended=False) == []


@pytest.mark.parametrize("kind", KINDS)
def test_answer_without_finish_is_cut_off(kind: Kind) -> None:
    with pytest.raises(ModelError, match="mine:m: the answer ended too early"):
        read(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_surrogate_pair_is_replaced(kind: Kind) -> None:
    pieces: dict[Kind, bytes] = {
        "openai-chat": rb'{"choices":[{"delta":{"content":"a\ud83d"}}]}',
        "openai-responses": rb'{"type":"response.output_text.delta","output_index":0,"delta":"a\ud83d"}',
        "anthropic": rb'{"type":"content_block_delta","index":0,"delta":{"text":"a\ud83d"}}',
        "google": rb'{"candidates":[{"content":{"parts":[{"text":"a\ud83d"}]}}]}',
    }
    assert read(kind, pieces[kind], ended=False) == [TextDelta("a�")]


EARLIER: dict[Kind, dict[str, Any]] = {
    "openai-chat": {
        "provider": "openai",
        "opaque": {"system": "openai"},
        "thought": {"id": "reasoning_content"},
    },
    "openai-responses": {"provider": "openai", "thought": {"id": "rs_1", "signature": "c2VhbA=="}},
    "anthropic": {"provider": "anthropic", "thought": {"signature": "c2VhbA=="}},
    "google": {
        "provider": "google",
        "opaque": {"system": "google"},
        "thought": {"details": {"thought_signature": "c2VhbA=="}},
    },
}
"""How earlier versions stored thoughts."""


@pytest.mark.parametrize("kind", KINDS)
def test_stored_history_of_earlier_versions_is_sent_with_its_thoughts(kind: Kind) -> None:
    members = dict(EARLIER[kind])
    thought = {"type": "thought", "text": "Let me see.", "opaque": members.pop("thought")}
    call = {"type": "tool_use", "id": "pyd_ai_1", "name": "read_file", "arguments": {"path": "a"}}
    stored = {"role": "assistant", "parts": [thought, {"type": "text", "text": "It is 4."}, call], **members}
    answer = msgspec.json.decode(json.dumps(stored).encode(), type=Message)
    (use,) = tool_uses_of(answer)
    result = result_message(use, "x")
    sent = json.dumps(body(kind, user_message("2+2?"), answer, result, official=True))
    assert "Let me see." in sent
    assert ("c2VhbA==" in sent) == (kind != "openai-chat")
    assert sent.count("pyd_ai_1") == 2


# OpenAI chat completions.


def test_chat_request_at_openai_marks_the_cache_and_enforces_schemas() -> None:
    optional = ToolSpec("list", "Lists.", {"type": "object", "properties": {"path": {"type": "string"}}})
    sent = body(
        "openai-chat",
        user_message("hi"),
        model="gpt-6.1-sol",
        official=True,
        tools=[READ, optional],
        max_output=9,
    )
    assert sent == {
        "model": "gpt-6.1-sol",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 9,
        "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
        "messages": [
            {
                "role": "system",
                "content": [
                    {"type": "text", "text": "Be brief.", "prompt_cache_breakpoint": {"mode": "explicit"}}
                ],
            },
            {"role": "user", "content": "hi"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read_file",
                    "description": "Reads a file.",
                    "parameters": {**READ.schema, "additionalProperties": False},
                    "strict": True,
                },
            },
            {
                "type": "function",
                "function": {"name": "list", "description": "Lists.", "parameters": optional.schema},
            },
        ],
    }


def test_chat_request_to_another_server_has_no_openai_extensions() -> None:
    sent = body("openai-chat", user_message("hi"), model="gpt-6.1-sol", official=False)
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert "strict" not in json.dumps(sent)
    assert "prompt_cache_options" not in sent


def test_chat_images_of_results_follow_all_results_of_an_answer() -> None:
    first, second = ToolUse("c1", "read_file", {}), ToolUse("c2", "read_file", {})
    sent = body(
        "openai-chat",
        user_message("look"),
        assistant_message(first, second),
        result_message(first, PIXEL),
        result_message(second, "no", failed=True),
        assistant_message("I see."),
        user_message("ok"),
    )
    roles = [message["role"] for message in sent["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user", "assistant", "user"]
    assert sent["messages"][4]["content"] == "Error: no"
    assert ENCODED in json.dumps(sent["messages"][5])


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_chat_thoughts_return_in_their_member_and_fill_it_for_other_calls(field: str) -> None:
    answer = final_message(
        read("openai-chat", chat(**{field: "Hm"}), chat(**{field: "."}), chat("stop", content="Hi"))
    )
    assert answer == by_mine(ThoughtPart("Hm.", {"id": field}), TextPart("Hi"))
    use = ToolUse("c", "read_file", {})
    sent = body("openai-chat", user_message("a"), answer, by_mine(use), result_message(use, "x"))["messages"]
    assert (sent[2][field], sent[2]["content"]) == ("Hm.", "Hi")
    assert sent[3][field] == ""


@pytest.mark.parametrize(
    "pieces",
    [
        ["<think>", "Hm", ".", "</think>", "Hi"],
        ["<think>Hm.</think>Hi"],
        ["\n<thi", "nk>Hm.</", "think", ">Hi"],
        ["<", "think>Hm.</think>", "H", "i"],
    ],
)
def test_chat_think_tags_at_the_beginning_are_thoughts(pieces: list[str]) -> None:
    events = read("openai-chat", *(chat(content=piece) for piece in pieces), chat("stop"))
    assert "".join(event.text for event in of(ThoughtDelta, events)) == "Hm."
    assert "".join(event.text for event in of(TextDelta, events)) == "Hi"
    assert final_message(events) == by_mine(ThoughtPart("Hm.", {"id": "content"}), TextPart("Hi"))
    sent = body("openai-chat", user_message("a"), final_message(events), user_message("b"))
    assert sent["messages"][2]["content"] == "<think>\nHm.\n</think>\n\nHi"


@pytest.mark.parametrize("pieces", [["a <think>b</think>"], ["<", "b> is bold"], ["<thi"], ["  ", "x"]])
def test_chat_other_text_is_unchanged(pieces: list[str]) -> None:
    events = read("openai-chat", *(chat(content=piece) for piece in pieces), chat("stop"))
    assert "".join(event.text for event in of(TextDelta, events)) == "".join(pieces)
    assert not of(ThoughtDelta, events)


def test_chat_unfinished_think_tag_is_kept_as_a_thought() -> None:
    events = read("openai-chat", chat(content="<think>Hm"), chat(content="</th"), chat("length"))
    assert final_message(events) == by_mine(ThoughtPart("Hm</th", {"id": "content"}))


@pytest.mark.parametrize("ids", [("a", "b"), ("a", "a")])
def test_chat_parallel_calls_by_index(ids: tuple[str, str]) -> None:
    events = read(
        "openai-chat",
        call_delta(0, "read_file", "", ids[0]),
        call_delta(1, "glob", '{"p"', ids[1]),
        call_delta(0, None, '{"path": "x"}', None),
        call_delta(1, None, ": 1}", None),
        chat("tool_calls"),
    )
    uses = of(ToolUse, events)
    assert [(use.name, use.arguments) for use in uses] == [("read_file", {"path": "x"}), ("glob", {"p": 1})]
    assert len({use.id for use in uses}) == 2


@pytest.mark.parametrize("index", [None, 0])
def test_chat_calls_of_servers_without_indexes(index: int | None) -> None:
    events = read(
        "openai-chat",
        call_delta(index, "read_file", '{"path":', "a"),
        call_delta(index, None, ' "x"}', None),
        call_delta(index, "glob", "{}", "b"),
        chat("stop"),
    )
    assert of(ToolUse, events) == [ToolUse("a", "read_file", {"path": "x"}), ToolUse("b", "glob", {})]
    assert of(Stopped, events)[0].reason == "tool_use"


def test_chat_call_without_id_gets_one() -> None:
    (use,) = of(ToolUse, read("openai-chat", call_delta(0, "now", None, None), chat("stop")))
    assert use.id
    assert use.arguments == {}


def test_chat_signature_of_gemini_returns_with_its_call() -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    call = {"index": 0, "id": "a", "function": {"name": "now", "arguments": "{}"}, "extra_content": extra}
    answer = final_message(read("openai-chat", chat(tool_calls=[call]), chat("stop")))
    (use,) = tool_uses_of(answer)
    sent = body("openai-chat", user_message("a"), answer, result_message(use, "x"))
    assert sent["messages"][2]["tool_calls"][0]["extra_content"] == extra


def test_chat_content_can_be_a_list_of_parts() -> None:
    events = read(
        "openai-chat", chat(content=[{"type": "text", "text": "Hi"}, {"type": "x"}, 3]), chat("stop")
    )
    assert of(TextDelta, events) == [TextDelta("Hi")]


def test_chat_null_members_and_repeated_usage_are_accepted() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": None}
    events = read(
        "openai-chat",
        {"choices": None},
        {"choices": [{"delta": None, "finish_reason": None}]},
        {**chat(content=None, tool_calls=None, refusal=None), "usage": usage},
        {**chat("eos"), "usage": {**usage, "completion_tokens": 2}},
    )
    assert of(RequestUsage, events) == [RequestUsage(5, 2)]
    assert of(Stopped, events)[0].reason == "end_turn"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("function_call", "end_turn"),
    ],
)
def test_chat_finish_reasons(finish: str, reason: str) -> None:
    (stopped,) = of(Stopped, read("openai-chat", chat(content="a"), chat(finish)))
    assert stopped.reason == reason
    assert stopped.refusal_text == ("content_filter" if reason == "refusal" else "")


def test_chat_ends_at_done() -> None:
    reader = format_of("openai-chat").reader()
    assert list(reader.read(b" [DONE] ")) == []
    assert reader.done


# OpenAI responses.


def test_responses_request_stores_nothing_and_sends_encrypted_thoughts() -> None:
    answer = AssistantMessage(
        (
            ThoughtPart("One.", {"id": "rs_1", "signature": "c2ln"}),
            ThoughtPart("Two.", {"id": "rs_1"}),
            TextPart("Hi.", {"details": {"phase": "commentary"}}),
            ThoughtPart("Not encrypted.", {"id": "rs_2"}),
            ToolUse("call_1", "read_file", {"path": "a"}),
        ),
        "openai",
        {"system": "openai"},  # written by earlier versions
    )
    use = ToolUse("call_1", "read_file", {"path": "a"})
    sent = body(
        "openai-responses",
        user_message("a"),
        answer,
        result_message(use, "x"),
        model="gpt-6.1-sol",
        official=True,
        effort="max",
    )
    system = {"type": "input_text", "text": "Be brief.", "prompt_cache_breakpoint": {"mode": "explicit"}}
    assert sent["input"] == [
        {"role": "system", "content": [system]},
        {"role": "user", "content": "a"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
            "encrypted_content": "c2ln",
        },
        {"role": "assistant", "content": "Hi.", "phase": "commentary"},
        {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": '{"path":"a"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "x"},
    ]
    assert (sent["store"], sent["include"]) == (False, ["reasoning.encrypted_content"])
    assert sent["reasoning"] == {"effort": "max", "context": "all_turns", "summary": "auto"}
    assert "instructions" not in sent


def test_responses_request_of_a_model_without_thinking() -> None:
    sent = body("openai-responses", user_message("a"), model="gpt-4.1", effort="high")
    assert "reasoning" not in sent
    assert "include" not in sent
    assert sent["instructions"] == "Be brief."
    assert sent["tools"][0]["strict"] is True


def test_responses_tool_result_with_an_image() -> None:
    use = ToolUse("c", "read_file", {})
    sent = body(
        "openai-responses", user_message("a"), assistant_message(use), result_message(use, "a:", PIXEL)
    )
    assert sent["input"][-1]["output"] == [
        {"type": "input_text", "text": "a:"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{ENCODED}", "detail": "auto"},
    ]


def responses(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **members}


COMPLETED = responses(
    "completed", response={"status": "completed", "usage": {"input_tokens": 3, "output_tokens": 1}}
)


def test_responses_summaries_become_one_thought_each_with_one_signature() -> None:
    def summary(number: int, text: str) -> dict[str, Any]:
        return responses(
            "reasoning_summary_text.delta", item_id="rs", output_index=0, summary_index=number, delta=text
        )

    item = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "c2ln"}
    events = read(
        "openai-responses",
        summary(0, "One"),
        summary(0, "."),
        summary(1, "Two."),
        responses("output_item.done", output_index=0, item=item),
        COMPLETED,
    )
    assert [event.text for event in of(ThoughtDelta, events)] == ["One", ".", "\n\nTwo."]
    assert final_message(events) == by_mine(
        ThoughtPart("One.", {"id": "rs", "signature": "c2ln"}), ThoughtPart("Two.", {"id": "rs"})
    )


def test_responses_encrypted_thought_without_summary_is_kept() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "c2ln"}
    events = read(
        "openai-responses",
        responses("output_item.done", output_index=0, item=item),
        responses("output_text.delta", output_index=1, content_index=0, item_id="m", delta="Hi"),
        COMPLETED,
    )
    assert not of(ThoughtDelta, events)
    assert final_message(events) == by_mine(
        ThoughtPart("", {"id": "rs", "signature": "c2ln"}), TextPart("Hi")
    )


@pytest.mark.parametrize("opaque", [{"raw": True}, {"raw_content": ["Hm."]}])
def test_responses_raw_thoughts_return_as_content(opaque: dict[str, Any]) -> None:
    delta = responses("reasoning_text.delta", output_index=0, content_index=0, item_id="rs", delta="Hm.")
    assert final_message(read("openai-responses", delta, COMPLETED)) == by_mine(
        ThoughtPart("Hm.", {"id": "rs", "details": {"raw": True}})
    )
    stored = by_mine(ThoughtPart("Hm.", {"id": "rs", "details": opaque}), TextPart("Hi"))
    sent = body("openai-responses", user_message("a"), stored, user_message("b"))["input"][1]
    assert (sent["summary"], sent["content"]) == ([], [{"type": "reasoning_text", "text": "Hm."}])


def test_responses_arguments_may_come_only_at_the_end_and_ids_may_change() -> None:
    item = {"type": "function_call", "id": "x", "call_id": "c", "name": "read_file", "arguments": ""}
    done = {**item, "id": "y", "arguments": '{"path": "a"}'}
    events = read(
        "openai-responses",
        responses("output_item.added", output_index=0, item=item),
        responses("function_call_arguments.delta", output_index=0, item_id="z", delta='{"pa'),
        responses("output_item.done", output_index=0, item=done),
        COMPLETED,
    )
    assert of(ToolUse, events) == [ToolUse("c", "read_file", {"path": "a"})]
    assert of(RequestUsage, events) == [RequestUsage(3, 1)]


def test_responses_phase_is_kept() -> None:
    events = read(
        "openai-responses",
        responses(
            "output_item.added", output_index=0, item={"type": "message", "id": "m", "phase": "commentary"}
        ),
        responses("output_text.delta", output_index=0, content_index=0, item_id="m", delta="Hi"),
        responses("output_text.delta", output_index=0, content_index=0, item_id="m", delta=None),
        COMPLETED,
    )
    assert final_message(events) == by_mine(TextPart("Hi", {"details": {"phase": "commentary"}}))


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "oops"},
        {"type": "error", "error": {"type": "server_error", "message": "oops"}},
        {"error": {"code": "server_error", "message": "oops"}},
        responses(
            "failed", response={"status": "failed", "error": {"code": "server_error", "message": "oops"}}
        ),
    ],
)
def test_responses_errors_in_the_stream(event: dict[str, Any]) -> None:
    with pytest.raises(ProviderFailure) as caught:
        read("openai-responses", event)
    assert (caught.value.text, "server_error" in caught.value.words) == ("oops", True)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ({"status": "failed"}, "broke off the answer"),
        ({"status": "cancelled"}, "broke off the answer"),
        ({"status": "incomplete", "incomplete_details": {"reason": "steered"}}, "ended too early"),
        ({}, "ended too early"),
    ],
)
def test_responses_that_are_not_complete(response: dict[str, Any], error: str) -> None:
    with pytest.raises(ModelError, match=error):
        read("openai-responses", responses("incomplete", response=response))


def test_responses_content_filter_is_a_refusal() -> None:
    response = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    (stopped,) = of(Stopped, read("openai-responses", responses("incomplete", response=response)))
    assert (stopped.reason, stopped.refusal_text) == ("refusal", "content_filter")


# Anthropic messages.


def test_anthropic_request_joins_messages_and_marks_the_cache() -> None:
    first, second = ToolUse("c1", "read_file", {"path": "a"}), ToolUse("c2", "read_file", {})
    answer = by_mine(
        ThoughtPart("Hm.", {"signature": "c2ln"}),
        ThoughtPart("", {"id": "redacted_thinking", "signature": "ZGF0YQ=="}),
        ThoughtPart("Unsigned."),
        TextPart("Reading."),
        first,
        second,
    )
    sent = body(
        "anthropic",
        user_message("a"),
        answer,
        result_message(first, "x"),
        result_message(second, "no", failed=True),
        user_message("b"),
    )
    mark = {"type": "ephemeral"}
    assert sent == {
        "model": "claude-sonnet-5-5",
        "stream": True,
        "max_tokens": 128_000,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
        "tools": [
            {
                "name": "read_file",
                "description": "Reads a file.",
                "input_schema": READ.schema,
                "cache_control": mark,
            }
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": mark}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                    {"type": "text", "text": "Reading."},
                    {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "read_file", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "text", "text": "x"}],
                        "is_error": False,
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "c2",
                        "content": [{"type": "text", "text": "no"}],
                        "is_error": True,
                    },
                    {"type": "text", "text": "b", "cache_control": mark},
                ],
            },
        ],
    }
    official = body("anthropic", user_message("a"), official=True)
    assert official["cache_control"] == mark
    assert "cache_control" not in official["messages"][-1]["content"][-1]


@pytest.mark.parametrize(
    ("model", "effort", "members"),
    [
        ("claude-sonnet-5-5", "off", {"thinking": {"type": "between_tools"}}),
        ("claude-opus-5", "off", {"thinking": {"type": "disabled"}}),
        ("claude-opus-5-5", "off", {}),
        ("claude-opus-4-7", "off", {}),
        (
            "claude-sonnet-5-5",
            "minimal",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ),
        (
            "claude-opus-4-7",
            "xhigh",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}},
        ),
        ("claude-opus-4-6", "xhigh", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
        ("claude-sonnet-4-6", "max", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
        (
            "claude-opus-4-5-20251101",
            "max",
            {"thinking": {"type": "enabled", "budget_tokens": 32768}, "output_config": {"effort": "high"}},
        ),
        ("claude-haiku-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("claude-sonnet-4-20250514", "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("claude-3-7-sonnet-latest", None, {}),
    ],
)
def test_anthropic_thinking_by_model(model: str, effort: Effort | None, members: dict[str, Any]) -> None:
    sent = body("anthropic", user_message("a"), model=model, effort=effort)
    assert {name: sent[name] for name in ("thinking", "output_config") if name in sent} == members


@pytest.mark.parametrize(
    ("model", "effort", "max_output", "limit", "budget"),
    [
        ("claude-sonnet-5-5", None, None, 128_000, None),
        ("claude-sonnet-4-5", "high", None, 64_000, 16_384),
        ("claude-opus-4-1", None, None, 4096, None),
        ("claude-opus-4-1", "low", None, 6144, 2048),
        ("claude-3-5-haiku-latest", "max", None, 36_864, 32_768),
        ("some-model", "medium", None, 16_384, 10_000),
        ("some-model", "high", None, 20_480, 16_384),
        ("claude-sonnet-4-5", "high", 5000, 5000, 4999),
        ("claude-sonnet-4-5", "high", 1000, 1000, None),
    ],
)
def test_anthropic_output_limit_leaves_room_beside_the_thoughts(
    model: str, effort: Effort | None, max_output: int | None, limit: int, budget: int | None
) -> None:
    sent = body("anthropic", user_message("a"), model=model, effort=effort, max_output=max_output)
    assert (sent["max_tokens"], sent.get("thinking", {}).get("budget_tokens")) == (limit, budget)


def block(index: int, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": members}


def delta(index: int, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": members}


def stopped(reason: str, **members: Any) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, **members},
        "usage": {"output_tokens": 9},
    }


def test_anthropic_answer_with_all_kinds_of_blocks() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 30,
        "output_tokens": 1,
    }
    last = {
        **stopped("tool_use"),
        "usage": {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
    }
    events = read(
        "anthropic",
        {"type": "message_start", "message": {"id": "m", "usage": usage}},
        {"type": "ping"},
        block(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="Hm."),
        delta(0, type="signature_delta", signature="c2"),
        delta(0, type="signature_delta", signature="ln"),
        {"type": "content_block_stop", "index": 0},
        block(1, type="redacted_thinking", data="ZGF0YQ=="),
        block(2, type="text", text="Let "),
        delta(2, type="text_delta", text="me."),
        block(3, type="server_tool_use", id="s", name="web_search", input={}),
        delta(3, type="input_json_delta", partial_json='{"q": 1}'),
        block(4, type="tool_use", id="t1", name="read_file", input={}),
        delta(4, type="input_json_delta", partial_json='{"path"'),
        delta(4, type="input_json_delta", partial_json=': "a"}'),
        block(5, type="tool_use", id="t2", name="glob", input={"p": 1}),
        last,
        {"type": "message_stop"},
    )
    assert final_message(events) == by_mine(
        ThoughtPart("Hm.", {"signature": "c2ln"}),
        ThoughtPart("", {"id": "redacted_thinking", "signature": "ZGF0YQ=="}),
        TextPart("Let me."),
        ToolUse("t1", "read_file", {"path": "a"}),
        ToolUse("t2", "glob", {"p": 1}),
    )
    assert of(RequestUsage, events) == [RequestUsage(60, 9, 20, 30, 4)]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "end_turn"),
        ("model_context_window_exceeded", "max_tokens"),
        ("refusal", "refusal"),
    ],
)
def test_anthropic_stop_reasons(reason: str, cause: str) -> None:
    (last,) = of(Stopped, read("anthropic", stopped(reason, stop_details={"explanation": "Because."})))
    assert (last.reason, last.refusal_text) == (cause, "Because." if cause == "refusal" else "")


def test_anthropic_paused_answer_is_not_complete() -> None:
    with pytest.raises(ModelError, match="ended too early"):
        read("anthropic", stopped("pause_turn"))


def test_anthropic_headers_have_version_and_key() -> None:
    assert format_of("anthropic").headers() == {
        "anthropic-version": "2026-10-21",
        "authorization": f"Bearer {KEY}",
    }


# Gemini.


def test_gemini_request() -> None:
    first, second = ToolUse("c1", "read_file", {"path": "a"}), ToolUse("c2", "read_file", {})
    signed = ToolUse("c3", "read_file", {}, {"details": {"thought_signature": "c2ln"}})
    sent = body(
        "google",
        user_message("a"),
        by_mine(
            ThoughtPart("Hm.", {"details": {"thought_signature": "dA=="}}), TextPart("Hi."), first, second
        ),
        result_message(first, "x", PIXEL),
        result_message(second, "no", failed=True),
        user_message("b"),
        user_message("c"),
        by_mine(signed),
        result_message(signed, "y"),
        model="gemini-4-argon",
        effort="low",
        max_output=7,
    )
    dummy = base64.b64encode(b"skip_thought_signature_validator").decode()
    image = {"inlineData": {"mimeType": "image/png", "data": ENCODED}}
    assert sent["contents"] == [
        {"role": "user", "parts": [{"text": "a"}]},
        {
            "role": "model",
            "parts": [
                {"text": "Hm.", "thought": True, "thoughtSignature": "dA=="},
                {"text": "Hi."},
                {
                    "functionCall": {"id": "c1", "name": "read_file", "args": {"path": "a"}},
                    "thoughtSignature": dummy,
                },
                {"functionCall": {"id": "c2", "name": "read_file", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "c1",
                        "name": "read_file",
                        "response": {"output": "x\n\n[image: image/png]"},
                        "parts": [image],
                    }
                },
                {"functionResponse": {"id": "c2", "name": "read_file", "response": {"error": "no"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "b"}, {"text": "c"}]},
        {
            "role": "model",
            "parts": [
                {"functionCall": {"id": "c3", "name": "read_file", "args": {}}, "thoughtSignature": "c2ln"}
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "c3", "name": "read_file", "response": {"output": "y"}}}],
        },
    ]
    assert sent["generationConfig"] == {
        "responseModalities": ["TEXT"],
        "maxOutputTokens": 7,
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
    }
    assert sent["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert sent["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == READ.schema
    assert sent["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}


def test_gemini_images_of_results_follow_for_older_models() -> None:
    use = ToolUse("c", "read_file", {})
    history = [
        user_message("a"),
        assistant_message(use),
        result_message(use, PIXEL),
        assistant_message("Nice."),
    ]
    sent = body("google", *history, user_message("b"), model="gemini-2.5-pro")
    assert [content["role"] for content in sent["contents"]] == [
        "user",
        "model",
        "user",
        "user",
        "model",
        "user",
    ]
    assert sent["contents"][3]["parts"][1]["inlineData"]["data"] == ENCODED


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-4-argon", "off", {"thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-3-flash", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("gemini-3-flash", "max", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-2.5-pro", "off", {"thinkingBudget": 128}),
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("gemini-2.5-flash", "xhigh", {"includeThoughts": True, "thinkingBudget": 24576}),
        ("gemini-2.0-flash", "high", None),
        ("gemma-3", "high", None),
        ("gemini-4-argon", None, None),
    ],
)
def test_gemini_thinking_by_model(model: str, effort: Effort | None, config: dict[str, Any] | None) -> None:
    sent = body("google", user_message("a"), model=model, effort=effort)
    assert sent["generationConfig"].get("thinkingConfig") == config


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-4-argon", "/v1/models/gemini-4-argon:streamGenerateContent?alt=sse"),
        ("tunedModels/my one", "/v1/tunedModels/my%20one:streamGenerateContent?alt=sse"),
    ],
)
def test_gemini_path(model: str, path: str) -> None:
    assert format_of("google", model).path() == path


def gemini(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate]}


def test_gemini_pieces_are_joined_until_a_signature() -> None:
    events = read(
        "google",
        gemini({"text": "H", "thought": True}),
        gemini({"text": "m.", "thought": True}),
        gemini({"text": "Let "}, {"text": "me.", "thoughtSignature": "c2ln"}),
        gemini({"text": "More."}),
        gemini(
            {"functionCall": {"name": "now"}, "thoughtSignature": "dA=="},
            {"functionCall": {"name": "now", "args": {}}},
        ),
        gemini({"text": ""}, finish="STOP"),
    )
    answer = final_message(events)
    first, second = tool_uses_of(answer)
    assert answer.parts[:3] == (
        ThoughtPart("Hm."),
        TextPart("Let me.", {"details": {"thought_signature": "c2ln"}}),
        TextPart("More."),
    )
    assert (first.arguments, first.opaque) == ({}, {"details": {"thought_signature": "dA=="}})
    assert first.id != second.id


def test_gemini_blocked_prompt_is_a_refusal() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "No."}
    (last,) = of(Stopped, read("google", {"promptFeedback": feedback}))
    assert (last.reason, last.refusal_text) == ("refusal", "No.")


@pytest.mark.parametrize(
    ("finish", "error"),
    [
        ("MALFORMED_FUNCTION_CALL", "broke off the answer"),
        ("OTHER", "ended too early"),
        ("NEW", "ended too early"),
    ],
)
def test_gemini_answers_that_are_not_complete(finish: str, error: str) -> None:
    with pytest.raises(ModelError, match=error):
        read("google", gemini({"text": "a"}, finish=finish))


def test_gemini_errors_may_come_in_a_list() -> None:
    from accord.coder.models.provider_errors import error_object

    assert error_object(b'[{"error": {"code": 400, "message": "bad"}}]') == {"code": 400, "message": "bad"}


# OpenAI's models.


@pytest.mark.parametrize(
    ("model", "levels"),
    [
        ("gpt-6.1-sol", ["low", "low", "low", "medium", "high", "xhigh", "max"]),
        ("gpt-5.6-sol", ["none", "low", "low", "medium", "high", "xhigh", "max"]),
        ("gpt-5.5", ["none", "minimal", "low", "medium", "high", "xhigh", "xhigh"]),
        ("gpt-5.5-pro", ["medium", "medium", "medium", "medium", "high", "xhigh", "xhigh"]),
        ("gpt-5-pro", ["high"] * 7),
        ("gpt-5-mini", ["minimal", "minimal", "low", "medium", "high", "high", "high"]),
        ("o3", ["low", "low", "low", "medium", "high", "high", "high"]),
        ("gpt-5-chat-latest", [None] * 7),
        ("gpt-4o", [None] * 7),
    ],
)
def test_nearest_effort(model: str, levels: list[str | None]) -> None:
    assert [nearest_effort(effort, openai_model(model).efforts) for effort in EFFORTS] == levels


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "is_strict"),
    [
        ({"type": "object", "properties": {}}, True),
        ({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, True),
        ({"type": "object", "properties": {"a": {"type": "array", "items": TEXT}}, "required": ["a"]}, True),
        (
            {"type": "object", "properties": {"a": {"anyOf": [TEXT, {"type": "null"}]}}, "required": ["a"]},
            True,
        ),
        ({"type": "object", "properties": {"a": TEXT}}, False),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, False),
        ({"type": "object", "properties": {"a": {**TEXT, "minLength": 1}}, "required": ["a"]}, False),
        ({"type": "object", "properties": {"a": {"$ref": "#/x"}}, "required": ["a"]}, False),
        ({"type": "object", "additionalProperties": True}, False),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "object", "properties": {"b": TEXT}}},
                "required": ["a"],
            },
            False,
        ),
        (True, False),
    ],
)
def test_strict_schema(schema: Any, is_strict: bool) -> None:
    strict = strict_schema(schema)
    assert (strict is not None) == is_strict
    if strict is not None:
        assert strict["additionalProperties"] is False
        assert strict["required"] == list(schema["properties"])


def test_organization_and_project_are_sent_to_openai_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    for kind in ("openai-chat", "openai-responses"):
        assert format_of(kind, official=True).headers() == {
            "authorization": f"Bearer {KEY}",
            "openai-organization": "org",
            "openai-project": "project",
        }
        assert format_of(kind).headers() == {"authorization": f"Bearer {KEY}"}


# Answers with arbitrary values in place of the expected ones.

FORMATS: dict[Kind, ModelFormat] = {
    "openai-chat": scripted.OpenAIChat(),
    "openai-responses": scripted.OpenAIResponses(),
    "anthropic": scripted.Anthropic(),
    "google": scripted.Gemini(),
}
ANSWER = ModelAnswer(
    Thought("Hm."), "Hi ", "there", ModelToolCall("read_file", {"path": "a"}), Refusal("No.")
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def events_of(kind: Kind) -> list[Any]:
    frames = (frame for frame in FORMATS[kind].frames(ANSWER, 1, "m") if isinstance(frame, bytes))
    found = [line[6:] for frame in frames for line in frame.splitlines() if line.startswith(b"data: {")]
    return [json.loads(data) for data in found]


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_has_its_id_and_the_model_that_gave_it(kind: Kind) -> None:
    [stopped] = of(Stopped, read(kind, *events_of(kind)))
    assert stopped.response_id
    assert stopped.response_model == "m"


def replace_somewhere(value: Any, data: st.DataObject) -> Any:
    """The value with one of its parts, at any depth, replaced by another value."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 4)):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: replace_somewhere(value[key], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 4)):
        return [replace_somewhere(value[0], data), *value[1:]]
    return data.draw(JSON)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_unexpected_values_never_break_the_reader(kind: Kind, data: st.DataObject) -> None:
    events = events_of(kind)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(events) - 1))
        events[position] = replace_somewhere(events[position], data)
    try:
        found = read(kind, *events)
    except (ProviderFailure, ModelError):
        return
    assert msgspec.json.decode(encode(final_message(found)), type=Message) == final_message(found)
