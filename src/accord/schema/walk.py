"""The strict walk: everything in a message that the protocol does not allow, for checkers and for what we send ourselves.

Nothing is forgiven here: unknown members, null where none may be, values outside a closed set, numbers out of range.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from .mismatch import Mismatch, brief, member
from .reading import json_type, pick, read_value, whole
from .shape import (
    BOUNDS,
    Anything,
    Boolean,
    Constants,
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


class Violation(NamedTuple):
    """One thing that is wrong, and where."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def violations(cls: Any, value: Any) -> list[Violation]:
    """All that is wrong with parsed JSON that claims to be of a type (or of a union) of the schema."""
    found = list(_walk(shape_of(cls), value, "$"))
    if not found:
        try:
            read_value(cls, value)
        except Mismatch as error:  # what only the class itself can tell, such as members that need each other
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
            for place, item in enumerate(cast(list[Any], value)):
                yield from _walk(shape.item, item, f"{path}[{place}]")
        case MapOf():
            if not isinstance(value, dict):
                yield _wrong_type("object", value, path)
                return
            for key, item in cast(dict[str, Any], value).items():
                yield from _walk(shape.value, item, member(path, key))
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
                yield Violation(f"{path}.{name}", f"expected {shape.tag!r}, got {brief(item)}")
        elif not shape.extra_members:
            yield Violation(member(path, name), "unknown member")
    for field in shape.fields:
        if field.required and field.wire not in members:
            yield Violation(path, f"{field.wire} is missing")


def _walk_union(shape: UnionOf, value: Any, path: str) -> Iterator[Violation]:
    candidates, tag = pick(shape, value)
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
        yield Violation(f"{path}.{shape.tag_field}", f"unknown variant {brief(tag)}")


def _walk_text(shape: Text | Constants, value: Any, path: str) -> Iterator[Violation]:
    if not isinstance(value, str):
        yield _wrong_type("string", value, path)
    elif isinstance(shape, Constants):
        if value not in shape.values:
            yield Violation(path, f"expected one of {', '.join(shape.values)}, got {brief(value)}")
    elif len(value) < shape.min_length:
        yield Violation(path, "must not be empty")


def _walk_number(shape: Integer | Number, value: Any, path: str) -> Iterator[Violation]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield _wrong_type("number", value, path)
    elif isinstance(shape, Number):
        if isinstance(value, float) and not math.isfinite(value):
            yield Violation(path, f"{value} is no JSON number")
    else:
        number = whole(value)
        low, high = BOUNDS[shape.format]
        if number is None:
            yield Violation(path, f"expected whole number, got {brief(value)}")
        elif not low <= number <= high:
            yield Violation(path, f"out of range for {shape.format}")
