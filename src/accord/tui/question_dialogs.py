"""Dialogs for permissions, forms, questions, web addresses, sign-in and trust; the handler that shows them
one at a time.

Imported on first use: it loads accord.client.
"""

import asyncio
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

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
from accord.frontend.agent_config.project_trust import what_it_does
from accord.frontend.forms import answer_to, choices_of, read_question, title_of, value_of
from accord.frontend.policy_handler import judged
from accord.frontend.sign_in import described
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
from accord.tui.dialog import AnswerList, ChoiceDialog, Dialog, digit
from accord.tui.parts.diff_part import DiffPart, RevealedTextPart
from accord.tui.parts.part import DrawnPart
from accord.tui.parts.tool_parts import KINDS
from accord.tui.theme import shown
from accord.tui.transcript.transcript_layout import Item

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from accord.frontend.agent_config.acp_file import AgentConfigFile
    from accord.frontend.agent_config.project_trust import Trusting


# MERGED tui.outside: A program that has the terminal for itself while the screen is away. Everything else waits for it.


def run_outside(launch: AgentCommand) -> int:
    """Run it until it exits, and give its exit code. Raises NeverStarted."""
    sys.stdout.write(f"{one_line(shlex.join(launch.command))} runs in this terminal now\n")
    sys.stdout.flush()
    # Ctrl+C is for the program: it is in front, and this one only waits for it.
    before = signal.signal(signal.SIGINT, _not_for_us)
    try:
        with ThreadPoolExecutor(1) as thread:
            code = thread.submit(asyncio.run, run_in_terminal(launch)).result()
        if code != 0:
            sys.stdout.write(f"It exited with {code}. Enter returns to the conversation. ")
            sys.stdout.flush()
            sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
    return code


def _not_for_us(number: int, frame: object) -> None:
    """A handler, not SIG_IGN: that would be the program's, too."""


# MERGED tui.dialogs.form: A form of the agent: a field each, checked before it is sent.


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

    def __init__(self, form: ElicitationForm) -> None:
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
        for name, label in self._problems.items():
            label.update(problems.get(name, ""))
            label.set_class(name in problems, "some")
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


# MERGED tui.dialogs.permission: May the agent do this? Every option it offers, and what it is about in full: the command, the change, the files.


class SubjectItem(Item):
    """What a question is about."""

    def __init__(self, parts: Sequence[DrawnPart]) -> None:
        super().__init__()
        self.parts = list(parts)


class OptionDialog(ChoiceDialog):
    """A question whose answers are permission options."""

    def __init__(self, title: str, parts: Sequence[DrawnPart], options: Sequence[PermissionOption]) -> None:
        names = [option.name or option.option_id for option in options]
        super().__init__(title, [SubjectItem(parts)], names, [option.kind for option in options])
        self.offered = list(options)

    def choose(self, index: int) -> None:
        self.settle(self.offered[index])


class PermissionDialog(OptionDialog):
    """About a tool call."""

    def __init__(self, asked: PermissionRequest, request: ActionRequest, decision: Decision) -> None:
        kind = KINDS.get(asked.call.display_kind, "")
        title = (
            f"{one_line(asked.session.agent.name, 40)} asks to {kind}"
            if kind
            else f"{asked.session.agent.name} asks"
        )
        super().__init__(title, list(_parts(asked, request, decision)), asked.options)
        if not asked.options:
            self.border_title = self._title = f"{title}: it offers no answer, Esc stops the turn"


class AccessDialog(OptionDialog):
    """About what the agent does through this client."""

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


def _parts(asked: PermissionRequest, request: ActionRequest, decision: Decision) -> Iterator[DrawnPart]:
    yield RevealedTextPart(asked.call.label, strong=True)
    for line in judged(asked, request):
        yield RevealedTextPart(line, code=line.startswith("$ "))
    for item in asked.call.content:
        if isinstance(item, Diff):
            before = _spelled_out(item.old_text) if isinstance(item.old_text, str) else None
            yield DiffPart(visible(item.path), before, _spelled_out(item.new_text), folded=False)
        elif isinstance(item, Content) and isinstance(item.content, TextContent):
            yield RevealedTextPart(item.content.text, quoted=True)
    raw = asked.call.raw_input
    if isinstance(raw, dict) and not (request.command or request.paths or request.url):
        given = cast("dict[str, Any]", raw)
        yield RevealedTextPart(
            "\n".join(f"{name}: {shown(value)}" for name, value in given.items()), quoted=True
        )
    if decision.rule not in ("default ask", "default reads"):
        yield RevealedTextPart(f"({decision.reason})")


def _spelled_out(text: str) -> str:
    """Nothing in it hides, and it has the lines it had."""
    return "\n".join(visible(line.expandtabs(4)) for line in text.split("\n"))


# MERGED tui.dialogs.address: A web address that the agent wants opened: shown in full, its host made plain. Nothing is opened here.


class AddressDialog(ChoiceDialog):
    """True: the user opens it; DECLINED: they do not want to."""

    def __init__(self, address: ElicitationUrl) -> None:
        parts = [RevealedTextPart(clean_text(address.message)), RevealedTextPart(address.url, strong=True)]
        warning = ": its name is in another script than it may look like" if address.punycode else ""
        parts.append(RevealedTextPart(f"at {address.host}{warning}"))
        names = ("I open it in my browser", "No")
        super().__init__(f"{address.agent} asks you to open an address", [SubjectItem(parts)], names)

    def choose(self, index: int) -> None:
        self.settle(True if index == 0 else DECLINED)


# MERGED tui.dialogs.question: A plain question of the agent: one of the answers it suggests, or words of the user's own.


class QuestionDialog(Dialog):
    """The answer is a text."""

    def __init__(self, text: str, options: Sequence[str]) -> None:
        super().__init__("The agent asks")
        self._text = text
        self._answers = list(options)
        self.options = AnswerList(self._answers)
        self.input = Input(
            placeholder="a number, or your own words" if options else "your answer", compact=True
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
    def first(self) -> Input:
        return self.input

    def on_key(self, event: "events.Key") -> None:
        if event.key in ("up", "down") and self.counts(event):
            event.stop()
            self.options.move(-1 if event.key == "up" else 1)
            if self.options.at is not None:
                self.input.value = self._answers[self.options.at]

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        typed = event.value.strip()
        number = digit(typed)
        if number is not None and number < len(self._answers):
            typed = self._answers[number]
        if typed and self.armed:
            self.settle(typed)

    @on(AnswerList.Clicked)
    def _clicked(self, event: AnswerList.Clicked) -> None:
        event.stop()
        if self.counts(event.event):
            self.settle(self._answers[event.index])


# MERGED tui.dialogs.signin: How do you want to sign in? The ways that the agent offers, with what each of them does.


class SignInDialog(ChoiceDialog):
    """The answer is a method, or None."""

    def __init__(
        self, agent: str, why: str, methods: Sequence[AuthMethod], launch: AgentCommand | None
    ) -> None:
        names = [one_line(clean_line(method.name)) for method in methods]
        told = [described(method, launch) for method in methods]
        lines = [
            RevealedTextPart(f"· {text}") for name, text in zip(names, told, strict=True) if text != name
        ]
        about = SubjectItem([RevealedTextPart(why, strong=True), *lines])
        super().__init__(f"{one_line(agent, 40)} wants you to sign in", [about], [*names, "Not now"])
        self._methods = list(methods)

    @property
    def hint(self) -> str:
        return f"1-{min(len(self.options.names), 9)} choose · Esc: not now"

    def choose(self, index: int) -> None:
        self.settle(self._methods[index] if index < len(self._methods) else None)


# MERGED tui.dialogs.trust: May a project's file of agents count? It can start programs with the user's rights.


class TrustDialog(ChoiceDialog):
    """True: it counts, until it changes."""

    def __init__(self, file: "AgentConfigFile") -> None:
        lines = [RevealedTextPart(line) for line in what_it_does(file)]
        head = RevealedTextPart(f"{file.path} is new or has changed since you agreed to it.", strong=True)
        names = ("Do not let it count", "Let it count: it may start these programs")
        super().__init__(
            "An acp.json of this project",
            [SubjectItem([head, *lines])],
            names,
            ("reject_once", "allow_always"),
        )

    def choose(self, index: int) -> None:
        self.settle(index == 1)


# MERGED tui.asking: What the agent asks of the user, put on the screen: permissions, forms, addresses, plain questions. One at a time.


class DialogHost(Protocol):
    """Where dialogs are shown."""

    async def ask(self, dialog: "Dialog") -> Any:
        """Show it and wait for the answer; None when the user went away. Cancelling takes it off the screen."""
        ...

    def lend_terminal(self, run: Callable[[], int]) -> int:
        """Leave the terminal to something else until it is done."""
        ...


class DialogHandler:
    """The user, as the client's handlers know them."""

    def __init__(self, asker: DialogHost) -> None:
        self._asker = asker
        self._one_at_a_time = asyncio.Lock()
        self.waiting = 0
        """Questions that are open, the one on the screen included."""

    @asynccontextmanager
    async def asked(self) -> AsyncGenerator["DialogHandler"]:
        """Have the user's attention."""
        self.waiting += 1
        try:
            async with self._one_at_a_time:
                yield self
        finally:
            self.waiting -= 1

    # -- by those who have it -----------------------------------------------------------------------------------

    async def permission(
        self, asked: PermissionRequest, request: ActionRequest, decision: Decision
    ) -> PermissionOption | None:
        """May this tool call run?"""
        return await self._asker.ask(PermissionDialog(asked, request, decision))

    async def access(
        self,
        session: ClientSession,
        what: str,
        extras: Sequence[str],
        decision: Decision,
        options: Sequence[PermissionOption],
    ) -> PermissionOption | None:
        """May the agent do this through this client?"""
        return await self._asker.ask(AccessDialog(session.agent.name, what, extras, decision, options))

    # -- by the handlers of the client --------------------------------------------------------------------------

    async def form(self, form: ElicitationForm) -> FormAnswer:
        """A form of the agent."""
        async with self.asked():
            return await self._asker.ask(FormDialog(form))

    async def address(self, address: ElicitationUrl) -> bool | None:
        """A web address: shown in full, opened by the user or by nobody."""
        async with self.asked():
            answer = await self._asker.ask(AddressDialog(address))
        return False if answer is DECLINED else answer

    async def question(self, params: Any) -> dict[str, Any]:
        """`_agentao.cn/ask_user`."""
        asked = read_question(params)
        if asked is None:
            return answer_to(None)
        async with self.asked():
            return answer_to(await self._asker.ask(QuestionDialog(*asked)))

    async def sign_in(
        self, agent: str, why: str, methods: Sequence[AuthMethod], launch: AgentCommand | None
    ) -> AuthMethod | None:
        """By which of these ways?"""
        async with self.asked():
            return await self._asker.ask(SignInDialog(agent, why, methods, launch))

    async def login(self, launch: AgentCommand) -> int:
        """Run a program of the agent in the terminal of the user."""
        async with self.asked():
            return self._asker.lend_terminal(lambda: run_outside(launch))

    def trusting(self) -> "Trusting":
        """Asks whether a project's file counts. For a thread, which waits for the answer."""
        loop = asyncio.get_running_loop()

        def ask(file: "AgentConfigFile") -> bool:
            return asyncio.run_coroutine_threadsafe(self._trust(file), loop).result()

        return ask

    async def _trust(self, file: "AgentConfigFile") -> bool:
        async with self.asked():
            agreed = await self._asker.ask(TrustDialog(file)) is True
        if agreed:
            from accord.policy.trust_store import TrustStore

            TrustStore().trust(file.path, file.content)
        return agreed
