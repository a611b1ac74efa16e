"""How a session comes to be: what its request asks for is checked as a whole, and nothing of it is dropped in silence."""

import os
from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET

from accord.errors import InvalidParams, NotFound
from accord.schema.content import TextContent
from accord.schema.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse
from accord.schema.sessions import (
    ForkSessionRequest,
    ForkSessionResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SystemPrompt,
)

from .capabilities import Accepts
from .session import AgentSession, OpeningRequest

OpeningResponse = NewSessionResponse | LoadSessionResponse | ResumeSessionResponse | ForkSessionResponse

_SERVER_GATES: Final[dict[type, tuple[str, Callable[[Accepts], bool]]]] = {
    McpServerHttp: ("http", lambda accepts: accepts.mcp_http),
    McpServerSse: ("sse", lambda accepts: accepts.mcp_sse),
    McpServerAcp: ("acp", lambda accepts: accepts.mcp_acp),
}


def unknown_session(session_id: str) -> NotFound:
    """The error for a session that does not exist, or no longer: `raise accord.unknown_session(session.id)`."""
    return NotFound("Session not found", {"sessionId": session_id})


def check(request: OpeningRequest, accepts: Accepts) -> None:
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


def _check_server(server: McpServer, accepts: Accepts) -> None:
    gate = _SERVER_GATES.get(type(server))
    if gate is not None and not gate[1](accepts):
        raise InvalidParams(f"mcpServers: this agent does not take {gate[0]} servers: {server.name!r}")


def _check_system_prompt(prompt: SystemPrompt, accepts: Accepts) -> None:
    modes = {"append": ("append",), "override": ("append", "override")}.get(accepts.system_prompt or "", ())
    if prompt.mode not in modes:
        raise InvalidParams(f"systemPrompt: this agent cannot apply the mode {prompt.mode!r}")
    if not prompt.content or not all(isinstance(block, TextContent) for block in prompt.content):
        raise InvalidParams("systemPrompt: only text blocks, and at least one")


def answer(session: AgentSession, given: OpeningResponse | None) -> OpeningResponse:
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
