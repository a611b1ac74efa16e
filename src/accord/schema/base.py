"""What every protocol type is made of: the struct roots, the marks on fields, and `Unknown`.

A field says by its alias what a reader does with a bad value (`Opt`, `Strict`, `Lenient`, `OrEmpty`, `Items`). msgspec
ignores these marks, so correct messages pay nothing for them; `accord.schema.shape` reads them back for everything else.
Absent is `UNSET`, null is None: both survive a round trip. `UNSET` is falsy and is left out when encoding.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, cast, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = ["UNSET", "Choice", "Object", "Record", "Unknown", "UnsetType"]

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


class Format:
    """The number format the schema names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


Opt: TypeAlias = Annotated[T | UnsetType, ON_ERROR]
"""May be absent; a value that does not fit reads as absent."""

Strict: TypeAlias = T | UnsetType
"""May be absent; a value that does not fit fails the whole object."""

Lenient: TypeAlias = Annotated[T, ON_ERROR]
"""Must be there; a value that does not fit reads as an empty list."""

OrEmpty: TypeAlias = Annotated[T, ON_NULL]
"""A list or map for which null reads as empty."""

Items: TypeAlias = Annotated[list[T], SKIP]
"""A list whose unusable elements are skipped."""

Unstable: TypeAlias = Annotated[T, UNSTABLE]
"""Only in the unstable schema: may change or vanish."""

Flag: TypeAlias = Annotated[bool | UnsetType, ON_ERROR, Default(False)]
"""A capability switch: off unless literally true."""

Section: TypeAlias = Annotated[T | UnsetType, ON_ERROR, SECTION]
"""A group of capabilities: absent, it is the object with all its members at their defaults."""

# The upper bound of uint64 does not fit msgspec's bounds: what lies above int64 takes the slower, lenient reading.
Uint16: TypeAlias = Annotated[int, Meta(ge=0, le=2**16 - 1), Format("uint16")]
Uint32: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1), Format("uint32")]
Uint64: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1), Format("uint64")]
Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1), Format("int32")]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1), Format("int64")]
Double: TypeAlias = Annotated[int | float, Format("double")]
NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1)]


def wire_name(name: str) -> str:
    """The member name on the wire for a field's name: camelCase, and `_meta` for `meta`."""
    if name == "meta":
        return "_meta"
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


# gc=False: what comes from JSON holds no cycles, and what goes to JSON cannot, so the collector need not look.
class Record(Struct, rename=wire_name, gc=False):
    """A protocol object without `_meta`."""


class Object(Record, kw_only=True, gc=False):
    """A protocol object. `meta` is the `_meta` member: free for extensions, never assumed."""

    meta: Opt[dict[str, Any] | None] = UNSET


class Unknown:
    """A variant this version does not know, kept as it came: `kind` is its tag, `raw` the JSON value."""

    __slots__ = ("kind", "raw")
    __match_args__ = ("kind", "raw")

    def __init__(self, kind: str, raw: Any) -> None:
        self.kind = kind
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and (self.kind, self.raw) == (other.kind, other.raw)

    __hash__ = None  # type: ignore[assignment]  # raw is mutable

    def __repr__(self) -> str:
        return f"Unknown(kind={self.kind!r}, raw={self.raw!r})"


_unstable: set[type] = set()


def unstable(cls: type[T]) -> type[T]:
    """Mark a class as part of the unstable schema only."""
    _unstable.add(cls)
    return cls


def is_unstable(cls: type) -> bool:
    """Whether the class is part of the unstable schema only."""
    return cls in _unstable


BY_TAG: Final = Mark("BY_TAG")  # the variant with this tag or, without a known one, the variant that has none
IN_ORDER: Final = Mark("IN_ORDER")  # the first variant that fits

if TYPE_CHECKING:
    from typing import Annotated as Choice

    Open: TypeAlias = T | Unknown
    Kept: TypeAlias = T | Unknown
else:
    Open = Annotated[T, OPEN]
    Kept = Annotated[T, KEEP]

    class Choice:
        """`Choice[A | B, BY_TAG]`: a union that msgspec cannot tell apart by itself.

        Type checkers see the plain union. At run time it is a class of its own, which the codec resolves.
        """

        def __class_getitem__(cls, parameters):
            union, rule = parameters
            return ChoiceType("Choice", (), {"variants": get_args(union), "rule": rule})


class ChoiceType(type):
    """The type of a `Choice`: its variants, and which of them a JSON value may be."""

    variants: tuple[Any, ...]
    rule: Mark

    def __instancecheck__(cls, instance: object) -> bool:
        return any(isinstance(instance, getattr(variant, "__origin__", variant)) for variant in cls.variants)

    def candidates(cls, value: Any) -> Iterator[Any]:
        """The variants to try for a JSON value, in order."""
        if cls.rule is IN_ORDER:
            yield from cls.variants
            return
        tags = {variant.__struct_config__.tag: variant for variant in cls.variants}
        tag_field = next(v.__struct_config__.tag_field for v in cls.variants if v.__struct_config__.tag)
        tag = cast(dict[str, Any], value).get(tag_field) if isinstance(value, dict) else None
        yield tags[tag] if isinstance(tag, str) and tag in tags else tags[None]
