"""The marks on fields and types: what a reader does with a bad value, what is open, what is unstable.

A field says it by its alias (`Opt`, `Strict`, `Lenient`, `OrEmpty`, `Items`...). msgspec ignores the marks, so correct
messages pay nothing for them; `accord.schema.shape` reads them back for everything else.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, cast, get_args

from msgspec import Meta, UnsetType

from .unknown import Unknown

__all__ = ["Choice", "Unknown"]

T = TypeVar("T")


class Mark:
    """One remark on a type, told apart by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


ON_ERROR: Final = Mark("ON_ERROR")  # a value that does not fit counts as absent
ON_NULL: Final = Mark("ON_NULL")  # null counts as empty; any other misfit fails the object
SKIP: Final = Mark("SKIP")  # list elements that do not fit are left out
OPEN: Final = Mark("OPEN")  # the protocol foresees further variants
KEEP: Final = Mark("KEEP")  # closed in the protocol, yet a reader keeps what it does not know
SECTION: Final = Mark("SECTION")  # an absent object means one whose members are absent
UNSTABLE: Final = Mark("UNSTABLE")  # only in the unstable schema
BY_TAG: Final = Mark("BY_TAG")  # the variant with this tag; without a tag, the variant that has none
TAG_OR_REST: Final = Mark(
    "TAG_OR_REST"
)  # the variant with this tag; for any other, the variant that has none
IN_ORDER: Final = Mark("IN_ORDER")  # the first variant that fits


class Default:
    """What an absent field means. Readers of the state apply it; decoding leaves the field absent."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Known:
    """The values the protocol names in a set that stays open."""

    __slots__ = ("values",)

    def __init__(self, *values: str | int) -> None:
        self.values = values


class Least:
    """The members that even an unknown variant of an open union must carry."""

    __slots__ = ("record",)

    def __init__(self, record: type) -> None:
        self.record = record


class Format:
    """The number format the schema names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


if TYPE_CHECKING:
    from typing import Annotated as Choice

    Opt: TypeAlias = T | UnsetType
    """May be absent; a value that does not fit reads as absent."""

    Strict: TypeAlias = T | UnsetType
    """May be absent; a value that does not fit fails the whole object."""

    Section: TypeAlias = T | UnsetType
    """A group of capabilities, as lenient as `Opt`: absent, it is the object with all members at their defaults."""

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
        """`Opt[X]` at run time. Hundreds are made on import; typing's own generic aliases take three times as long."""

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


Flag: TypeAlias = Annotated[bool | UnsetType, ON_ERROR, Default(False)]
"""A capability switch: off unless literally true."""

# The upper bound of uint64 does not fit msgspec's bounds: what lies above int64 takes the slower, lenient reading.
Uint16: TypeAlias = Annotated[int, Meta(ge=0, le=2**16 - 1), Format("uint16")]
Uint32: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1), Format("uint32")]
Uint64: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1), Format("uint64")]
Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1), Format("int32")]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1), Format("int64")]
Double: TypeAlias = Annotated[int | float, Format("double")]
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
    rule: Mark

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
