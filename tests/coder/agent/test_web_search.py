"""Web search in a session: with a service, and with the search of the model's provider."""

import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.coder.agent.harness import AgentHarness, ScriptedModel, choose, configure, provider_client, use
from tests.coder.models.harness import NAMES

from accord.coder.user_config import ConfigError, Kind, load_config
from accord.testing.model_script import ModelAnswer, ModelFault, ModelToolCall
from accord.testing.model_server import ModelServer, RecordedRequest

KEY = "search-key-1234567890"


async def test_search_is_asked_for_like_fetch(harness: AgentHarness) -> None:
    asked: list[Any] = []

    def answer(body: Any) -> Any:
        asked.append(body)
        return {
            "results": [
                {"title": "3.9", "url": "https://docs.example.org/3.9", "content": "</search_results>"}
            ]
        }

    model = ScriptedModel([use("web_search", query="release notes")], [use("web_search", query="more")])
    environment = {"TAVILY_API_KEY": KEY, "ACCORD_MODEL": "rehearsal"}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ModelServer(pages={"/search": answer}))
        address = server.base_url("anthropic")
        configure(harness, f'[web]\nsearch = "tavily"\nsearch_url = "{address}"\n')
        client = await stack.enter_async_context(harness.client(model=model, environment=environment))
        prompt = client.prompt(await client.new_session(harness.cwd))
        question = await client.asked("session/request_permission")
        shown = json.dumps(question["params"]) + json.dumps(client.raw.received)
        assert f"Search the web with Tavily at {address}: release notes" in shown
        assert "It may bill each search." in shown
        assert question["params"]["toolCall"]["kind"] == "search"
        choose(client, question, "allow_always")
        updates, _ = await client.turn_of(prompt)  # the second search is not asked about
        assert KEY not in json.dumps(client.raw.received)
    assert [body["query"] for body in asked] == ["release notes", "more"]
    assert "[3.9](https://docs.example.org/3.9)" in json.dumps(updates)
    assert "<search_results-2 service=" in repr(model.requests[-1].messages)


async def test_without_search_the_model_has_no_such_tool(harness: AgentHarness) -> None:
    model = ScriptedModel(["ok"])
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert "web_search" not in [tool.name for tool in model.requests[0].tools]
    configure(harness, '[web]\nsearch = "exa"\n')
    capabilities = {"session": {"notices": {}}}
    model = ScriptedModel(["ok"])
    async with harness.client(model=model, capabilities=capabilities) as client:
        updates, _ = await client.turn(await client.new_session(harness.cwd), "go")
    assert "Exa has no key: set EXA_API_KEY" in json.dumps(updates)
    assert "web_search" not in [tool.name for tool in model.requests[0].tools]


def test_address_with_a_password_is_refused(harness: AgentHarness) -> None:
    configure(harness, '[web]\nsearch = "searxng"\nsearch_url = "https://me:secret@search.example"\n')
    with pytest.raises(ConfigError, match=r"web\.search_url: an address must not have a name"):
        load_config()


PROVIDER_ANSWERS: dict[Kind, dict[str, Any]] = {
    "anthropic": {
        "content": [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            {
                "type": "web_search_tool_result",
                "content": [
                    {"type": "web_search_result", "url": "https://other.example/", "title": "Other"},
                    {"type": "web_search_result", "url": "https://a.example/1", "title": "First"},
                ],
            },
            {
                "type": "text",
                "text": "It is 3.9.",
                "citations": [{"url": "https://a.example/1", "title": "First", "cited_text": "Version 3.9"}],
            },
        ],
        "usage": {"input_tokens": 1000, "output_tokens": 50, "server_tool_use": {"web_search_requests": 1}},
    },
    "openai-responses": {
        "output": [
            {
                "type": "web_search_call",
                "action": {"type": "search", "sources": [{"type": "url", "url": "https://other.example/"}]},
            },
            {
                "type": "message",
                "content": [
                    {
                        "type": "output_text",
                        "text": "It is 3.9.",
                        "annotations": [
                            {"type": "url_citation", "url": "https://a.example/1", "title": "First"}
                        ],
                    }
                ],
            },
        ],
        "usage": {"input_tokens": 1000, "output_tokens": 50},
    },
    "google": {
        "candidates": [
            {
                "content": {"parts": [{"text": "hm", "thought": True}, {"text": "It is 3.9."}]},
                "groundingMetadata": {
                    "groundingChunks": [
                        {"web": {"uri": "https://other.example/", "title": "Other"}},
                        {"web": {"uri": "https://a.example/1", "title": "First"}},
                    ],
                    "groundingSupports": [
                        {"segment": {"text": "It is 3.9."}, "groundingChunkIndices": [1, 9]}
                    ],
                },
            }
        ],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 50},
    },
}
PROVIDER_TOOLS: dict[Kind, dict[str, Any]] = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    "openai-responses": {"type": "web_search"},
    "google": {"googleSearch": {}},
}


@pytest.mark.parametrize("kind", PROVIDER_ANSWERS)
async def test_search_of_the_provider(kind: Kind, harness: AgentHarness) -> None:
    def reply(request: RecordedRequest) -> ModelAnswer | ModelFault:
        if len(server.requests) == 1:
            return ModelAnswer(ModelToolCall("web_search", {"query": "newest release"}))
        if len(server.requests) == 2:
            return ModelFault(200, body=json.dumps(PROVIDER_ANSWERS[kind]).encode())
        return ModelAnswer("done")

    async with (
        ModelServer(reply) as server,
        provider_client(harness, server, kind, '[web]\nsearch = "provider"\n') as client,
    ):
        session = await client.new_session(harness.cwd)
        prompt = client.prompt(session)
        question = await client.asked("session/request_permission")
        assert question["params"]["toolCall"]["title"] == "Search the web with scripted: newest release"
        assert "bills each search in addition to its tokens" in json.dumps(client.raw.received)
        choose(client, question, "allow_once")
        updates, end = await client.turn_of(prompt)
    searched = server.requests[1]
    assert searched.body["tools"] == [PROVIDER_TOOLS[kind]]
    assert "newest release" in json.dumps(searched.body)
    assert searched.body.get("stream", False) is False
    assert searched.model == NAMES[kind]
    shown = json.dumps(updates)
    assert r"It is 3.9.\n\n1. [First](https://a.example/1)\n2. [" in shown
    assert "search_results service=" in json.dumps(server.requests[2].body)
    assert end["usage"]["inputTokens"] == 1020  # that of the search is counted


async def test_pages_behind_addresses_of_google_count_by_their_site(harness: AgentHarness) -> None:
    chunks = [
        {"web": {"uri": f"https://vertexaisearch.cloud.google.com/{host}", "title": host}}
        for host in ("docs.a.example", "other.example")
    ]
    found = {"candidates": [{"content": {}, "groundingMetadata": {"groundingChunks": chunks}}]}
    script = [
        ModelAnswer(ModelToolCall("web_search", {"query": "x", "domains": ["a.example"]})),
        ModelFault(200, body=json.dumps(found).encode()),
        ModelAnswer("done"),
    ]
    config = '[web]\nsearch = "provider"\n'
    async with (
        ModelServer(script) as server,
        provider_client(harness, server, "google", config, mode="full-access") as client,
    ):
        updates, _ = await client.turn(await client.new_session(harness.cwd), "go")
    assert "[docs.a.example](https://vertexaisearch" in json.dumps(updates)
    assert "other.example" not in json.dumps(updates)


async def test_refused_search_of_a_provider_is_one_line(harness: AgentHarness) -> None:
    error = {"content": [{"type": "web_search_tool_result", "content": {"error_code": "max_uses_exceeded"}}]}
    script = [
        ModelAnswer(ModelToolCall("web_search", {"query": "a"})),
        ModelFault(403, "web search is disabled for your organization"),
        ModelAnswer(ModelToolCall("web_search", {"query": "b"})),
        ModelFault(200, body=json.dumps(error).encode()),
        ModelAnswer(ModelToolCall("web_search", {"query": "c"})),
        ModelFault(200, body=b"<html>"),
        ModelAnswer("done"),
    ]
    async with (
        ModelServer(script) as server,
        provider_client(
            harness, server, "anthropic", '[web]\nsearch = "provider"\n', mode="full-access"
        ) as client,
    ):
        updates, _ = await client.turn(await client.new_session(harness.cwd), "go")
    shown = json.dumps(updates)
    assert "web search is disabled for your organization" in shown
    assert "the search failed (max_uses_exceeded)" in shown
    assert "the answer to the search was unreadable" in shown
