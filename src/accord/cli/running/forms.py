"""What an agent asks the user beside permissions: forms, web addresses, and the plain question of Agentao's extension.

Asked on the terminal and checked before they are sent; without a terminal declined.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from accord.cleaning import one_line
from accord.cli.running.person import Person, Question
from accord.client import DECLINED, Address, Form
from accord.client.elicitation import FormAnswer
from accord.schema import (
    BooleanPropertySchema,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
    Unknown,
)

ASK_USER: Final = "_agentao.cn/ask_user"
UNAVAILABLE: Final = "(user unavailable)"
"""What that extension's agents take for: nobody was there."""

_MOST_OPTIONS: Final = 100


class Asking:
    """Puts the agent's questions to the person. `done` counts them: an agent that asks has begun to work."""

    def __init__(self, person: Person | None, note: Callable[[str], None]) -> None:
        self.done = 0
        self._person = person
        self._note = note

    async def form(self, form: Form) -> FormAnswer:
        """A form, field by field, and once more as a whole before it goes out."""
        self.done += 1
        if self._person is None:
            self._declined(form.message)
            return DECLINED
        async with self._person.asked() as question:
            question.say(f"\n{form.agent} asks: {form.message}")
            if form.schema.title or form.schema.description:
                question.say(f"{form.schema.title or ''} {form.schema.description or ''}".strip(), "  ")
            values: dict[str, Any] = {}
            for name, schema in form.fields.items():
                if isinstance(schema, Unknown):
                    continue
                if not await _fill_in(question, form, name, schema, values):
                    return None
            for name, value in values.items():
                question.say(f"{_title(form.fields[name], name)}: {_shown(value)}", "  ")
            agreed = await question.yes("Send this?")
        if agreed is None:
            return None
        return values if agreed else DECLINED

    async def address(self, address: Address) -> bool | None:
        """A web address: shown in full, opened by the person or by nobody."""
        self.done += 1
        if self._person is None:
            self._declined(f"{address.message} ({address.url})")
            return False
        async with self._person.asked() as question:
            question.say(f"\n{address.agent} asks you to open an address: {address.message}")
            question.say(address.url, "  ")
            warning = "; its name is in another script than it may look like" if address.punycode else ""
            question.say(f"at {address.host}{warning}", "  ")
            return await question.yes("Do you agree? Then open it in your browser.")

    async def question(self, params: Any) -> dict[str, Any]:
        """`_agentao.cn/ask_user`."""
        self.done += 1
        asked = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
        text = asked.get("question")
        if not isinstance(text, str) or not text.strip():
            return {"answer": UNAVAILABLE}
        if self._person is None:
            self._declined(text)
            return {"answer": UNAVAILABLE}
        said = asked.get("options")
        items = cast("list[Any]", said) if isinstance(said, list) else []
        options = [item for item in items if isinstance(item, str) and item.strip()][:_MOST_OPTIONS]
        async with self._person.asked() as question:
            question.say(f"\nThe agent asks: {text}")
            for number, option in enumerate(options, 1):
                question.say(f"  {number}  {one_line(option)}")
            prompt = "A number, or your own words: " if options else "Your answer: "
            while True:
                typed = await question.line(prompt)
                if typed is None:
                    return {"answer": UNAVAILABLE}
                if typed:
                    break
        if typed.isdecimal() and 1 <= int(typed) <= len(options):
            typed = options[int(typed) - 1]
        return {"answer": typed}

    def _declined(self, what: str) -> None:
        self._note(f"declined, for there is no terminal to ask on: {what}")


async def _fill_in(question: Question, form: Form, name: str, schema: Any, values: dict[str, Any]) -> bool:
    """Ask for one field until what is typed can be sent. False: the person went away."""
    required, default = name in form.required, form.defaults.get(name)
    title = _title(schema, name)
    if schema.description:
        question.say(schema.description, "  ")
    choices = _choices(schema)
    for number, (_, words) in enumerate(choices, 1):
        question.say(f"  {number}  {one_line(words)}")
    hint = _hint(schema, choices, default, required)
    while True:
        typed = await question.line(f"{title}{hint}: ")
        if typed is None:
            return False
        if not typed and default is not None:
            values[name] = default
            return True
        if not typed and not required:
            return True
        value = _read(schema, typed, choices)
        problems = await form.problems({name: value})
        if name not in problems:
            values[name] = value
            return True
        question.say(f"{title} {problems[name]}", "  ")


def _title(schema: Any, name: str) -> str:
    return schema.title or name


def _choices(schema: Any) -> list[tuple[str, str]]:
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


def _hint(schema: Any, choices: Sequence[tuple[str, str]], default: Any, required: bool) -> str:
    notes: list[str] = []
    match schema:
        case BooleanPropertySchema():
            notes.append("y or n")
        case MultiSelectPropertySchema():
            notes.append("numbers, with commas between")
        case _ if choices:
            notes.append("a number")
        case IntegerPropertySchema() | NumberPropertySchema():
            notes.append("a number")
        case StringPropertySchema() if schema.format:
            notes.append(schema.format)
        case _:
            pass
    if default is not None:
        notes.append(f"Enter for {_shown(default)}")
    elif not required:
        notes.append("Enter for none")
    return f" ({'; '.join(notes)})" if notes else ""


def _read(schema: Any, typed: str, choices: Sequence[tuple[str, str]]) -> Any:
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


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(cast("list[str]", value)) if isinstance(value, list) else str(value)
