"""Budgets of a turn and a session over the wire, in all four provider formats."""

from typing import Any

import pytest
from tests.coder.agent.harness import AgentHarness, configure, provider_client
from tests.coder.models.harness import KINDS, NAMES

from accord.coder.user_config import Kind
from accord.testing.model_script import ModelAnswer, ModelToolCall, ScriptedUsage
from accord.testing.model_server import ModelServer

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
    said = "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")
    assert message in said
    usages = [update for update in updates if update["sessionUpdate"] == "usage_update"]
    for usage in usages:  # none for a model without a known context size
        reported = usage.get("_meta", {}).get("accord", {}).get("budget")
        assert (reported is None) == ("requests" in budgets)
    if usages and "requests" not in budgets:
        last = usages[-1]["_meta"]["accord"]["budget"]
        assert last["scope"] == "turn"
        assert last["used"] >= last["limit"], "the client shows that the budget is used up"


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
