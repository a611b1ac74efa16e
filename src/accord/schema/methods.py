"""The method table: who serves each method, of which kind, with which types, behind which gate.

Dispatch, checks and the reference page read this table; nothing else lists methods. A name may stand in it twice: `mcp/message`
is a request to the client and a notification to the agent, `proxy/successor` is either kind.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import UNSET, Struct

from . import (
    auth,
    config,
    elicitation,
    files,
    initialize,
    mcp,
    permissions,
    prompts,
    providers,
    proxy,
    rpc,
    sessions,
    terminals,
    updates,
)
from .capabilities import AgentCapabilities, ClientCapabilities

Side: TypeAlias = Literal["agent", "client", "proxy"]
Kind: TypeAlias = Literal["request", "notification"]


class Method(Struct, frozen=True):
    """One method, as one side serves it."""

    name: str
    served_by: Literal["agent", "client", "proxy", "both"]
    kind: Kind
    params: Any
    """The type of the parameters."""
    result: Any = None
    """The type of the result; None for a notification."""
    gates: tuple[str, ...] = ()
    """What must be offered before anyone calls it; one of several is enough. Capabilities are given by their path."""
    stable: bool = True

    @property
    def in_session(self) -> bool:
        """Whether the parameters name a session (for an elicitation: may name one)."""
        bare = getattr(self.params, "__origin__", self.params)
        return any(hasattr(part, "session_id") for part in get_args(bare) or (bare,))

    def offered(self, agent: AgentCapabilities | None, client: ClientCapabilities | None) -> bool:
        """Whether the capabilities exchanged allow a call. Gates that are no capabilities are the caller's to check."""
        if not self.gates:
            return True
        roots = {"agentCapabilities": agent, "clientCapabilities": client}
        return any(path.partition(".")[0] not in roots or _present(roots, path) for path in self.gates)


def _present(roots: dict[str, Any], path: str) -> bool:
    root, *members = path.split(".")
    value = roots[root]
    for member in members:
        if value is None or value is UNSET:
            return False
        names: dict[str, str] = dict(
            zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        )
        value = getattr(value, names[member])
    return value is True or isinstance(value, Struct)


def _agent(name: str, params: Any, result: Any, *gates: str, stable: bool = True) -> Method:
    return Method(name, "agent", "request", params, result, gates, stable)


def _client(name: str, params: Any, result: Any, *gates: str, stable: bool = True) -> Method:
    return Method(name, "client", "request", params, result, gates, stable)


def _notice(
    name: str,
    served_by: Literal["agent", "client", "proxy", "both"],
    params: Any,
    *gates: str,
    stable: bool = True,
) -> Method:
    return Method(name, served_by, "notification", params, None, gates, stable)


_SESSION = "agentCapabilities.sessionCapabilities"
_AUTH = "agentCapabilities.auth"
_PROVIDERS = "agentCapabilities.providers"
_FILES = "clientCapabilities.fs"
_TERMINAL = "clientCapabilities.terminal"
_ELICITATION = "clientCapabilities.elicitation"
_MCP_OVER_ACP = "agentCapabilities.mcpCapabilities.acp"

METHODS: Final[tuple[Method, ...]] = (
    # The agent serves.
    _agent("initialize", initialize.InitializeRequest, initialize.InitializeResponse),
    _agent("authenticate", auth.AuthenticateRequest, auth.AuthenticateResponse, "authMethods"),
    _agent("logout", auth.LogoutRequest, auth.LogoutResponse, f"{_AUTH}.logout"),
    _agent("session/new", sessions.NewSessionRequest, sessions.NewSessionResponse),
    _agent(
        "session/load",
        sessions.LoadSessionRequest,
        sessions.LoadSessionResponse,
        "agentCapabilities.loadSession",
    ),
    _agent(
        "session/resume", sessions.ResumeSessionRequest, sessions.ResumeSessionResponse, f"{_SESSION}.resume"
    ),
    _agent("session/close", sessions.CloseSessionRequest, sessions.CloseSessionResponse, f"{_SESSION}.close"),
    _agent("session/list", sessions.ListSessionsRequest, sessions.ListSessionsResponse, f"{_SESSION}.list"),
    _agent(
        "session/delete", sessions.DeleteSessionRequest, sessions.DeleteSessionResponse, f"{_SESSION}.delete"
    ),
    _agent("session/prompt", prompts.PromptRequest, prompts.PromptResponse),
    _notice("session/cancel", "agent", prompts.CancelNotification),
    _agent("session/set_mode", config.SetSessionModeRequest, config.SetSessionModeResponse, "modes"),
    _agent(
        "session/set_config_option",
        config.SetSessionConfigOptionRequest,
        config.SetSessionConfigOptionResponse,
        "configOptions",
    ),
    # The client serves.
    _notice("session/update", "client", updates.SessionNotification),
    _client(
        "session/request_permission",
        permissions.RequestPermissionRequest,
        permissions.RequestPermissionResponse,
    ),
    _client(
        "fs/read_text_file", files.ReadTextFileRequest, files.ReadTextFileResponse, f"{_FILES}.readTextFile"
    ),
    _client(
        "fs/write_text_file",
        files.WriteTextFileRequest,
        files.WriteTextFileResponse,
        f"{_FILES}.writeTextFile",
    ),
    _client("terminal/create", terminals.CreateTerminalRequest, terminals.CreateTerminalResponse, _TERMINAL),
    _client("terminal/output", terminals.TerminalOutputRequest, terminals.TerminalOutputResponse, _TERMINAL),
    _client(
        "terminal/wait_for_exit",
        terminals.WaitForTerminalExitRequest,
        terminals.WaitForTerminalExitResponse,
        _TERMINAL,
    ),
    _client("terminal/kill", terminals.KillTerminalRequest, terminals.KillTerminalResponse, _TERMINAL),
    _client(
        "terminal/release", terminals.ReleaseTerminalRequest, terminals.ReleaseTerminalResponse, _TERMINAL
    ),
    _client(
        "elicitation/create",
        elicitation.CreateElicitationRequest,
        elicitation.CreateElicitationResponse,
        f"{_ELICITATION}.form",
        f"{_ELICITATION}.url",
    ),
    _notice(
        "elicitation/complete", "client", elicitation.CompleteElicitationNotification, f"{_ELICITATION}.url"
    ),
    # Both serve.
    _notice("$/cancel_request", "both", rpc.CancelRequestNotification),
    # Unstable from here on.
    _agent(
        "session/fork",
        sessions.ForkSessionRequest,
        sessions.ForkSessionResponse,
        f"{_SESSION}.fork",
        stable=False,
    ),
    _agent(
        "session/archive",
        sessions.ArchiveSessionRequest,
        sessions.ArchiveSessionResponse,
        f"{_SESSION}.archive",
        stable=False,
    ),
    _agent(
        "session/unarchive",
        sessions.UnarchiveSessionRequest,
        sessions.UnarchiveSessionResponse,
        f"{_SESSION}.archive",
        stable=False,
    ),
    _agent(
        "session/status",
        sessions.SessionStatusRequest,
        sessions.SessionStatusResponse,
        f"{_SESSION}.status",
        stable=False,
    ),
    _agent(
        "session/set_title",
        sessions.SetSessionTitleRequest,
        sessions.SetSessionTitleResponse,
        f"{_SESSION}.title",
        stable=False,
    ),
    _agent("auth/status", auth.AuthStatusRequest, auth.AuthStatusResponse, f"{_AUTH}.status", stable=False),
    _agent(
        "providers/list",
        providers.ListProvidersRequest,
        providers.ListProvidersResponse,
        _PROVIDERS,
        stable=False,
    ),
    _agent(
        "providers/set", providers.SetProviderRequest, providers.SetProviderResponse, _PROVIDERS, stable=False
    ),
    _agent(
        "providers/disable",
        providers.DisableProviderRequest,
        providers.DisableProviderResponse,
        _PROVIDERS,
        stable=False,
    ),
    _notice("mcp/message", "agent", mcp.MessageMcpNotification, _MCP_OVER_ACP, stable=False),
    _client("mcp/message", mcp.MessageMcpRequest, mcp.MessageMcpResponse, _MCP_OVER_ACP, stable=False),
    _notice(
        "auth/status_update", "client", auth.AuthStatusUpdateNotification, f"{_AUTH}.status", stable=False
    ),
    # Between conductor and proxies.
    Method(
        "proxy/initialize",
        "proxy",
        "request",
        proxy.InitializeProxyRequest,
        proxy.InitializeProxyResponse,
        stable=False,
    ),
    Method(
        "proxy/successor",
        "proxy",
        "request",
        proxy.ProxySuccessorRequest,
        proxy.ProxySuccessorResponse,
        stable=False,
    ),
    _notice("proxy/successor", "proxy", proxy.ProxySuccessorNotification, stable=False),
)

_BY_PLACE: Final = {
    (side, method.kind, method.name): method
    for method in METHODS
    for side in (("agent", "client") if method.served_by == "both" else (method.served_by,))
}


def request(side: Side, name: str) -> Method | None:
    """The request of this name that the side serves."""
    return _BY_PLACE.get((side, "request", name))


def notification(side: Side, name: str) -> Method | None:
    """The notification of this name that the side takes."""
    return _BY_PLACE.get((side, "notification", name))


def served_by(side: Side) -> Iterator[Method]:
    """Every method that the side serves, in the order of the table."""
    return (method for (place, _, _), method in _BY_PLACE.items() if place == side)
