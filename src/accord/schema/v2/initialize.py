"""`initialize`, the capabilities of both sides, and sign-in, of ACP version 2. Imported on first use."""

from __future__ import annotations

from typing import TypeAlias

from accord.schema.base import (
    UNSET,
    AuthMethodId,
    Items,
    Object,
    Open,
    Opt,
    OrEmpty,
    Section,
    Strict,
    Unstable,
    unstable,
)
from accord.schema.client_requests import EnvVariable
from accord.schema.initialize import (
    AuthStatusCapabilities,
    ElicitationCapabilities,
    Implementation,
    ProtocolVersion,
    ProvidersCapabilities,
    SessionAdditionalDirectoriesCapabilities,
    SessionArchiveCapabilities,
    SessionDeleteCapabilities,
    SessionForkCapabilities,
    SessionStatusCapabilities,
    SessionSystemPromptCapabilities,
    SessionTitleCapabilities,
)

# The message types of this module, which `accord.schema.v2` exports.
__all__ = [
    "AgentAuthCapabilitiesV2", "AgentCapabilitiesV2", "AuthMethodAgentV2", "AuthMethodTerminalV2",
    "AuthMethodV2", "ClientAuthCapabilities", "ClientCapabilitiesV2", "InitializeProxyRequestV2",
    "InitializeProxyResponseV2", "InitializeRequestV2", "InitializeResponseV2", "LoginAuthRequest",
    "LoginAuthResponse", "LogoutAuthRequest", "LogoutAuthResponse", "McpAcpCapabilities", "McpCapabilitiesV2",
    "McpHttpCapabilities", "McpStdioCapabilities", "PromptAudioCapabilities", "PromptCapabilitiesV2",
    "PromptEmbeddedContextCapabilities", "PromptImageCapabilities", "SessionCapabilitiesV2",
    "TerminalAuthCapabilities",
]  # fmt: skip


# Capabilities. Every one is an object: `{}` means supported, absent and null mean that it is not.


class PromptImageCapabilities(Object):
    """Prompts may contain images."""


class PromptAudioCapabilities(Object):
    """Prompts may contain audio."""


class PromptEmbeddedContextCapabilities(Object):
    """Prompts may contain embedded files."""


class PromptCapabilitiesV2(Object):
    """Content that the agent accepts in prompts, besides text and links."""

    image: Opt[PromptImageCapabilities | None] = UNSET
    audio: Opt[PromptAudioCapabilities | None] = UNSET
    embedded_context: Opt[PromptEmbeddedContextCapabilities | None] = UNSET


class McpStdioCapabilities(Object):
    """The agent starts MCP servers."""


class McpHttpCapabilities(Object):
    """The agent connects to MCP servers over HTTP."""


@unstable
class McpAcpCapabilities(Object):
    """Unstable. The agent uses MCP servers of the client through `mcp/message`."""


class McpCapabilitiesV2(Object):
    """MCP servers that the agent can use."""

    stdio: Opt[McpStdioCapabilities | None] = UNSET
    http: Opt[McpHttpCapabilities | None] = UNSET
    acp: Unstable[Opt[McpAcpCapabilities | None]] = UNSET


class SessionCapabilitiesV2(Object):
    """The agent has sessions: new, list, resume, close, prompt and cancel. The members say what else."""

    prompt: Opt[PromptCapabilitiesV2 | None] = UNSET
    mcp: Opt[McpCapabilitiesV2 | None] = UNSET
    delete: Opt[SessionDeleteCapabilities | None] = UNSET
    additional_directories: Opt[SessionAdditionalDirectoriesCapabilities | None] = UNSET
    system_prompt: Unstable[Opt[SessionSystemPromptCapabilities | None]] = UNSET
    fork: Unstable[Opt[SessionForkCapabilities | None]] = UNSET
    archive: Unstable[Opt[SessionArchiveCapabilities | None]] = UNSET
    status: Unstable[Opt[SessionStatusCapabilities | None]] = UNSET
    title: Unstable[Opt[SessionTitleCapabilities | None]] = UNSET


class AgentAuthCapabilitiesV2(Object):
    """What the agent can tell about signing in. `auth/login` and `auth/logout` come with the auth methods."""

    status: Unstable[Opt[AuthStatusCapabilities | None]] = UNSET


class AgentCapabilitiesV2(Object):
    """What the agent can do, as its answer to `initialize` says."""

    session: Opt[SessionCapabilitiesV2 | None] = UNSET
    auth: Opt[AgentAuthCapabilitiesV2 | None] = UNSET
    providers: Unstable[Opt[ProvidersCapabilities | None]] = UNSET


class TerminalAuthCapabilities(Object):
    """The client can run the agent's program in a terminal to sign in."""


class ClientAuthCapabilities(Object):
    """Ways to sign in that need the client."""

    terminal: Opt[TerminalAuthCapabilities | None] = UNSET


class ClientCapabilitiesV2(Object):
    """What the client can do, as its `initialize` says."""

    auth: Opt[ClientAuthCapabilities | None] = UNSET
    elicitation: Opt[ElicitationCapabilities | None] = UNSET


# Sign-in.


class AuthMethodAgentV2(Object, tag_field="type", tag="agent"):
    """The agent signs the user in itself, when `auth/login` names this method."""

    method_id: AuthMethodId
    name: str
    description: Opt[str | None] = UNSET


class AuthMethodTerminalV2(Object, tag_field="type", tag="terminal"):
    """The client runs the agent's program in a terminal, with these arguments and variables added."""

    method_id: AuthMethodId
    name: str
    description: Opt[str | None] = UNSET
    args: Strict[OrEmpty[list[str]]] = UNSET
    env: Strict[OrEmpty[list[EnvVariable]]] = UNSET


AuthMethodV2: TypeAlias = Open[AuthMethodAgentV2 | AuthMethodTerminalV2]
"""A way to sign in."""


class LoginAuthRequest(Object):
    """Sign in with one of the agent's methods. May take as long as the user needs."""

    method_id: AuthMethodId


class LoginAuthResponse(Object):
    """The user is signed in."""


class LogoutAuthRequest(Object):
    """Sign out."""


class LogoutAuthResponse(Object):
    """The user is signed out."""


# The handshake.


class InitializeRequestV2(Object):
    """The first request of a connection, with the newest version that the client supports."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: Section[ClientCapabilitiesV2] = UNSET


class InitializeResponseV2(Object):
    """The version that both sides use from now on."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: Section[AgentCapabilitiesV2] = UNSET
    auth_methods: Opt[Items[AuthMethodV2]] = UNSET


@unstable
class InitializeProxyRequestV2(InitializeRequestV2):
    """Unstable. `initialize` for a component that has a successor in the chain."""


@unstable
class InitializeProxyResponseV2(InitializeResponseV2):
    """Unstable. What the chain from this component on can do."""
