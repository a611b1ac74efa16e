"""The providers at their own addresses: requests, prices and context sizes specific to them."""

import json
from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.coder.models.harness import KEY, ask, final_message, of, remote_model, request

from accord.clock import SYSTEM_CLOCK
from accord.coder.model_history import user_message
from accord.coder.models import ModelError, RequestUsage, Retrying
from accord.coder.models.credentials import Secret
from accord.coder.models.endpoints import DEFAULT_MODELS, Endpoint
from accord.coder.models.provider_request import ProviderRequest, fetch_models
from accord.coder.models.remote_model import ModelEventQueue
from accord.coder.user_config import Kind, ModelFacts
from accord.testing.model_formats import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from accord.testing.model_script import ModelAnswer, ModelFault, ModelFormat, ScriptedUsage
from accord.testing.model_server import ModelServer

PROVIDERS: list[tuple[str, Kind, ModelFormat, str]] = [
    ("openai", "openai-responses", OpenAIResponses(), "https://api.openai.com/v1/responses"),
    ("openai-chat", "openai-chat", OpenAIChat(), "https://api.openai.com/v1/chat/completions"),
    ("anthropic", "anthropic", Anthropic(), "https://api.anthropic.com/v1/messages"),
    ("google", "google", Gemini(), "https://generativelanguage.googleapis.com/v1"),
]


def answering_client(
    words: bytes, kind: str = "text/event-stream"
) -> tuple[httpx2.AsyncClient, list[httpx2.Request]]:
    """Return an HTTP client that answers every request with these bytes, and the list of its requests."""
    seen: list[httpx2.Request] = []

    def reply(asked: httpx2.Request) -> httpx2.Response:
        seen.append(asked)
        return httpx2.Response(200, content=words, headers={"content-type": kind})

    return httpx2.AsyncClient(transport=httpx2.MockTransport(reply), timeout=60), seen


async def events_of(queue: ModelEventQueue) -> AsyncIterator[object]:
    while (event := await queue.next()) is not None:
        yield event


@pytest.mark.parametrize(("provider", "kind", "wire_format", "address"), PROVIDERS)
async def test_provider_address_with_known_prices_and_context_size(
    provider: str, kind: Kind, wire_format: ModelFormat, address: str
) -> None:
    answer = ModelAnswer("ok", usage=ScriptedUsage(input=1_000, output=1_000))
    endpoint = Endpoint(provider, kind, None, Secret(KEY), True)
    name = DEFAULT_MODELS[endpoint.family]
    words = b"".join(frame for frame in wire_format.frames(answer, 1, name) if isinstance(frame, bytes))
    http, seen = answering_client(words)
    pending = ProviderRequest(endpoint, name, ModelFacts(), http)
    queue = ModelEventQueue(SYSTEM_CLOCK, 60, lambda: ModelError("other", "silent"))
    await pending.stream(request(user_message("hi")), True, queue)
    await queue.put(None)
    events = [event async for event in events_of(queue)]
    await http.aclose()
    (asked,) = seen
    assert str(asked.url).startswith(address)
    assert pending.context_size is not None
    assert pending.context_size > 100_000
    (usage,) = of(RequestUsage, events)
    assert usage.cost is not None
    assert 0 < usage.cost < 1
    if kind == "anthropic":
        assert json.loads(asked.content)["cache_control"]["type"] == "ephemeral"


async def test_openai_models_without_chat_are_not_offered() -> None:
    names = ["gpt-5", "text-embedding-3-large", "whisper-1", "gpt-4o-realtime-preview", "o3", "dall-e-3"]
    http, seen = answering_client(json.dumps(OpenAIChat().listing(names)).encode(), "application/json")
    listed = await fetch_models(Endpoint("openai", "openai-responses", None, Secret(KEY), True), http)
    await http.aclose()
    assert [model.name for model in listed] == ["gpt-5", "o3"]
    assert str(seen[0].url) == "https://api.openai.com/v1/models"


@pytest.mark.parametrize("body", [b"", b"[]", b'{"data": 3}', b'{"data": [{}]}', b"<html>"])
async def test_unreadable_model_list_is_a_one_line_error(body: bytes) -> None:
    http, _ = answering_client(body, "application/json")
    with pytest.raises(ModelError, match="anthropic: no list of models: the list is unreadable"):
        await fetch_models(Endpoint("anthropic", "anthropic", None, Secret(KEY), True), http)
    await http.aclose()


async def test_refused_reasoning_summaries_are_not_requested_again() -> None:
    refusal = "Your organization must be verified to generate reasoning summaries."
    script = [ModelFault(400, refusal), ModelAnswer("ok"), ModelAnswer("ok")]
    async with ModelServer(script) as server, remote_model(server, "openai-responses") as model:
        events = await ask(model)
        await ask(model)
    assert not of(Retrying, events)
    assert final_message(events)
    summaries = [seen.body.get("reasoning", {}).get("summary") for seen in server.requests]
    assert summaries == ["auto", None, None]
