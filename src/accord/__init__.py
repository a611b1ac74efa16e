"""Accord: the Agent Client Protocol (ACP) for Python, both sides of it.

Everything public is here by name and imported on first use, so that an agent never loads the client's side.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

__version__ = "0.1.0"

if TYPE_CHECKING:
    from accord.agent import (
        Accepts,
        Agent,
        AgentConnection,
        AgentOptions,
        AgentSession,
        ClientRequest,
        PermissionAnswer,
        ToolCallScope,
        Turn,
        unknown_session,
    )
    from accord.client import (
        DECLINED,
        Address,
        AgentEnded,
        AgentEvent,
        AgentRestarted,
        Answer,
        AuthStatusChanged,
        ClientEvent,
        ClientHandlers,
        ClientOptions,
        ClientSession,
        DialectReport,
        Features,
        Form,
        Launch,
        PermissionRequest,
        RemoteAgent,
        RestartPolicy,
        SessionLost,
        SessionReattached,
        TerminalPrinted,
        TimeLimits,
        allow_all,
        allow_reads,
        connect,
        connect_transport,
        local_workspace,
        reject_all,
        run_in_terminal,
    )
    from accord.errors import (
        AccordError,
        AuthRequired,
        BadAnswer,
        ConnectionClosed,
        Crashed,
        HandshakeFailed,
        InternalError,
        InvalidParams,
        InvalidRequest,
        Killed,
        LimitReached,
        MethodNotFound,
        MissingExtra,
        NeverStarted,
        NotFound,
        NotOffered,
        ParseError,
        RequestCancelled,
        RequestTimeout,
        RpcError,
        SessionInUse,
        StoreError,
        TurnSilent,
        UsageError,
    )
    from accord.schema import (
        UNSET,
        AgentMessageChunk,
        AgentThoughtChunk,
        AvailableCommandsUpdate,
        CompactionUpdate,
        ConfigOptionUpdate,
        Notice,
        SessionInfoUpdate,
        TextContent,
        Unknown,
        UsageUpdate,
        UserMessageChunk,
    )
    from accord.session import (
        Event,
        MessageChanged,
        ModeChanged,
        PermissionAnswered,
        PermissionAsked,
        PlanChanged,
        SessionState,
        ToolCallChanged,
        TurnCancelling,
        TurnEnded,
        TurnStarted,
        text_of,
    )
    from accord.workspace import (
        LocalWorkspace,
        Roots,
        Workspace,
    )

_HOMES: Final = {
    "accord.agent": """
        Accepts Agent AgentConnection AgentOptions AgentSession ClientRequest PermissionAnswer
        ToolCallScope Turn unknown_session""",
    "accord.client": """
        DECLINED Address AgentEnded AgentEvent AgentRestarted Answer AuthStatusChanged ClientEvent
        ClientHandlers ClientOptions ClientSession DialectReport Features Form Launch PermissionRequest
        RemoteAgent RestartPolicy SessionLost SessionReattached TerminalPrinted TimeLimits allow_all
        allow_reads connect connect_transport local_workspace reject_all run_in_terminal""",
    "accord.errors": """
        AccordError AuthRequired BadAnswer ConnectionClosed Crashed HandshakeFailed InternalError
        InvalidParams InvalidRequest Killed LimitReached MethodNotFound MissingExtra NeverStarted
        NotFound NotOffered ParseError RequestCancelled RequestTimeout RpcError SessionInUse
        StoreError TurnSilent UsageError""",
    "accord.schema": """
        UNSET AgentMessageChunk AgentThoughtChunk AvailableCommandsUpdate CompactionUpdate
        ConfigOptionUpdate Notice SessionInfoUpdate TextContent Unknown UsageUpdate UserMessageChunk""",
    "accord.session": """
        Event MessageChanged ModeChanged PermissionAnswered PermissionAsked PlanChanged SessionState
        ToolCallChanged TurnCancelling TurnEnded TurnStarted text_of""",
    "accord.workspace": """
        LocalWorkspace Roots Workspace""",
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "DECLINED",
    "UNSET",
    "Accepts",
    "AccordError",
    "Address",
    "Agent",
    "AgentConnection",
    "AgentEnded",
    "AgentEvent",
    "AgentMessageChunk",
    "AgentOptions",
    "AgentRestarted",
    "AgentSession",
    "AgentThoughtChunk",
    "Answer",
    "AuthRequired",
    "AuthStatusChanged",
    "AvailableCommandsUpdate",
    "BadAnswer",
    "ClientEvent",
    "ClientHandlers",
    "ClientOptions",
    "ClientRequest",
    "ClientSession",
    "CompactionUpdate",
    "ConfigOptionUpdate",
    "ConnectionClosed",
    "Crashed",
    "DialectReport",
    "Event",
    "Features",
    "Form",
    "HandshakeFailed",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "Killed",
    "Launch",
    "LimitReached",
    "LocalWorkspace",
    "MessageChanged",
    "MethodNotFound",
    "MissingExtra",
    "ModeChanged",
    "NeverStarted",
    "NotFound",
    "NotOffered",
    "Notice",
    "ParseError",
    "PermissionAnswer",
    "PermissionAnswered",
    "PermissionAsked",
    "PermissionRequest",
    "PlanChanged",
    "RemoteAgent",
    "RequestCancelled",
    "RequestTimeout",
    "RestartPolicy",
    "Roots",
    "RpcError",
    "SessionInUse",
    "SessionInfoUpdate",
    "SessionLost",
    "SessionReattached",
    "SessionState",
    "StoreError",
    "TerminalPrinted",
    "TextContent",
    "TimeLimits",
    "ToolCallChanged",
    "ToolCallScope",
    "Turn",
    "TurnCancelling",
    "TurnEnded",
    "TurnSilent",
    "TurnStarted",
    "Unknown",
    "UsageError",
    "UsageUpdate",
    "UserMessageChunk",
    "Workspace",
    "__version__",
    "allow_all",
    "allow_reads",
    "connect",
    "connect_transport",
    "local_workspace",
    "reject_all",
    "run_in_terminal",
    "text_of",
    "unknown_session",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
