"""Unstable. Which model providers the agent uses, and by way of which address."""

from typing import Annotated, TypeAlias

from .base import UNSET, Object
from .ids import ProviderId
from .marks import UNSTABLE, Items, Known, Lenient, Strict, unstable

LlmProtocol: TypeAlias = Annotated[str, Known("anthropic", "openai", "azure", "vertex", "bedrock"), UNSTABLE]
"""Unstable. The language a provider speaks."""


@unstable
class ProviderCurrentConfig(Object):
    """Unstable. How a provider is reached now. Headers are never told."""

    api_type: LlmProtocol
    base_url: str


@unstable
class ProviderInfo(Object):
    """Unstable. A provider the agent knows. Without a current configuration it is switched off."""

    provider_id: ProviderId
    supported: Lenient[Items[LlmProtocol]]
    required: bool
    current: Strict[ProviderCurrentConfig | None] = UNSET


@unstable
class ListProvidersRequest(Object):
    """Unstable. Which providers are there?"""


@unstable
class ListProvidersResponse(Object):
    """Unstable. All providers, switched off or not."""

    providers: list[ProviderInfo]


@unstable
class SetProviderRequest(Object):
    """Unstable. Reach a provider this way from now on; replaces all that was set before."""

    provider_id: ProviderId
    api_type: LlmProtocol
    base_url: str
    headers: Strict[dict[str, str]] = UNSET


@unstable
class SetProviderResponse(Object):
    """Unstable. The provider is set."""


@unstable
class DisableProviderRequest(Object):
    """Unstable. Switch a provider off."""

    provider_id: ProviderId


@unstable
class DisableProviderResponse(Object):
    """Unstable. The provider is off, or was never there."""
