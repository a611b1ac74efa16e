"""Dialogs for permissions, forms, questions, web addresses, sign-in and trust.

`DialogHandler` shows them one at a time.

Imported on first use: it loads accord.client.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from textual import on
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, Checkbox, Input, Select, SelectionList, Static

from accord.client import (
    DECLINED,
    AgentCommand,
    ElicitationForm,
    ElicitationUrl,
    PermissionRequest,
    run_in_terminal,
)
from accord.client.elicitation_forms import FormAnswer
from accord.errors import UsageError
from accord.frontend.agent_config.project_trust import describe_effects, trust_file
from accord.frontend.forms import (
    ask_user_result,
    field_choices,
    field_title,
    parse_field_value,
    read_ask_user,
)
from accord.frontend.policy_handler import (
    option_label,
)
from accord.frontend.sign_in import describe_method
from accord.policy.request import ActionRequest, Decision
from accord.safe_text import clean_line, clean_text, one_line, visible
from accord.schema import (
    AuthMethod,
    BooleanPropertySchema,
    MultiSelectPropertySchema,
    PermissionOption,
    StringPropertySchema,
    Unknown,
)
from accord.trace.redaction import command_line_text
from accord.tui.dialog import AnswerList, ChoiceDialog, Dialog, answer_index
from accord.tui.list_screen import LineInput
from accord.tui.parts.diff_part import RevealedTextPart
from accord.tui.permission_dialogs import AccessDialog, OptionDialog, PermissionDialog, QuestionText
from accord.tui.theme import label

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from accord.frontend.agent_config.acp_file import AgentConfigFile
    from accord.frontend.agent_config.project_trust import TrustCallback
    from accord.frontend.consent import AccessQuestion
    from accord.tui.parts.note_part import Tone


def run_in_foreground(launch: AgentCommand) -> int:
    """Run a program in the terminal while the screen is hidden; return its exit code.

    Raises NeverStarted.
    """
    sys.stdout.write(f"{one_line(command_line_text(launch.command))} now runs in this terminal\n")
    sys.stdout.flush()
    # Ctrl+C is for the program in the foreground.
    before = signal.signal(signal.SIGINT, _ignore_interrupt)
    try:
        with ThreadPoolExecutor(1) as thread:
            code = thread.submit(asyncio.run, run_in_terminal(launch)).result()
        if code != 0:
            sys.stdout.write(f"It exited with code {code}. Press Enter to return. ")
            sys.stdout.flush()
            sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
    return code


def _ignore_interrupt(number: int, frame: object) -> None:
    """A handler instead of SIG_IGN, which the program would inherit."""


class FormDialog(Dialog):
    """A form of the agent. The answer is the values, or DECLINED."""

    DEFAULT_CSS: ClassVar[str] = """
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

    def __init__(self, form: ElicitationForm) -> None:
        super().__init__(f"{one_line(form.agent, 40)} asks")
        self.form = form
        # Create all widgets now: an error here is an error of the caller, in `compose` it would end the app.
        self.fields: dict[str, Widget] = {
            name: _widget(schema, form.defaults.get(name), self._field_title(name, schema))
            for name, schema in form.fields.items()
            if not isinstance(schema, Unknown)
        }
        self._problems = {name: Static(classes="problem", markup=False) for name in self.fields}

    def compose(self) -> "ComposeResult":
        form = self.form
        with VerticalScroll(id="fields", can_focus=False):
            yield Static(clean_text(form.message), markup=False)
            description = " ".join(filter(None, (form.schema.title or "", form.schema.description or "")))
            if description:
                yield Static(clean_text(description), classes="about", markup=False)
            for name in self.fields:
                yield from self._field(name, form.fields[name])
        with Horizontal(id="buttons"):
            yield Button("Send", id="send", compact=True)
            yield Button("Decline", id="decline", compact=True)

    def _field(self, name: str, schema: Any) -> "ComposeResult":
        is_checkbox = isinstance(schema, BooleanPropertySchema)
        yield Static("" if is_checkbox else f"\n{self._field_title(name, schema)}", markup=False)
        if schema.description:
            yield Static(clean_text(schema.description), classes="about", markup=False)
        yield self.fields[name]
        yield self._problems[name]

    def _field_title(self, name: str, schema: Any) -> str:
        return one_line(field_title(schema, name)) + (" *" if name in self.form.required else "")

    @property
    def hint(self) -> str:
        return "Tab moves on · Enter sends · Esc stops the turn"

    @property
    def focus_target(self) -> "Widget | None":
        return next(iter(self.fields.values()), self.query_one("#send"))

    def values(self) -> dict[str, Any]:
        """Return the values of all fields that are not empty."""
        values: dict[str, Any] = {}
        for name, field in self.fields.items():
            value = _value(self.form.fields[name], field)
            if value is not None:
                values[name] = value
        return values

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
            self.set_answer(DECLINED)
        else:
            self.run_worker(self._send(), exclusive=True)

    async def _send(self) -> None:
        values = self.values()
        problems = await self.form.problems(values)
        for name, problem in self._problems.items():
            problem.update(clean_text(problems.get(name, "")))
            problem.set_class(name in problems, "some")
        invalid = next((name for name in self.fields if name in problems), None)
        if invalid is not None:
            self.fields[invalid].focus()
        elif not problems and self.armed:
            self.set_answer(values)


def _widget(schema: Any, default: Any, title: str) -> "Widget":
    choices = dict(field_choices(schema))
    match schema:
        case BooleanPropertySchema():
            return Checkbox(label(title), value=default is True, compact=True)
        case MultiSelectPropertySchema():
            selected = cast("list[str]", default) if isinstance(default, list) else []
            return SelectionList[str](
                *[(label(name), value, value in selected) for value, name in choices.items()]
            )
        case StringPropertySchema() if choices:
            options = [(label(name), value) for value, name in choices.items()]
            return (
                Select[str](options, value=default, compact=True)
                if default in choices
                else Select[str](options, compact=True)
            )
        case _:
            return LineInput("" if default is None else clean_line(str(default)), compact=True)


def _value(schema: Any, field: "Widget") -> Any:
    match field:
        case Checkbox():
            return field.value
        case SelectionList():
            selected = cast("SelectionList[str]", field).selected
            return list(selected) or None
        case Select():
            value = cast("Select[str]", field).value
            return value if isinstance(value, str) else None
        case Input():
            text = field.value.strip()
            return parse_field_value(schema, text, field_choices(schema)) if text else None
        case _:
            return None


class AddressDialog(ChoiceDialog):
    """Shows a web address in full; nothing is opened here. The answer is True or DECLINED."""

    def __init__(self, address: ElicitationUrl) -> None:
        parts = [RevealedTextPart(clean_text(address.message)), RevealedTextPart(address.url, strong=True)]
        warning = (
            ": its name contains non-Latin letters that may look like others" if address.punycode else ""
        )
        parts.append(RevealedTextPart(f"at {address.host}{warning}"))
        names = ("I will open it in my browser", "No")
        super().__init__(f"{address.agent} asks you to open a web address", [QuestionText(parts)], names)

    def choose(self, index: int) -> None:
        self.set_answer(True if index == 0 else DECLINED)


class QuestionDialog(Dialog):
    """A question with suggested answers and a free text. The answer is a text."""

    def __init__(self, text: str, options: Sequence[str]) -> None:
        super().__init__("The agent asks")
        self._text = text
        self._answers = list(options)
        self.options: AnswerList = AnswerList(self._answers)
        self.input: LineInput = LineInput(
            placeholder="a number, or your own answer" if options else "your answer", compact=True
        )

    def compose(self) -> "ComposeResult":
        yield Static(clean_text(self._text), markup=False)
        if self._answers:
            yield self.options
        yield self.input

    @property
    def hint(self) -> str:
        return "Enter answers · Esc stops the turn"

    @property
    def focus_target(self) -> Input:
        return self.input

    def on_key(self, event: "events.Key") -> None:
        if event.key in ("up", "down") and self.accepts(event):
            event.stop()
            self.options.move(-1 if event.key == "up" else 1)
            if self.options.selected is not None:
                self.input.value = self._answers[self.options.selected]

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        answer = event.value.strip()
        number = answer_index(answer)
        if number is not None and number < len(self._answers):
            answer = self._answers[number]
        if answer and self.armed:
            self.set_answer(answer)

    @on(AnswerList.Clicked)
    def _clicked(self, event: AnswerList.Clicked) -> None:
        event.stop()
        if self.accepts(event.event):
            self.set_answer(self._answers[event.index])


class SignInDialog(ChoiceDialog):
    """Lists the sign-in methods of the agent. The answer is a method, or None."""

    def __init__(
        self, agent: str, reason: str, methods: Sequence[AuthMethod], launch: AgentCommand | None
    ) -> None:
        names = [one_line(clean_line(method.name)) for method in methods]
        descriptions = [describe_method(method, launch) for method in methods]
        lines = [
            RevealedTextPart(f"· {text}")
            for name, text in zip(names, descriptions, strict=True)
            if text != name
        ]
        description = QuestionText([RevealedTextPart(reason, strong=True), *lines])
        super().__init__(f"{one_line(agent, 40)} requires you to sign in", [description], [*names, "Not now"])
        self._methods = list(methods)

    @property
    def hint(self) -> str:
        return f"1-{min(len(self.options.names), 9)} choose · Esc: not now"

    def choose(self, index: int) -> None:
        self.set_answer(self._methods[index] if index < len(self._methods) else None)


class TrustDialog(ChoiceDialog):
    """Asks whether to trust a project's `acp.json`. The answer is a boolean."""

    def __init__(self, file: "AgentConfigFile") -> None:
        lines = [RevealedTextPart(line) for line in describe_effects(file)]
        head = RevealedTextPart(f"{file.path} is new or has changed since you trusted it.", strong=True)
        names = ("Do not trust it", "Trust it: it may start these programs")
        super().__init__(
            "Trust this folder's acp.json?",
            [QuestionText([head, *lines])],
            names,
            ("reject_once", "allow_always"),
        )

    def choose(self, index: int) -> None:
        self.set_answer(index == 1)


class DialogHost(Protocol):
    """The place where dialogs are shown."""

    async def ask(self, dialog: "Dialog") -> Any:
        """Show a dialog and wait for the answer. Canceling removes the dialog. Raises what drawing raises."""
        ...

    def run_without_screen(self, run: Callable[[], int]) -> int:
        """Hide the screen while `run` uses the terminal."""
        ...

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Show a note in the transcript."""
        ...

    def say_instead(self) -> None:
        """Let the user write what the agent should do instead of what was rejected."""
        ...


class DialogHandler:
    """Asks the user on behalf of the client's handlers."""

    def __init__(self, host: DialogHost) -> None:
        self._host = host
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def start_question(self) -> AsyncGenerator["DialogHandler"]:
        """Wait until no other question is open."""
        async with self._lock:
            yield self

    async def _ask(self, make_dialog: Callable[[], Dialog]) -> Any:
        """Show a dialog; return None, no answer, if it cannot be drawn, and say so."""
        try:
            dialog = make_dialog()
            answer = await self._host.ask(dialog)
            if isinstance(dialog, OptionDialog) and isinstance(answer, PermissionOption):
                self._record(dialog, answer)
            return answer
        except Exception as error:  # noqa: BLE001 - text of an agent must not end the app or hide a question
            reason = visible(f"{type(error).__name__}: {error}")
            self._host.note(
                "The agent asked a question that cannot be shown; it got no answer", "bad", reason
            )
            return None

    def _record(self, dialog: "OptionDialog", answer: PermissionOption) -> None:
        """Show in the conversation what the user answered."""
        is_allow = answer.kind.startswith("allow")
        subject = f": {dialog.subject}" if dialog.subject else ""
        self._host.note(
            f"You answered “{one_line(option_label(answer), 80)}”{subject}", "good" if is_allow else "warn"
        )
        if dialog.say_instead:
            self._host.say_instead()

    # -- within `start_question` --

    async def permission(
        self, permission: PermissionRequest, request: ActionRequest, decision: Decision
    ) -> PermissionOption | None:
        return await self._ask(lambda: PermissionDialog(permission, request, decision))

    async def access(
        self, question: "AccessQuestion", decision: Decision, options: Sequence[PermissionOption]
    ) -> PermissionOption | None:
        return await self._ask(lambda: AccessDialog(question, decision, options))

    # -- handlers of the client --

    async def form(self, form: ElicitationForm) -> FormAnswer:
        async with self.start_question():
            return await self._ask(lambda: FormDialog(form))

    async def address(self, address: ElicitationUrl) -> bool | None:
        """Show a web address. The user opens it, not the client."""
        async with self.start_question():
            answer = await self._ask(lambda: AddressDialog(address))
        return False if answer is DECLINED else answer

    async def question(self, params: Any) -> dict[str, Any]:
        """Serve `_agentao.cn/ask_user`."""
        question = read_ask_user(params)
        if question is None:
            return ask_user_result(None)
        async with self.start_question():
            return ask_user_result(await self._ask(lambda: QuestionDialog(*question)))

    async def sign_in(
        self, agent: str, reason: str, methods: Sequence[AuthMethod], launch: AgentCommand | None
    ) -> AuthMethod | None:
        async with self.start_question():
            return await self._ask(lambda: SignInDialog(agent, reason, methods, launch))

    async def login(self, launch: AgentCommand) -> int:
        """Run the agent's sign-in program in the terminal."""
        async with self.start_question():
            return self._host.run_without_screen(lambda: run_in_foreground(launch))

    def trusting(self) -> "TrustCallback":
        """Return a function that asks whether to trust a file. It blocks: call it in a thread."""
        loop = asyncio.get_running_loop()

        def ask(file: "AgentConfigFile") -> bool:
            return asyncio.run_coroutine_threadsafe(self._trust(file), loop).result()

        return ask

    async def _trust(self, file: "AgentConfigFile") -> bool:
        async with self.start_question():
            trusted = await self._ask(lambda: TrustDialog(file)) is True
        if trusted:
            try:
                trust_file(file)
            except UsageError as error:
                self._host.note(f"Trusted for this run only: {visible(str(error))}", "bad")
        return trusted
