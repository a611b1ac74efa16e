"""The lenient reading: parsed JSON into types, surviving what the protocol says a reader survives.

A field that is not strict and does not fit counts as absent, null stands for an empty list where the schema says so, unusable
list elements are skipped, and a variant nobody knows is kept as `Unknown`. Everything else is a `Mismatch`.
"""

from typing import Any, cast

from .mismatch import Mismatch, brief, member
from .shape import (
    BOUNDS,
    Anything,
    Boolean,
    Constants,
    Field,
    Integer,
    ListOf,
    MapOf,
    Nullable,
    Number,
    ObjectOf,
    Shape,
    Text,
    UnionOf,
    shape_of,
)
from .unknown import Unknown


def read_value(cls: Any, value: Any) -> Any:
    """The typed form of parsed JSON. Raises `Mismatch`. `cls` may be any type or alias of the schema."""
    return _read(shape_of(cls), value, "$")


def json_type(value: Any) -> str:
    """What JSON calls a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def whole(value: Any) -> int | None:
    """The whole number that a JSON value is; JSON Schema counts 1.0 as one, too."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read(shape: Shape, value: Any, path: str) -> Any:
    match shape:
        case Anything():
            return value
        case Nullable():
            return None if value is None else _read(shape.inner, value, path)
        case ObjectOf():
            return _read_object(shape, value, path)
        case UnionOf():
            return _read_union(shape, value, path)
        case ListOf():
            return _read_list(shape, value, path)
        case MapOf():
            members = _expect(value, dict[str, Any], "object", path)
            return {key: _read(shape.value, item, member(path, key)) for key, item in members.items()}
        case Text():
            text = _expect(value, str, "string", path)
            if len(text) < shape.min_length:
                raise Mismatch(path, "must not be empty")
            return text
        case Constants():
            return _read_constant(shape, value, path)
        case Integer():
            return _read_integer(shape, value, path)
        case Boolean():
            return _expect(value, bool, "boolean", path)
        case Number():
            if isinstance(value, bool):
                raise Mismatch(path, "expected number, got boolean")
            return _expect(value, int | float, "number", path)


def _expect(value: Any, kind: Any, name: str, path: str) -> Any:
    if not isinstance(value, getattr(kind, "__origin__", kind)):
        raise Mismatch(path, f"expected {name}, got {json_type(value)}")
    return value


def _read_object(shape: ObjectOf, value: Any, path: str) -> Any:
    members = _expect(value, dict[str, Any], "object", path)
    if shape.tag_field is not None and members.get(shape.tag_field, shape.tag) != shape.tag:
        raise Mismatch(f"{path}.{shape.tag_field}", f"expected {shape.tag!r}")
    fields: dict[str, Any] = {}
    for field in shape.fields:
        if field.wire in members:
            _read_field(field, members[field.wire], f"{path}.{field.wire}", fields)
        elif field.required:
            raise Mismatch(path, f"{field.wire} is missing")
    try:
        return shape.cls(**fields)
    except ValueError as error:
        raise Mismatch(path, str(error)) from None


def _read_field(field: Field, value: Any, path: str, fields: dict[str, Any]) -> None:
    if value is None and field.on_null:
        if field.required:
            fields[field.name] = []
        return
    try:
        fields[field.name] = _read(field.shape, value, path)
    except Mismatch:
        if not field.on_error:
            raise
        if field.required:
            fields[field.name] = []


def _read_list(shape: ListOf, value: Any, path: str) -> list[Any]:
    items: list[Any] = []
    for place, item in enumerate(_expect(value, list[Any], "array", path)):
        try:
            items.append(_read(shape.item, item, f"{path}[{place}]"))
        except Mismatch:
            if not shape.skip:
                raise
    return items


def _read_constant(shape: Constants, value: Any, path: str) -> str | Unknown:
    text = _expect(value, str, "string", path)
    if text in shape.values:
        return text
    if shape.kept:
        return Unknown(text, text)
    raise Mismatch(path, f"expected one of {', '.join(shape.values)}, got {brief(text)}")


def _read_integer(shape: Integer, value: Any, path: str) -> int:
    number = whole(value)
    if number is None:
        raise Mismatch(path, f"expected whole number, got {brief(value)}")
    low, high = BOUNDS[shape.format]
    if not low <= number <= high:
        raise Mismatch(path, f"out of range for {shape.format}")
    return number


def _read_union(shape: UnionOf, value: Any, path: str) -> Any:
    candidates, tag = pick(shape, value)
    if not candidates:
        if tag is None:
            expected = f"{shape.tag_field} is missing" if isinstance(value, dict) else "expected object"
            raise Mismatch(path, expected)
        if not (shape.open or shape.kept):
            raise Mismatch(f"{path}.{shape.tag_field}", f"unknown variant {brief(tag)}")
        if shape.least is not None:
            _read(shape.least, value, path)
        return Unknown(tag, value)
    for candidate in candidates[:-1]:
        try:
            return _read(candidate, value, path)
        except Mismatch:
            continue
    return _read(candidates[-1], value, path)


def pick(shape: UnionOf, value: Any) -> tuple[tuple[Shape, ...], str | None]:
    """The variants of a union that a value may be, and its tag. None are left where the tag is missing or unknown."""
    if shape.tag_field is None:
        return shape.variants, None
    tag = cast(dict[str, Any], value).get(shape.tag_field) if isinstance(value, dict) else None
    if not isinstance(tag, str):
        tag = None
    if shape.choice is not None:
        return tuple(shape_of(candidate) for candidate in shape.choice.candidates(value)), tag
    return tuple(
        variant for variant in shape.variants if isinstance(variant, ObjectOf) and variant.tag == tag
    ), tag
