"""Fallback models, the small model, and what helps the caches of providers, over the wire."""

import json

import pytest
from tests.agent.agent_client import EVERYTHING
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, configure
from tests.coder.models.harness import KINDS, NAMES, ask, models, of, request

from accord.coder.model_history import assistant_message, user_message
from accord.coder.models import ModelRequest, RequestUsage
from accord.coder.models.model_name import ModelName
from accord.coder.models.provider_request import known_by_name
from accord.coder.user_config import EndpointConfig, Kind, ModelsConfig
from accord.testing.model_script import ModelAnswer, ModelFault, ModelToolCall, ScriptedUsage
from accord.testing.model_server import ModelServer, RecordedRequest


def endpoint(name: str, kind: Kind, server: ModelServer) -> str:
    return f'[endpoints.{name}]\nkind = "{kind}"\nbase_url = "{server.base_url(kind)}"\nneeds_key = false\n'


@pytest.mark.parametrize("kind", KINDS)
async def test_a_fallback_model_answers_for_the_rest_of_the_turn(harness: AgentHarness, kind: Kind) -> None:
    call = ModelToolCall("list_files", {"path": "."})
    async with (
        ModelServer([ModelFault(503, "busy"), ModelAnswer("again")]) as first,
        ModelServer([ModelAnswer(call), ModelAnswer("from the second")]) as second,
    ):
        configure(
            harness,
            'fallback_models = ["nokey:m", "second:m"]\n[requests]\nattempts = 1\n'
            f"{SANDBOX_OFF}{endpoint('first', kind, first)}{endpoint('second', kind, second)}"
            '[endpoints.nokey]\nbase_url = "https://models.example.com/v1"\n',
        )
        environment = {"ACCORD_MODEL": f"first:{NAMES[kind]}"}
        async with harness.client(environment=environment, capabilities=EVERYTHING) as client:
            session = await client.new_session(harness.cwd)
            updates, _ = await client.turn(session, "go")
            await client.turn(session, "go on")
    notices = [update for update in updates if update["sessionUpdate"] == "notice"]
    shown = {notice["title"]: notice.get("description", "") for notice in notices}
    assert "overloaded or failing (503): busy" in shown["Continuing with second:m"]
    assert "from the second" in json.dumps(updates)
    assert (len(first.requests), len(second.requests)) == (2, 2), "the next turn tries the first one again"


async def test_a_refused_request_is_not_sent_to_the_fallback_model(harness: AgentHarness) -> None:
    async with ModelServer([ModelFault(401, "no")]) as first, ModelServer() as second:
        servers = endpoint("first", "openai-chat", first) + endpoint("second", "openai-chat", second)
        configure(harness, f'fallback_models = ["second:m"]\n{SANDBOX_OFF}{servers}')
        async with harness.client(environment={"ACCORD_MODEL": "first:m"}) as client:
            session = await client.new_session(harness.cwd)
            answer = await client.raw.answer_to(client.prompt(session, "go"))
    assert "the key was refused" in answer["error"]["message"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_small_model_writes_titles_and_does_the_work_of_subagents(
    harness: AgentHarness, kind: Kind
) -> None:
    script = [ModelAnswer(ModelToolCall("agent", {"prompt": "look", "title": "x"})), ModelAnswer("done")]

    def small_reply(asked: RecordedRequest) -> ModelAnswer:
        return ModelAnswer("Repair of the tests" if "Write a title" in json.dumps(asked.body) else "looked")

    async with ModelServer(script) as large, ModelServer(small_reply) as small:
        servers = endpoint("large", kind, large) + endpoint("small", kind, small)
        configure(harness, f'small_model = "small:{NAMES[kind]}"\n{SANDBOX_OFF}{servers}')
        async with harness.client(environment={"ACCORD_MODEL": f"large:{NAMES[kind]}"}) as client:
            session = await client.new_session(harness.cwd)
            id = client.prompt(session, "fix the tests")
            titles = [(await client.update("session_info_update"))["title"]]
            titles.append((await client.update("session_info_update"))["title"])
    assert titles == ["fix the tests", "Repair of the tests"]
    assert id is not None
    assert (len(large.requests), len(small.requests)) == (2, 2)


async def test_a_failing_small_model_is_replaced_by_the_chosen_one() -> None:
    async with ModelServer([ModelAnswer("ok")]) as large, ModelServer([ModelFault(404, "no model")]) as small:
        environment = {"A_BASE_URL": large.base_url(), "B_BASE_URL": small.base_url()}
        registry = models(environment, ModelsConfig(small_model="b:m"))
        main = await registry.resolve(ModelName("a", "m"))
        assert await ask(await registry.small_model(main))
        await registry.aclose()
    assert (len(large.requests), len(small.requests)) == (1, 1)


@pytest.mark.parametrize("kind", ["openai-chat", "openai-responses"])
async def test_the_cache_key_goes_to_openai_and_azure_only(kind: Kind) -> None:
    asked = ModelRequest("s", [user_message("hi")], cache_key="session-1")
    async with ModelServer([ModelAnswer("ok"), ModelAnswer("ok")]) as server:
        for provider in ("azure", "other"):
            server_config = EndpointConfig(kind=kind, base_url=server.base_url())
            registry = models(config=ModelsConfig(endpoints={provider: server_config}))
            await ask(await registry.resolve(ModelName(provider, "gpt-5")), asked)
            await registry.aclose()
    assert [seen.body.get("prompt_cache_key") for seen in server.requests] == ["session-1", None]


async def test_anthropic_gets_four_cache_marks() -> None:
    messages = [user_message("one"), assistant_message("two"), user_message("three")]
    async with ModelServer([ModelAnswer("ok")]) as server:
        registry = models({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.base_url("anthropic")})
        await ask(await registry.resolve(ModelName("anthropic", "claude-x")), request(*messages))
        await registry.aclose()
    body = server.requests[0].body
    assert json.dumps(body).count('"cache_control"') == 4
    marked = [message["content"][-1].get("cache_control") for message in body["messages"]]
    assert marked == [{"type": "ephemeral"}, None, {"type": "ephemeral"}]


@pytest.mark.parametrize(
    "name",
    [
        "anthropic/claude-sonnet-4.5",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-sonnet-4-5@20250929",
        "openai/gpt-5",
        "google/gemini-2.5-pro",
    ],
)
def test_models_are_known_by_name_behind_other_addresses(name: str) -> None:
    known = known_by_name(name)
    assert known is not None
    assert known.context is None or known.context > 100_000
    assert known_by_name(f"{name.partition(':')[0]}:free") is None


async def test_cost_and_window_behind_a_proxy() -> None:
    answer = ModelAnswer("ok", usage=ScriptedUsage(input=1000, output=1000))
    async with ModelServer([answer, answer]) as server:
        registry = models({"PROXY_BASE_URL": server.base_url(), "OLLAMA_BASE_URL": server.base_url()})
        costs: list[float | None] = []
        for provider in ("proxy", "ollama"):
            model = await registry.resolve(ModelName(provider, "openai/gpt-5"))
            costs += [usage.cost for usage in of(RequestUsage, await ask(model))]
        await registry.aclose()
    assert costs[0] is not None
    assert costs[0] > 0
    assert costs[1] is None, "a server of the user's own costs nothing"
