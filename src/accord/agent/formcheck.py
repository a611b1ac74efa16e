"""Does what a user filled in fit the form? Checked again on our side: a client is not obliged to."""

from collections.abc import Mapping
from typing import Any, cast

from accord.schema.elicitation import (
    BooleanPropertySchema,
    ElicitationPropertySchema,
    ElicitationSchema,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
)


def problem(schema: ElicitationSchema, content: Mapping[str, Any]) -> str | None:
    """The first thing that does not fit, in words; None if all does."""
    missing = [name for name in schema.required or () if name not in content]
    if missing:
        return f"{missing[0]} is missing"
    for name, field in (schema.properties or {}).items():
        if name in content and (wrong := _wrong(field, content[name])) is not None:
            return f"{name} {wrong}"
    return None


def _wrong(field: ElicitationPropertySchema, value: Any) -> str | None:
    match field:
        case StringPropertySchema():
            return _wrong_text(field, value)
        case IntegerPropertySchema() if not isinstance(value, int) or isinstance(value, bool):
            return "is no whole number"
        case NumberPropertySchema() if not isinstance(value, (int, float)) or isinstance(value, bool):
            return "is no number"
        case IntegerPropertySchema() | NumberPropertySchema():
            return _out_of_bounds(value, field.minimum, field.maximum)
        case BooleanPropertySchema():
            return None if isinstance(value, bool) else "is neither true nor false"
        case MultiSelectPropertySchema():
            return _wrong_choices(field, value)
        case _:
            return None


def _wrong_text(field: StringPropertySchema, value: Any) -> str | None:
    if not isinstance(value, str):
        return "is no text"
    choices = list(field.enum or ()) + [option.const for option in field.one_of or ()]
    if choices and value not in choices:
        return "is none of the choices"
    return _out_of_bounds(len(value), field.min_length, field.max_length)


def _wrong_choices(field: MultiSelectPropertySchema, value: Any) -> str | None:
    if not isinstance(value, list):
        return "is no list"
    chosen = cast("list[Any]", value)
    match field.items:
        case StringMultiSelectItems():
            known = field.items.enum
        case TitledMultiSelectItems():
            known = [option.const for option in field.items.any_of]
        case _:
            known = chosen
    if any(item not in known for item in chosen):
        return "holds something that is none of the choices"
    return _out_of_bounds(len(chosen), field.min_items, field.max_items)


def _out_of_bounds(value: float, low: Any, high: Any) -> str | None:
    if isinstance(low, (int, float)) and value < low:
        return f"is below {low}"
    if isinstance(high, (int, float)) and value > high:
        return f"is above {high}"
    return None
