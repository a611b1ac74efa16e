"""What the agent advertises, and the check that a session request stays within it.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import os
from collections.abc import Callable, Container, Mapping
from typing import Any, Final, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

from accord.agent.agent_session import AgentSession, OpeningRequest
from accord.errors import InvalidParams, NotFound, UsageError
from accord.schema.content import TextContent
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
from accord.schema.session_requests import (
    ForkSessionRequest,
    ForkSessionResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SystemPrompt,
)

# MERGED agent.capabilities: What an agent can do, as `initialize` says it: exactly what its handlers and its declarations give, no more.

T = TypeVar("T", bound=Struct)

_TOGETHER: Final = (
    ("session/archive", "session/unarchive"),
    ("providers/list", "providers/set", "providers/disable"),
)


class AgentFeatures(Struct, frozen=True, kw_only=True):
    """What an agent takes that cannot be seen from its handlers."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    """Content of prompts beyond text and links."""
    mcp_http: bool = False
    mcp_sse: bool = False
    mcp_acp: bool = False
    """MCP servers beyond those it starts itself (`mcp_acp` is unstable)."""
    additional_directories: bool = False
    """Sessions with more than one root."""
    system_prompt: Literal["append", "override"] | None = None
    """Unstable. Instructions from the client: beside the agent's own, or also instead of them."""
    meta: Mapping[str, Any] | None = None
    """Extensions to announce, in the `_meta` of the capabilities."""


def advertise(served: Container[str], accepts: AgentFeatures) -> AgentCapabilities:
    """The capabilities of an agent that serves these methods."""

    def if_served(method: str, mark: type[T]) -> T | UnsetType:
        return mark() if method in served else UNSET

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
            system_prompt=_system_prompt(accepts),
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


def _system_prompt(accepts: AgentFeatures) -> SessionSystemPromptCapabilities | UnsetType:
    if accepts.system_prompt is None:
        return UNSET
    if accepts.system_prompt == "append":
        return SessionSystemPromptCapabilities()
    override = SessionSystemPromptOverrideCapabilities()
    return SessionSystemPromptCapabilities(SessionSystemPromptModeCapabilities(override))


def check_complete(served: Container[str]) -> None:
    """One capability may stand for several methods: all of them must be there."""
    for methods in _TOGETHER:
        present = [method for method in methods if method in served]
        if present and len(present) < len(methods):
            missing = ", ".join(method for method in methods if method not in served)
            raise UsageError(
                f"{present[0]} needs a handler for {missing} as well: one capability announces them all"
            )
    if "session/archive" in served and "session/list" not in served:
        raise UsageError("session/archive needs a handler for session/list as well")


# MERGED agent.opening: How a session comes to be: what its request asks for is checked as a whole, and nothing of it is dropped in silence.

OpeningResponse = NewSessionResponse | LoadSessionResponse | ResumeSessionResponse | ForkSessionResponse

_SERVER_GATES: Final[dict[type, tuple[str, Callable[[AgentFeatures], bool]]]] = {
    McpServerHttp: ("http", lambda accepts: accepts.mcp_http),
    McpServerSse: ("sse", lambda accepts: accepts.mcp_sse),
    McpServerAcp: ("acp", lambda accepts: accepts.mcp_acp),
}


def unknown_session(session_id: str) -> NotFound:
    """The error for a session that does not exist, or no longer: `raise accord.unknown_session(session.id)`."""
    return NotFound("Session not found", {"sessionId": session_id})


def check_session_request(request: OpeningRequest, accepts: AgentFeatures) -> None:
    """Refuse what this agent cannot give, before anything is made."""
    if not os.path.isabs(request.cwd):
        raise InvalidParams(f"cwd is not absolute: {request.cwd!r}")
    roots = request.additional_directories or []
    for root in roots:
        if not os.path.isabs(root):
            raise InvalidParams(f"additionalDirectories: not an absolute path: {root!r}")
    if roots and not accepts.additional_directories:
        raise InvalidParams("additionalDirectories: this agent works in one directory only")
    for server in request.mcp_servers or []:
        _check_server(server, accepts)
    if request.system_prompt:
        _check_system_prompt(request.system_prompt, accepts)


def _check_server(server: McpServer, accepts: AgentFeatures) -> None:
    gate = _SERVER_GATES.get(type(server))
    if gate is not None and not gate[1](accepts):
        raise InvalidParams(f"mcpServers: this agent does not take {gate[0]} servers: {server.name!r}")


def _check_system_prompt(prompt: SystemPrompt, accepts: AgentFeatures) -> None:
    modes = {"append": ("append",), "override": ("append", "override")}.get(accepts.system_prompt or "", ())
    if prompt.mode not in modes:
        raise InvalidParams(f"systemPrompt: this agent cannot apply the mode {prompt.mode!r}")
    if not prompt.content or not all(isinstance(block, TextContent) for block in prompt.content):
        raise InvalidParams("systemPrompt: only text blocks, and at least one")


def session_response(session: AgentSession, given: OpeningResponse | None) -> OpeningResponse:
    """The response that opens the session: what its handler gave, else what it set on the session."""
    if given is not None:
        if given.modes:
            session.pickers.offer_modes(given.modes)
        if given.config_options:
            session.pickers.offer_options(given.config_options)
    pickers = session.pickers
    modes = pickers.modes or UNSET
    options = pickers.shown() or UNSET
    meta = UNSET if given is None else given.meta
    members: dict[str, Any] = {"modes": modes, "config_options": options, "meta": meta}
    match session.request:
        case LoadSessionRequest():
            return LoadSessionResponse(**members)
        case ResumeSessionRequest():
            return ResumeSessionResponse(**members)
        case ForkSessionRequest():
            return ForkSessionResponse(session.id, **members)
        case _:
            return NewSessionResponse(session.id, **members)
