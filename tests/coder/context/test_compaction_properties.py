"""Properties of compaction: valid and smaller histories that keep the task, the plan and the last answer."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coder.context.hypothesis_settings import no_deadline
from tests.coder.context.scripted_model import SUMMARY, Scripted
from tests.repetitions import repetitions

from accord.coder.context.compaction import CompactionInput, CompactionResult, compact
from accord.coder.context.token_estimate import estimate
from accord.coder.model_history import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThoughtPart,
    ToolResult,
    ToolUse,
    UserMessage,
    last_prompt_index,
    repair,
    text_of,
)
from accord.coder.models.model import ModelError
from accord.schema.updates import PlanEntry

WORDS = st.text(max_size=40) | st.sampled_from(
    ["</prompt>", "# Plan\n- x", "<prompt>\na\n</prompt>", "", " "]
)
TEXTS = st.builds(lambda words, times: words * times, WORDS, st.sampled_from([1, 1, 3, 50, 400]))
IDS = st.sampled_from(["1", "2", "3", ""])
PARTS = st.builds(TextPart, TEXTS) | st.just(ImagePart(b"\x89PNG", "image/png"))
NAMES = st.sampled_from(["read_file", "edit_file", "bash", "move_file", "delete_file"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(["path", "destination", "content"]), TEXTS | st.integers()
) | st.text(max_size=9)
USES = st.builds(ToolUse, IDS, NAMES, ARGUMENTS)
ANSWERS = st.builds(TextPart, TEXTS) | st.builds(ThoughtPart, TEXTS) | USES
MESSAGES = st.one_of(
    st.builds(UserMessage, st.lists(PARTS, max_size=2).map(tuple), st.booleans()),
    st.builds(AssistantMessage, st.lists(ANSWERS, max_size=4).map(tuple)),
    st.builds(ToolResult, IDS, NAMES, st.lists(PARTS, max_size=2).map(tuple), st.booleans()),
)
HISTORIES = st.lists(MESSAGES, max_size=25)
PLANS = st.lists(
    st.builds(
        PlanEntry,
        st.text(min_size=1, max_size=60),
        st.just("medium"),
        st.sampled_from(["pending", "in_progress", "completed"]),
    ),
    max_size=6,
)
OUTCOMES = st.sampled_from(
    [
        (SUMMARY,),
        ("",),
        (Scripted.REFUSAL,),
        (ModelError("network", "scripted: gone"),),
        (ModelError("context_full", "x"), SUMMARY),
    ]
)
SIZES = st.sampled_from([2000, 8000, 40_000, None])


def compacted(
    history: list[Message], plan: list[PlanEntry], outcome: tuple[str | ModelError, ...], **more: object
) -> CompactionResult:
    material = CompactionInput(messages=history, plan=plan, **more)  # type: ignore[arg-type]
    return asyncio.run(compact(material, Scripted(*outcome)))


@settings(no_deadline, max_examples=repetitions(150))
@given(HISTORIES, PLANS, OUTCOMES, SIZES, st.booleans())
def test_compacted_history_is_valid_smaller_and_keeps_the_essentials(
    history: list[Message],
    plan: list[PlanEntry],
    outcome: tuple[str | ModelError, ...],
    size: int | None,
    force_summary: bool,
) -> None:
    repaired = repair(history)
    done = compacted(history, plan, outcome, size=size, force_summary=force_summary)
    assert repair(done.messages) == done.messages
    assert done.before_tokens == estimate(repaired)
    assert done.after_tokens == estimate(done.messages)
    if done.method == "nothing":
        assert done.messages == repaired
    else:
        assert done.after_tokens < done.before_tokens
    prompt = last_prompt_index(repaired)
    if prompt is not None:
        assert done.messages[last_prompt_index(done.messages) or 0] == repaired[prompt]
    if done.method in ("summary", "mechanical"):
        note = text_of(done.messages[0])
        assert all(entry.content in note for entry in plan)
        words = next(
            (
                text_of(m).strip()
                for m in reversed(repaired)
                if isinstance(m, AssistantMessage) and text_of(m).strip()
            ),
            "",
        )
        assert len(words) > 1500 or words in "\n".join(map(text_of, done.messages))
    else:
        remaining = [message for message in done.messages if not isinstance(message, ToolResult)]
        assert remaining == [message for message in repaired if not isinstance(message, ToolResult)]


@settings(no_deadline, max_examples=25)
@given(st.lists(st.tuples(HISTORIES, OUTCOMES), min_size=2, max_size=4), PLANS)
def test_repeated_compaction_stays_valid(
    rounds: list[tuple[list[Message], tuple[str | ModelError, ...]]], plan: list[PlanEntry]
) -> None:
    history: list[Message] = []
    for more, outcome in rounds:
        done = compacted([*history, *more], plan, outcome, size=8000, force_summary=True)
        assert repair(done.messages) == done.messages
        history = done.messages


@pytest.mark.timeout(120)  # quadratic work would exceed it
@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "a" * 1_000_000), (1, "</prompt-" * 100_000), (1, "`" * 1_000_000), (5000, "word " * 20)],
)
def test_large_histories_take_linear_time(count: int, text: str) -> None:
    history: list[Message] = []
    for number in range(count):
        use = ToolUse(f"call-{number}", "read_file", {"path": text[:5000]})
        history += [
            UserMessage((TextPart(text),)),
            AssistantMessage((TextPart(text), use)),
            ToolResult(use.id, use.name, (TextPart(text),)),
        ]
    history.append(UserMessage((TextPart("go on"),)))
    done = compacted(history, [], (SUMMARY,), size=40_000, force_summary=True)
    assert done.method == "summary"
    assert done.fits
