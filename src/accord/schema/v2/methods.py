"""The method table of ACP version 2: who serves what, with which types. Imported on first use."""

from typing import Any, Final

from accord.schema import v2
from accord.schema.methods import Method, Side

# A gate is the path of a capability or of another announcement; one of several is enough.


def _request(side: Side, name: str, type_name: str, *gates: str, stable: bool = True) -> Method:
    params, result = (_type_of(f"{type_name}{part}") for part in ("Request", "Response"))
    return Method(name, side, "request", params, result, gates, stable)


def _type_of(name: str) -> Any:
    """The type with this name in the official schema."""
    return getattr(v2, f"{name}V2", None) or getattr(v2, name)


_SESSION: Final = "agentCapabilities.session"
_ELICITATION: Final = "clientCapabilities.elicitation"
_MCP_OVER_ACP: Final = f"{_SESSION}.mcp.acp"
_PROVIDERS: Final = "agentCapabilities.providers"
_AUTH_STATUS: Final = "agentCapabilities.auth.status"

METHODS: Final[tuple[Method, ...]] = (
    # The agent serves.
    _request("agent", "initialize", "Initialize"),
    _request("agent", "auth/login", "LoginAuth", "authMethods"),
    _request("agent", "auth/logout", "LogoutAuth", "authMethods"),
    _request("agent", "session/new", "NewSession", _SESSION),
    _request("agent", "session/resume", "ResumeSession", _SESSION),
    _request("agent", "session/close", "CloseSession", _SESSION),
    _request("agent", "session/list", "ListSessions", _SESSION),
    _request("agent", "session/delete", "DeleteSession", f"{_SESSION}.delete"),
    _request("agent", "session/prompt", "Prompt", _SESSION),
    _request("agent", "session/set_config_option", "SetSessionConfigOption", "configOptions"),
    _request("agent", "tool_call/cancel", "CancelToolCall", "toolCall.capabilities.cancel"),
    _request("agent", "terminal/cancel", "CancelTerminal", "terminal.capabilities.cancel"),
    Method("session/cancel", "agent", "notification", v2.CancelSessionNotification, None, (_SESSION,)),
    # The client serves.
    Method("session/update", "client", "notification", v2.UpdateSessionNotification),
    _request("client", "session/request_permission", "RequestPermission"),
    _request(
        "client", "elicitation/create", "CreateElicitation", f"{_ELICITATION}.form", f"{_ELICITATION}.url"
    ),
    Method(
        "elicitation/complete",
        "client",
        "notification",
        v2.CompleteElicitationNotification,
        None,
        (f"{_ELICITATION}.url",),
    ),
    # Both serve.
    Method("$/cancel_request", "both", "notification", v2.CancelRequestNotificationV2),
    # Unstable from here on.
    _request("agent", "session/fork", "ForkSession", f"{_SESSION}.fork", stable=False),
    _request("agent", "session/archive", "ArchiveSession", f"{_SESSION}.archive", stable=False),
    _request("agent", "session/unarchive", "UnarchiveSession", f"{_SESSION}.archive", stable=False),
    _request("agent", "session/status", "SessionStatus", f"{_SESSION}.status", stable=False),
    _request("agent", "session/set_title", "SetSessionTitle", f"{_SESSION}.title", stable=False),
    _request("agent", "auth/status", "AuthStatus", _AUTH_STATUS, stable=False),
    _request("agent", "providers/list", "ListProviders", _PROVIDERS, stable=False),
    _request("agent", "providers/set", "SetProvider", _PROVIDERS, stable=False),
    _request("agent", "providers/disable", "DisableProvider", _PROVIDERS, stable=False),
    Method(
        "mcp/message",
        "agent",
        "notification",
        v2.MessageMcpNotification,
        None,
        (_MCP_OVER_ACP,),
        stable=False,
    ),
    _request("client", "mcp/message", "MessageMcp", _MCP_OVER_ACP, stable=False),
    Method(
        "auth/status_update",
        "client",
        "notification",
        v2.AuthStatusUpdateNotification,
        None,
        (_AUTH_STATUS,),
        stable=False,
    ),
    # Between conductor and proxies.
    _request("proxy", "proxy/initialize", "InitializeProxy", stable=False),
    _request("proxy", "proxy/successor", "ProxySuccessor", stable=False),
    Method("proxy/successor", "proxy", "notification", v2.ProxySuccessorNotification, stable=False),
)
