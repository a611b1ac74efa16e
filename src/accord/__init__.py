"""Accord: the Agent Client Protocol (ACP) for Python, for agents and clients.

The names below are what most programs need. They are imported on first use, so that an agent never loads the
client. The first one loads asyncio without modules that it rarely needs, unless it is loaded already.
The packages (`accord.agent`, `accord.client`, `accord.schema`, ...) have more.
"""

from typing import TYPE_CHECKING

from accord.lazy_names import LazyGetattr, import_asyncio, lazy_names

if TYPE_CHECKING:
    from accord.agent import (
        Agent,
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
        AgentEnded,
        ClientEvent,
        ClientHandlers,
        ClientOptions,
        ClientSession,
        PermissionRequest,
        RemoteAgent,
        RestartPolicy,
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
        Killed,
        NeverStarted,
        NotOffered,
        RequestTimeout,
        RpcError,
        TurnSilent,
        UsageError,
    )
    from accord.frontend.policy_handler import by_policy
    from accord.policy import Policy, Rule, Rules
    from accord.schema import (
        AgentMessageChunk,
        AgentThoughtChunk,
        Notice,
        TextContent,
        UsageUpdate,
        UserMessageChunk,
    )
    from accord.session import (
        MessageChanged,
        PermissionAnswered,
        PermissionAsked,
        PlanChanged,
        SessionState,
        ToolCallChanged,
        TurnEnded,
        TurnStarted,
    )
    from accord.workspace import LocalWorkspace, Workspace

__version__ = "0.1.0"

__all__ = [
    "AccordError", "Agent", "AgentEnded", "AgentFeatures", "AgentMessageChunk", "AgentOptions",
    "AgentSession", "AgentThoughtChunk", "AuthRequired", "BadAnswer", "ClientEvent", "ClientHandlers",
    "ClientOptions", "ClientRequest", "ClientSession", "ConnectionClosed", "Crashed", "HandshakeFailed",
    "Killed", "LocalWorkspace", "MessageChanged", "NeverStarted", "NotOffered", "Notice", "PermissionAnswer",
    "PermissionAnswered", "PermissionAsked", "PermissionRequest", "PlanChanged", "Policy", "RemoteAgent",
    "RequestTimeout", "RestartPolicy", "RpcError", "Rule", "Rules", "SessionState", "TextContent",
    "TimeLimits", "ToolCallChanged", "ToolCallScope", "Turn", "TurnEnded", "TurnResult", "TurnSilent",
    "TurnStarted", "UsageError", "UsageUpdate", "UserMessageChunk", "Workspace", "__version__", "allow_all",
    "allow_reads", "by_policy", "connect", "connect_transport", "local_workspace", "reject_all",
    "run_in_terminal", "unknown_session",
]  # fmt: skip

__getattr__: LazyGetattr = lazy_names(
    __name__,
    {
        "accord.agent": (
            "Agent AgentFeatures AgentOptions AgentSession ClientRequest PermissionAnswer ToolCallScope "
            "Turn unknown_session"
        ),
        "accord.client": (
            "AgentEnded ClientEvent ClientHandlers ClientOptions ClientSession PermissionRequest "
            "RemoteAgent RestartPolicy TimeLimits TurnResult allow_all allow_reads connect "
            "connect_transport local_workspace reject_all run_in_terminal"
        ),
        "accord.errors": (
            "AccordError AuthRequired BadAnswer ConnectionClosed Crashed HandshakeFailed Killed "
            "NeverStarted NotOffered RequestTimeout RpcError TurnSilent UsageError"
        ),
        "accord.frontend.policy_handler": "by_policy",
        "accord.policy": "Policy Rule Rules",
        "accord.schema": (
            "AgentMessageChunk AgentThoughtChunk Notice TextContent UsageUpdate UserMessageChunk"
        ),
        "accord.session": (
            "MessageChanged PermissionAnswered PermissionAsked PlanChanged SessionState ToolCallChanged "
            "TurnEnded TurnStarted"
        ),
        "accord.workspace": "LocalWorkspace Workspace",
    },
    import_asyncio,
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
