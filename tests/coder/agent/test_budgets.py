"""Budgets of a turn and a session over the wire, in all four provider formats."""

import json
from typing import Any

import pytest
from tests.coder.agent.harness import AgentHarness, configure, provider_client
from tests.coder.agent.test_rewind import said
from tests.coder.models.harness import KINDS, NAMES

from accord.coder.user_config import Kind
from accord.testing.model_script import ModelAnswer, ModelToolCall, ScriptedUsage
from accord.testing.model_server import ModelServer, RecordedRequest

pytestmark = pytest.mark.parametrize("kind", KINDS)


def look(request: Any) -> ModelAnswer:
    """Look around forever, for 1,000 tokens in and 100 out each time."""
    return ModelAnswer(ModelToolCall("list_files", {}), usage=ScriptedUsage(1000, 100))


PRICES = '[models."scripted:{}"]\ninput = 100\noutput = 1000\n'
"""20 cents for each request."""


@pytest.mark.parametrize(
    ("budgets", "config", "requests", "message"),
    [
        ({"requests": 2}, "", 2, "2 model requests made (--max-requests)"),
        (
            {"tokens": 2000},
            "[turn]\ntokens = 9\n",
            2,
            "the turn has used 2,200 tokens of 2,000 tokens (--max-tokens)",
        ),
        ({}, "[turn]\ncost = 0.5\n", 3, "the turn has used $0.6 of $0.5 (cost in [turn] of the config)"),
    ],
)
async def test_turn_that_reaches_a_limit_ends_and_names_it(
    harness: AgentHarness, kind: Kind, budgets: dict[str, float], config: str, requests: int, message: str
) -> None:
    config += PRICES.format(NAMES[kind])
    async with (
        ModelServer(look) as server,
        provider_client(harness, server, kind, config, budgets=budgets) as client,
    ):
        updates, result = await client.turn(await client.new_session(harness.cwd), "go")
    assert result["stopReason"] == "max_turn_requests"
    assert len(server.requests) == requests
    assert message in said(updates)
    usages = [update for update in updates if update["sessionUpdate"] == "usage_update"]
    for usage in usages:  # none for a model without a known context size
        reported = usage.get("_meta", {}).get("accord", {}).get("budget")
        assert (reported is None) == ("requests" in budgets)
    if usages and "requests" not in budgets:
        last = usages[-1]["_meta"]["accord"]["budget"]
        assert last["scope"] == "turn"
        assert last["used"] >= last["limit"], "the client shows that the budget is used up"


async def test_requests_of_subagents_count_with_the_option(harness: AgentHarness, kind: Kind) -> None:
    def delegate(request: RecordedRequest) -> ModelAnswer:
        has_agent = '"name": "agent"' in json.dumps(request.body["tools"])
        return ModelAnswer(ModelToolCall("agent", {"prompt": "look"})) if has_agent else look(request)

    async with (
        ModelServer(delegate) as server,
        provider_client(harness, server, kind, budgets={"requests": 4}) as client,
    ):
        updates, result = await client.turn(await client.new_session(harness.cwd), "go")
    assert (result["stopReason"], len(server.requests)) == ("max_turn_requests", 4)
    assert "the turn has made 4 of 4 model requests (--max-requests)" in said(updates)


async def test_session_limit_holds_for_later_turns_and_unknown_prices_do_not_pass(
    harness: AgentHarness, kind: Kind
) -> None:
    answer = ModelAnswer("Done.", usage=ScriptedUsage(1000, 100))
    async with (
        ModelServer([answer] * 4) as server,
        provider_client(harness, server, kind, budgets={"session_requests": 2}) as client,
    ):
        session = await client.new_session(harness.cwd)
        reasons = [(await client.turn(session, "go"))[1]["stopReason"] for _ in range(3)]
        assert reasons == ["end_turn", "end_turn", "max_turn_requests"]
    async with ModelServer(look) as server:
        endpoint = f'[endpoints.scripted]\nkind = "{kind}"\nbase_url = "{server.base_url(kind)}"\n'
        configure(harness, f"{endpoint}needs_key = false\n")
        start: dict[str, Any] = {
            "environment": {"ACCORD_MODEL": "scripted:unheard-of"},
            "budgets": {"cost": 1},
        }
        async with harness.client(**start) as client:
            updates, result = await client.turn(await client.new_session(harness.cwd), "go")
        assert (result["stopReason"], len(server.requests)) == ("max_turn_requests", 1)
        assert "the price of the model is unknown" in str(updates)
