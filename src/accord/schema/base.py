"""Base classes of all message types, field annotations, ids, JSON-RPC errors, `Unknown` and `Mismatch`.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias, TypeVar, cast, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

# The names that `accord.schema` exports.
__all__ = [
    "UNSET", "AuthMethodId", "CancelRequestNotification", "CompactionId", "ElicitationId", "Error",
    "ErrorCode", "ExtNotification", "ExtRequest", "ExtResponse", "McpRequestId", "McpServerAcpId",
    "MessageId", "Object", "PermissionOptionId", "PlanId", "ProviderId", "Record", "RequestId",
    "SessionConfigGroupId", "SessionConfigId", "SessionConfigValueId", "SessionId", "SessionModeId",
    "TerminalId", "ToolCallId", "Unknown", "UnsetType",
]  # fmt: skip


class Unknown:
    """A variant that this version does not know.

    `kind` is its tag, `raw` the JSON value. It encodes back to `raw`.
    """

    __slots__ = ("kind", "raw")
    __match_args__ = ("kind", "raw")
    __hash__: ClassVar[None]  # type: ignore[assignment]  # raw is mutable, so __eq__ removes it

    def __init__(self, kind: str, raw: Any) -> None:
        self.kind: str = kind
        self.raw: Any = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and (self.kind, self.raw) == (other.kind, other.raw)

    def __repr__(self) -> str:
        return f"Unknown(kind={self.kind!r}, raw={self.raw!r})"


# Marks on fields and types: what a reader does with an invalid value, what is open, what is unstable. A field
# is marked by its alias (`Opt`, `Strict`, `Lenient`, `OrEmpty`, `Items`...). msgspec ignores the marks, so
# they cost nothing for correct messages. `accord.schema.type_shape` reads them.

T = TypeVar("T")


class TypeMark:
    """A mark on a type, compared by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name: str = name

    def __repr__(self) -> str:
        return self.name


ON_ERROR: Final = TypeMark("ON_ERROR")  # a value that does not fit counts as absent
ON_NULL: Final = TypeMark("ON_NULL")  # null counts as empty; any other misfit fails the object
SKIP: Final = TypeMark("SKIP")  # list elements that do not fit are left out
OPEN: Final = TypeMark("OPEN")  # the protocol foresees further variants
KEEP: Final = TypeMark("KEEP")  # closed in the protocol, yet a reader keeps what it does not know
SECTION: Final = TypeMark("SECTION")  # an absent object means one whose members are absent
UNSTABLE: Final = TypeMark("UNSTABLE")  # only in the unstable schema
BY_TAG: Final = TypeMark("BY_TAG")  # the variant with this tag; without a tag, the variant that has none
TAG_OR_REST: Final = TypeMark(
    "TAG_OR_REST"
)  # the variant with this tag; for any other, the variant that has none
IN_ORDER: Final = TypeMark("IN_ORDER")  # the first variant that fits


class DefaultValue:
    """The meaning of an absent field. The session state applies it; decoding leaves the field absent."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = value


class KnownValues:
    """The values the protocol names in a set that stays open."""

    __slots__ = ("values",)

    def __init__(self, *values: str | int) -> None:
        self.values: tuple[str | int, ...] = values


class RequiredMembers:
    """The members that even an unknown variant of an open union must carry."""

    __slots__ = ("record",)

    def __init__(self, record: type) -> None:
        self.record: type = record


class NumberFormat:
    """The number format the schema names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name: str = name


if TYPE_CHECKING:
    from typing import Annotated as Choice  # pyright: ignore[reportUnusedImport] - for the other modules

    Opt: TypeAlias = T | UnsetType
    """May be absent; a value that does not fit reads as absent."""

    Strict: TypeAlias = T | UnsetType
    """May be absent; a value that does not fit fails the whole object."""

    Section: TypeAlias = T | UnsetType
    """A group of capabilities, lenient like `Opt`.

    An absent one means that all members have their defaults.
    """

    Lenient: TypeAlias = Annotated[T, ...]
    """Must be there; a value that does not fit reads as an empty list."""

    OrEmpty: TypeAlias = Annotated[T, ...]
    """A list or map for which null reads as empty."""

    Items: TypeAlias = list[T]
    """A list whose unusable elements are skipped."""

    Open: TypeAlias = T | Unknown
    """A union or set of values that the protocol foresees to grow."""

    Kept: TypeAlias = T | Unknown
    """Closed in the protocol, yet a reader keeps what it does not know."""

    Unstable: TypeAlias = Annotated[T, ...]
    """Only in the unstable schema: may change or vanish."""
else:

    class Alias:
        """`Opt[X]` at run time.

        Hundreds are created on import, and typing's generic aliases take three times as long.
        """

        def __init__(self, make):
            self.make = make

        def __getitem__(self, item):
            return self.make(item)

    Opt = Alias(lambda item: Annotated[item | UnsetType, ON_ERROR])
    Strict = Alias(lambda item: item | UnsetType)
    Section = Alias(lambda item: Annotated[item | UnsetType, ON_ERROR, SECTION])
    Lenient = Alias(lambda item: Annotated[item, ON_ERROR])
    OrEmpty = Alias(lambda item: Annotated[item, ON_NULL])
    Items = Alias(lambda item: Annotated[list[item], SKIP])
    Open = Alias(lambda item: Annotated[item, OPEN])
    Kept = Alias(lambda item: Annotated[item, KEEP])
    Unstable = Alias(lambda item: Annotated[item, UNSTABLE])

    class Choice:
        """`Choice[A | B, BY_TAG]`: a union that msgspec cannot tell apart by itself.

        Type checkers see the plain union. At run time it is a class of its own, which the codec resolves.
        """

        def __class_getitem__(cls, parameters):
            union, rule = parameters
            return ChoiceType("Choice", (), {"variants": get_args(union), "rule": rule})


Flag: TypeAlias = Annotated[bool | UnsetType, ON_ERROR, DefaultValue(False)]
"""A capability switch: off unless literally true."""

# uint64 exceeds msgspec's bounds: values above int64 take the slower, lenient path.
Uint16: TypeAlias = Annotated[int, Meta(ge=0, le=2**16 - 1), NumberFormat("uint16")]
Uint32: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1), NumberFormat("uint32")]
Uint64: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1), NumberFormat("uint64")]
Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1), NumberFormat("int32")]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1), NumberFormat("int64")]
Double: TypeAlias = Annotated[int | float, NumberFormat("double")]
NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1)]


_unstable: set[type] = set()


def unstable(cls: type[T]) -> type[T]:
    """Mark a class as part of the unstable schema only."""
    _unstable.add(cls)
    return cls


def is_unstable(cls: type) -> bool:
    """Whether the class is part of the unstable schema only."""
    return cls in _unstable


class ChoiceType(type):
    """The type of a `Choice`: its variants, and which of them a JSON value may be."""

    variants: tuple[Any, ...]
    rule: TypeMark

    def __instancecheck__(cls, instance: object) -> bool:
        return any(isinstance(instance, getattr(variant, "__origin__", variant)) for variant in cls.variants)

    @property
    def tag_field(cls) -> str | None:
        """The member that tells the variants apart, where there is one."""
        if cls.rule is IN_ORDER:
            return None
        return next(field for field in (v.__struct_config__.tag_field for v in cls.variants) if field)

    def candidates(cls, value: Any) -> tuple[Any, ...]:
        """The variants to try for a JSON value, in order."""
        if cls.tag_field is None:
            return cls.variants
        tag = cast(dict[str, Any], value).get(cls.tag_field) if isinstance(value, dict) else None
        tags = {variant.__struct_config__.tag: variant for variant in cls.variants}
        if isinstance(tag, str) and (tag in tags or cls.rule is BY_TAG):
            return (tags[tag],) if tag in tags else ()
        return (tags[None],)


# Absent is `UNSET`, null is None. Both survive a round trip. `UNSET` is falsy and is not encoded.


def wire_name(name: str) -> str:
    """Return the member name on the wire for a field: camelCase, and `_meta` for `meta`."""
    if name == "meta":
        return "_meta"
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


# gc=False: values from or for JSON contain no cycles, so the garbage collector can skip them.
class Record(Struct, rename=wire_name, gc=False):
    """A protocol object without `_meta`."""


class Object(Record, kw_only=True, gc=False):
    """A protocol object. `meta` is the `_meta` member, which is reserved for extensions."""

    meta: Opt[dict[str, Any] | None] = UNSET


# Ids on the wire. All are opaque strings: compare them, never parse them.

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


_MAX_LENGTH: Final = 60


class Mismatch(ValueError):
    """A value does not match its type.

    `path` says where, `reason` says what is wrong. The message is one line.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path: str = path
        self.reason: str = reason


def shorten(value: Any) -> str:
    """Return a value for an error message: on one line, cut if it is long."""
    text = repr(value[:_MAX_LENGTH] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}..."


def member_path(path: str, name: str) -> str:
    """Return the path of a member whose name the peer chose."""
    return (
        f"{path}.{name}" if name.isidentifier() and len(name) <= _MAX_LENGTH else f"{path}[{shorten(name)}]"
    )


# The parts of JSON-RPC that the protocol defines: ids, errors, and the cancellation of one request.

RequestId: TypeAlias = Int64 | str | None
"""Returned exactly as it was sent. Null is legal but not recommended."""

ErrorCode: TypeAlias = Annotated[
    Int32, KnownValues(-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002)
]
"""Any 32-bit number; the named ones are the constants of `accord.errors`."""

ExtRequest: TypeAlias = Any
"""The parameters of a method that starts with an underscore."""

ExtResponse: TypeAlias = Any
"""The result of such a method."""

ExtNotification: TypeAlias = Any
"""The parameters of such a notification."""


class Error(Record):
    """An error: a code, one short sentence, and optional data."""

    code: ErrorCode
    message: str
    data: Opt[Any] = UNSET


class CancelRequestNotification(Object):
    """The sender of a request cancels it.

    The request is still answered, exactly once. Any time, either direction.
    """

    request_id: RequestId
