"""The fields of a form, for whoever lets a person fill them in: what they are called, what can be chosen, what was meant."""

from collections.abc import Sequence
from typing import Any

from accord.schema import (
    BooleanPropertySchema,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
)


def title_of(schema: Any, name: str) -> str:
    """What the field is called."""
    return schema.title or name


def choices_of(schema: Any) -> list[tuple[str, str]]:
    """The values of a choice, and the words for each."""
    match schema:
        case StringPropertySchema():
            if schema.enum:
                return [(value, value) for value in schema.enum]
            return [(option.const, option.title) for option in schema.one_of or ()]
        case MultiSelectPropertySchema(items=StringMultiSelectItems(enum=listed)):
            return [(value, value) for value in listed]
        case MultiSelectPropertySchema(items=TitledMultiSelectItems(any_of=listed)):
            return [(option.const, option.title) for option in listed]
        case _:
            return []


def value_of(schema: Any, typed: str, choices: Sequence[tuple[str, str]]) -> Any:
    """The value that was typed; what cannot be read stays text, which is then no valid value."""
    match schema:
        case BooleanPropertySchema():
            return {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}.get(
                typed.casefold(), typed
            )
        case IntegerPropertySchema() | NumberPropertySchema():
            try:
                return int(typed) if isinstance(schema, IntegerPropertySchema) else float(typed)
            except ValueError:
                return typed
        case MultiSelectPropertySchema():
            return [_chosen(part.strip(), choices) for part in typed.split(",") if part.strip()]
        case _:
            return _chosen(typed, choices) if choices else typed


def _chosen(typed: str, choices: Sequence[tuple[str, str]]) -> str:
    if typed.isdecimal() and 1 <= int(typed) <= len(choices):
        return choices[int(typed) - 1][0]
    return next((value for value, words in choices if words.casefold() == typed.casefold()), typed)
