"""Dialogs for permissions, forms, questions, web addresses, sign-in and trust.

`DialogHandler` shows them one at a time.

Imported on first use: it loads accord.client.
"""

import asyncio
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from rich.text import Text
from textual import on
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, Checkbox, Input, Select, SelectionList, Static

from accord.client import (
    DECLINED,
    AgentCommand,
    ClientSession,
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
from accord.frontend.policy_handler import request_details
from accord.frontend.sign_in import describe_method
from accord.policy.request import ActionRequest, Decision
from accord.safe_text import clean_line, clean_text, one_line, visible
from accord.schema import (
    AuthMethod,
    BooleanPropertySchema,
    Content,
    Diff,
    MultiSelectPropertySchema,
    PermissionOption,
    StringPropertySchema,
    TextContent,
    Unknown,
)
from accord.tui.dialog import AnswerList, ChoiceDialog, Dialog, answer_index
from accord.tui.parts.diff_part import DiffPart, RevealedTextPart
from accord.tui.parts.part import DrawnPart, json_value_text
from accord.tui.parts.tool_parts import KIND_LABELS
from accord.tui.transcript.transcript_layout import Item

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from accord.frontend.agent_config.acp_file import AgentConfigFile
    from accord.frontend.agent_config.project_trust import TrustCallback
    from accord.tui.parts.note_part import Tone


def run_in_foreground(launch: AgentCommand) -> int:
    """Run a program in the terminal while the screen is hidden; return its exit code.

    Raises NeverStarted.
    """
    sys.stdout.write(f"{one_line(shlex.join(launch.command))} now runs in this terminal\n")
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
        self.fields: dict[str, Widget] = {}
        self._problems: dict[str, Static] = {}

    def compose(self) -> "ComposeResult":
        form = self.form
        with VerticalScroll(id="fields", can_focus=False):
            yield Static(clean_text(form.message), markup=False)
            description = " ".join(filter(None, (form.schema.title or "", form.schema.description or "")))
            if description:
                yield Static(clean_text(description), classes="about", markup=False)
            for name, schema in form.fields.items():
                if not isinstance(schema, Unknown):
                    yield from self._field(name, schema)
        with Horizontal(id="buttons"):
            yield Button("Send", id="send", compact=True)
            yield Button("Decline", id="decline", compact=True)

    def _field(self, name: str, schema: Any) -> "ComposeResult":
        title = one_line(field_title(schema, name)) + (" *" if name in self.form.required else "")
        default = self.form.defaults.get(name)
        is_checkbox = isinstance(schema, BooleanPropertySchema)
        yield Static("" if is_checkbox else f"\n{title}", markup=False)
        if schema.description:
            yield Static(clean_text(schema.description), classes="about", markup=False)
        field = self.fields[name] = _widget(schema, default, title)
        yield field
        problem = self._problems[name] = Static(classes="problem", markup=False)
        yield problem

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
        for name, label in self._problems.items():
            label.update(problems.get(name, ""))
            label.set_class(name in problems, "some")
        invalid = next((name for name in self.fields if name in problems), None)
        if invalid is not None:
            self.fields[invalid].focus()
        elif not problems and self.armed:
            self.set_answer(values)


def _widget(schema: Any, default: Any, title: str) -> "Widget":
    choices = field_choices(schema)
    match schema:
        case BooleanPropertySchema():
            return Checkbox(Text(title), value=default is True, compact=True)
        case MultiSelectPropertySchema():
            selected = cast("list[str]", default) if isinstance(default, list) else []
            return SelectionList[str](
                *[(one_line(label), value, value in selected) for value, label in choices]
            )
        case StringPropertySchema() if choices:
            options = [(one_line(label), value) for value, label in choices]
            return (
                Select[str](options, value=default, compact=True)
                if default
                else Select[str](options, compact=True)
            )
        case _:
            return Input("" if default is None else str(default), compact=True)


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


class QuestionText(Item):
    """The text of a question."""

    def __init__(self, parts: Sequence[DrawnPart]) -> None:
        super().__init__()
        self.parts: list[DrawnPart] = list(parts)


class OptionDialog(ChoiceDialog):
    """A question with permission options as answers."""

    def __init__(self, title: str, parts: Sequence[DrawnPart], options: Sequence[PermissionOption]) -> None:
        names = [option.name or option.option_id for option in options]
        super().__init__(title, [QuestionText(parts)], names, [option.kind for option in options])
        self.permission_options: list[PermissionOption] = list(options)

    def choose(self, index: int) -> None:
        self.set_answer(self.permission_options[index])


class PermissionDialog(OptionDialog):
    """Asks for permission for a tool call and shows its command, diff and files."""

    def __init__(self, permission: PermissionRequest, request: ActionRequest, decision: Decision) -> None:
        kind = KIND_LABELS.get(permission.call.display_kind, "")
        title = (
            f"{one_line(permission.session.agent.name, 40)} asks to {kind}"
            if kind
            else f"{permission.session.agent.name} asks"
        )
        if not permission.options:
            title += ": no answers offered, Esc stops the turn"
        super().__init__(title, list(_permission_parts(permission, request, decision)), permission.options)


class AccessDialog(OptionDialog):
    """Asks for permission for a file or terminal access through this client."""

    def __init__(
        self,
        agent: str,
        what: str,
        extras: Sequence[str],
        decision: Decision,
        options: Sequence[PermissionOption],
    ) -> None:
        parts = [
            RevealedTextPart(what, strong=True),
            *(RevealedTextPart(line) for line in extras),
            RevealedTextPart(f"({decision.reason})"),
        ]
        super().__init__(f"{one_line(agent, 40)} asks", parts, options)


def _permission_parts(
    permission: PermissionRequest, request: ActionRequest, decision: Decision
) -> Iterator[DrawnPart]:
    yield RevealedTextPart(permission.call.label, strong=True)
    for line in request_details(permission, request):
        yield RevealedTextPart(line, code=line.startswith("$ "))
    for item in permission.call.content:
        if isinstance(item, Diff):
            before = _make_visible(item.old_text) if isinstance(item.old_text, str) else None
            yield DiffPart(visible(item.path), before, _make_visible(item.new_text), folded=False)
        elif isinstance(item, Content) and isinstance(item.content, TextContent):
            yield RevealedTextPart(item.content.text, quoted=True)
    raw = permission.call.raw_input
    if isinstance(raw, dict) and not (request.command or request.paths or request.url):
        members = cast("dict[str, Any]", raw)
        yield RevealedTextPart(
            "\n".join(f"{name}: {json_value_text(value)}" for name, value in members.items()), quoted=True
        )
    if decision.rule not in ("default ask", "default reads"):
        yield RevealedTextPart(f"({decision.reason})")


def _make_visible(text: str) -> str:
    """Escape invisible characters and keep the lines."""
    return "\n".join(visible(line.expandtabs(4)) for line in text.split("\n"))


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
        self.input: Input = Input(
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
        """Show a dialog and wait for the answer. Canceling removes the dialog."""
        ...

    def run_without_screen(self, run: Callable[[], int]) -> int:
        """Hide the screen while `run` uses the terminal."""
        ...

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Show a note in the transcript."""
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

    # -- within `start_question` --

    async def permission(
        self, permission: PermissionRequest, request: ActionRequest, decision: Decision
    ) -> PermissionOption | None:
        return await self._host.ask(PermissionDialog(permission, request, decision))

    async def access(
        self,
        session: ClientSession,
        what: str,
        extras: Sequence[str],
        decision: Decision,
        options: Sequence[PermissionOption],
    ) -> PermissionOption | None:
        return await self._host.ask(AccessDialog(session.agent.name, what, extras, decision, options))

    # -- handlers of the client --

    async def form(self, form: ElicitationForm) -> FormAnswer:
        async with self.start_question():
            return await self._host.ask(FormDialog(form))

    async def address(self, address: ElicitationUrl) -> bool | None:
        """Show a web address. The user opens it, not the client."""
        async with self.start_question():
            answer = await self._host.ask(AddressDialog(address))
        return False if answer is DECLINED else answer

    async def question(self, params: Any) -> dict[str, Any]:
        """Serve `_agentao.cn/ask_user`."""
        question = read_ask_user(params)
        if question is None:
            return ask_user_result(None)
        async with self.start_question():
            return ask_user_result(await self._host.ask(QuestionDialog(*question)))

    async def sign_in(
        self, agent: str, reason: str, methods: Sequence[AuthMethod], launch: AgentCommand | None
    ) -> AuthMethod | None:
        async with self.start_question():
            return await self._host.ask(SignInDialog(agent, reason, methods, launch))

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
            trusted = await self._host.ask(TrustDialog(file)) is True
        if trusted:
            try:
                trust_file(file)
            except UsageError as error:
                self._host.note(f"Trusted for this run only: {visible(str(error))}", "bad")
        return trusted
