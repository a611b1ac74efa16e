"""Form fields for display and input, the `ask_user` extension, and discarding of typed-ahead input."""

import sys
from collections.abc import Sequence
from typing import Any, Final, cast

from accord.schema import (
    BooleanPropertySchema,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
)


def field_title(schema: Any, name: str) -> str:
    """The title of a form field."""
    return schema.title or name


def field_choices(schema: Any) -> list[tuple[str, str]]:
    """The values that a field offers, each with its title."""
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


def parse_field_value(schema: Any, typed: str, choices: Sequence[tuple[str, str]]) -> Any:
    """The value for text that the user typed. Unreadable text is returned unchanged and fails validation."""
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
            return [_choice_value(part.strip(), choices) for part in typed.split(",") if part.strip()]
        case _:
            return _choice_value(typed, choices) if choices else typed


def _choice_value(typed: str, choices: Sequence[tuple[str, str]]) -> str:
    if typed.isdecimal() and 1 <= int(typed) <= len(choices):
        return choices[int(typed) - 1][0]
    return next((value for value, title in choices if title.casefold() == typed.casefold()), typed)


# -- `_agentao.cn/ask_user`: an extension of some agents for a plain question to the user --------------------

UNAVAILABLE: Final = "(user unavailable)"
"""The answer that means: no user is present."""

_MAX_OPTIONS: Final = 100


def read_ask_user(params: Any) -> tuple[str, list[str]] | None:
    """The question and its suggested answers; None if the parameters contain no question."""
    members = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    text = members.get("question")
    if not isinstance(text, str) or not text.strip():
        return None
    options = members.get("options")
    items = cast("list[Any]", options) if isinstance(options, list) else []
    return text, [item for item in items if isinstance(item, str) and item.strip()][:_MAX_OPTIONS]


def ask_user_result(text: str | None) -> dict[str, Any]:
    """The result to send; None if no user answered."""
    return {"answer": text or UNAVAILABLE}


def discard_typed_input(keyboard: int) -> None:
    """Discard keys that were typed before a question is shown, so that they do not answer it."""
    if sys.platform != "win32":
        import termios

        try:
            termios.tcflush(keyboard, termios.TCIFLUSH)
        except termios.error:
            pass
