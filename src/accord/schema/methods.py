"""The method table (who serves what, with which types), and method names of other dialects.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from msgspec import UNSET, Struct

from accord.errors import UsageError
from accord.schema import auth, base, client_requests, content, initialize, mcp, session_requests, updates
from accord.schema.initialize import AgentCapabilities, ClientCapabilities

# Dispatch, checks and the reference page use this table; methods are listed nowhere else. Two names are
# listed twice: `mcp/message` is a request to the client and a notification to the agent, `proxy/successor` is
# both kinds.

AGENTAO_SET_MODEL: Final = "_agentao.cn/set_model"
AGENTAO_ASK_USER: Final = "_agentao.cn/ask_user"
SESSION_STEERING: Final = "_session/steering"
SESSION_REWIND: Final = "_session/rewind"
SESSION_REWIND_POINTS: Final = "_session/rewind_points"
SESSION_RENAME: Final = "_session/rename"
SESSION_ARCHIVE: Final = "_session/archive"
SESSION_UNARCHIVE: Final = "_session/unarchive"
SESSION_BATCH_GET: Final = "_session/batch_get"
SESSION_LIST_SUBSCRIBE: Final = "_session/list/subscribe"
SESSION_LIST_UNSUBSCRIBE: Final = "_session/list/unsubscribe"
SESSION_LIST_CHANGES: Final = "_session/list/changes"

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
    """What must be announced before a call; one of several is enough.

    Capabilities are given by their path.
    """
    stable: bool = True

    @property
    def in_session(self) -> bool:
        """Whether the parameters contain a session id (for an elicitation: may contain one)."""
        base = getattr(self.params, "__origin__", self.params)
        return any(hasattr(part, "session_id") for part in get_args(base) or (base,))

    def offered(self, agent: AgentCapabilities | None, client: ClientCapabilities | None) -> bool:
        """Whether the exchanged capabilities allow a call.

        The caller must check gates that are no capabilities.
        """
        if not self.gates:
            return True
        roots = {"agentCapabilities": agent, "clientCapabilities": client}
        return any(path.partition(".")[0] not in roots or _is_announced(roots, path) for path in self.gates)


def _is_announced(roots: dict[str, Any], path: str) -> bool:
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


def _request(
    side: Side,
    name: str,
    module: ModuleType,
    type_name: str,
    *gates: str,
    stable: bool = True,
) -> Method:
    """A request whose types are `module.<type_name>Request` and `module.<type_name>Response`."""
    params, result = (getattr(module, f"{type_name}{part}") for part in ("Request", "Response"))
    return Method(name, side, "request", params, result, gates, stable)


_agent = partial(_request, "agent")
_client = partial(_request, "client")
_proxy = partial(_request, "proxy")


def _notification(
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
    _agent("initialize", initialize, "Initialize"),
    _agent("authenticate", auth, "Authenticate", "authMethods"),
    _agent("logout", auth, "Logout", f"{_AUTH}.logout"),
    _agent("session/new", session_requests, "NewSession"),
    _agent("session/load", session_requests, "LoadSession", "agentCapabilities.loadSession"),
    _agent("session/resume", session_requests, "ResumeSession", f"{_SESSION}.resume"),
    _agent("session/close", session_requests, "CloseSession", f"{_SESSION}.close"),
    _agent("session/list", session_requests, "ListSessions", f"{_SESSION}.list"),
    _agent("session/delete", session_requests, "DeleteSession", f"{_SESSION}.delete"),
    _agent("session/prompt", content, "Prompt"),
    _notification("session/cancel", "agent", content.CancelNotification),
    _agent("session/set_mode", session_requests, "SetSessionMode", "modes"),
    _agent("session/set_config_option", session_requests, "SetSessionConfigOption", "configOptions"),
    # The client serves.
    _notification("session/update", "client", updates.SessionNotification),
    _client("session/request_permission", client_requests, "RequestPermission"),
    _client("fs/read_text_file", client_requests, "ReadTextFile", f"{_FILES}.readTextFile"),
    _client("fs/write_text_file", client_requests, "WriteTextFile", f"{_FILES}.writeTextFile"),
    _client("terminal/create", client_requests, "CreateTerminal", _TERMINAL),
    _client("terminal/output", client_requests, "TerminalOutput", _TERMINAL),
    _client("terminal/wait_for_exit", client_requests, "WaitForTerminalExit", _TERMINAL),
    _client("terminal/kill", client_requests, "KillTerminal", _TERMINAL),
    _client("terminal/release", client_requests, "ReleaseTerminal", _TERMINAL),
    _client(
        "elicitation/create",
        client_requests,
        "CreateElicitation",
        f"{_ELICITATION}.form",
        f"{_ELICITATION}.url",
    ),
    _notification(
        "elicitation/complete",
        "client",
        client_requests.CompleteElicitationNotification,
        f"{_ELICITATION}.url",
    ),
    # Both serve.
    _notification("$/cancel_request", "both", base.CancelRequestNotification),
    # Unstable from here on.
    _agent("session/fork", session_requests, "ForkSession", f"{_SESSION}.fork", stable=False),
    _agent("session/archive", session_requests, "ArchiveSession", f"{_SESSION}.archive", stable=False),
    _agent("session/unarchive", session_requests, "UnarchiveSession", f"{_SESSION}.archive", stable=False),
    _agent("session/status", session_requests, "SessionStatus", f"{_SESSION}.status", stable=False),
    _agent("session/set_title", session_requests, "SetSessionTitle", f"{_SESSION}.title", stable=False),
    _agent("auth/status", auth, "AuthStatus", f"{_AUTH}.status", stable=False),
    _agent("providers/list", auth, "ListProviders", _PROVIDERS, stable=False),
    _agent("providers/set", auth, "SetProvider", _PROVIDERS, stable=False),
    _agent("providers/disable", auth, "DisableProvider", _PROVIDERS, stable=False),
    _notification("mcp/message", "agent", mcp.MessageMcpNotification, _MCP_OVER_ACP, stable=False),
    _client("mcp/message", mcp, "MessageMcp", _MCP_OVER_ACP, stable=False),
    _notification(
        "auth/status_update", "client", auth.AuthStatusUpdateNotification, f"{_AUTH}.status", stable=False
    ),
    # Between conductor and proxies.
    _proxy("proxy/initialize", initialize, "InitializeProxy", stable=False),
    _proxy("proxy/successor", initialize, "ProxySuccessor", stable=False),
    _notification("proxy/successor", "proxy", initialize.ProxySuccessorNotification, stable=False),
)

_BY_SIDE: Final = {
    (side, method.kind, method.name): method
    for method in METHODS
    for side in (("agent", "client") if method.served_by == "both" else (method.served_by,))
}


def request(side: Side, name: str) -> Method | None:
    """Return the request with this name that the side serves."""
    return _BY_SIDE.get((side, "request", name))


def notification(side: Side, name: str) -> Method | None:
    """Return the notification with this name that the side handles."""
    return _BY_SIDE.get((side, "notification", name))


def check_extension_name(name: str) -> None:
    """Raise UsageError unless the name is that of an extension method."""
    if not name.startswith("_"):
        raise UsageError(f"{name!r} is not an extension method; use a name such as `_vendor/name`")


def served_by(side: Side) -> Iterator[Method]:
    """Yield every method that the side serves, in the order of the table."""
    return (method for (method_side, _, _), method in _BY_SIDE.items() if method_side == side)


# Method names that older or other peers use.


class Alias(NamedTuple):
    """The name `sent` arrives at `side` as `kind` and is served like `method`.

    `session/set_model` is served by `session/set_config_option`: its parameters are rewritten to the option
    `model`. An agent without an option of that id uses its option of category `model`. A `session/cancel`
    request is executed and answered with `{}`.
    """

    sent: str
    method: str
    side: Side
    kind: Kind
    row: int


ALIASES: Final = (
    Alias("request_permission", "session/request_permission", "client", "request", 21),
    Alias("session/cancel", "session/cancel", "agent", "request", 30),
    Alias("sessions/list", "session/list", "agent", "request", 43),
    Alias("config/set", "session/set_config_option", "agent", "request", 44),
    Alias("session/set_model", "session/set_config_option", "agent", "request", 201),
    Alias("session/stop", "session/close", "agent", "request", 202),
    Alias("session/elicitation", "elicitation/create", "client", "request", 203),
    Alias("session/elicitation/complete", "elicitation/complete", "client", "notification", 203),
    Alias("session/cancelled", "session/cancel", "agent", "notification", 206),
    Alias("_proxy/initialize", "proxy/initialize", "proxy", "request", 208),
    Alias("_proxy/successor", "proxy/successor", "proxy", "request", 208),
    Alias("_proxy/successor", "proxy/successor", "proxy", "notification", 208),
)

METHOD_ALIASES: Final[Mapping[str, str]] = {
    alias.sent: alias.method for alias in ALIASES if alias.sent != alias.method
}


def aliases(side: Side, kind: Kind) -> tuple[Alias, ...]:
    """Return the additional names that a tolerant peer serves on this side."""
    return tuple(alias for alias in ALIASES if alias.side == side and alias.kind == kind)
