"""Bytes to types and back: valid values are kept, broken text is repaired, and every failure is a
`Mismatch`.
"""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from accord.schema import (
    UNSET,
    AgentMessageChunk,
    Error,
    McpFailure,
    McpResult,
    MessageMcpResponse,
    PromptRequest,
    PromptResponse,
    ReadTextFileRequest,
    SessionInfoUpdate,
    SessionNotification,
    SetProviderRequest,
    TextContent,
    ToolCall,
    Unknown,
)
from accord.schema.base import Mismatch
from accord.schema.codec import decode, decode_strict, encode, encode_all, read, to_builtins
from accord.schema.validation import violations


def chunk(text: bytes) -> bytes:
    head = (
        b'{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":'
    )
    return head + text + b"}}}"


@pytest.mark.rule("accord.agent-lone-surrogate")
def test_a_lone_surrogate_in_a_prompt_becomes_a_replacement_character() -> None:
    request = decode(PromptRequest, rb'{"sessionId":"s","prompt":[{"type":"text","text":"a\ud83d"}]}')
    assert request == PromptRequest("s", [TextContent("a\ufffd")])
    encode(request).decode("utf-8")


@pytest.mark.rule("accord.client-lone-surrogate")
def test_an_emoji_split_over_two_chunks_loses_no_chunk() -> None:
    first = decode(SessionNotification, chunk(rb'"so \ud83d"'))
    second = decode(SessionNotification, chunk(rb'"\ude00 far"'))
    assert first == SessionNotification("s", AgentMessageChunk(TextContent("so \ufffd")))
    assert second == SessionNotification("s", AgentMessageChunk(TextContent("\ufffd far")))


def test_encoding_replaces_lone_surrogates() -> None:
    assert encode(TextContent("a\ud83d b", meta={"\udfff": 1})) == (
        '{"type":"text","text":"a\ufffd b","_meta":{"\ufffd":1}}'.encode()
    )


@pytest.mark.parametrize("texts", [(), ("a",), ("a", "b"), ("a", "b\ud800", "c")])
def test_messages_that_are_encoded_together_are_encoded_as_each_alone(texts: tuple[str, ...]) -> None:
    assert encode_all(iter(texts)) == [encode(text) for text in texts]


@pytest.mark.parametrize(
    "raw",
    [
        chunk(b'"\xff"'),
        chunk(b"NaN"),
        chunk(b"Infinity"),
        chunk(b"[" * 100_000 + b"]" * 100_000),
        chunk(b"1" * 10_000),
        chunk(b"1e999"),
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b'{"sessionId":"s"} trailing',
    ],
    ids=lambda raw: repr(raw[:110])[90:],
)
def test_invalid_text_is_a_one_line_mismatch(raw: bytes) -> None:
    with pytest.raises(Mismatch) as failure:
        decode(SessionNotification, raw)
    assert "\n" not in str(failure.value)
    with pytest.raises(Mismatch):
        decode_strict(SessionNotification, raw)


def test_deep_nesting_in_free_values_is_a_mismatch() -> None:
    deep = b'{"code":1,"message":"m","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(Mismatch, match="nested too deep"):
        decode(Error, deep)


def test_a_mismatch_names_the_path_and_the_reason() -> None:
    with pytest.raises(Mismatch) as failure:
        decode(
            PromptRequest, b'{"sessionId":"s","prompt":[{"type":"text","text":"a"},{"type":"text","text":5}]}'
        )
    assert failure.value.path == "$.prompt[1].text"
    assert failure.value.reason == "expected string, got number"
    assert str(failure.value) == "$.prompt[1].text: expected string, got number"


LONG = "x\n" * 10_000


@pytest.mark.parametrize(
    ("cls", "value"),
    [
        (PromptResponse, {"stopReason": 5, LONG: 1}),
        (ReadTextFileRequest, {"sessionId": "s", "path": "/a", "line": LONG}),
        (SetProviderRequest, {"providerId": "p", "apiType": "a", "baseUrl": "u", "headers": {LONG: 5}}),
        (PromptRequest, {"sessionId": "s", "prompt": [{"type": LONG}]}),
    ],
)
def test_a_mismatch_is_one_short_line_for_any_input(cls: Any, value: Any) -> None:
    with pytest.raises(Mismatch) as failure:
        decode(cls, json.dumps(value).encode())
    for problem in (failure.value, *violations(cls, value)):
        assert "\n" not in str(problem)
        assert len(str(problem)) < 250


def test_exact_rejects_what_decode_accepts() -> None:
    raw = b'{"stopReason":"tool_use"}'
    assert decode(PromptResponse, raw) == PromptResponse(Unknown("tool_use", "tool_use"))
    with pytest.raises(Mismatch, match="tool_use"):
        decode_strict(PromptResponse, raw)


def test_absent_null_and_value_are_distinct() -> None:
    for text in (b"{}", b'{"title":null}', b'{"title":"t"}'):
        update = decode(SessionInfoUpdate, text)
        assert to_builtins(update) == {"sessionUpdate": "session_info_update", **json.loads(text)}
    assert decode(SessionInfoUpdate, b"{}").title is UNSET
    assert not UNSET


def test_large_numbers_keep_their_value() -> None:
    raw = (
        b'{"code":-32603,"message":"m","data":{"id":9007199254740993,'
        b'"big":123456789012345678901234567890,"f":3.0}}'
    )
    assert encode(decode(Error, raw)) == raw


def test_raw_parts_of_an_envelope_decode_like_bytes() -> None:
    class Envelope(msgspec.Struct):
        params: msgspec.Raw

    params = msgspec.json.decode(b'{"params":' + chunk(b'"hi"') + b"}", type=Envelope).params
    assert decode(SessionNotification, params) == decode(SessionNotification, chunk(b'"hi"'))
    assert decode_strict(SessionNotification, params).session_id == "s"


def test_a_tool_call_is_encoded_with_its_tag_first_and_its_meta_last() -> None:
    text = encode(ToolCall("c", "Look", kind="read", meta={"a": 1}))
    assert text == (
        b'{"sessionUpdate":"tool_call","toolCallId":"c","title":"Look","kind":"read","_meta":{"a":1}}'
    )


def test_plain_values_can_be_encoded() -> None:
    assert encode({"method": "_x", "params": [1, None, Unknown("z", {"z": 1})]}) == (
        b'{"method":"_x","params":[1,null,{"z":1}]}'
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"result": None}, McpResult(None)),
        ({"result": {"a": 1}}, McpResult({"a": 1})),
        ({"error": {"code": -32601, "message": "no"}}, "McpFailure"),
        ({"result": 1, "error": {"code": -32601, "message": "no"}}, McpResult(1)),
        ({"result": 1, "error": "broken"}, McpResult(1)),
    ],
)
@pytest.mark.rule("mcp.result-counts")
def test_an_mcp_answer_with_a_result_and_an_error_is_a_result(raw: Any, expected: Any) -> None:
    answer = decode(MessageMcpResponse, json.dumps(raw).encode())
    assert read(MessageMcpResponse, raw) == answer
    if expected == "McpFailure":
        assert isinstance(answer, McpFailure)
        assert (answer.error.code, answer.error.message) == (-32601, "no")
    else:
        assert answer == expected


def test_unknown_compares_by_value() -> None:
    assert Unknown("a", {"x": 1}) == Unknown("a", {"x": 1})
    assert Unknown("a", {"x": 1}) != Unknown("a", {"x": 2})
    assert Unknown("end_turn", "end_turn") != "end_turn"


FIRST_DECODE_IN_THREADS = """
import sys
from threading import Barrier, Thread

from accord.schema import SessionNotification
from accord.schema.codec import decode

CONTENT = b'{"type":"text","text":"a"}'
RAW = b'{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":' + CONTENT + b"}}"
sys.setswitchinterval(1e-6)
together = Barrier(4)


def run():
    together.wait()
    decode(SessionNotification, RAW)


threads = [Thread(target=run) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("decoded")
"""


def test_threads_can_decode_a_type_for_the_first_time_together() -> None:
    """msgspec crashes the process if a thread uses a class that another one has described in part."""
    ran = subprocess.run(
        [sys.executable, "-c", FIRST_DECODE_IN_THREADS], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "decoded\n"), ran.stderr
