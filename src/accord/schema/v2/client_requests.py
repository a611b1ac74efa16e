"""Requests of an agent to its client in ACP version 2: permission and elicitation. Imported on first use."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from accord.schema.base import (
    UNSET,
    ElicitationId,
    Int64,
    KnownValues,
    Object,
    Open,
    Opt,
    PermissionOptionId,
    Record,
    RequiredMembers,
    SessionId,
    Strict,
    TerminalId,
    ToolCallId,
    Uint32,
)
from accord.schema.client_requests import (
    BooleanPropertySchema,
    ElicitationSchemaType,
    EnumOption,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    SelectedPermissionOutcome,
)
from accord.schema.v2.content import AbsolutePath, ToolCallUpdate

# The message types of this module, which `accord.schema.v2` exports.
__all__ = [
    "CancelRequestNotification", "CancelledPermissionOutcome", "CommandPermissionSubject",
    "CreateElicitationRequest", "ElicitationFormMode", "ElicitationPropertySchema", "ElicitationRequestScope",
    "ElicitationSchema", "ElicitationUrlMode", "PermissionOption", "PermissionOptionKind", "RequestId",
    "RequestPermissionOutcome", "RequestPermissionRequest", "RequestPermissionResponse",
    "RequestPermissionSubject", "ScopedElicitation", "StringFormat", "StringPropertySchema",
    "ToolCallPermissionSubject",
]  # fmt: skip


RequestId: TypeAlias = Int64 | str
"""Returned exactly as it was sent. Null is not allowed."""


class CancelRequestNotification(Object):
    """The sender of a request cancels it. The request is still answered, exactly once."""

    request_id: RequestId


# Permission requests.

PermissionOptionKind: TypeAlias = Annotated[
    str, KnownValues("allow_once", "allow_always", "reject_once", "reject_always")
]
"""A hint for how to present an option. The id is what was decided."""


class PermissionOption(Object):
    """One answer that the user may give."""

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind


class ToolCallPermissionSubject(Object, tag_field="type", tag="tool_call"):
    """The tool call that waits for permission. Also an update of that call."""

    tool_call: ToolCallUpdate


class CommandPermissionSubject(Object, tag_field="type", tag="command"):
    """The command that waits for permission. The client does not run it."""

    command: str
    cwd: AbsolutePath
    tool_call_id: Opt[ToolCallId | None] = UNSET
    terminal_id: Opt[TerminalId | None] = UNSET


RequestPermissionSubject: TypeAlias = Open[ToolCallPermissionSubject | CommandPermissionSubject]
"""What the permission is for."""


class RequestPermissionRequest(Object):
    """Ask the user for permission. The agent waits for the answer before it acts."""

    session_id: SessionId
    title: str
    options: list[PermissionOption]
    description: Opt[str | None] = UNSET
    subject: Strict[RequestPermissionSubject | None] = UNSET


class CancelledPermissionOutcome(Object, tag_field="outcome", tag="cancelled"):
    """The question was canceled before a decision. Counts as a refusal."""


RequestPermissionOutcome: TypeAlias = Open[CancelledPermissionOutcome | SelectedPermissionOutcome]
"""The decision of the user. An unknown outcome is never an approval."""


class RequestPermissionResponse(Object):
    """The user's answer."""

    outcome: RequestPermissionOutcome


# Elicitation.

StringFormat: TypeAlias = Annotated[str, KnownValues("email", "uri", "date", "date-time")]
"""The format of a text in a form."""


class StringPropertySchema(Object, tag_field="type", tag="string"):
    """A text field, or a choice of one value if `enum` or `one_of` lists values."""

    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET
    min_length: Strict[Uint32 | None] = UNSET
    max_length: Strict[Uint32 | None] = UNSET
    pattern: Strict[str | None] = UNSET
    format: Strict[StringFormat | None] = UNSET
    default: Opt[str | None] = UNSET
    enum: Strict[list[str] | None] = UNSET
    one_of: Strict[list[EnumOption] | None] = UNSET


ElicitationPropertySchema: TypeAlias = Open[
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
]
"""The type of a field of a form."""


class ElicitationSchema(Object):
    """A flat form: its fields by name, and which of them must be filled in."""

    type: ElicitationSchemaType
    properties: dict[str, ElicitationPropertySchema]
    required: Strict[list[str] | None] = UNSET
    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET


class ElicitationRequestScope(Record):
    """The question belongs to a request of the client that is still open, such as signing in."""

    request_id: RequestId


class ScopedElicitation(Object):
    """The members of both modes: the message, and the session or request it belongs to (one is required)."""

    message: str
    session_id: Strict[SessionId] = UNSET
    tool_call_id: Opt[ToolCallId | None] = UNSET
    request_id: Strict[RequestId] = UNSET

    def __post_init__(self) -> None:
        if self.session_id is UNSET and self.request_id is UNSET:
            raise ValueError("an elicitation needs sessionId or requestId")


class ElicitationFormMode(ScopedElicitation, tag_field="mode", tag="form", kw_only=True):
    """Ask with a form. Never for secrets, and only if the client supports forms."""

    requested_schema: ElicitationSchema


class ElicitationUrlMode(ScopedElicitation, tag_field="mode", tag="url", kw_only=True):
    """Ask with a web page. Only if the client opens URLs."""

    elicitation_id: ElicitationId
    url: str


CreateElicitationRequest: TypeAlias = Annotated[
    Open[ElicitationFormMode | ElicitationUrlMode], RequiredMembers(ScopedElicitation)
]
"""Asks the user for the values of a form, or to open an address."""
