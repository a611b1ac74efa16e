"""The shape of a type: a small tree of the JSON it accepts, derived from the type and its marks.

Lenient decoding, strict validation, the comparison with the official schema and the reference page use this
tree. It is built on first use and cached.
"""

from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType

from accord.schema.base import (
    KEEP,
    ON_ERROR,
    ON_NULL,
    OPEN,
    SECTION,
    SKIP,
    UNSTABLE,
    ChoiceType,
    DefaultValue,
    KnownValues,
    NumberFormat,
    RequiredMembers,
    is_unstable,
)

BOUNDS: dict[str, tuple[int, int]] = {
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "1..65535": (1, 2**16 - 1),
    "1..4294967295": (1, 2**32 - 1),
}


class Anything(Struct, frozen=True):
    """Any JSON value, null included."""


class Boolean(Struct, frozen=True):
    """True or false."""


class Text(Struct, frozen=True):
    """A string. `known` are the values that the protocol names; others are legal too."""

    min_length: int = 0
    known: tuple[str, ...] = ()


class Integer(Struct, frozen=True):
    """A whole number within the bounds of its format."""

    format: str
    known: tuple[int, ...] = ()


class Number(Struct, frozen=True):
    """Any number except NaN and infinity."""


class Constants(Struct, frozen=True):
    """One of these strings. If `kept`, a reader keeps another one as `Unknown`."""

    values: tuple[str, ...]
    kept: bool = False


class Nullable(Struct, frozen=True):
    """Null or the shape inside."""

    inner: "Shape"


class ListOf(Struct, frozen=True):
    """An array. If `skip`, a reader leaves out invalid elements."""

    item: "Shape"
    skip: bool = False


class MapOf(Struct, frozen=True):
    """An object with free member names."""

    value: "Shape"


class Field(Struct, frozen=True):
    """One member of an object. `default` is the meaning of an absent member, if the schema defines it."""

    name: str
    wire: str
    shape: "Shape"
    required: bool
    on_error: bool
    on_null: bool
    default: Any
    unstable: bool


class ObjectOf(Struct, frozen=True):
    """An object of the protocol; `tag` is the value of its discriminator."""

    cls: type[Struct]
    fields: tuple[Field, ...]
    tag_field: str | None
    tag: str | None
    extra_members: bool
    unstable: bool


class UnionOf(Struct, frozen=True):
    """One of several shapes, distinguished by `tag_field`, else by `choice`, else by JSON type.

    `open`: further variants are legal if they match `required_members`. `kept`: they are not legal, but a
    reader keeps them.
    """

    variants: tuple["Shape", ...]
    tag_field: str | None = None
    choice: ChoiceType | None = None
    open: bool = False
    kept: bool = False
    required_members: "ObjectOf | None" = None


Shape: TypeAlias = (
    Anything | Boolean | Text | Integer | Number | Constants | Nullable | ListOf | MapOf | ObjectOf | UnionOf
)


@cache
def shape_of(annotation: Any) -> Shape:
    """Return the shape of a protocol type: a class, an alias or an annotation."""
    base, marks = _split_annotation(annotation)
    if base is Any:
        return Anything()
    if base is bool:
        return Boolean()
    if base is str:
        return Text(_min_length(marks), _known(marks))
    if base is int:
        return Integer(next(mark.name for mark in marks if isinstance(mark, NumberFormat)), _known(marks))
    if base is float:
        return Number()
    if isinstance(base, ChoiceType):
        return UnionOf(
            tuple(shape_of(variant) for variant in base.variants), base.tag_field, base, OPEN in marks
        )
    if isinstance(base, type) and issubclass(base, Struct):
        shape = _object(base)
        return UnionOf((shape,), shape.tag_field, open=True) if OPEN in marks else shape
    origin = get_origin(base)
    if origin is Literal:
        return Constants(get_args(base), KEEP in marks)
    if origin is list:
        return ListOf(shape_of(get_args(base)[0]), SKIP in marks)
    if origin is dict:
        return MapOf(shape_of(get_args(base)[1]))
    if origin is Union or origin is UnionType:
        return _union(get_args(base), marks)
    raise TypeError(f"no shape for {annotation!r}: it is not a protocol type")


def object_shape(cls: type[Struct]) -> ObjectOf:
    """Return the shape of a class."""
    shape = shape_of(cls)
    assert isinstance(shape, ObjectOf)
    return shape


def _split_annotation(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(annotation) is Annotated:
        return annotation.__origin__, annotation.__metadata__
    return annotation, ()


def _known(marks: tuple[Any, ...]) -> tuple[Any, ...]:
    return next((mark.values for mark in marks if isinstance(mark, KnownValues)), ())


def _min_length(marks: tuple[Any, ...]) -> int:
    return next((mark.min_length or 0 for mark in marks if isinstance(mark, Meta)), 0)


def _union(members: tuple[Any, ...], marks: tuple[Any, ...]) -> Shape:
    parts = [part for part in members if part not in (None, type(None), UnsetType)]
    shape: Shape
    if len(parts) == 1:
        shape = shape_of(parts[0])
    elif set(parts) == {int, float}:
        shape = Number()
    else:
        variants = tuple(shape_of(part) for part in parts)
        tag_fields = {variant.tag_field for variant in variants if isinstance(variant, ObjectOf)}
        required_members = next(
            (object_shape(mark.record) for mark in marks if isinstance(mark, RequiredMembers)), None
        )
        shape = UnionOf(
            variants,
            tag_fields.pop() if tag_fields else None,
            None,
            OPEN in marks,
            KEEP in marks,
            required_members,
        )
    return Nullable(shape) if type(None) in members else shape


def _object(cls: type[Struct]) -> ObjectOf:
    hints = get_type_hints(cls, include_extras=True)
    names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    optional = len(cls.__struct_fields__) - len(cls.__struct_defaults__)
    required = {
        name
        for index, name in enumerate(cls.__struct_fields__)
        if index < optional or cls.__struct_defaults__[index - optional] is NODEFAULT
    }
    config = cls.__struct_config__
    return ObjectOf(
        cls,
        tuple(_field(name, wire, hints[name], name in required) for name, wire in names),
        config.tag_field,
        str(config.tag) if config.tag is not None else None,
        getattr(cls, "extra_members", False),
        is_unstable(cls),
    )


def _field(name: str, wire: str, hint: Any, required: bool) -> Field:
    base, marks = _split_annotation(hint)
    inner = [mark for part in get_args(base) for mark in _split_annotation(part)[1]]
    shape = shape_of(hint)
    default: Any = next((mark.value for mark in marks if isinstance(mark, DefaultValue)), UNSET)
    if SECTION in marks and isinstance(shape, ObjectOf):
        default = {part.wire: part.default for part in shape.fields if part.default is not UNSET}
    return Field(
        name,
        wire,
        shape,
        required,
        ON_ERROR in marks,
        ON_NULL in marks or ON_NULL in inner,
        default,
        UNSTABLE in marks,
    )
