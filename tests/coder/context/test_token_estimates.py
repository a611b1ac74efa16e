"""Token estimates: close to what providers count, in linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.coder.context.hypothesis_settings import no_deadline
from tests.coder.context.samples import SAMPLES

from accord.coder.context.token_estimate import IMAGE_TOKENS, TokenMeter, estimate
from accord.coder.model_history import (
    ImagePart,
    Message,
    ToolUse,
    assistant_message,
    result_message,
    user_message,
)
from accord.coder.models.model import ModelRequest, ToolSpec

READ = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest.mark.parametrize("sort", SAMPLES)
def test_estimate_is_close_to_two_providers(sort: str) -> None:
    text, *counted = SAMPLES[sort]
    nearest = min(counted, key=lambda tokens: abs(tokens - estimate(text)))
    assert abs(estimate(text) - nearest) < 0.1 * nearest
    for tokens in counted:
        assert abs(estimate(text) - tokens) < 0.25 * tokens


@pytest.mark.timeout(120)  # quadratic work on these would take hours
@pytest.mark.parametrize("piece", ["a", "a1", " ", "<", "/\\.-", "é", "word ", "\n", "A", "aB"])
def test_large_text_without_separators_is_estimated_in_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    assert estimate(text) >= len(text) // 100


def test_sampled_estimate_matches_the_full_estimate() -> None:
    text, *_ = SAMPLES["python"]
    counted = estimate(text * 500)  # just short enough to be counted whole
    assert abs(estimate(text * 2500) / 5 - counted) < 0.03 * counted


@no_deadline
@given(st.text())
def test_any_text_has_an_estimate(text: str) -> None:
    assert (estimate(text) > 0) == bool(text.strip(" ")) or len(text) > 1


@no_deadline
@given(st.lists(st.text(max_size=20)))
def test_estimate_of_messages_is_the_sum(texts: list[str]) -> None:
    messages: list[Message] = [user_message(text) for text in texts]
    assert estimate(messages) == sum(estimate(message) for message in messages)


def test_calls_images_and_tools_are_counted() -> None:
    use = ToolUse("1", "read_file", {"path": "src/app.py"})
    assert estimate(assistant_message(use)) > estimate("read_file src/app.py")
    assert estimate(user_message(ImagePart(b"\x89PNG", "image/png"))) >= IMAGE_TOKENS
    bare = ModelRequest("Be brief.", [user_message("hello")])
    assert (
        estimate(ModelRequest("Be brief.", [user_message("hello")], [READ]))
        > estimate(bare)
        > estimate("Be brief.")
    )


def test_provider_count_is_used_and_only_new_messages_are_estimated() -> None:
    meter = TokenMeter()
    history: list[Message] = [user_message("hello " * 100)]
    request = ModelRequest("Be brief.", history, [READ])
    assert meter.tokens(request) == estimate(request)
    meter.record(request, 200)
    assert meter.tokens(request) == 200
    more: list[Message] = [*history, assistant_message("Good day."), user_message("and now?")]
    ratio = 200 / estimate(request)
    expected = 200 + ratio * (estimate(assistant_message("Good day.")) + estimate(user_message("and now?")))
    assert meter.tokens(ModelRequest("Be brief.", more, [READ])) == pytest.approx(expected, abs=1)


def test_changed_history_is_estimated_with_the_provider_ratio() -> None:
    meter = TokenMeter()
    request = ModelRequest("", [user_message("hello " * 1000), assistant_message("Good day.")])
    meter.record(request, 2 * estimate(request))
    compacted = ModelRequest("", [user_message("short"), assistant_message("Good day.")])
    assert meter.tokens(compacted) == 2 * estimate(compacted)


@pytest.mark.parametrize("tokens", [0, -5, 20])
def test_implausibly_low_provider_count_is_ignored(tokens: int) -> None:
    meter = TokenMeter()
    request = ModelRequest("", [user_message("hello " * 1000)])
    meter.record(request, tokens)
    assert meter.tokens(request) == estimate(request)


def test_absurd_provider_count_has_limited_effect() -> None:
    meter = TokenMeter()
    request = ModelRequest("", [user_message("hello " * 1000)])
    meter.record(request, 10**9)
    assert meter.tokens(ModelRequest("", [user_message("hello")])) <= 3 * estimate(user_message("hello"))


def test_equal_histories_share_a_count() -> None:
    use = ToolUse("1", "read_file", {"path": "a.py"})

    def history() -> list[Message]:
        return [user_message("read"), assistant_message(use), result_message(use, "print(1)")]

    meter = TokenMeter()
    meter.record(ModelRequest("", history()), 321)
    assert meter.tokens(ModelRequest("", history())) == 321
