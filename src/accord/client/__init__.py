"""Drive an agent: start it, open sessions, prompt them, and serve what it asks for."""

from accord.client.answer import Answer
from accord.client.authstatus import AuthStatus
from accord.client.connect import Connecting, connect, connect_transport
from accord.client.elicitation import DECLINED, Address, Form
from accord.client.events import (
    AgentEnded,
    AgentEvent,
    AgentRestarted,
    AuthStatusChanged,
    ClientEvent,
    SessionLost,
    SessionReattached,
)
from accord.client.handlers import ClientHandlers, local_workspace
from accord.client.limits import TimeLimits
from accord.client.login import Launch, run_in_terminal
from accord.client.mcp import McpCall, McpMethodFailed
from accord.client.options import ClientOptions, DialectReport, Features
from accord.client.permissions import (
    PermissionRequest,
    allow_all,
    allow_reads,
    reject_all,
)
from accord.client.remote import RemoteAgent
from accord.client.restart import RestartPolicy
from accord.client.session import ClientSession
from accord.client.terminals import TerminalPrinted, TerminalView

__all__ = [
    "DECLINED",
    "Address",
    "AgentEnded",
    "AgentEvent",
    "AgentRestarted",
    "Answer",
    "AuthStatus",
    "AuthStatusChanged",
    "ClientEvent",
    "ClientHandlers",
    "ClientOptions",
    "ClientSession",
    "Connecting",
    "DialectReport",
    "Features",
    "Form",
    "Launch",
    "McpCall",
    "McpMethodFailed",
    "PermissionRequest",
    "RemoteAgent",
    "RestartPolicy",
    "SessionLost",
    "SessionReattached",
    "TerminalPrinted",
    "TerminalView",
    "TimeLimits",
    "allow_all",
    "allow_reads",
    "connect",
    "connect_transport",
    "local_workspace",
    "reject_all",
    "run_in_terminal",
]
