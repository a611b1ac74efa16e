"""Form fields for display and input, the `ask_user` extension, and clearing of typed-ahead keys."""

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

# MERGED client.fields: The fields of a form, for whoever lets a person fill them in: what they are called, what can be chosen, what was meant.


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


# MERGED client.askuser: `_agentao.cn/ask_user`, an extension by which some agents put a plain question to the user.

ASK_USER: Final = "_agentao.cn/ask_user"
UNAVAILABLE: Final = "(user unavailable)"
"""What that extension's agents take for: nobody was there."""

_MOST_OPTIONS: Final = 100


def read_question(params: Any) -> tuple[str, list[str]] | None:
    """The question and the answers it suggests; None where nothing is asked."""
    asked = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    text = asked.get("question")
    if not isinstance(text, str) or not text.strip():
        return None
    said = asked.get("options")
    items = cast("list[Any]", said) if isinstance(said, list) else []
    return text, [item for item in items if isinstance(item, str) and item.strip()][:_MOST_OPTIONS]


def answer_to(text: str | None) -> dict[str, Any]:
    """What is sent back; None stands for nobody who could answer."""
    return {"answer": text or UNAVAILABLE}


# MERGED client.keyboard: The keyboard of the terminal that this process was started from.


def forget_typed(keyboard: int) -> None:
    """Throw away what was typed before a question is shown: nobody agrees to what they have not seen."""
    if sys.platform != "win32":
        import termios

        try:
            termios.tcflush(keyboard, termios.TCIFLUSH)
        except termios.error:
            pass
