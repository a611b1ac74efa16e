"""Converts the requests and responses of protocol version 2 to those of version 1, and back.

Session updates are in `protocol_v2`, config options in `config_options_v2`. Imported on first use.
"""

from collections.abc import Iterable
from typing import Any, Final, cast

from msgspec import UNSET, structs

from accord.schema import (
    AgentAuthCapabilities,
    AgentCapabilities,
    AuthCapabilities,
    AuthMethodAgent,
    AuthMethodTerminal,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    CompactionCapabilities,
    ElicitationFormMode,
    ElicitationUrlMode,
    EnvVariable,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    ListSessionsResponse,
    LogoutCapabilities,
    McpCapabilities,
    McpServer,
    McpServerAcp,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    NoticeCapabilities,
    PermissionOption,
    PlanCapabilities,
    PromptCapabilities,
    RequestPermissionRequest,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionConfigOptionsCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
    ToolCallUpdate,
    Unknown,
    v2,
)
from accord.schema.base import Mismatch
from accord.schema.codec import decode, encode
from accord.session.events import OWN_TAGS
from accord.session.protocol_v2 import block_v2, tool_call_v1, tool_call_v2

UNKNOWN_PROGRAM = Implementation("unknown", "unknown")
"""The name and version of a peer that did not say them."""

_DESCRIPTION: Final = "_accord/description"
"""The `_meta` key, in the tool call of a permission request, of what version 1 cannot say."""
_COMMAND: Final = "_accord/command"
"""The same for a request that is about a command, which is the input of the call."""
_NOTES: Final = (_DESCRIPTION, _COMMAND)


# -- initialize ----------------------------------------------------------------------------------------------


def initialize_request_v1(request: v2.InitializeRequestV2, version: int = 1) -> InitializeRequest:
    """The request of a client in version 2, as version 1 says it. It has neither files nor terminals."""
    capabilities = request.capabilities or v2.ClientCapabilitiesV2()
    auth = capabilities.auth or None
    return InitializeRequest(
        version,
        ClientCapabilities(
            session=ClientSessionCapabilities(
                CompactionCapabilities(),
                SessionConfigOptionsCapabilities(BooleanConfigOptionCapabilities()),
                NoticeCapabilities(),
            ),
            auth=AuthCapabilities(bool(auth and auth.terminal)),
            elicitation=capabilities.elicitation,
            plan=PlanCapabilities(),
            meta=capabilities.meta,
        ),
        UNSET if request.info == UNKNOWN_PROGRAM else request.info,
        meta=request.meta,
    )


def initialize_request_v2(request: InitializeRequest) -> v2.InitializeRequestV2:
    """The request of a client in version 1, as version 2 says it. Files and terminals are left out."""
    capabilities = request.client_capabilities or ClientCapabilities()
    auth = capabilities.auth or None
    terminal = (
        v2.ClientAuthCapabilities(v2.TerminalAuthCapabilities()) if auth and auth.terminal is True else UNSET
    )
    return v2.InitializeRequestV2(
        2,
        request.client_info or UNKNOWN_PROGRAM,
        v2.ClientCapabilitiesV2(terminal, capabilities.elicitation or UNSET, meta=capabilities.meta),
        meta=request.meta,
    )


def initialize_response_v2(response: InitializeResponse) -> v2.InitializeResponseV2:
    """The answer of an agent in version 1, as version 2 says it. It always has sessions."""
    capabilities = response.agent_capabilities or AgentCapabilities()
    prompt, mcp = capabilities.prompt_capabilities or None, capabilities.mcp_capabilities or None
    sessions = capabilities.session_capabilities or SessionCapabilities()
    auth = capabilities.auth or None
    session = v2.SessionCapabilitiesV2(
        prompt=v2.PromptCapabilitiesV2(
            v2.PromptImageCapabilities() if prompt and prompt.image is True else UNSET,
            v2.PromptAudioCapabilities() if prompt and prompt.audio is True else UNSET,
            v2.PromptEmbeddedContextCapabilities() if prompt and prompt.embedded_context is True else UNSET,
        ),
        mcp=v2.McpCapabilitiesV2(
            v2.McpStdioCapabilities(),
            v2.McpHttpCapabilities() if mcp and mcp.http is True else UNSET,
            v2.McpAcpCapabilities() if mcp and mcp.acp is True else UNSET,
        ),
        delete=sessions.delete or UNSET,
        additional_directories=sessions.additional_directories or UNSET,
        system_prompt=sessions.system_prompt or UNSET,
        fork=sessions.fork or UNSET,
        archive=sessions.archive or UNSET,
        status=sessions.status or UNSET,
        title=sessions.title or UNSET,
        meta=sessions.meta,
    )
    status = v2.AgentAuthCapabilitiesV2(auth.status) if auth and auth.status else UNSET
    return v2.InitializeResponseV2(
        2,
        response.agent_info or UNKNOWN_PROGRAM,
        v2.AgentCapabilitiesV2(session, status, capabilities.providers or UNSET, meta=capabilities.meta),
        [_auth_method_v2(method) for method in response.auth_methods or ()] or UNSET,
        meta=response.meta,
    )


def initialize_response_v1(response: v2.InitializeResponseV2, version: int = 1) -> InitializeResponse:
    """The answer of an agent in version 2, as version 1 says it."""
    capabilities = response.capabilities or v2.AgentCapabilitiesV2()
    session = capabilities.session or None
    methods = [_auth_method_v1(method) for method in response.auth_methods or ()]
    known = [method for method in methods if method is not None]
    auth = capabilities.auth or None
    members: dict[str, Any] = {
        "auth": AgentAuthCapabilities(
            LogoutCapabilities() if known else UNSET, auth.status or UNSET if auth else UNSET
        ),
        "providers": capabilities.providers or UNSET,
        "meta": capabilities.meta,
    }
    if session is not None:
        members |= _session_members_v1(session)
    info = UNSET if response.info == UNKNOWN_PROGRAM else response.info
    return InitializeResponse(version, AgentCapabilities(**members), known, info, meta=response.meta)


def _session_members_v1(session: v2.SessionCapabilitiesV2) -> dict[str, Any]:
    prompt, mcp = session.prompt or v2.PromptCapabilitiesV2(), session.mcp or v2.McpCapabilitiesV2()
    return {
        "load_session": True,
        "prompt_capabilities": PromptCapabilities(
            bool(prompt.image), bool(prompt.audio), bool(prompt.embedded_context)
        ),
        "mcp_capabilities": McpCapabilities(bool(mcp.http), False, bool(mcp.acp) or UNSET),
        "session_capabilities": SessionCapabilities(
            list=SessionListCapabilities(),
            delete=session.delete or UNSET,
            additional_directories=session.additional_directories or UNSET,
            resume=SessionResumeCapabilities(),
            close=SessionCloseCapabilities(),
            system_prompt=session.system_prompt or UNSET,
            fork=session.fork or UNSET,
            archive=session.archive or UNSET,
            status=session.status or UNSET,
            title=session.title or UNSET,
            meta=session.meta,
        ),
    }


def _auth_method_v2(method: AuthMethodAgent | AuthMethodTerminal) -> "v2.AuthMethodV2":
    if isinstance(method, AuthMethodTerminal):
        env = [EnvVariable(name, value) for name, value in (method.env or {}).items()]
        return v2.AuthMethodTerminalV2(
            method.id, method.name, method.description, method.args, env or UNSET, meta=method.meta
        )
    return v2.AuthMethodAgentV2(method.id, method.name, method.description, meta=method.meta)


def _auth_method_v1(method: Any) -> AuthMethodAgent | AuthMethodTerminal | None:
    match method:
        case v2.AuthMethodTerminalV2():
            env = {variable.name: variable.value for variable in method.env or ()}
            return AuthMethodTerminal(
                method.method_id, method.name, method.description, method.args, env or UNSET, meta=method.meta
            )
        case v2.AuthMethodAgentV2():
            return AuthMethodAgent(method.method_id, method.name, method.description, meta=method.meta)
        case _:
            return None


# -- sessions ------------------------------------------------------------------------------------------------


def servers_v1(servers: Iterable[Any] | Any) -> list[McpServer]:
    """MCP servers in the form of version 1. Raises ValueError for an unknown transport."""
    return [_server_v1(server) for server in servers or ()]


def _server_v1(server: Any) -> McpServer:
    match server:
        case v2.McpServerStdioV2():
            return McpServerStdio(
                server.name, server.command, server.args or [], server.env or [], meta=server.meta
            )
        case v2.McpServerHttpV2():
            return McpServerHttp(server.name, server.url, server.headers or [], meta=server.meta)
        case McpServerAcp():
            return server
        case _:
            kind = server.kind if isinstance(server, Unknown) else type(server).__name__
            raise ValueError(f"mcpServers: unsupported transport {kind!r}")


def servers_v2(servers: Iterable[Any] | Any) -> "list[v2.McpServerV2]":
    """MCP servers in the form of version 2. Raises ValueError for one that it does not have."""
    return [_server_v2(server) for server in servers or ()]


def _server_v2(server: Any) -> "v2.McpServerV2":
    match server:
        case McpServerStdio():
            return v2.McpServerStdioV2(server.name, server.command, server.args, server.env, meta=server.meta)
        case McpServerHttp():
            return v2.McpServerHttpV2(server.name, server.url, server.headers, meta=server.meta)
        case McpServerSse():
            raise ValueError(f"mcpServers: {server.name!r}: version 2 has no servers of type sse")
        case _:
            return server


def opening_v1(kind: Any, request: Any) -> Any:
    """A request of version 2 that opens a session, as the type of version 1. Raises ValueError."""
    return _opening(kind, request, servers_v1(request.mcp_servers), request.system_prompt)


def opening_v2(kind: Any, request: Any) -> Any:
    """The reverse. Raises ValueError."""
    prompt = request.system_prompt
    if prompt:
        prompt = structs.replace(prompt, content=[block_v2(block) for block in prompt.content])
    return _opening(kind, request, servers_v2(request.mcp_servers) or UNSET, prompt)


def _opening(kind: Any, request: Any, servers: Any, prompt: Any) -> Any:
    members: dict[str, Any] = {
        "cwd": request.cwd,
        "mcp_servers": servers,
        "additional_directories": request.additional_directories,
        "system_prompt": prompt,
        "meta": request.meta,
    }
    if hasattr(request, "session_id"):
        members["session_id"] = request.session_id
    return kind(**members)


def list_response_v2(response: ListSessionsResponse) -> v2.ListSessionsResponseV2:
    """A page of the sessions, as version 2 says it."""
    sessions = [
        v2.SessionInfoV2(
            info.session_id,
            info.cwd,
            info.additional_directories,
            info.title,
            info.updated_at,
            info.archived,
            meta=info.meta,
        )
        for info in response.sessions
    ]
    return v2.ListSessionsResponseV2(sessions, response.next_cursor, meta=response.meta)


# -- questions -----------------------------------------------------------------------------------------------


def permission_request_v2(request: RequestPermissionRequest, title: str) -> v2.RequestPermissionRequestV2:
    """A permission request as version 2 says it. `title` is that of the tool call, as far as it is known."""
    call = request.tool_call
    patch = tool_call_v2(call)
    notes = call.meta or {}
    patch.meta = {name: value for name, value in (patch.meta or {}).items() if name not in _NOTES} or UNSET
    description = notes.get(_DESCRIPTION)
    subject: Any = v2.ToolCallPermissionSubject(patch)
    if _COMMAND in notes and (command := _read_command(call)) is not None:
        subject = command
    for name in ("title", "kind", "status", "name", "content", "locations", "raw_input", "raw_output"):
        if getattr(patch, name) is None:  # null means unchanged in version 1
            setattr(patch, name, UNSET)
    return v2.RequestPermissionRequestV2(
        request.session_id,
        call.title or title or call.name or "Permission",
        [
            v2.PermissionOptionV2(item.option_id, item.name, item.kind, meta=item.meta)
            for item in request.options
        ],
        description if isinstance(description, str) else UNSET,
        subject=subject,
        meta=request.meta,
    )


def _read_command(call: ToolCallUpdate) -> v2.CommandPermissionSubject | None:
    """The command that `permission_request_v1` has put into the input of a tool call."""
    command: Any = call.raw_input
    if not isinstance(command, dict) or set(cast("dict[str, Any]", command)) != {"command", "cwd"}:
        return None
    named = {} if call.tool_call_id.startswith(OWN_TAGS) else {"toolCallId": call.tool_call_id}
    try:
        return decode(v2.CommandPermissionSubject, encode({"type": "command", **command, **named}))
    except Mismatch:
        return None


def permission_request_v1(request: v2.RequestPermissionRequestV2, new_id: str) -> RequestPermissionRequest:
    """A permission request as version 1 says it. Without a tool call it gets one, `new_id`."""
    subject = request.subject
    if isinstance(subject, v2.ToolCallPermissionSubject):
        call, _ = tool_call_v1(subject.tool_call)
        call.title = call.title or request.title
    elif isinstance(subject, v2.CommandPermissionSubject):
        call = ToolCallUpdate(
            subject.tool_call_id or new_id,
            title=request.title,
            kind="execute",
            raw_input={"command": subject.command, "cwd": subject.cwd},
            meta={_COMMAND: True},
        )
    else:
        call = ToolCallUpdate(new_id, title=request.title)
    if request.description:
        call.meta = {**(call.meta or {}), _DESCRIPTION: request.description}
    options = [
        PermissionOption(item.option_id, item.name, cast(Any, item.kind), meta=item.meta)
        for item in request.options
        if item.kind in ("allow_once", "allow_always", "reject_once", "reject_always")
    ]
    return RequestPermissionRequest(request.session_id, call, options, meta=request.meta)


def _none_to_unset(value: Any) -> Any:
    return UNSET if value is None else value


def elicitation_v2(request: ElicitationFormMode | ElicitationUrlMode) -> Any:
    """An elicitation as version 2 says it; there, members that version 1 may leave out are required.

    Raises ValueError for one that version 2 cannot say: without a session and a request, or with a list
    that offers nothing to choose.
    """
    scope: dict[str, Any] = {
        "session_id": _none_to_unset(request.session_id),
        "tool_call_id": _none_to_unset(request.tool_call_id),
        "request_id": _none_to_unset(request.request_id) if request.session_id in (UNSET, None) else UNSET,
        "meta": request.meta,
    }
    if isinstance(request, ElicitationUrlMode):
        return v2.ElicitationUrlModeV2(
            message=request.message, elicitation_id=request.elicitation_id, url=request.url, **scope
        )
    form = request.requested_schema
    for name, field in (form.properties or {}).items():
        items = getattr(field, "items", field)
        if [] in (getattr(items, choices, None) for choices in ("enum", "one_of", "any_of")):
            raise ValueError(f"the field {name!r} offers nothing to choose")
    schema = v2.ElicitationSchemaV2(
        "object",
        cast(Any, form.properties or {}),
        form.required,
        form.title,
        form.description,
        meta=form.meta,
    )
    return v2.ElicitationFormModeV2(message=request.message, requested_schema=schema, **scope)
