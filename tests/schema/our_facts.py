"""Our types as facts, in the same form as `official_facts`."""

from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin

from msgspec import UNSET
from msgspec.structs import replace
from tests.schema.official_facts import ABSORBED

import accord.schema
from accord.schema import v2
from accord.schema.base import UNSTABLE, is_unstable
from accord.schema.methods import METHODS, Method
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
from accord.schema.v2 import methods as methods_v2

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

OURS_V2 = {
    "UserMessageChunk",
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "ToolCallChange",
    "SessionStateUpdate",
    "ScopedElicitation",
    "DiffAdd",
    "DiffDelete",
    "DiffModify",
    "DiffMove",
    "DiffCopy",
}
"""The same for version 2."""

PACKAGES: dict[int, ModuleType] = {1: accord.schema, 2: v2}
TABLES: dict[int, tuple[Method, ...]] = {1: METHODS, 2: methods_v2.METHODS}


def public_names(version: int = 1) -> list[str]:
    """The names that the package of a version exports, without its modules."""
    every = vars(PACKAGES[version]).items()
    return sorted(name for name, value in every if name[0] != "_" and not isinstance(value, ModuleType))


def names(*, stable: bool, version: int = 1) -> list[str]:
    """The official definitions that our types correspond to."""
    ours = OURS if version == 1 else OURS_V2
    every = [name for name in public_names(version) if name.removesuffix("V2") not in ours]
    if stable:
        every = [name for name in every if not _is_unstable(getattr(PACKAGES[version], name))]
    return sorted(name.removesuffix("V2") for name in every)


def _our_name(name: str, version: int) -> str:
    """The name of our type for an official definition."""
    return f"{name}V2" if version == 2 and hasattr(v2, f"{name}V2") else name


def our_type(name: str, version: int) -> Any:
    """Our type for an official definition."""
    return getattr(PACKAGES[version], _our_name(name, version))


def facts(*, stable: bool, version: int = 1) -> Iterator[str]:
    """All facts about our types; without the unstable ones if `stable`."""
    for name in sorted(names(stable=stable, version=version)):
        yield f"{name} exists"
        if name not in ABSORBED:
            shape = shape_of(our_type(name, version))
            yield from _definition_facts(name, shape, stable, version)


def method_facts(*, stable: bool, version: int = 1) -> Iterator[str]:
    """Which types the method table names for which methods."""
    for method in TABLES[version]:
        if stable and not method.stable:
            continue
        params, result = (_name_of(part, version) for part in (method.params, method.result or method.params))
        yield f"{method.name} served by {method.served_by}: {params} as {method.kind}"
        if method.kind == "request":
            yield f"{method.name} served by {method.served_by}: {result} as result"


def _name_of(annotation: Any, version: int) -> str:
    every = names(stable=False, version=version)
    return next(name for name in every if our_type(name, version) is annotation)


def _is_unstable(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return UNSTABLE in annotation.__metadata__ or _is_unstable(annotation.__origin__)
    variants = getattr(annotation, "variants", None) or get_args(annotation)
    if variants:
        return all(isinstance(part, type) and is_unstable(part) for part in variants)
    return isinstance(annotation, type) and is_unstable(annotation)


def _definition_facts(name: str, shape: Shape, stable: bool, version: int) -> Iterator[str]:
    match shape:
        case ObjectOf():
            yield from _object_facts(name, shape, stable, version)
            if shape.extra_members:
                yield f"{name} takes extra members"
        case UnionOf() if any(isinstance(variant, ObjectOf) for variant in shape.variants):
            yield f"{name} is told apart by {shape.tag_field or 'order'}"
            for place, variant in enumerate(shape.variants):
                assert isinstance(variant, ObjectOf)
                if not (stable and variant.unstable):
                    label = str(place) if shape.tag_field is None else variant.tag or "untagged"
                    yield from _object_facts(f"{name}<{label}>", variant, stable, version)
            if shape.open:
                yield f"{name} is open"
                if shape.required_members is not None:
                    yield from _object_facts(f"{name}<other>", shape.required_members, stable, version)
        case _:
            yield f"{name} = {_describe(shape, version)}"


def _object_facts(name: str, shape: ObjectOf, stable: bool, version: int) -> Iterator[str]:
    yield f"{name} is an object"
    for field in shape.fields:
        if not (stable and field.unstable):
            yield f"{name}.{field.wire}: {_describe_field(field, stable, version)}"


def _describe_field(field: Field, stable: bool, version: int) -> str:
    words = [_describe(field.shape, version), "required" if field.required else "optional"]
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


def _describe(shape: Shape, version: int) -> str:
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
            return f"one of {' '.join(sorted(values))}"  # an equal `Literal` elsewhere may set the order
        case Nullable(inner=inner):
            return f"null or {_describe(inner, version)}"
        case ListOf(item=item):
            return f"list of {_describe(item, version)}"
        case MapOf(value=value):
            return f"map of {_describe(value, version)}"
        case ObjectOf(cls=cls):
            return cls.__name__.removesuffix("V2")
        case UnionOf():
            parts = (_describe(variant, version) for variant in shape.variants)
            return _union_name(shape, version) or " or ".join(sorted(parts))


@cache
def _named_unions(version: int) -> list[tuple[str, UnionOf]]:
    every = names(stable=False, version=version)
    shapes = ((name, shape_of(getattr(PACKAGES[version], _our_name(name, version)))) for name in every)
    return [
        (name, shape)
        for name, shape in shapes
        if isinstance(shape, UnionOf) and any(isinstance(variant, ObjectOf) for variant in shape.variants)
    ]


def _union_name(shape: UnionOf, version: int) -> str | None:
    plain = replace(shape, kept=False)
    found = next((name for name, known in _named_unions(version) if known == plain), None)
    # A type that both versions share names the unions of version 1.
    return found if found is not None or version == 1 else _union_name(shape, 1)
