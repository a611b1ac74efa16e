"""Drive an agent: start it, open sessions, prompt them, and serve what it asks for.

Names are imported on first use: threads that import different parts never wait for each other.
"""

from typing import TYPE_CHECKING

from accord.lazy_names import LazyGetattr, lazy_names

if TYPE_CHECKING:
    from accord.client.client_events import (
        AgentEnded,
        AgentEvent,
        AgentRestarted,
        AuthStatus,
        AuthStatusChanged,
        ClientEvent,
        SessionLost,
        SessionReattached,
        TerminalPrinted,
        TerminalView,
    )
    from accord.client.client_options import (
        ClientFeatures,
        ClientOptions,
        DialectReport,
        RestartPolicy,
        TimeLimits,
    )
    from accord.client.client_session import ClientSession
    from accord.client.elicitation_forms import DECLINED, ElicitationForm, ElicitationUrl, FormAnswer
    from accord.client.event_stream import EventStream
    from accord.client.handlers import (
        AgentCommand,
        ClientHandlers,
        McpCall,
        McpMethodFailed,
        local_workspace,
        run_in_terminal,
    )
    from accord.client.permissions import PermissionRequest, allow_all, allow_reads, reject_all
    from accord.client.prompt_turn import TurnResult
    from accord.client.remote_agent import PendingAgent, RemoteAgent, connect, connect_transport
    from accord.client.session_subscription import SessionListChange, SessionSubscription

__all__ = [
    "DECLINED", "AgentCommand", "AgentEnded", "AgentEvent", "AgentRestarted", "AuthStatus",
    "AuthStatusChanged", "ClientEvent", "ClientFeatures", "ClientHandlers", "ClientOptions", "ClientSession",
    "DialectReport", "ElicitationForm", "ElicitationUrl", "EventStream", "FormAnswer", "McpCall",
    "McpMethodFailed", "PendingAgent", "PermissionRequest", "RemoteAgent", "RestartPolicy",
    "SessionListChange", "SessionLost", "SessionReattached", "SessionSubscription", "TerminalPrinted",
    "TerminalView", "TimeLimits", "TurnResult", "allow_all", "allow_reads", "connect", "connect_transport",
    "local_workspace", "reject_all", "run_in_terminal",
]  # fmt: skip

__getattr__: LazyGetattr = lazy_names(
    __name__,
    {
        "accord.client.client_events": (
            "AgentEnded AgentEvent AgentRestarted AuthStatus AuthStatusChanged ClientEvent SessionLost "
            "SessionReattached TerminalPrinted TerminalView"
        ),
        "accord.client.client_options": "ClientFeatures ClientOptions DialectReport RestartPolicy TimeLimits",
        "accord.client.client_session": "ClientSession",
        "accord.client.elicitation_forms": "DECLINED ElicitationForm ElicitationUrl FormAnswer",
        "accord.client.event_stream": "EventStream",
        "accord.client.handlers": (
            "AgentCommand ClientHandlers McpCall McpMethodFailed local_workspace run_in_terminal"
        ),
        "accord.client.permissions": "PermissionRequest allow_all allow_reads reject_all",
        "accord.client.prompt_turn": "TurnResult",
        "accord.client.remote_agent": "PendingAgent RemoteAgent connect connect_transport",
        "accord.client.session_subscription": "SessionListChange SessionSubscription",
    },
)
