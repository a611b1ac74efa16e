"""What an agent asks the user beside permissions: forms, web addresses, and the plain question of Agentao's extension.

Asked on the terminal and checked before they are sent; without a terminal declined.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from accord.cleaning import one_line
from accord.cli.running.person import Person, Question
from accord.client import DECLINED, Address, Form
from accord.client.askuser import answer_to, read_question
from accord.client.elicitation import FormAnswer
from accord.client.fields import choices_of, title_of, value_of
from accord.schema import (
    BooleanPropertySchema,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringPropertySchema,
    Unknown,
)


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
                question.say(f"{title_of(form.fields[name], name)}: {_shown(value)}", "  ")
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
        asked = read_question(params)
        if asked is None:
            return answer_to(None)
        text, options = asked
        if self._person is None:
            self._declined(text)
            return answer_to(None)
        async with self._person.asked() as question:
            question.say(f"\nThe agent asks: {text}")
            for number, option in enumerate(options, 1):
                question.say(f"  {number}  {one_line(option)}")
            prompt = "A number, or your own words: " if options else "Your answer: "
            while True:
                typed = await question.line(prompt)
                if typed is None:
                    return answer_to(None)
                if typed:
                    break
        if typed.isdecimal() and 1 <= int(typed) <= len(options):
            typed = options[int(typed) - 1]
        return answer_to(typed)

    def _declined(self, what: str) -> None:
        self._note(f"declined, for there is no terminal to ask on: {what}")


async def _fill_in(question: Question, form: Form, name: str, schema: Any, values: dict[str, Any]) -> bool:
    """Ask for one field until what is typed can be sent. False: the person went away."""
    required, default = name in form.required, form.defaults.get(name)
    title = title_of(schema, name)
    if schema.description:
        question.say(schema.description, "  ")
    choices = choices_of(schema)
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
        value = value_of(schema, typed, choices)
        problems = await form.problems({name: value})
        if name not in problems:
            values[name] = value
            return True
        question.say(f"{title} {problems[name]}", "  ")


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


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(cast("list[str]", value)) if isinstance(value, list) else str(value)
