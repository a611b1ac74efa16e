"""The provider code in all four wire formats, against the scripted server."""

import base64
import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.coder.models.harness import KEY, KINDS, READ, ask, final_message, of, remote_model, request

from accord.coder.model_history import (
    ImagePart,
    Message,
    TextPart,
    ThoughtPart,
    ToolUse,
    assistant_message,
    note_message,
    repair,
    result_message,
    tool_uses_of,
    user_message,
)
from accord.coder.models import ModelError, RequestUsage, Stopped, TextDelta, ThoughtDelta, ToolSpec
from accord.coder.user_config import Kind, ModelFacts
from accord.schema.codec import encode
from accord.testing.model_script import (
    ModelAnswer,
    ModelToolCall,
    Refusal,
    ScriptedUsage,
    StreamPause,
    Thought,
)
from accord.testing.model_server import ModelServer

PIXEL = ImagePart(b"\x89PNG\r\n\x1a\nnot really", "image/png")
ENCODED = base64.b64encode(PIXEL.data).decode()

pytestmark = pytest.mark.parametrize("kind", KINDS)


async def test_text_arrives_in_the_chunks_that_were_sent(kind: Kind) -> None:
    async with (
        ModelServer([ModelAnswer("Hel", "lo ", "wörld")]) as server,
        remote_model(server, kind) as model,
    ):
        events = await ask(model)
    assert [event.text for event in of(TextDelta, events)] == ["Hel", "lo ", "wörld"]
    assert of(Stopped, events)[0].reason == "end_turn"
    assert [part.text for part in final_message(events).parts if isinstance(part, TextPart)] == [
        "Hello wörld"
    ]


async def test_chunk_arrives_before_the_next_is_sent(kind: Kind) -> None:
    pause = StreamPause()
    async with ModelServer([ModelAnswer("one", pause, "two")]) as server, remote_model(server, kind) as model:
        stream = model.stream(request())
        assert await anext(stream) == TextDelta("one")
        await pause.reached()
        pause.release()
        assert await anext(stream) == TextDelta("two")
        await stream.aclose()


async def test_thoughts_precede_text_and_are_sent_back_with_their_signature(
    kind: Kind,
) -> None:
    script = [ModelAnswer(Thought("Let me see.", "c2VhbA=="), "It is 4."), ModelAnswer("As I said.")]
    async with ModelServer(script) as server, remote_model(server, kind) as model:
        events = await ask(model)
        stored = msgspec.json.decode(encode(final_message(events)), type=Message)
        await ask(model, request(user_message("2+2?"), stored, user_message("Sure?")))
    assert [event.text for event in of(ThoughtDelta, events)] == ["Let me see."]
    assert [type(part) for part in stored.parts] == [ThoughtPart, TextPart]
    sent = json.dumps(server.requests[1].body)
    assert "Let me see." in sent
    if kind != "openai-chat":  # it has no signatures
        assert "c2VhbA==" in sent


async def test_signature_is_not_sent_to_another_provider(kind: Kind) -> None:
    signed = assistant_message(ThoughtPart("Hm.", {"signature": "c2VhbA==", "id": "t1"}), "Four.")
    async with ModelServer([ModelAnswer("ok")]) as server, remote_model(server, kind) as model:
        await ask(model, request(user_message("2+2?"), signed, user_message("Sure?")))
    assert "c2VhbA==" not in json.dumps(server.requests[0].body)
    assert "Four." in json.dumps(server.requests[0].body)


async def test_parallel_calls_with_chunked_arguments_are_complete_and_ordered(kind: Kind) -> None:
    calls = [
        ModelToolCall("read_file", {"path": "a.py", "deep": {"list": [1, 2, {"x": None}]}}, pieces=7),
        ModelToolCall("read_file", {"path": "ü.py"}),
    ]
    answer = ModelAnswer("Reading.", *calls)
    async with ModelServer([answer]) as server, remote_model(server, kind) as model:
        events = await ask(model)
    uses = of(ToolUse, events)
    assert [(use.name, use.arguments) for use in uses] == [(call.name, call.arguments) for call in calls]
    assert len({use.id for use in uses}) == 2
    assert of(Stopped, events)[0].reason == "tool_use"
    assert tool_uses_of(final_message(events)) == uses


async def test_results_are_sent_back_with_the_ids_of_their_calls(kind: Kind) -> None:
    script = [
        ModelAnswer(ModelToolCall("read_file", {"path": "a"}), ModelToolCall("read_file", {"path": "b"})),
        ModelAnswer("done"),
    ]
    async with ModelServer(script) as server, remote_model(server, kind) as model:
        prompt = user_message("read both")
        answer = final_message(await ask(model, request(prompt)))
        first, second = tool_uses_of(answer)
        history = [
            prompt,
            answer,
            result_message(first, "AAA"),
            result_message(second, "BBB", failed=True),
            note_message("Hurry."),
        ]
        await ask(model, request(*repair(history)))
    sent = json.dumps(server.requests[1].body)
    assert sent.index("AAA") < sent.index("BBB") < sent.index("Hurry.")
    for use in (first, second):
        assert sent.count(use.id) == 2
    if kind == "anthropic":
        results = server.requests[1].body["messages"][-1]["content"]
        assert [part.get("is_error") for part in results if part["type"] == "tool_result"] == [False, True]


async def test_malformed_arguments_are_kept_and_can_be_sent_back(kind: Kind) -> None:
    broken = ModelToolCall("read_file", '{"path": "a.py"', id="call_x")
    async with (
        ModelServer([ModelAnswer(broken), ModelAnswer("sorry")]) as server,
        remote_model(server, kind) as model,
    ):
        answer = final_message(await ask(model))
        (use,) = tool_uses_of(answer)
        if kind != "google":  # Google calls cannot be malformed
            assert use.arguments == '{"path": "a.py"'
        await ask(model, request(user_message("go"), answer, result_message(use, "not JSON", failed=True)))
    assert "not JSON" in json.dumps(server.requests[1].body)


@pytest.mark.parametrize("depth", [150, 5000])
async def test_deeply_nested_arguments_are_kept_as_text(kind: Kind, depth: int) -> None:
    if kind == "google" and depth > 1000:
        pytest.skip("the arguments are part of the response JSON, which is then unreadable")
    nested = ModelToolCall("read_file", '{"path":' * depth + "1" + "}" * depth, id="call_x")
    async with (
        ModelServer([ModelAnswer(nested), ModelAnswer("sorry")]) as server,
        remote_model(server, kind) as model,
    ):
        try:
            answer = final_message(await ask(model))
        except ModelError:
            return  # the answer was unreadable, which is a model error
        (use,) = tool_uses_of(answer)
        assert isinstance(use.arguments, str)
        await ask(model, request(user_message("go"), answer, result_message(use, "too deep", failed=True)))


async def test_calls_with_empty_arguments_and_equal_ids_are_distinct(kind: Kind) -> None:
    answer = ModelAnswer(ModelToolCall("now", "", id="x"), ModelToolCall("now", "{}", id="x"))
    if kind == "google":
        answer = ModelAnswer(ModelToolCall("now", "{}", id="x"), ModelToolCall("now", "{}", id="x"))
    async with ModelServer([answer]) as server, remote_model(server, kind) as model:
        uses = tool_uses_of(final_message(await ask(model)))
    assert [use.arguments for use in uses] == [{}, {}]
    assert len({use.id for use in uses}) == 2


async def test_tools_and_system_prompt_are_sent_once(kind: Kind) -> None:
    optional = ToolSpec(
        "list_files", "Lists.", {"type": "object", "properties": {"path": {"type": "string"}}}
    )
    async with ModelServer([ModelAnswer("ok")]) as server, remote_model(server, kind) as model:
        await ask(model, request(tools=[READ, optional], system="You are terse."))
    body = server.requests[0].body
    tools = json.dumps(body["tools"])
    assert all(word in tools for word in ("read_file", "Reads a file.", "list_files", '"path"'))
    where: dict[Kind, Any] = {
        "openai-chat": lambda: body["messages"][0],
        "openai-responses": lambda: body["instructions"],
        "anthropic": lambda: body["system"],
        "google": lambda: body["systemInstruction"],
    }
    assert "You are terse." in json.dumps(where[kind]())
    assert json.dumps(body).count("You are terse.") == 1


async def test_images_are_sent_to_vision_models(kind: Kind) -> None:
    use = ToolUse("call_1", "read_file", {"path": "a.png"})
    history = [
        user_message("What is this?", PIXEL),
        assistant_message(use),
        result_message(use, "a.png:", PIXEL),
    ]
    async with ModelServer([ModelAnswer("A pixel.")]) as server, remote_model(server, kind) as model:
        assert model.sees_images
        await ask(model, request(*history))
    assert json.dumps(server.requests[0].body).count(ENCODED) == 2


async def test_models_without_vision_get_an_image_placeholder(kind: Kind) -> None:
    async with (
        ModelServer([ModelAnswer("I cannot see.")]) as server,
        remote_model(server, kind, facts=ModelFacts(images=False)) as model,
    ):
        await ask(model, request(user_message("What is this?", PIXEL)))
    sent = json.dumps(server.requests[0].body)
    assert ENCODED not in sent
    assert "[image: image/png]" in sent


async def test_usage_includes_cached_and_thought_tokens(kind: Kind) -> None:
    cached_write = 40 if kind in ("anthropic", "openai-responses") else 0
    thought = 0 if kind == "anthropic" else 7
    tokens = ScriptedUsage(input=1000, output=50, cached_read=600, cached_write=cached_write, thought=thought)
    async with ModelServer([ModelAnswer("ok", usage=tokens)]) as server, remote_model(server, kind) as model:
        (usage,) = of(RequestUsage, await ask(model))
    assert replace(usage, cost=None) == RequestUsage(1000, 50, 600, cached_write, thought, None)


async def test_cost_uses_configured_prices(kind: Kind) -> None:
    facts = ModelFacts(input=3.0, output=15.0, cached_read=0.3)
    tokens = ScriptedUsage(input=1_000_000, output=100_000, cached_read=500_000)
    async with (
        ModelServer([ModelAnswer("ok", usage=tokens)]) as server,
        remote_model(server, kind, facts=facts) as model,
    ):
        (usage,) = of(RequestUsage, await ask(model))
    assert usage.cost == pytest.approx(1.5 + 0.15 + 1.5)


async def test_token_limit_is_the_stop_reason(kind: Kind) -> None:
    facts = ModelFacts(max_output=77)
    async with (
        ModelServer([ModelAnswer("And so on and", stop="max_tokens")]) as server,
        remote_model(server, kind, facts=facts) as model,
    ):
        events = await ask(model)
    assert of(Stopped, events)[0].reason == "max_tokens"
    assert "77" in json.dumps(server.requests[0].body)


async def test_refusal_is_its_own_stop_reason(kind: Kind) -> None:
    async with (
        ModelServer([ModelAnswer(Refusal("I will not do that."))]) as server,
        remote_model(server, kind) as model,
    ):
        (stopped,) = of(Stopped, await ask(model))
    assert stopped.reason == "refusal"
    if kind.startswith("openai"):
        assert stopped.refusal_text == "I will not do that."


async def test_effort_reaches_the_provider(kind: Kind) -> None:
    async with (
        ModelServer([ModelAnswer("a"), ModelAnswer("b")]) as server,
        remote_model(server, kind) as model,
    ):
        await ask(model, request(effort="low"))
        await ask(model, request())
    with_effort, without_effort = (seen.body for seen in server.requests)
    effort: dict[Kind, Any] = {
        "openai-chat": lambda body: body.get("reasoning_effort"),
        "openai-responses": lambda body: body.get("reasoning", {}).get("effort"),
        "anthropic": lambda body: body.get("output_config", {}).get("effort"),
        "google": lambda body: body.get("generationConfig", {}).get("thinkingConfig"),
    }
    assert effort[kind](with_effort)
    assert effort[kind](with_effort) != effort[kind](without_effort)


async def test_effort_is_accepted_for_models_without_thinking(kind: Kind) -> None:
    names: dict[Kind, str] = {
        "openai-chat": "some-local-model",
        "openai-responses": "gpt-4.1",
        "anthropic": "claude-3-haiku",
        "google": "gemini-2.0-flash",
    }
    async with (
        ModelServer([ModelAnswer("a"), ModelAnswer("b")]) as server,
        remote_model(server, kind, name=names[kind]) as model,
    ):
        for effort in ("off", "max"):
            assert final_message(await ask(model, request(effort=effort)))


async def test_key_is_sent_in_its_header_only_and_storage_is_disabled(kind: Kind) -> None:
    async with ModelServer([ModelAnswer("ok")]) as server, remote_model(server, kind) as model:
        await ask(model)
    (seen,) = server.requests
    header = "x-goog-api-key" if kind == "google" else "authorization"
    assert seen.headers[header].endswith(KEY)
    assert KEY not in json.dumps(seen.body)
    assert KEY not in seen.path
    if kind == "openai-responses":
        assert seen.body["store"] is False
        assert seen.body["include"] == ["reasoning.encrypted_content"]


async def test_parallel_streams_of_one_model_do_not_mix(kind: Kind) -> None:
    import asyncio

    def echo(seen: Any) -> ModelAnswer:
        word = next(word for word in ("alpha", "beta", "gamma", "delta") if word in json.dumps(seen.body))
        return ModelAnswer(word, " ", word)

    async with ModelServer(echo) as server, remote_model(server, kind) as model:
        words = ("alpha", "beta", "gamma", "delta")
        answers = await asyncio.gather(*(ask(model, request(user_message(word))) for word in words))
    texts = ["".join(event.text for event in of(TextDelta, events)) for events in answers]
    assert texts == [f"{word} {word}" for word in words]
