"""Check parsed JSON against a type: lenient decoding, and the strict list of violations.

Imported on first use.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

import msgspec
from msgspec import inspect

from accord.schema.base import Mismatch, Unknown, member_path, shorten
from accord.schema.type_shape import (
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

# Lenient decoding, as the protocol requires of a reader: an invalid value of a lenient field counts as
# absent, null can stand for an empty list, invalid list elements are skipped, and unknown variants are kept
# as `Unknown`. Everything else is a `Mismatch`.


def read_value(cls: Any, value: Any) -> Any:
    """Convert parsed JSON to a type or alias of the schema, leniently. Raises `Mismatch`."""
    return _read(shape_of(cls), value, "$")


def json_type(value: Any) -> str:
    """Return the JSON name of the value's type."""
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


def as_integer(value: Any) -> int | None:
    """Return the integer that a JSON value is; None if it is none. As in JSON Schema, 1.0 is an integer."""
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
            return {key: _read(shape.value, item, member_path(path, key)) for key, item in members.items()}
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
    for index, item in enumerate(_expect(value, list[Any], "array", path)):
        try:
            items.append(_read(shape.item, item, f"{path}[{index}]"))
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
    raise Mismatch(path, f"expected one of {', '.join(shape.values)}, got {shorten(text)}")


def _read_integer(shape: Integer, value: Any, path: str) -> int:
    number = as_integer(value)
    if number is None:
        raise Mismatch(path, f"expected whole number, got {shorten(value)}")
    low, high = BOUNDS[shape.format]
    if not low <= number <= high:
        raise Mismatch(path, f"out of range for {shape.format}")
    return number


def _read_union(shape: UnionOf, value: Any, path: str) -> Any:
    candidates, tag = candidate_variants(shape, value)
    if not candidates:
        if tag is None:
            expected = f"{shape.tag_field} is missing" if isinstance(value, dict) else "expected object"
            raise Mismatch(path, expected)
        if not (shape.open or shape.kept):
            raise Mismatch(f"{path}.{shape.tag_field}", f"unknown variant {shorten(tag)}")
        if shape.required_members is not None:
            _read(shape.required_members, value, path)
        return Unknown(tag, value)
    for candidate in candidates[:-1]:
        try:
            return _read(candidate, value, path)
        except Mismatch:
            continue
    return _read(candidates[-1], value, path)


def candidate_variants(shape: UnionOf, value: Any) -> tuple[tuple[Shape, ...], str | None]:
    """Return the variants of a union that a value may be, and its tag.

    Empty if the tag is missing or unknown.
    """
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


# Strict validation, for checkers and for our own messages: it also reports unknown members, null, and values
# out of range.


UNKNOWN_MEMBER: Final = "unknown member"
"""The reason of a violation: the type has no member of this name."""


class Violation(NamedTuple):
    """One violation and its path."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def violations(cls: Any, value: Any) -> list[Violation]:
    """Return everything that is wrong with parsed JSON of this type."""
    found = list(_walk(shape_of(cls), value, "$"))
    if not found:
        try:
            read_value(cls, value)
        except Mismatch as error:  # checks of the class itself, such as members that need each other
            found.append(Violation(error.path, error.reason))
    return found


def _walk(shape: Shape, value: Any, path: str) -> Iterator[Violation]:
    match shape:
        case Anything():
            return
        case Nullable():
            if value is not None:
                yield from _walk(shape.inner, value, path)
        case ObjectOf():
            yield from _walk_object(shape, value, path)
        case UnionOf():
            yield from _walk_union(shape, value, path)
        case ListOf():
            if not isinstance(value, list):
                yield _wrong_type("array", value, path)
                return
            for index, item in enumerate(cast(list[Any], value)):
                yield from _walk(shape.item, item, f"{path}[{index}]")
        case MapOf():
            if not isinstance(value, dict):
                yield _wrong_type("object", value, path)
                return
            for key, item in cast(dict[str, Any], value).items():
                yield from _walk(shape.value, item, member_path(path, key))
        case Text() | Constants():
            yield from _walk_text(shape, value, path)
        case Integer() | Number():
            yield from _walk_number(shape, value, path)
        case Boolean():
            if not isinstance(value, bool):
                yield _wrong_type("boolean", value, path)


def _wrong_type(expected: str, value: Any, path: str) -> Violation:
    return Violation(path, f"expected {expected}, got {json_type(value)}")


def _walk_object(shape: ObjectOf, value: Any, path: str) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield _wrong_type("object", value, path)
        return
    members = cast(dict[str, Any], value)
    known = {field.wire: field for field in shape.fields}
    for name, item in members.items():
        if name in known:
            yield from _walk(known[name].shape, item, f"{path}.{name}")
        elif name == shape.tag_field:
            if item != shape.tag:
                yield Violation(f"{path}.{name}", f"expected {shape.tag!r}, got {shorten(item)}")
        elif not shape.extra_members:
            yield Violation(member_path(path, name), UNKNOWN_MEMBER)
    for field in shape.fields:
        if field.required and field.wire not in members:
            yield Violation(path, f"{field.wire} is missing")


def _walk_union(shape: UnionOf, value: Any, path: str) -> Iterator[Violation]:
    candidates, tag = candidate_variants(shape, value)
    if candidates:
        attempts = [list(_walk(candidate, value, path)) for candidate in candidates]
        yield from min(attempts, key=len)
    elif tag is None:
        reason = (
            f"{shape.tag_field} is missing"
            if isinstance(value, dict)
            else f"expected object, got {json_type(value)}"
        )
        yield Violation(path, reason)
    elif not shape.open:
        yield Violation(f"{path}.{shape.tag_field}", f"unknown variant {shorten(tag)}")


def _walk_text(shape: Text | Constants, value: Any, path: str) -> Iterator[Violation]:
    if not isinstance(value, str):
        yield _wrong_type("string", value, path)
    elif isinstance(shape, Constants):
        if value not in shape.values:
            yield Violation(path, f"expected one of {', '.join(shape.values)}, got {shorten(value)}")
    elif len(value) < shape.min_length:
        yield Violation(path, "must not be empty")


def _walk_number(shape: Integer | Number, value: Any, path: str) -> Iterator[Violation]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield _wrong_type("number", value, path)
    elif isinstance(shape, Number):
        if isinstance(value, float) and not math.isfinite(value):
            yield Violation(path, f"{value} is no JSON number")
    else:
        number = as_integer(value)
        low, high = BOUNDS[shape.format]
        if number is None:
            yield Violation(path, f"expected whole number, got {shorten(value)}")
        elif not low <= number <= high:
            yield Violation(path, f"out of range for {shape.format}")


# Errors of settings, for people.

_STEP: Final = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")
_INVALID_VALUE: Final = "Invalid enum value "


def explain_message_error(message: object, error: Exception) -> str:
    """Say why a message that a program has built cannot be sent."""
    from accord.schema.codec import to_builtins

    kind = type(message)
    if isinstance(error, TypeError):
        return f"{kind.__name__} cannot be sent: it is not JSON ({error})"
    problems = violations(kind, to_builtins(message)) or (error,)
    return f"{kind.__name__} cannot be sent like this: {'; '.join(map(str, problems[:3]))}"


def explain_setting_error(error: msgspec.ValidationError, kind: Any) -> tuple[str, str]:
    """What is wrong with a value that is not of this type, and its position, such as `.models[0]`.

    The reason lists the choices if there are only certain ones.
    """
    reason, _, position = str(error).partition(" - at `$")
    position = position.rstrip("`")
    if reason.startswith(_INVALID_VALUE) and (choices := _choices_at(inspect.type_info(kind), position)):
        reason = f"{reason.removeprefix(_INVALID_VALUE)} is not one of {', '.join(map(str, choices))}"
    return reason, position


def _choices_at(info: inspect.Type, position: str) -> list[Any]:
    """The values that the type allows at a position; empty if they are not certain ones."""
    if isinstance(info, inspect.UnionType):
        return [choice for part in info.types for choice in _choices_at(part, position)]
    if isinstance(info, inspect.Metadata):
        return _choices_at(info.type, position)
    step = _STEP.match(position)
    if step is None:
        return list(info.values) if isinstance(info, inspect.LiteralType) else []
    rest = position[step.end() :]
    if isinstance(info, inspect.StructType):
        found = [field.type for field in info.fields if field.encode_name == step[1]]
        return _choices_at(found[0], rest) if found else []
    if isinstance(info, inspect.DictType):
        return _choices_at(info.value_type, rest)
    if isinstance(info, inspect.ListType | inspect.VarTupleType):
        return _choices_at(info.item_type, rest)
    return []
