"""Hypothesis strategies for the protocol: values of any type, made from its shape, and damaged JSON."""

from typing import Any

from hypothesis import strategies as st

from accord.schema import SetSessionConfigOptionRequest, Unknown
from accord.schema.type_shape import (
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
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


_made: dict[int, st.SearchStrategy[Any]] = {}


def values(shape: Shape) -> st.SearchStrategy[Any]:
    """Typed values of a shape. Shapes live as long as the types, so each strategy is built once."""
    if id(shape) not in _made:
        _made[id(shape)] = _values(shape)
    return _made[id(shape)]


def _values(shape: Shape) -> st.SearchStrategy[Any]:
    match shape:
        case Anything():
            return json_values
        case Boolean():
            return st.booleans()
        case Text():
            text = st.text(min_size=shape.min_length, max_size=8)
            return text | st.sampled_from(shape.known) if shape.known else text
        case Integer():
            low, high = BOUNDS[shape.format]
            return st.integers(low, high) | st.sampled_from([low, high, *shape.known])
        case Number():
            return st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60)
        case Constants():
            return st.sampled_from(shape.values)
        case Nullable():
            return st.none() | values(shape.inner)
        case ListOf():
            return st.lists(values(shape.item), max_size=2)
        case MapOf():
            return st.dictionaries(st.text(max_size=4), values(shape.value), max_size=2)
        case ObjectOf():
            required = {field.name: values(field.shape) for field in shape.fields if field.required}
            optional = {field.name: values(field.shape) for field in shape.fields if not field.required}
            return st.fixed_dictionaries(required, optional=optional).map(
                lambda members: _object(shape, members)
            )
        case UnionOf():
            known = st.one_of([values(variant) for variant in shape.variants])
            return known | _unknown(shape) if shape.open else known


def _object(shape: ObjectOf, members: dict[str, Any]) -> Any:
    """The object, with the members that need each other: the scope of an elicitation, the type of a
    boolean.
    """
    scoped = {"message", "session_id", "request_id"} <= {field.name for field in shape.fields}
    if scoped and not {"session_id", "request_id"} & set(members):
        members = {**members, "session_id": "s"}
    if shape.cls is SetSessionConfigOptionRequest and isinstance(members["value"], bool):
        members = {**members, "type": "boolean"}
    return shape.cls(**members)


@st.composite
def _unknown(draw: st.DrawFn, shape: UnionOf) -> Unknown:
    kind = "_" + draw(st.text(max_size=4))
    raw = draw(st.dictionaries(st.text(max_size=4), json_values, max_size=2))
    if shape.required_members is not None:
        raw |= {"message": "", "sessionId": ""}
    return Unknown(kind, {**raw, str(shape.tag_field): kind})


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """The same JSON value with one place dropped, replaced or added."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)) > 0:
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: draw(damaged(value[name]))}
    if isinstance(value, list) and value and draw(st.integers(0, 3)) > 0:
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(damaged(value[place])), *value[place + 1 :]]
    match draw(st.integers(0, 2)):
        case 0 if isinstance(value, dict) and value:
            dropped = draw(st.sampled_from(sorted(value)))
            return {name: item for name, item in value.items() if name != dropped}
        case 1 if isinstance(value, dict):
            return {**value, draw(st.text(max_size=4)): draw(json_values)}
        case _:
            return draw(json_values)
