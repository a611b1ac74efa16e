"""Requests that an agent sends to its client: permission, files, terminals, elicitation.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from accord.schema.base import (
    BY_TAG,
    UNSET,
    Choice,
    DefaultValue,
    Double,
    ElicitationId,
    Int64,
    Items,
    NumberFormat,
    Object,
    Open,
    Opt,
    OrEmpty,
    PermissionOptionId,
    Record,
    RequestId,
    RequiredMembers,
    SessionId,
    Strict,
    TerminalId,
    ToolCallId,
    Uint32,
    Uint64,
)
from accord.schema.content import ToolCallUpdate

# The message types of this module, which `accord.schema` exports.
__all__ = [
    "BooleanPropertySchema", "CancelledOutcome", "CompleteElicitationNotification",
    "CreateElicitationRequest", "CreateElicitationResponse", "CreateTerminalRequest",
    "CreateTerminalResponse", "ElicitationAcceptAction", "ElicitationCancelAction", "ElicitationContentValue",
    "ElicitationDeclineAction", "ElicitationFormMode", "ElicitationPropertySchema", "ElicitationRequestScope",
    "ElicitationSchema", "ElicitationSchemaType", "ElicitationSessionScope", "ElicitationUrlMode",
    "EnumOption", "EnvVariable", "IntegerPropertySchema", "KillTerminalRequest", "KillTerminalResponse",
    "MultiSelectItems", "MultiSelectPropertySchema", "NumberPropertySchema", "PermissionOption",
    "PermissionOptionKind", "ReadTextFileRequest", "ReadTextFileResponse", "ReleaseTerminalRequest",
    "ReleaseTerminalResponse", "RequestPermissionOutcome", "RequestPermissionRequest",
    "RequestPermissionResponse", "ScopedElicitation", "SelectedPermissionOutcome", "StringFormat",
    "StringMultiSelectItems", "StringPropertySchema", "TerminalExitStatus", "TerminalOutputRequest",
    "TerminalOutputResponse", "TitledMultiSelectItems", "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse", "WriteTextFileRequest", "WriteTextFileResponse",
]  # fmt: skip


# Permission requests.

PermissionOptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
"""A hint for how to present an option. The id is what was decided."""


class PermissionOption(Object):
    """One answer that the user may give."""

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind


class RequestPermissionRequest(Object):
    """Ask whether a tool call may run. The agent waits for the answer before it acts."""

    session_id: SessionId
    tool_call: ToolCallUpdate
    options: list[PermissionOption]


class CancelledOutcome(Record, tag_field="outcome", tag="cancelled"):
    """The turn was canceled before a decision. Counts as a refusal."""


class SelectedPermissionOutcome(Object, tag_field="outcome", tag="selected"):
    """One of the offered options was chosen."""

    option_id: PermissionOptionId


RequestPermissionOutcome: TypeAlias = CancelledOutcome | SelectedPermissionOutcome
"""The decision of the user: an option, or canceled."""


class RequestPermissionResponse(Object):
    """The user's answer. An outcome that cannot be read is a refusal."""

    outcome: RequestPermissionOutcome


# Text files of the client, including unsaved editor buffers. Paths are absolute.


class ReadTextFileRequest(Object):
    """Read a file, from a line (the first is 1) and for a number of lines."""

    session_id: SessionId
    path: str
    line: Strict[Uint32 | None] = UNSET
    limit: Strict[Uint32 | None] = UNSET


class ReadTextFileResponse(Object):
    """The requested text."""

    content: str


class WriteTextFileRequest(Object):
    """Replace the text of a file. Creates the file if it does not exist."""

    session_id: SessionId
    path: str
    content: str


class WriteTextFileResponse(Object):
    """The text is written."""


# Terminals: commands that the client runs for the agent, until they are released.


class EnvVariable(Object):
    """One environment variable."""

    name: str
    value: str


class CreateTerminalRequest(Object):
    """Start a command. The answer comes at once; the command continues to run."""

    session_id: SessionId
    command: str
    args: Strict[OrEmpty[list[str]]] = UNSET
    env: Strict[OrEmpty[list[EnvVariable]]] = UNSET
    cwd: Strict[str | None] = UNSET
    output_byte_limit: Strict[Uint64 | None] = UNSET


class CreateTerminalResponse(Object):
    """The id of the new terminal."""

    terminal_id: TerminalId


class TerminalOutputRequest(Object):
    """Get the output of the command so far. Does not wait."""

    session_id: SessionId
    terminal_id: TerminalId


class TerminalExitStatus(Object):
    """How a command ended: a code, or the signal that ended it."""

    exit_code: Opt[Uint32 | None] = UNSET
    signal: Opt[str | None] = UNSET


class TerminalOutputResponse(Object):
    """The output so far, truncated at its start if it is too long.

    The status is set when the command has ended.
    """

    output: str
    truncated: bool
    exit_status: Opt[TerminalExitStatus | None] = UNSET


class WaitForTerminalExitRequest(Object):
    """Wait until the command has ended."""

    session_id: SessionId
    terminal_id: TerminalId


class WaitForTerminalExitResponse(Object):
    """How the command ended, with the members of `TerminalExitStatus`."""

    exit_code: Opt[Uint32 | None] = UNSET
    signal: Opt[str | None] = UNSET


class KillTerminalRequest(Object):
    """Stop the command. The terminal stays readable and must still be released."""

    session_id: SessionId
    terminal_id: TerminalId


class KillTerminalResponse(Object):
    """The command is being stopped."""


class ReleaseTerminalRequest(Object):
    """Stop the command if it runs, and release the terminal. Its id is invalid afterwards."""

    session_id: SessionId
    terminal_id: TerminalId


class ReleaseTerminalResponse(Object):
    """The terminal is released."""


# Elicitation: the agent asks the user by a form or by a web page.

StringFormat: TypeAlias = Literal["email", "uri", "date", "date-time"]
"""The format of a text in a form."""


class EnumOption(Object):
    """A value to choose, with its label."""

    const: str
    title: str
    description: Opt[str | None] = UNSET


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


class NumberPropertySchema(Object, tag_field="type", tag="number"):
    """A number."""

    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET
    minimum: Strict[Double | None] = UNSET
    maximum: Strict[Double | None] = UNSET
    default: Opt[Double | None] = UNSET


class IntegerPropertySchema(Object, tag_field="type", tag="integer"):
    """A whole number."""

    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET
    minimum: Strict[Int64 | None] = UNSET
    maximum: Strict[Int64 | None] = UNSET
    default: Opt[Int64 | None] = UNSET


class BooleanPropertySchema(Object, tag_field="type", tag="boolean"):
    """A yes or no."""

    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET
    default: Opt[bool | None] = UNSET


class StringMultiSelectItems(Object, tag_field="type", tag="string"):
    """The values of a choice of several, shown as they are."""

    enum: list[str]


class TitledMultiSelectItems(Object):
    """The values of a choice of several, each with its title."""

    any_of: list[EnumOption]


MultiSelectItems: TypeAlias = Open[Choice[StringMultiSelectItems | TitledMultiSelectItems, BY_TAG]]
"""The values of a field with several choices."""


class MultiSelectPropertySchema(Object, tag_field="type", tag="array"):
    """A choice of several."""

    items: MultiSelectItems
    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET
    min_items: Strict[Uint64 | None] = UNSET
    max_items: Strict[Uint64 | None] = UNSET
    default: Opt[Items[str] | None] = UNSET


ElicitationPropertySchema: TypeAlias = Open[
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
]
"""The type of a field of a form."""

ElicitationSchemaType: TypeAlias = Literal["object"]
"""The type of the schema of a form."""


class ElicitationSchema(Object):
    """A flat form: its fields by name, and which of them must be filled in."""

    type: Annotated[Opt[ElicitationSchemaType], DefaultValue("object")] = UNSET
    properties: Annotated[Strict[dict[str, ElicitationPropertySchema]], DefaultValue({})] = UNSET
    required: Strict[list[str] | None] = UNSET
    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET


class ElicitationSessionScope(Record):
    """The question belongs to a session, possibly to one of its tool calls."""

    session_id: SessionId
    tool_call_id: Opt[ToolCallId | None] = UNSET


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

    @property
    def scope(self) -> ElicitationSessionScope | ElicitationRequestScope:
        """What the question belongs to."""
        if self.session_id is not UNSET:
            return ElicitationSessionScope(self.session_id, self.tool_call_id)
        assert self.request_id is not UNSET
        return ElicitationRequestScope(self.request_id)


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

ElicitationContentValue: TypeAlias = str | Int64 | Annotated[float, NumberFormat("double")] | bool | list[str]
"""A value of a form."""


class ElicitationAcceptAction(Object, tag_field="action", tag="accept"):
    """The user filled in the form, or agreed to open the page."""

    content: Strict[dict[str, ElicitationContentValue] | None] = UNSET


class ElicitationDeclineAction(Object, tag_field="action", tag="decline"):
    """The user declined."""


class ElicitationCancelAction(Object, tag_field="action", tag="cancel"):
    """The user closed the question without an answer."""


CreateElicitationResponse: TypeAlias = Open[
    ElicitationAcceptAction | ElicitationDeclineAction | ElicitationCancelAction
]
"""The answer of the user: accepted with values, declined or canceled."""


class CompleteElicitationNotification(Object):
    """The user has finished on the web page. Sent at most once, after the request was accepted."""

    elicitation_id: ElicitationId
