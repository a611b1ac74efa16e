"""Elicitation: the agent asks the user something, by a form or by a web page."""

from typing import Annotated, Literal, TypeAlias

from .base import UNSET, Object, Record
from .ids import ElicitationId, SessionId, ToolCallId
from .marks import (
    BY_TAG,
    Choice,
    Default,
    Double,
    Format,
    Int64,
    Items,
    Least,
    Open,
    Opt,
    Strict,
    Uint32,
    Uint64,
)
from .rpc import RequestId

StringFormat: TypeAlias = Literal["email", "uri", "date", "date-time"]


class EnumOption(Object):
    """A value to choose, with the words shown for it."""

    const: str
    title: str
    description: Opt[str | None] = UNSET


class StringPropertySchema(Object, tag_field="type", tag="string"):
    """A text field, or a choice of one where `enum` or `one_of` lists values."""

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

ElicitationSchemaType: TypeAlias = Literal["object"]


class ElicitationSchema(Object):
    """A flat form: its fields by name, and which of them must be filled in."""

    type: Annotated[Opt[ElicitationSchemaType], Default("object")] = UNSET
    properties: Annotated[Strict[dict[str, ElicitationPropertySchema]], Default({})] = UNSET
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
    """What both modes share: the words shown, and the session or request they belong to (one is needed)."""

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
    """Ask by a form. Never for secrets, and only if the client shows forms."""

    requested_schema: ElicitationSchema


class ElicitationUrlMode(ScopedElicitation, tag_field="mode", tag="url", kw_only=True):
    """Ask by a web page. Only if the client opens addresses."""

    elicitation_id: ElicitationId
    url: str


CreateElicitationRequest: TypeAlias = Annotated[
    Open[ElicitationFormMode | ElicitationUrlMode], Least(ScopedElicitation)
]

ElicitationContentValue: TypeAlias = str | Int64 | Annotated[float, Format("double")] | bool | list[str]


class ElicitationAcceptAction(Object, tag_field="action", tag="accept"):
    """The user filled in the form, or agreed to open the page."""

    content: Strict[dict[str, ElicitationContentValue] | None] = UNSET


class ElicitationDeclineAction(Object, tag_field="action", tag="decline"):
    """The user said no."""


class ElicitationCancelAction(Object, tag_field="action", tag="cancel"):
    """The user went away without an answer."""


CreateElicitationResponse: TypeAlias = Open[
    ElicitationAcceptAction | ElicitationDeclineAction | ElicitationCancelAction
]


class CompleteElicitationNotification(Object):
    """What the user did outside is done. Once at most, after the request for that address was accepted."""

    elicitation_id: ElicitationId
