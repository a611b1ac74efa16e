"""The capabilities that the agent advertises, and the checks of requests against them.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import os
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

from accord.agent.agent_session import OpeningRequest
from accord.errors import InvalidParams, NotFound, UsageError
from accord.schema.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, TextContent
from accord.schema.initialize import (
    AgentAuthCapabilities,
    AgentCapabilities,
    AuthStatusCapabilities,
    LogoutCapabilities,
    McpCapabilities,
    PromptCapabilities,
    ProvidersCapabilities,
    SessionAdditionalDirectoriesCapabilities,
    SessionArchiveCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionForkCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SessionStatusCapabilities,
    SessionSystemPromptCapabilities,
    SessionSystemPromptModeCapabilities,
    SessionSystemPromptOverrideCapabilities,
    SessionTitleCapabilities,
)
from accord.schema.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse
from accord.schema.session_requests import SystemPrompt

T = TypeVar("T", bound=Struct)

_REQUIRED_TOGETHER: Final = (
    ("session/archive", "session/unarchive"),
    ("providers/list", "providers/set", "providers/disable"),
)


class AgentFeatures(Struct, frozen=True, kw_only=True):
    """What an agent accepts beyond what its handlers show."""

    # Prompt content besides text and links.
    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    # MCP servers besides those that the agent starts itself (`mcp_acp` is unstable).
    mcp_http: bool = False
    mcp_sse: bool = False
    mcp_acp: bool = False
    additional_directories: bool = False
    """Sessions with more than one directory."""
    system_prompt: Literal["append", "override"] | None = None
    """Unstable. System prompts of the client: added to the agent's own, or also instead of it."""
    meta: Mapping[str, Any] | None = None
    """The `_meta` of the capabilities, for extensions."""


_MCP_FEATURES: Final[dict[type, tuple[str, Callable[[AgentFeatures], bool]]]] = {
    McpServerHttp: ("http", lambda accepts: accepts.mcp_http),
    McpServerSse: ("sse", lambda accepts: accepts.mcp_sse),
    McpServerAcp: ("acp", lambda accepts: accepts.mcp_acp),
}


def advertise(served: Container[str], accepts: AgentFeatures) -> AgentCapabilities:
    """Return the capabilities of an agent that serves these methods."""

    def if_served(method: str, capability: type[T]) -> T | UnsetType:
        return capability() if method in served else UNSET

    return AgentCapabilities(
        load_session="session/load" in served,
        prompt_capabilities=PromptCapabilities(accepts.image, accepts.audio, accepts.embedded_context),
        mcp_capabilities=McpCapabilities(accepts.mcp_http, accepts.mcp_sse, accepts.mcp_acp or UNSET),
        session_capabilities=SessionCapabilities(
            list=if_served("session/list", SessionListCapabilities),
            delete=if_served("session/delete", SessionDeleteCapabilities),
            additional_directories=SessionAdditionalDirectoriesCapabilities()
            if accepts.additional_directories
            else UNSET,
            resume=if_served("session/resume", SessionResumeCapabilities),
            close=if_served("session/close", SessionCloseCapabilities),
            system_prompt=_system_prompt_capability(accepts),
            fork=if_served("session/fork", SessionForkCapabilities),
            archive=if_served("session/archive", SessionArchiveCapabilities),
            status=if_served("session/status", SessionStatusCapabilities),
            title=if_served("session/set_title", SessionTitleCapabilities),
        ),
        auth=AgentAuthCapabilities(
            if_served("logout", LogoutCapabilities), if_served("auth/status", AuthStatusCapabilities)
        ),
        providers=if_served("providers/list", ProvidersCapabilities),
        meta=UNSET if accepts.meta is None else dict(accepts.meta),
    )


def _system_prompt_capability(accepts: AgentFeatures) -> SessionSystemPromptCapabilities | UnsetType:
    if accepts.system_prompt is None:
        return UNSET
    if accepts.system_prompt == "append":
        return SessionSystemPromptCapabilities()
    override = SessionSystemPromptOverrideCapabilities()
    return SessionSystemPromptCapabilities(SessionSystemPromptModeCapabilities(override))


def check_complete(served: Container[str]) -> None:
    """Raise UsageError if only some methods of a shared capability have handlers."""
    for methods in _REQUIRED_TOGETHER:
        present = [method for method in methods if method in served]
        if present and len(present) < len(methods):
            missing = ", ".join(method for method in methods if method not in served)
            raise UsageError(f"missing handler for {missing}; its capability also covers {present[0]}")
    if "session/archive" in served and "session/list" not in served:
        raise UsageError("missing handler for session/list; session/archive needs it")


def unknown_session(session_id: str) -> NotFound:
    """Return the error for an unknown session: `raise accord.unknown_session(session.id)`."""
    return NotFound("Session not found", {"sessionId": session_id})


def check_session_request(request: OpeningRequest, accepts: AgentFeatures) -> None:
    """Raise InvalidParams if a request to open a session asks for something the agent does not support."""
    if not os.path.isabs(request.cwd):
        raise InvalidParams(f"cwd is not absolute: {request.cwd!r}")
    directories = request.additional_directories or []
    for directory in directories:
        if not os.path.isabs(directory):
            raise InvalidParams(f"additionalDirectories: not an absolute path: {directory!r}")
    if directories and not accepts.additional_directories:
        raise InvalidParams("additionalDirectories: this agent supports only one directory")
    for server in request.mcp_servers or []:
        _check_mcp_server(server, accepts)
    if request.system_prompt:
        _check_system_prompt(request.system_prompt, accepts)


def check_prompt(blocks: Sequence[ContentBlock], accepts: AgentFeatures) -> None:
    """Raise InvalidParams if a prompt contains a block that the agent does not accept."""
    features = (
        (ImageContent, accepts.image),
        (AudioContent, accepts.audio),
        (EmbeddedResource, accepts.embedded_context),
    )
    for block in blocks:
        for kind, accepted in features:
            if isinstance(block, kind) and not accepted:
                raise InvalidParams(f"prompt: this agent does not support {kind.__name__}")


def _check_mcp_server(server: McpServer, accepts: AgentFeatures) -> None:
    feature = _MCP_FEATURES.get(type(server))
    if feature is not None and not feature[1](accepts):
        raise InvalidParams(f"mcpServers: this agent does not support {feature[0]} servers: {server.name!r}")


def _check_system_prompt(prompt: SystemPrompt, accepts: AgentFeatures) -> None:
    prompt_modes = {"append": ("append",), "override": ("append", "override")}.get(
        accepts.system_prompt or "", ()
    )
    if prompt.mode not in prompt_modes:
        raise InvalidParams(f"systemPrompt: this agent does not support the mode {prompt.mode!r}")
    if not prompt.content or not all(isinstance(block, TextContent) for block in prompt.content):
        raise InvalidParams("systemPrompt: needs at least one block, and only text blocks")
