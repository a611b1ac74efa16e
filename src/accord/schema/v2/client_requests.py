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
from accord.schema.v2.content import AbsolutePath, ToolCallUpdateV2

# The message types of this module, which `accord.schema.v2` exports.
__all__ = [
    "CancelRequestNotificationV2", "CancelledPermissionOutcome", "CommandPermissionSubject",
    "CreateElicitationRequestV2", "ElicitationFormModeV2", "ElicitationPropertySchemaV2",
    "ElicitationRequestScopeV2", "ElicitationSchemaV2", "ElicitationUrlModeV2", "PermissionOptionKindV2",
    "PermissionOptionV2", "RequestIdV2", "RequestPermissionOutcomeV2", "RequestPermissionRequestV2",
    "RequestPermissionResponseV2", "RequestPermissionSubject", "ScopedElicitationV2", "StringFormatV2",
    "StringPropertySchemaV2", "ToolCallPermissionSubject",
]  # fmt: skip


RequestIdV2: TypeAlias = Int64 | str
"""Returned exactly as it was sent. Null is not allowed."""


class CancelRequestNotificationV2(Object):
    """The sender of a request cancels it. The request is still answered, exactly once."""

    request_id: RequestIdV2


# Permission requests.

PermissionOptionKindV2: TypeAlias = Annotated[
    str, KnownValues("allow_once", "allow_always", "reject_once", "reject_always")
]
"""A hint for how to present an option. The id is what was decided."""


class PermissionOptionV2(Object):
    """One answer that the user may give."""

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKindV2


class ToolCallPermissionSubject(Object, tag_field="type", tag="tool_call"):
    """The tool call that waits for permission. Also an update of that call."""

    tool_call: ToolCallUpdateV2


class CommandPermissionSubject(Object, tag_field="type", tag="command"):
    """The command that waits for permission. The client does not run it."""

    command: str
    cwd: AbsolutePath
    tool_call_id: Opt[ToolCallId | None] = UNSET
    terminal_id: Opt[TerminalId | None] = UNSET


RequestPermissionSubject: TypeAlias = Open[ToolCallPermissionSubject | CommandPermissionSubject]
"""What the permission is for."""


class RequestPermissionRequestV2(Object):
    """Ask the user for permission. The agent waits for the answer before it acts."""

    session_id: SessionId
    title: str
    options: list[PermissionOptionV2]
    description: Opt[str | None] = UNSET
    subject: Strict[RequestPermissionSubject | None] = UNSET


class CancelledPermissionOutcome(Object, tag_field="outcome", tag="cancelled"):
    """The question was canceled before a decision. Counts as a refusal."""


RequestPermissionOutcomeV2: TypeAlias = Open[CancelledPermissionOutcome | SelectedPermissionOutcome]
"""The decision of the user. An unknown outcome is never an approval."""


class RequestPermissionResponseV2(Object):
    """The user's answer."""

    outcome: RequestPermissionOutcomeV2


# Elicitation.

StringFormatV2: TypeAlias = Annotated[str, KnownValues("email", "uri", "date", "date-time")]
"""The format of a text in a form."""


class StringPropertySchemaV2(Object, tag_field="type", tag="string"):
    """A text field, or a choice of one value if `enum` or `one_of` lists values."""

    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET
    min_length: Strict[Uint32 | None] = UNSET
    max_length: Strict[Uint32 | None] = UNSET
    pattern: Strict[str | None] = UNSET
    format: Strict[StringFormatV2 | None] = UNSET
    default: Opt[str | None] = UNSET
    enum: Strict[list[str] | None] = UNSET
    one_of: Strict[list[EnumOption] | None] = UNSET


ElicitationPropertySchemaV2: TypeAlias = Open[
    StringPropertySchemaV2
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
]
"""The type of a field of a form."""


class ElicitationSchemaV2(Object):
    """A flat form: its fields by name, and which of them must be filled in."""

    type: ElicitationSchemaType
    properties: dict[str, ElicitationPropertySchemaV2]
    required: Strict[list[str] | None] = UNSET
    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET


class ElicitationRequestScopeV2(Record):
    """The question belongs to a request of the client that is still open, such as signing in."""

    request_id: RequestIdV2


class ScopedElicitationV2(Object):
    """The members of both modes: the message, and the session or request it belongs to (one is required)."""

    message: str
    session_id: Strict[SessionId] = UNSET
    tool_call_id: Opt[ToolCallId | None] = UNSET
    request_id: Strict[RequestIdV2] = UNSET

    def __post_init__(self) -> None:
        if self.session_id is UNSET and self.request_id is UNSET:
            raise ValueError("an elicitation needs sessionId or requestId")


class ElicitationFormModeV2(ScopedElicitationV2, tag_field="mode", tag="form", kw_only=True):
    """Ask with a form. Never for secrets, and only if the client supports forms."""

    requested_schema: ElicitationSchemaV2


class ElicitationUrlModeV2(ScopedElicitationV2, tag_field="mode", tag="url", kw_only=True):
    """Ask with a web page. Only if the client opens URLs."""

    elicitation_id: ElicitationId
    url: str


CreateElicitationRequestV2: TypeAlias = Annotated[
    Open[ElicitationFormModeV2 | ElicitationUrlModeV2], RequiredMembers(ScopedElicitationV2)
]
"""Asks the user for the values of a form, or to open an address."""
