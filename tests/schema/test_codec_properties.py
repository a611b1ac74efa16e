"""Properties of any value of any type: it validates, it survives a round trip, and reading raises only
`Mismatch`.
"""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.repetitions import ALL, repetitions
from tests.requirements import need_official_schemas
from tests.schema.our_facts import OURS, names, our_type, public_names
from tests.schema.schema_strategies import damaged, json_values, values

import accord.schema
from accord.schema.base import Mismatch
from accord.schema.codec import decode, decode_strict, encode, read, to_builtins
from accord.schema.type_shape import Text, shape_of
from accord.schema.validation import violations

quick = settings(
    max_examples=10 if ALL else 5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

TYPES = [name for name in names(stable=False) if not isinstance(shape_of(getattr(accord.schema, name)), Text)]
TYPES_V2 = [our_type(name, 2) for name in names(stable=False, version=2)]
READ_PAST = {"McpError", "MessageMcpResponse"}
"""Types with an object to which others may add members. A reader does not keep those members."""
TAGS = ("type", "sessionUpdate", "outcome", "mode", "action", "state")
every_type = pytest.mark.parametrize("name", TYPES)


def with_tag(value: Any, again: Any) -> Any:
    """Add the tag. A variant on its own may come without its tag but is always sent with it."""
    if not (isinstance(again, dict) and isinstance(value, dict)):
        return value
    return {**{name: again[name] for name in TAGS if name in again}, **value}


@pytest.fixture(scope="module")
def official() -> dict[str, Draft202012Validator]:
    document = json.loads((need_official_schemas() / "schema.unstable.json").read_text(encoding="utf-8"))
    return {
        name: Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": document["$defs"]})
        for name in document["$defs"]
    }


@every_type
def test_encoded_values_are_official_and_decode_back_equal(
    name: str, official: dict[str, Draft202012Validator]
) -> None:
    cls: Any = getattr(accord.schema, name)

    @quick
    @given(values(shape_of(cls)))
    def check(value: Any) -> None:
        text = encode(value)
        plain = json.loads(text)
        assert to_builtins(value) == plain
        assert violations(cls, plain) == []
        assert [error.message for error in official[name].iter_errors(plain)] == []
        assert decode(cls, text) == value

    check()


@every_type
def test_damaged_json_is_read_or_rejected(name: str, official: dict[str, Draft202012Validator]) -> None:
    cls: Any = getattr(accord.schema, name)

    @quick
    @given(values(shape_of(cls)).flatmap(lambda value: damaged(to_builtins(value))))
    def check(value: Any) -> None:
        text = encode(value)
        found = violations(cls, value)
        if not official[name].is_valid(value):
            assert found, "the walk found no violation, but the official schema does"
        try:
            fitting = decode_strict(cls, text)
        except Mismatch:
            pass
        else:
            assert read(cls, value) == fitting, "exact and lenient reading differ"
        try:
            lenient = decode(cls, text)
        except Mismatch:
            assert found, "rejected although nothing is wrong"
        else:
            again = to_builtins(lenient)
            kept = name in READ_PAST or again == with_tag(value, again)
            assert found or kept, "lost although nothing is wrong"

    check()


some_type_of_version_2 = st.sampled_from(TYPES_V2).filter(lambda cls: not isinstance(shape_of(cls), Text))


@settings(quick, max_examples=repetitions(400))
@given(some_type_of_version_2.flatmap(lambda cls: st.tuples(st.just(cls), values(shape_of(cls)))), st.data())
def test_types_of_version_2_are_read_or_rejected(pair: tuple[Any, Any], data: st.DataObject) -> None:
    cls, value = pair
    assert decode(cls, encode(value)) == value
    try:
        decode(cls, encode(data.draw(damaged(to_builtins(value)))))
    except Mismatch:
        pass


@quick
@given(st.sampled_from(TYPES), json_values)
def test_any_json_is_read_or_rejected(name: str, value: Any) -> None:
    try:
        decode(getattr(accord.schema, name), encode(value))
    except Mismatch:
        pass


@quick
@given(st.sampled_from(TYPES), st.binary(max_size=40))
def test_any_bytes_are_read_or_rejected(name: str, raw: bytes) -> None:
    try:
        decode(getattr(accord.schema, name), raw)
    except Mismatch:
        pass


def test_exported_names_include_our_own() -> None:
    assert set(public_names()) >= OURS
