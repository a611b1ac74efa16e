"""Accord: the Agent Client Protocol (ACP) for Python, both sides of it.

Everything public is here by name and imported on first use, so that an agent never loads the client's side.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from accord.client import (
        DECLINED as DECLINED,
    )
    from accord.client import (
        Address as Address,
    )
    from accord.client import (
        AgentEnded as AgentEnded,
    )
    from accord.client import (
        AgentRestarted as AgentRestarted,
    )
    from accord.client import (
        Answer as Answer,
    )
    from accord.client import (
        AuthStatusChanged as AuthStatusChanged,
    )
    from accord.client import (
        ClientEvent as ClientEvent,
    )
    from accord.client import (
        ClientHandlers as ClientHandlers,
    )
    from accord.client import (
        ClientOptions as ClientOptions,
    )
    from accord.client import (
        ClientSession as ClientSession,
    )
    from accord.client import (
        DialectReport as DialectReport,
    )
    from accord.client import (
        Features as Features,
    )
    from accord.client import (
        Form as Form,
    )
    from accord.client import (
        Launch as Launch,
    )
    from accord.client import (
        PermissionRequest as PermissionRequest,
    )
    from accord.client import (
        RemoteAgent as RemoteAgent,
    )
    from accord.client import (
        RestartPolicy as RestartPolicy,
    )
    from accord.client import (
        SessionLost as SessionLost,
    )
    from accord.client import (
        SessionReattached as SessionReattached,
    )
    from accord.client import (
        TerminalPrinted as TerminalPrinted,
    )
    from accord.client import (
        TimeLimits as TimeLimits,
    )
    from accord.client import (
        allow_all as allow_all,
    )
    from accord.client import (
        allow_reads as allow_reads,
    )
    from accord.client import (
        connect as connect,
    )
    from accord.client import (
        connect_transport as connect_transport,
    )
    from accord.client import (
        local_workspace as local_workspace,
    )
    from accord.client import (
        reject_all as reject_all,
    )
    from accord.client import (
        run_in_terminal as run_in_terminal,
    )
    from accord.errors import (
        AccordError as AccordError,
    )
    from accord.errors import (
        AuthRequired as AuthRequired,
    )
    from accord.errors import (
        BadAnswer as BadAnswer,
    )
    from accord.errors import (
        ConnectionClosed as ConnectionClosed,
    )
    from accord.errors import (
        Crashed as Crashed,
    )
    from accord.errors import (
        HandshakeFailed as HandshakeFailed,
    )
    from accord.errors import (
        InternalError as InternalError,
    )
    from accord.errors import (
        InvalidParams as InvalidParams,
    )
    from accord.errors import (
        InvalidRequest as InvalidRequest,
    )
    from accord.errors import (
        Killed as Killed,
    )
    from accord.errors import (
        LimitReached as LimitReached,
    )
    from accord.errors import (
        MethodNotFound as MethodNotFound,
    )
    from accord.errors import (
        MissingExtra as MissingExtra,
    )
    from accord.errors import (
        NeverStarted as NeverStarted,
    )
    from accord.errors import (
        NotFound as NotFound,
    )
    from accord.errors import (
        NotOffered as NotOffered,
    )
    from accord.errors import (
        ParseError as ParseError,
    )
    from accord.errors import (
        RequestCancelled as RequestCancelled,
    )
    from accord.errors import (
        RequestTimeout as RequestTimeout,
    )
    from accord.errors import (
        RpcError as RpcError,
    )
    from accord.errors import (
        TurnSilent as TurnSilent,
    )
    from accord.errors import (
        UsageError as UsageError,
    )
    from accord.schema import (
        UNSET as UNSET,
    )
    from accord.schema import (
        AgentMessageChunk as AgentMessageChunk,
    )
    from accord.schema import (
        AgentThoughtChunk as AgentThoughtChunk,
    )
    from accord.schema import (
        AvailableCommandsUpdate as AvailableCommandsUpdate,
    )
    from accord.schema import (
        CompactionUpdate as CompactionUpdate,
    )
    from accord.schema import (
        ConfigOptionUpdate as ConfigOptionUpdate,
    )
    from accord.schema import (
        Notice as Notice,
    )
    from accord.schema import (
        SessionInfoUpdate as SessionInfoUpdate,
    )
    from accord.schema import (
        TextContent as TextContent,
    )
    from accord.schema import (
        Unknown as Unknown,
    )
    from accord.schema import (
        UsageUpdate as UsageUpdate,
    )
    from accord.schema import (
        UserMessageChunk as UserMessageChunk,
    )
    from accord.session import (
        Event as Event,
    )
    from accord.session import (
        MessageChanged as MessageChanged,
    )
    from accord.session import (
        ModeChanged as ModeChanged,
    )
    from accord.session import (
        PermissionAnswered as PermissionAnswered,
    )
    from accord.session import (
        PermissionAsked as PermissionAsked,
    )
    from accord.session import (
        PlanChanged as PlanChanged,
    )
    from accord.session import (
        SessionState as SessionState,
    )
    from accord.session import (
        ToolCallChanged as ToolCallChanged,
    )
    from accord.session import (
        TurnCancelling as TurnCancelling,
    )
    from accord.session import (
        TurnEnded as TurnEnded,
    )
    from accord.session import (
        TurnStarted as TurnStarted,
    )
    from accord.session import (
        text_of as text_of,
    )
    from accord.workspace.workspace import LocalWorkspace as LocalWorkspace
    from accord.workspace.workspace import Workspace as Workspace

_EXPORTS = {
    "accord.client": """
        DECLINED Address AgentEnded AgentRestarted Answer AuthStatusChanged ClientEvent ClientHandlers ClientOptions
        ClientSession DialectReport Features Form Launch PermissionRequest RemoteAgent RestartPolicy SessionLost
        SessionReattached TerminalPrinted TimeLimits allow_all allow_reads connect connect_transport local_workspace
        reject_all run_in_terminal""",
    "accord.errors": """
        AccordError AuthRequired BadAnswer ConnectionClosed Crashed HandshakeFailed InternalError InvalidParams
        InvalidRequest Killed LimitReached MethodNotFound MissingExtra NeverStarted NotFound NotOffered ParseError
        RequestCancelled RequestTimeout RpcError TurnSilent UsageError""",
    "accord.schema": """
        UNSET AgentMessageChunk AgentThoughtChunk AvailableCommandsUpdate CompactionUpdate ConfigOptionUpdate Notice
        SessionInfoUpdate TextContent Unknown UsageUpdate UserMessageChunk""",
    "accord.session": """
        Event MessageChanged ModeChanged PermissionAnswered PermissionAsked PlanChanged SessionState ToolCallChanged
        TurnCancelling TurnEnded TurnStarted text_of""",
    "accord.workspace.workspace": "LocalWorkspace Workspace",
}

_HOME = {name: room for room, names in _EXPORTS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    room = _HOME.get(name)
    if room is None:
        raise AttributeError(f"accord has no {name!r}")
    value = globals()[name] = getattr(import_module(room), name)
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOME))
