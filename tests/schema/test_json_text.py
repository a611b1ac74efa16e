"""JSON text gives a value or one clear error. Lone surrogates are replaced."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.schema.codec import NotJson, is_utf8, parse_json, replace_surrogates


@pytest.mark.rule("accord.agent-lone-surrogate", "accord.client-lone-surrogate")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"\ud83d"', "\ufffd"),
        (rb'"\ude00"', "\ufffd"),
        (rb'"\uD83D\uDE00"', "\U0001f600"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\ud83d\ude00\ude00"', "\U0001f600\ufffd"),
        (rb'"\ud83d\u0041\n"', "\ufffdA\n"),
        (rb'"\\ud83d \\\ud83d \\\\ud83d"', "\\ud83d \\\ufffd \\\\ud83d"),
        (rb'"\\ud83d\ude00"', "\\ud83d\ufffd"),
        (rb'{"\udfff":["\ud800"]}', {"\ufffd": ["\ufffd"]}),
    ],
)
def test_a_lone_surrogate_becomes_a_replacement_character(text: bytes, value: Any) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'"\xff"', "not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deep"),
        (b"1" * 10_000, "out of range"),
        (b"-1e999", "out of range"),
        (b"NaN", "malformed"),
        (b"[-Infinity]", "malformed"),
        (b"", "truncated"),
        (b'"\\ud83', "truncated"),
        (b'"\\ud83d', "truncated"),
        (b"[1,]", "malformed"),
        (b"1 2", "trailing"),
        (b"'a'", "malformed"),
    ],
    ids=lambda part: repr(part[:20]),
)
def test_invalid_json_names_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(NotJson, match=reason) as failure:
        parse_json(text)
    assert "\n" not in str(failure.value)


@given(st.binary(max_size=30) | st.text(alphabet='"\\ud8cf019{}[],: ', max_size=30).map(str.encode))
def test_any_bytes_give_a_value_or_not_json(raw: bytes) -> None:
    try:
        value = parse_json(raw)
    except NotJson:
        return
    json.dumps(value, ensure_ascii=False).encode("utf-8")


@given(st.text(alphabet=st.characters(codec=None), max_size=20))
def test_lone_surrogates_are_replaced_in_any_text(text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert parse_json(json.dumps(text).encode()) == whole


def test_valid_text_is_not_rewritten() -> None:
    assert replace_surrogates(rb'{"a":"\ud83d\ude00 \\ud83d"}') is None
    assert replace_surrogates(rb'{"a":"\ud83d"}') == rb'{"a":"\ufffd"}'


def test_valid_utf8_is_recognized() -> None:
    assert is_utf8(b"plain")
    assert is_utf8("h\u00e9llo \U0001f600".encode())
    assert not is_utf8(b'{"skipped":"\xff"}')
    assert not is_utf8(b"\xed\xa0\x80")
