"""The `initialize` request, the capabilities of both sides, and proxy initialization.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from accord.schema.auth import AuthMethod
from accord.schema.base import (
    UNSET,
    DefaultValue,
    Flag,
    Items,
    Object,
    Opt,
    Record,
    Section,
    Strict,
    Uint16,
    Unstable,
    unstable,
)

# The message types of this module, which `accord.schema` exports.
__all__ = [
    "AgentAuthCapabilities", "AgentCapabilities", "AuthCapabilities", "AuthStatusCapabilities",
    "BooleanConfigOptionCapabilities", "ClientCapabilities", "ClientSessionCapabilities",
    "CompactionCapabilities", "ElicitationCapabilities", "ElicitationFormCapabilities",
    "ElicitationUrlCapabilities", "FileSystemCapabilities", "Implementation", "InitializeProxyRequest",
    "InitializeProxyResponse", "InitializeRequest", "InitializeResponse", "LogoutCapabilities",
    "McpCapabilities", "NoticeCapabilities", "PlanCapabilities", "PromptCapabilities", "ProtocolVersion",
    "ProvidersCapabilities", "ProxySuccessorNotification", "ProxySuccessorRequest", "ProxySuccessorResponse",
    "SessionAdditionalDirectoriesCapabilities", "SessionArchiveCapabilities", "SessionCapabilities",
    "SessionCloseCapabilities", "SessionConfigOptionsCapabilities", "SessionDeleteCapabilities",
    "SessionForkCapabilities", "SessionListCapabilities", "SessionResumeCapabilities",
    "SessionStatusCapabilities", "SessionSystemPromptCapabilities", "SessionSystemPromptModeCapabilities",
    "SessionSystemPromptOverrideCapabilities", "SessionTitleCapabilities", "SubagentCapabilities",
]  # fmt: skip


# Capabilities. An absent or null object, and any value except true, means that it is not supported.


class PromptCapabilities(Object):
    """Content that the agent accepts in prompts, besides text and links."""

    image: Flag = UNSET
    audio: Flag = UNSET
    embedded_context: Flag = UNSET


class McpCapabilities(Object):
    """MCP servers that the agent can use, besides those it starts itself."""

    http: Flag = UNSET
    sse: Flag = UNSET
    acp: Unstable[Flag] = UNSET


class SessionListCapabilities(Object):
    """`session/list` is served."""


class SessionDeleteCapabilities(Object):
    """`session/delete` is served."""


class SessionAdditionalDirectoriesCapabilities(Object):
    """Sessions may have further root directories."""


class SessionResumeCapabilities(Object):
    """`session/resume` is served."""


class SessionCloseCapabilities(Object):
    """`session/close` is served."""


@unstable
class SessionSystemPromptOverrideCapabilities(Object):
    """Unstable. A system prompt may replace the agent's own."""


@unstable
class SessionSystemPromptModeCapabilities(Object):
    """Unstable. Modes of a system prompt beyond appending."""

    override: Opt[SessionSystemPromptOverrideCapabilities | None] = UNSET


@unstable
class SessionSystemPromptCapabilities(Object):
    """Unstable. Sessions may bring a system prompt; appending is always possible."""

    mode: Opt[SessionSystemPromptModeCapabilities | None] = UNSET


@unstable
class SessionForkCapabilities(Object):
    """Unstable. `session/fork` is served."""


@unstable
class SessionArchiveCapabilities(Object):
    """Unstable. Sessions can be archived and restored."""


@unstable
class SessionStatusCapabilities(Object):
    """Unstable. `session/status` is served."""


@unstable
class SessionTitleCapabilities(Object):
    """Unstable. `session/set_title` is served."""


class SessionCapabilities(Object):
    """What the agent can do with sessions, beyond creating and prompting them."""

    list: Opt[SessionListCapabilities | None] = UNSET
    delete: Opt[SessionDeleteCapabilities | None] = UNSET
    additional_directories: Opt[SessionAdditionalDirectoriesCapabilities | None] = UNSET
    resume: Opt[SessionResumeCapabilities | None] = UNSET
    close: Opt[SessionCloseCapabilities | None] = UNSET
    system_prompt: Unstable[Opt[SessionSystemPromptCapabilities | None]] = UNSET
    fork: Unstable[Opt[SessionForkCapabilities | None]] = UNSET
    archive: Unstable[Opt[SessionArchiveCapabilities | None]] = UNSET
    status: Unstable[Opt[SessionStatusCapabilities | None]] = UNSET
    title: Unstable[Opt[SessionTitleCapabilities | None]] = UNSET


class LogoutCapabilities(Object):
    """`logout` is served."""


@unstable
class AuthStatusCapabilities(Object):
    """Unstable. `auth/status` is served."""


class AgentAuthCapabilities(Object):
    """What the agent can do about signing in and out."""

    logout: Opt[LogoutCapabilities | None] = UNSET
    status: Unstable[Opt[AuthStatusCapabilities | None]] = UNSET


@unstable
class ProvidersCapabilities(Object):
    """Unstable. `providers/*` is served."""


class AgentCapabilities(Object):
    """What the agent can do, as its answer to `initialize` says."""

    load_session: Flag = UNSET
    prompt_capabilities: Section[PromptCapabilities] = UNSET
    mcp_capabilities: Section[McpCapabilities] = UNSET
    session_capabilities: Section[SessionCapabilities] = UNSET
    auth: Section[AgentAuthCapabilities] = UNSET
    providers: Unstable[Opt[ProvidersCapabilities | None]] = UNSET


class FileSystemCapabilities(Object):
    """File methods that the client serves."""

    read_text_file: Flag = UNSET
    write_text_file: Flag = UNSET


class CompactionCapabilities(Record):
    """The client shows how the agent compacts its context."""


class NoticeCapabilities(Record):
    """The client shows notices."""


class BooleanConfigOptionCapabilities(Object):
    """The client supports boolean config options."""


class SessionConfigOptionsCapabilities(Object):
    """Kinds of config options that the client supports, besides select."""

    boolean: Opt[BooleanConfigOptionCapabilities | None] = UNSET


class ClientSessionCapabilities(Object):
    """Session updates that the client accepts only on request."""

    compaction: Opt[CompactionCapabilities | None] = UNSET
    config_options: Opt[SessionConfigOptionsCapabilities | None] = UNSET
    notices: Opt[NoticeCapabilities | None] = UNSET


class AuthCapabilities(Object):
    """Whether the client can run the agent's program in a terminal to sign in."""

    terminal: Flag = UNSET


class ElicitationFormCapabilities(Object):
    """The client shows forms."""


class ElicitationUrlCapabilities(Object):
    """The client opens web addresses, with the user's consent."""


class ElicitationCapabilities(Object):
    """Ways in which the agent may ask the user. An empty object names none."""

    form: Opt[ElicitationFormCapabilities | None] = UNSET
    url: Opt[ElicitationUrlCapabilities | None] = UNSET


@unstable
class PlanCapabilities(Object):
    """Unstable. The client shows several plans."""


@unstable
class SubagentCapabilities(Object):
    """Unstable. The client shows child sessions."""


class ClientCapabilities(Object):
    """What the client can do, as its `initialize` says."""

    fs: Section[FileSystemCapabilities] = UNSET
    terminal: Flag = UNSET
    session: Opt[ClientSessionCapabilities | None] = UNSET
    auth: Section[AuthCapabilities] = UNSET
    elicitation: Opt[ElicitationCapabilities | None] = UNSET
    plan: Unstable[Opt[PlanCapabilities | None]] = UNSET
    subagents: Unstable[Opt[SubagentCapabilities | None]] = UNSET


# The handshake.

ProtocolVersion: TypeAlias = Uint16
"""The major version. This package implements version 1."""


class Implementation(Object):
    """The name and version of a program, with a title for display."""

    name: str
    version: str
    title: Opt[str | None] = UNSET


class InitializeRequest(Object):
    """The first request of a connection, with the newest version that the client supports."""

    protocol_version: ProtocolVersion
    client_capabilities: Section[ClientCapabilities] = UNSET
    client_info: Opt[Implementation | None] = UNSET


class InitializeResponse(Object):
    """The version that both sides use, or the agent's newest if it does not support the client's."""

    protocol_version: ProtocolVersion
    agent_capabilities: Section[AgentCapabilities] = UNSET
    auth_methods: Annotated[Opt[Items[AuthMethod]], DefaultValue([])] = UNSET
    agent_info: Opt[Implementation | None] = UNSET


# Unstable: proxy chains, in which a conductor passes messages through proxies.


@unstable
class InitializeProxyRequest(InitializeRequest):
    """Unstable. `initialize` for a component that has a successor in the chain."""


@unstable
class InitializeProxyResponse(InitializeResponse):
    """Unstable. What the chain from this component on can do."""


@unstable
class ProxySuccessorRequest(Object):
    """Unstable.

    A request to or from the next component of the chain. Absent and null params mean the same.
    """

    method: str
    params: Strict[Any] = UNSET


ProxySuccessorResponse: TypeAlias = Unstable[Any]
"""Unstable. The wrapped request's own result, unchanged."""


@unstable
class ProxySuccessorNotification(Object):
    """Unstable. A notification for, or from, the next component of the chain."""

    method: str
    params: Strict[Any] = UNSET
