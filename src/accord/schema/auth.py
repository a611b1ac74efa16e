"""Sign-in, sign-out, account status and model providers.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from accord.schema.base import (
    TAG_OR_REST,
    UNSET,
    UNSTABLE,
    AuthMethodId,
    Choice,
    Items,
    KnownValues,
    Lenient,
    Object,
    Opt,
    OrEmpty,
    ProviderId,
    Strict,
    unstable,
)

# The message types of this module, which `accord.schema` exports.
__all__ = [
    "AuthAccount", "AuthMethod", "AuthMethodAgent", "AuthMethodTerminal", "AuthState", "AuthStatusRequest",
    "AuthStatusResponse", "AuthStatusUpdateNotification", "AuthenticateRequest", "AuthenticateResponse",
    "DisableProviderRequest", "DisableProviderResponse", "ListProvidersRequest", "ListProvidersResponse",
    "LlmProtocol", "LogoutRequest", "LogoutResponse", "ProviderCurrentConfig", "ProviderInfo",
    "SetProviderRequest", "SetProviderResponse",
]  # fmt: skip


# Sign-in and sign-out.


class AuthMethodAgent(Object):
    """The agent signs the user in itself, when `authenticate` names this method."""

    id: AuthMethodId
    name: str
    description: Opt[str | None] = UNSET


class AuthMethodTerminal(Object, tag_field="type", tag="terminal"):
    """The client runs the agent's program in a terminal, with these arguments and variables added."""

    id: AuthMethodId
    name: str
    description: Opt[str | None] = UNSET
    args: Strict[OrEmpty[list[str]]] = UNSET
    env: Strict[OrEmpty[dict[str, str]]] = UNSET


AuthMethod: TypeAlias = Choice[AuthMethodTerminal | AuthMethodAgent, TAG_OR_REST]
"""Any type but `terminal` reads as a method of the agent; a broken terminal method never does."""


class AuthenticateRequest(Object):
    """Sign in with one of the agent's methods. May take as long as the user needs."""

    method_id: AuthMethodId


class AuthenticateResponse(Object):
    """The user is signed in."""


class LogoutRequest(Object):
    """Sign out."""


class LogoutResponse(Object):
    """The user is signed out."""


AuthState: TypeAlias = Annotated[
    str, KnownValues("authenticated", "unauthenticated", "not_required", "unknown"), UNSTABLE
]
"""Unstable. Any other value counts as `unknown`."""


@unstable
class AuthAccount(Object):
    """Unstable. An account, for display only: neither an identifier nor for logs."""

    label: str
    active: Opt[bool | None] = UNSET
    name: Opt[str | None] = UNSET
    email: Opt[str | None] = UNSET
    organization: Opt[str | None] = UNSET


@unstable
class AuthStatusRequest(Object):
    """Unstable. Ask whether a user is signed in. Changes nothing."""


@unstable
class AuthStatusResponse(Object):
    """Unstable. The sign-in state. Only `state` decides; the account is for display."""

    state: AuthState
    accounts: Opt[Items[AuthAccount]] = UNSET


@unstable
class AuthStatusUpdateNotification(Object):
    """Unstable. The result of `auth/status` changed. May come any time after `initialize`."""

    state: AuthState
    accounts: Opt[Items[AuthAccount]] = UNSET


# Unstable: the model providers of the agent and their addresses.

LlmProtocol: TypeAlias = Annotated[
    str, KnownValues("anthropic", "openai", "azure", "vertex", "bedrock"), UNSTABLE
]
"""Unstable. The API that a provider implements."""


@unstable
class ProviderCurrentConfig(Object):
    """Unstable. How a provider is reached now. Headers are never included."""

    api_type: LlmProtocol
    base_url: str


@unstable
class ProviderInfo(Object):
    """Unstable. A provider that the agent knows. It is off if it has no current configuration."""

    provider_id: ProviderId
    supported: Lenient[Items[LlmProtocol]]
    required: bool
    current: Strict[ProviderCurrentConfig | None] = UNSET


@unstable
class ListProvidersRequest(Object):
    """Unstable. List the providers."""


@unstable
class ListProvidersResponse(Object):
    """Unstable. All providers, including those that are off."""

    providers: list[ProviderInfo]


@unstable
class SetProviderRequest(Object):
    """Unstable. Configure a provider. Replaces its previous configuration."""

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
    """Unstable. The provider is off, or was not known."""
