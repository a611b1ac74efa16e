"""The names things go by on the wire. All are opaque strings: compare them, never take them apart."""

from typing import TypeAlias

from .marks import Unstable

SessionId: TypeAlias = str
MessageId: TypeAlias = str
ToolCallId: TypeAlias = str
TerminalId: TypeAlias = str
PermissionOptionId: TypeAlias = str
SessionModeId: TypeAlias = str
SessionConfigId: TypeAlias = str
SessionConfigValueId: TypeAlias = str
SessionConfigGroupId: TypeAlias = str
AuthMethodId: TypeAlias = str
ElicitationId: TypeAlias = str
CompactionId: TypeAlias = str
PlanId: TypeAlias = Unstable[str]
ProviderId: TypeAlias = Unstable[str]
McpServerAcpId: TypeAlias = Unstable[str]
McpRequestId: TypeAlias = Unstable[str]
