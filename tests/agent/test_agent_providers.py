"""Providers (unstable): an example agent that lets its client configure two of them."""

from typing import Any

import pytest
from tests.agent.agent_client import connected_client, make_agent

from accord.agent import Agent, ClientRequest, Turn
from accord.errors import InvalidParams
from accord.schema import (
    DisableProviderRequest,
    ListProvidersRequest,
    ListProvidersResponse,
    ProviderCurrentConfig,
    ProviderInfo,
    SetProviderRequest,
)


def agent_with_providers() -> Agent:
    current: dict[str, ProviderCurrentConfig | None] = {
        "main": ProviderCurrentConfig("openai", "https://api.openai.com/v1"),
        "small": ProviderCurrentConfig("anthropic", "https://api.anthropic.com"),
    }

    async def says(turn: Turn) -> None:
        await turn.say(", ".join(id for id, config in current.items() if config))

    agent = make_agent(says)

    @agent.on("providers/list")
    async def listed(request: ListProvidersRequest, call: ClientRequest) -> ListProvidersResponse:
        return ListProvidersResponse(
            [
                ProviderInfo(id, ["openai", "anthropic"], id == "main", config)
                for id, config in current.items()
            ]
        )

    @agent.on("providers/set")
    async def configure(request: SetProviderRequest, call: ClientRequest) -> None:
        if request.provider_id not in current or request.api_type not in ("openai", "anthropic"):
            raise InvalidParams(f"Unknown provider or API: {request.provider_id}, {request.api_type}")
        current[request.provider_id] = ProviderCurrentConfig(request.api_type, request.base_url)

    @agent.on("providers/disable")
    async def disable(request: DisableProviderRequest, call: ClientRequest) -> None:
        if request.provider_id == "main":
            raise InvalidParams("Provider is required")
        if request.provider_id in current:
            current[request.provider_id] = None

    return agent


@pytest.mark.rule(
    "provider.disabled-not-current",
    "provider.required-stays",
    "provider.unknown-disabled",
    "provider.unknown-refused",
    "provider.headers-secret",
)
async def test_providers_are_set_and_disabled_and_their_headers_stay_secret() -> None:
    gateway: dict[str, Any] = {"providerId": "main", "apiType": "openai", "baseUrl": "https://gw/v1"}
    async with connected_client(agent_with_providers()) as client:
        await client.call("providers/set", {**gateway, "headers": {"Authorization": "secret"}})
        await client.call("providers/disable", {"providerId": "small"})
        await client.call("providers/disable", {"providerId": "nope"})
        refused = [
            await client.error("providers/disable", {"providerId": "main"}),
            await client.error("providers/set", {**gateway, "providerId": "nope"}),
            await client.error("providers/set", {**gateway, "apiType": "_x"}),
            await client.error("providers/set", {**gateway, "headers": "x"}),
        ]
        listed = await client.call("providers/list")
        updates, _ = await client.turn(await client.new_session())
    assert {error["code"] for error in refused} == {-32602}
    assert "secret" not in str(client.raw.received)
    assert [provider.get("current") for provider in listed["providers"]] == [
        {"apiType": "openai", "baseUrl": "https://gw/v1"},
        None,
    ]
    assert updates[0]["content"]["text"] == "main"
