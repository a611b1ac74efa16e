"""Our types as facts, in the same form as `official_facts`."""

from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin

from msgspec import UNSET
from msgspec.structs import replace
from tests.schema.official_facts import ABSORBED

import accord.schema
from accord.schema.base import UNSTABLE, is_unstable
from accord.schema.methods import METHODS
from accord.schema.type_shape import (
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

OURS = {
    "UNSET",
    "UnsetType",
    "Unknown",
    "Object",
    "Record",
    "UserMessageChunk",
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "ToolCallChange",
    "CancelledOutcome",
    "ScopedElicitation",
    "ElicitationDeclineAction",
    "ElicitationCancelAction",
    "McpResult",
    "McpFailure",
}
"""Names without an official definition: our base types, and variants that the schema leaves unnamed."""


def public_names() -> list[str]:
    """The names that `accord.schema` exports, without its modules."""
    every = vars(accord.schema).items()
    return sorted(name for name, value in every if name[0] != "_" and not isinstance(value, ModuleType))


def names(*, stable: bool) -> list[str]:
    """Our types that correspond to definitions."""
    every = [name for name in public_names() if name not in OURS]
    return [name for name in every if not (stable and _is_unstable(getattr(accord.schema, name)))]


def facts(*, stable: bool) -> Iterator[str]:
    """All facts about our types; without the unstable ones if `stable`."""
    for name in sorted(names(stable=stable)):
        yield f"{name} exists"
        if name not in ABSORBED:
            yield from _definition_facts(name, shape_of(getattr(accord.schema, name)), stable)


def method_facts(*, stable: bool) -> Iterator[str]:
    """Which types the method table names for which methods."""
    for method in METHODS:
        if stable and not method.stable:
            continue
        yield f"{method.name} served by {method.served_by}: {_name_of(method.params)} as {method.kind}"
        if method.kind == "request":
            yield f"{method.name} served by {method.served_by}: {_name_of(method.result)} as result"


def _name_of(annotation: Any) -> str:
    return next(name for name in names(stable=False) if getattr(accord.schema, name) is annotation)


def _is_unstable(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return UNSTABLE in annotation.__metadata__ or _is_unstable(annotation.__origin__)
    variants = getattr(annotation, "variants", None) or get_args(annotation)
    if variants:
        return all(isinstance(part, type) and is_unstable(part) for part in variants)
    return isinstance(annotation, type) and is_unstable(annotation)


def _definition_facts(name: str, shape: Shape, stable: bool) -> Iterator[str]:
    match shape:
        case ObjectOf():
            yield from _object_facts(name, shape, stable)
            if shape.extra_members:
                yield f"{name} takes extra members"
        case UnionOf() if any(isinstance(variant, ObjectOf) for variant in shape.variants):
            yield f"{name} is told apart by {shape.tag_field or 'order'}"
            for place, variant in enumerate(shape.variants):
                assert isinstance(variant, ObjectOf)
                if not (stable and variant.unstable):
                    label = str(place) if shape.tag_field is None else variant.tag or "untagged"
                    yield from _object_facts(f"{name}<{label}>", variant, stable)
            if shape.open:
                yield f"{name} is open"
                if shape.required_members is not None:
                    yield from _object_facts(f"{name}<other>", shape.required_members, stable)
        case _:
            yield f"{name} = {_describe(shape)}"


def _object_facts(name: str, shape: ObjectOf, stable: bool) -> Iterator[str]:
    yield f"{name} is an object"
    for field in shape.fields:
        if not (stable and field.unstable):
            yield f"{name}.{field.wire}: {_describe_field(field, stable)}"


def _describe_field(field: Field, stable: bool) -> str:
    words = [_describe(field.shape), "required" if field.required else "optional"]
    if field.on_error:
        words.append("on error absent")
    if field.on_null:
        words.append("on null empty")
    inner = field.shape.inner if isinstance(field.shape, Nullable) else field.shape
    if isinstance(inner, ListOf) and inner.skip:
        words.append("skips items")
    if field.default is not UNSET:
        words.append(f"default {_default(field, stable)}")
    return ", ".join(words)


def _default(field: Field, stable: bool) -> Any:
    if not isinstance(field.shape, ObjectOf):
        return field.default
    parts = (part for part in field.shape.fields if part.default is not UNSET)
    return {part.wire: _default(part, stable) for part in parts if not (stable and part.unstable)}


def _describe(shape: Shape) -> str:
    match shape:
        case Anything():
            return "anything"
        case Boolean():
            return "boolean"
        case Number():
            return "number"
        case Text(known=known) if known:
            return f"open: one of {' '.join(known)}"
        case Text(min_length=length):
            return f"string of at least {length}" if length else "string"
        case Integer(format=name, known=known):
            return f"{name}, open: one of {' '.join(map(str, known))}" if known else name
        case Constants(values=values):
            return f"one of {' '.join(values)}"
        case Nullable(inner=inner):
            return f"null or {_describe(inner)}"
        case ListOf(item=item):
            return f"list of {_describe(item)}"
        case MapOf(value=value):
            return f"map of {_describe(value)}"
        case ObjectOf(cls=cls):
            return cls.__name__
        case UnionOf():
            return _union_name(shape) or " or ".join(sorted(map(_describe, shape.variants)))


@cache
def _named_unions() -> list[tuple[str, UnionOf]]:
    shapes = ((name, shape_of(getattr(accord.schema, name))) for name in names(stable=False))
    return [
        (name, shape)
        for name, shape in shapes
        if isinstance(shape, UnionOf) and any(isinstance(variant, ObjectOf) for variant in shape.variants)
    ]


def _union_name(shape: UnionOf) -> str | None:
    return next((name for name, known in _named_unions() if known == replace(shape, kept=False)), None)
