"""The providers themselves, at their own addresses: what only they get, and what is known of them alone."""

import json
from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.coder.asking import KEY, ask, message_in, of, remote_model, request

from accord.clock import SYSTEM_CLOCK
from accord.coder.messages import user
from accord.coder.models import ModelError, Retrying, Usage
from accord.coder.models.config import Kind, ModelFacts
from accord.coder.models.credentials import Secret
from accord.coder.models.endpoints import DEFAULT_MODELS, Endpoint
from accord.coder.models.line import Line
from accord.coder.models.live.asking import Ask
from accord.coder.models.live.connecting import connect
from accord.coder.models.live.listing import ask_for_models
from accord.testing.models import Answer, Fault, ModelServer, Tokens
from accord.testing.models.anthropic import Anthropic
from accord.testing.models.format import Format
from accord.testing.models.gemini import Gemini
from accord.testing.models.openai_chat import OpenAIChat
from accord.testing.models.openai_responses import OpenAIResponses

OWN: list[tuple[str, Kind, Format, str]] = [
    ("openai", "openai-responses", OpenAIResponses(), "https://api.openai.com/v1/responses"),
    ("openai-chat", "openai-chat", OpenAIChat(), "https://api.openai.com/v1/chat/completions"),
    ("anthropic", "anthropic", Anthropic(), "https://api.anthropic.com/v1/messages"),
    ("google", "google", Gemini(), "https://generativelanguage.googleapis.com/v1"),
]


def speaking(
    words: bytes, kind: str = "text/event-stream"
) -> tuple[httpx2.AsyncClient, list[httpx2.Request]]:
    """A client whose requests never leave; they are all answered so."""
    seen: list[httpx2.Request] = []

    def reply(asked: httpx2.Request) -> httpx2.Response:
        seen.append(asked)
        return httpx2.Response(200, content=words, headers={"content-type": kind})

    return httpx2.AsyncClient(transport=httpx2.MockTransport(reply), timeout=60), seen


async def drained(line: Line) -> AsyncIterator[object]:
    while (event := await line.next()) is not None:
        yield event


@pytest.mark.parametrize(("provider", "kind", "spoken", "address"), OWN)
async def test_a_provider_is_asked_at_its_own_address_and_its_prices_and_sizes_are_known(
    provider: str, kind: Kind, spoken: Format, address: str
) -> None:
    answer = Answer("ok", usage=Tokens(input=1_000, output=1_000))
    endpoint = Endpoint(provider, kind, None, Secret(KEY), True)
    name = DEFAULT_MODELS[endpoint.family]
    words = b"".join(frame for frame in spoken.frames(answer, 1, name) if isinstance(frame, bytes))
    http, seen = speaking(words)
    asking = Ask(endpoint, name, ModelFacts(), connect(endpoint, name, http))
    line = Line(SYSTEM_CLOCK, 60, lambda: ModelError("other", "silent"))
    await asking.stream(request(user("hi")), True, line)
    await line.put(None)
    events = [event async for event in drained(line)]
    await http.aclose()
    (asked,) = seen
    assert str(asked.url).startswith(address)
    assert asking.context_size is not None
    assert asking.context_size > 100_000
    (usage,) = of(Usage, events)
    assert usage.cost is not None
    assert 0 < usage.cost < 1
    if kind == "anthropic":
        assert json.loads(asked.content)["cache_control"]["type"] == "ephemeral"


async def test_models_of_openai_that_do_not_talk_are_not_offered() -> None:
    names = ["gpt-5", "text-embedding-3-large", "whisper-1", "gpt-4o-realtime-preview", "o3", "dall-e-3"]
    http, seen = speaking(json.dumps(OpenAIChat().listing(names)).encode(), "application/json")
    offers = await ask_for_models(Endpoint("openai", "openai-responses", None, Secret(KEY), True), http)
    await http.aclose()
    assert [offer.name for offer in offers] == ["gpt-5", "o3"]
    assert str(seen[0].url) == "https://api.openai.com/v1/models"


@pytest.mark.parametrize("body", [b"", b"[]", b'{"data": 3}', b'{"data": [{}]}', b"<html>"])
async def test_a_list_that_cannot_be_read_is_an_error_of_one_line(body: bytes) -> None:
    http, _ = speaking(body, "application/json")
    with pytest.raises(ModelError, match="anthropic: no list of models: the list is unreadable"):
        await ask_for_models(Endpoint("anthropic", "anthropic", None, Secret(KEY), True), http)
    await http.aclose()


async def test_who_gets_no_summaries_of_thoughts_is_asked_again_without_them() -> None:
    refusal = "Your organization must be verified to generate reasoning summaries."
    script = [Fault(400, refusal), Answer("ok"), Answer("ok")]
    async with ModelServer(script) as server, remote_model(server, "openai-responses") as model:
        events = await ask(model)
        await ask(model)
    assert not of(Retrying, events)
    assert message_in(events)
    summaries = [seen.body.get("reasoning", {}).get("summary") for seen in server.requests]
    assert summaries == ["auto", None, None]
