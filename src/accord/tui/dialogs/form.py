"""A form of the agent: a field each, checked before it is sent."""

from typing import TYPE_CHECKING, Any, cast

from rich.text import Text
from textual import on
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, Checkbox, Input, Select, SelectionList, Static

from accord.cleaning import clean_text, one_line
from accord.client import DECLINED, Form
from accord.client.fields import choices_of, title_of, value_of
from accord.schema import BooleanPropertySchema, MultiSelectPropertySchema, StringPropertySchema, Unknown
from accord.tui.dialogs.dialog import Dialog

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget


class FormDialog(Dialog):
    """The answer is what was filled in, or DECLINED."""

    DEFAULT_CSS = """
    FormDialog > #fields { height: auto; max-height: 1fr; }
    FormDialog .problem { color: $error; display: none; height: auto; }
    FormDialog .problem.some { display: block; }
    FormDialog .about { color: $text-muted; height: auto; }
    FormDialog Input { background: $foreground 8%; }
    FormDialog Input:focus { background: $foreground 16%; }
    FormDialog Checkbox { background: transparent; }
    FormDialog SelectionList { height: auto; max-height: 8; }
    FormDialog #buttons { height: auto; margin: 1 0 0 0; }
    FormDialog Button { margin: 0 2 0 0; }
    """

    def __init__(self, form: Form) -> None:
        super().__init__(f"{one_line(form.agent, 40)} asks")
        self.form = form
        self.fields: dict[str, Widget] = {}
        self._problems: dict[str, Static] = {}

    def compose(self) -> "ComposeResult":
        form = self.form
        with VerticalScroll(id="fields", can_focus=False):
            yield Static(clean_text(form.message), markup=False)
            about = " ".join(filter(None, (form.schema.title or "", form.schema.description or "")))
            if about:
                yield Static(clean_text(about), classes="about", markup=False)
            for name, schema in form.fields.items():
                if not isinstance(schema, Unknown):
                    yield from self._field(name, schema)
        with Horizontal(id="buttons"):
            yield Button("Send", id="send", compact=True)
            yield Button("Decline", id="decline", compact=True)

    def _field(self, name: str, schema: Any) -> "ComposeResult":
        title = one_line(title_of(schema, name)) + (" *" if name in self.form.required else "")
        default = self.form.defaults.get(name)
        switch = isinstance(schema, BooleanPropertySchema)
        yield Static("" if switch else f"\n{title}", markup=False)
        if schema.description:
            yield Static(clean_text(schema.description), classes="about", markup=False)
        field = self.fields[name] = _widget(schema, default, title)
        yield field
        problem = self._problems[name] = Static(classes="problem", markup=False)
        yield problem

    @property
    def hint(self) -> str:
        return "Tab goes on · Enter sends · Esc stops the turn"

    @property
    def first(self) -> "Widget | None":
        return next(iter(self.fields.values()), self.query_one("#send"))

    def values(self) -> dict[str, Any]:
        """What is filled in; what was left empty is left out."""
        found: dict[str, Any] = {}
        for name, field in self.fields.items():
            value = _value(self.form.fields[name], field)
            if value is not None:
                found[name] = value
        return found

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.run_worker(self._send(), exclusive=True)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if not self.armed:
            return
        if event.button.id == "decline":
            self.settle(DECLINED)
        else:
            self.run_worker(self._send(), exclusive=True)

    async def _send(self) -> None:
        values = self.values()
        problems = await self.form.problems(values)
        for name, shown in self._problems.items():
            shown.update(problems.get(name, ""))
            shown.set_class(name in problems, "some")
        wrong = next((name for name in self.fields if name in problems), None)
        if wrong is not None:
            self.fields[wrong].focus()
        elif not problems and self.armed:
            self.settle(values)


def _widget(schema: Any, default: Any, title: str) -> "Widget":
    choices = choices_of(schema)
    match schema:
        case BooleanPropertySchema():
            return Checkbox(Text(title), value=default is True, compact=True)
        case MultiSelectPropertySchema():
            chosen = cast("list[str]", default) if isinstance(default, list) else []
            return SelectionList[str](
                *[(one_line(words), value, value in chosen) for value, words in choices]
            )
        case StringPropertySchema() if choices:
            listed = [(one_line(words), value) for value, words in choices]
            return (
                Select[str](listed, value=default, compact=True)
                if default
                else Select[str](listed, compact=True)
            )
        case _:
            return Input("" if default is None else str(default), compact=True)


def _value(schema: Any, field: "Widget") -> Any:
    match field:
        case Checkbox():
            return field.value
        case SelectionList():
            chosen = cast("SelectionList[str]", field).selected
            return list(chosen) or None
        case Select():
            value = cast("Select[str]", field).value
            return value if isinstance(value, str) else None
        case Input():
            typed = field.value.strip()
            return value_of(schema, typed, choices_of(schema)) if typed else None
        case _:
            return None
