"""Accord: the Agent Client Protocol (ACP) for Python, both sides of it.

Everything public is here by name and imported on first use, so that an agent never loads the client's side.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

from accord.lazy_names import lazy_names

if TYPE_CHECKING:
    from accord.agent import (
        Agent,
        AgentConnection,
        AgentFeatures,
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
        AgentCommand,
        AgentEnded,
        AgentEvent,
        AgentRestarted,
        AuthStatusChanged,
        ClientEvent,
        ClientFeatures,
        ClientHandlers,
        ClientOptions,
        ClientSession,
        DialectReport,
        ElicitationForm,
        ElicitationUrl,
        PermissionRequest,
        RemoteAgent,
        RestartPolicy,
        SessionLost,
        SessionReattached,
        TerminalPrinted,
        TimeLimits,
        TurnResult,
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
    from accord.workspace import LocalWorkspace, Roots, Workspace


__all__ = [
    "DECLINED",
    "UNSET",
    "AccordError",
    "Agent",
    "AgentCommand",
    "AgentConnection",
    "AgentEnded",
    "AgentEvent",
    "AgentFeatures",
    "AgentMessageChunk",
    "AgentOptions",
    "AgentRestarted",
    "AgentSession",
    "AgentThoughtChunk",
    "AuthRequired",
    "AuthStatusChanged",
    "AvailableCommandsUpdate",
    "BadAnswer",
    "ClientEvent",
    "ClientFeatures",
    "ClientHandlers",
    "ClientOptions",
    "ClientRequest",
    "ClientSession",
    "CompactionUpdate",
    "ConfigOptionUpdate",
    "ConnectionClosed",
    "Crashed",
    "DialectReport",
    "ElicitationForm",
    "ElicitationUrl",
    "Event",
    "HandshakeFailed",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "Killed",
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
    "TurnResult",
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

__getattr__ = lazy_names(
    __name__,
    {
        "accord.agent": (
            "Agent AgentConnection AgentFeatures AgentOptions AgentSession ClientRequest PermissionAnswer "
            "ToolCallScope Turn unknown_session"
        ),
        "accord.client": (
            "AgentCommand AgentEnded AgentEvent AgentRestarted AuthStatusChanged ClientEvent "
            "ClientFeatures ClientHandlers ClientOptions ClientSession DECLINED DialectReport "
            "ElicitationForm ElicitationUrl PermissionRequest RemoteAgent RestartPolicy SessionLost "
            "SessionReattached TerminalPrinted TimeLimits TurnResult allow_all allow_reads connect "
            "connect_transport local_workspace reject_all run_in_terminal"
        ),
        "accord.errors": (
            "AccordError AuthRequired BadAnswer ConnectionClosed Crashed HandshakeFailed InternalError "
            "InvalidParams InvalidRequest Killed LimitReached MethodNotFound MissingExtra NeverStarted "
            "NotFound NotOffered ParseError RequestCancelled RequestTimeout RpcError SessionInUse "
            "StoreError TurnSilent UsageError"
        ),
        "accord.schema": (
            "AgentMessageChunk AgentThoughtChunk AvailableCommandsUpdate CompactionUpdate "
            "ConfigOptionUpdate Notice SessionInfoUpdate TextContent UNSET Unknown UsageUpdate "
            "UserMessageChunk"
        ),
        "accord.session": (
            "Event MessageChanged ModeChanged PermissionAnswered PermissionAsked PlanChanged SessionState "
            "ToolCallChanged TurnCancelling TurnEnded TurnStarted text_of"
        ),
        "accord.workspace": "LocalWorkspace Roots Workspace",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
