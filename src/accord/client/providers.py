"""Unstable. The model providers of an agent: which there are, and by way of which address they are reached."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from accord.client import gates
from accord.schema import (
    UNSET,
    DisableProviderRequest,
    ListProvidersRequest,
    ListProvidersResponse,
    ProviderInfo,
    SetProviderRequest,
)

if TYPE_CHECKING:
    from accord.client.life import Life
    from accord.client.link import Link


class Providers:
    """What `providers/*` does. Set them before sessions are opened; the agent forgets them when it ends."""

    def __init__(self, life: "Life") -> None:
        self._life = life

    async def list(self) -> list[ProviderInfo]:
        """All providers, those that are switched off included."""
        link = await self._offered("providers/list")
        answer: ListProvidersResponse = await link.call("providers/list", ListProvidersRequest())
        return answer.providers

    async def set(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Reach a provider this way from now on; headers replace all that were set before."""
        link = await self._offered("providers/set")
        wanted = SetProviderRequest(provider_id, api_type, base_url, dict(headers) if headers else UNSET)
        await link.call("providers/set", wanted)

    async def disable(self, provider_id: str) -> None:
        """Switch a provider off."""
        link = await self._offered("providers/disable")
        await link.call("providers/disable", DisableProviderRequest(provider_id))

    async def _offered(self, method: str) -> "Link":
        link = await self._life.ready()
        gates.require(method, link.capabilities)
        return link
