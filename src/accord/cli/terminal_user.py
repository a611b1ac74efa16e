"""Asks the user at the terminal: permissions, forms, web addresses, questions.

One question at a time, without blocking the event loop. Input typed before a question appears is discarded,
so that the user cannot agree to something unseen. Without a terminal every request is declined.

Imported on first use: it loads accord.client.
"""

import asyncio
import difflib
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, Final, TextIO, cast

from accord.cli.output import Output
from accord.client import DECLINED, ElicitationForm, ElicitationUrl, PermissionRequest
from accord.client.elicitation_forms import FormAnswer
from accord.frontend.consent import AccessQuestion
from accord.frontend.forms import (
    ask_user_result,
    discard_typed_input,
    field_choices,
    field_title,
    parse_field_value,
    read_ask_user,
)
from accord.frontend.policy_handler import (
    always_note,
    argument_text,
    is_command_title,
    option_label,
    reason_note,
    request_details,
    shown_arguments,
    shown_diffs,
    shown_texts,
)
from accord.policy.request import ActionRequest, Decision
from accord.safe_text import one_line, visible
from accord.schema import (
    BooleanPropertySchema,
    Diff,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    PermissionOption,
    StringPropertySchema,
    Unknown,
)
from accord.text_width import count_text

_MAX_LINES: Final = 40
_MAX_LINE_LENGTH: Final = 400
_MAX_DIFF_LENGTH: Final = 200_000
_MAX_INPUT_BYTES: Final = 64 * 1024
_MAX_TEXT_LENGTH: Final = 8_000
_INTERRUPT_STEPS: Final = 3
"""Steps of the event loop until the handler of a signal that has arrived is called."""


class TerminalUser:
    """The user at the terminal. Questions are asked one after another."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._one_at_a_time = asyncio.Lock()

    @asynccontextmanager
    async def start_question(self) -> AsyncGenerator["TerminalQuestion"]:
        """Reserve the terminal for one question."""
        async with self._one_at_a_time:
            with self._output.question():
                discard_typed_input(sys.stdin.fileno())
                question = TerminalQuestion(sys.stdin.fileno(), sys.stderr, self._output.prompt)
                try:
                    yield question
                except asyncio.CancelledError:
                    question.show("")  # end the line of the unanswered prompt
                    raise


class TerminalQuestion:
    """One question to the user: prints texts and reads lines."""

    def __init__(self, keyboard: int, screen: TextIO, set_prompt: Callable[[str], None]) -> None:
        self._keyboard = keyboard
        self._screen = screen
        self._set_prompt = set_prompt

    def show(self, text: str, indent: str = "") -> None:
        """Print a text with unsafe characters made visible and each line indented."""
        limited_text = (
            text
            if len(text) <= _MAX_TEXT_LENGTH
            else f"{text[:_MAX_TEXT_LENGTH]}\n... and "
            + count_text(len(text) - _MAX_TEXT_LENGTH, "more character")
        )
        for line in limited_text.split("\n"):
            self._screen.write(f"{indent}{visible(line.expandtabs())}\n")
        self._screen.flush()

    async def read_line(self, prompt: str) -> str | None:
        """Read a line after the prompt. Returns None on Ctrl-D."""
        prompt = visible(prompt)
        self._screen.write(prompt)
        self._screen.flush()
        self._set_prompt(prompt)
        try:
            answer = await _read_line(self._keyboard)
        finally:
            self._set_prompt("")
        for _ in range(_INTERRUPT_STEPS):
            await asyncio.sleep(0)  # a Ctrl-C that was typed before the line is handled first
        if not answer.endswith("\n"):
            self._screen.write("\n")
            self._screen.flush()
            if not answer:
                return None
        return answer.strip()

    async def ask_yes_no(self, prompt: str) -> bool | None:
        """Ask a yes/no question; anything but yes is no. Returns None if the user leaves."""
        answer = await self.read_line(f"{prompt} [y/N] ")
        return None if answer is None else answer.casefold() in ("y", "yes")

    async def permission(
        self, permission: PermissionRequest, request: ActionRequest, decision: Decision
    ) -> PermissionOption | None:
        """Ask whether a tool call may run."""
        show_permission(self, permission, request, decision)
        return await choose_option(self, permission.options)

    async def access(
        self, question: AccessQuestion, decision: Decision, options: Sequence[PermissionOption]
    ) -> PermissionOption | None:
        """Ask whether the agent may use this client's workspace."""
        self.show(f"\n{question.title}")
        for line in (*question.details, *question.extras):
            self.show(line, "  ")
        if question.diff is not None:
            for line in _diff_text(question.diff):
                self.show(_shorten(line), "  | ")
        self.show(f"({decision.reason})", "  ")
        return await choose_option(self, options)


class TerminalForms:
    """Handles the agent's forms, web addresses and `_agentao.cn/ask_user` questions."""

    def __init__(self, user: TerminalUser | None, note: Callable[[str], None]) -> None:
        self.requests: int = 0
        """How many requests the agent sent. An agent that asks has begun to work."""
        self._user = user
        self._note = note

    async def form(self, form: ElicitationForm) -> FormAnswer:
        """Ask for each field of a form, then confirm all values before they are sent."""
        self.requests += 1
        if self._user is None:
            self._note_declined(form.message)
            return DECLINED
        async with self._user.start_question() as question:
            question.show(f"\n{form.agent} asks: {form.message}")
            if form.schema.title or form.schema.description:
                question.show(f"{form.schema.title or ''} {form.schema.description or ''}".strip(), "  ")
            values: dict[str, Any] = {}
            for name, schema in form.fields.items():
                if isinstance(schema, Unknown):
                    continue
                if not await _ask_field(question, form, name, schema, values):
                    return None
            for name, value in values.items():
                question.show(f"{field_title(form.fields[name], name)}: {_value_text(value)}", "  ")
            confirmed = await question.ask_yes_no("Send this?")
        if confirmed is None:
            return None
        return values if confirmed else DECLINED

    async def address(self, address: ElicitationUrl) -> bool | None:
        """Show a web address in full. Only the user opens it."""
        self.requests += 1
        if self._user is None:
            self._note_declined(f"{address.message} ({address.url})")
            return False
        async with self._user.start_question() as question:
            question.show(f"\n{address.agent} asks you to open an address: {address.message}")
            question.show(address.url, "  ")
            warning = (
                "; the host name contains characters that can look like others" if address.punycode else ""
            )
            question.show(f"at {address.host}{warning}", "  ")
            return await question.ask_yes_no("Do you agree? Then open it in your browser.")

    async def question(self, params: Any) -> dict[str, Any]:
        """Handle the request `_agentao.cn/ask_user`."""
        self.requests += 1
        parsed = read_ask_user(params)
        if parsed is None:
            return ask_user_result(None)
        text, options = parsed
        if self._user is None:
            self._note_declined(text)
            return ask_user_result(None)
        async with self._user.start_question() as question:
            question.show(f"\nThe agent asks: {text}")
            for number, option in enumerate(options, 1):
                question.show(f"  {number}  {one_line(option)}")
            prompt = "A number, or your own answer: " if options else "Your answer: "
            while True:
                answer = await question.read_line(prompt)
                if answer is None:
                    return ask_user_result(None)
                if answer:
                    break
        if answer.isdecimal() and 1 <= int(answer) <= len(options):
            answer = options[int(answer) - 1]
        return ask_user_result(answer)

    def _note_declined(self, question_text: str) -> None:
        self._note(f"declined, because there is no terminal to ask on: {question_text}")


async def choose_option(
    question: "TerminalQuestion", options: Sequence[PermissionOption]
) -> PermissionOption | None:
    """Let the user choose by number; Enter alone chooses nothing.

    Returns None if the user leaves (Ctrl-D).
    """
    for number, option in enumerate(options, 1):
        question.show(f"  {number}  {one_line(option_label(option))}")
    if not options:
        question.show("  The agent offers no options; the request is refused.")
        return None
    while True:
        answer = await question.read_line(
            f"Choose 1-{len(options)}: " if len(options) > 1 else "Type 1, or Ctrl-D: "
        )
        if answer is None:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= len(options):
            return options[int(answer) - 1]


def show_permission(
    question: "TerminalQuestion", permission: PermissionRequest, request: ActionRequest, decision: Decision
) -> None:
    """Show the agent, the action, and the rule that asks. What the rules judge is shown in full."""
    call = permission.call
    kind = f" [{call.display_kind}]" if call.display_kind != "other" else ""
    title = "run a command" if is_command_title(permission) else one_line(call.label)
    question.show(f"\n{permission.session.agent.name} asks: {title}{kind}")
    for line in request_details(permission, request):
        question.show(line, "  ")
    for line in _content_lines(permission, request):
        question.show(_shorten(line), "  | ")  # the mark shows that the agent wrote this, not Accord
    for note in (reason_note(permission, request, decision), always_note(permission, request, decision)):
        if note:
            question.show(note, "  ")


def _content_lines(permission: PermissionRequest, request: ActionRequest) -> Iterator[str]:
    for diff in shown_diffs(permission):
        yield from _diff_text(diff)
    for text in shown_texts(permission):
        yield from _first_lines(text.split("\n"))
    arguments = shown_arguments(permission, request)
    yield from _first_lines(
        [f"{name}: {one_line(argument_text(value))}" for name, value in arguments.items()]
    )


def _diff_text(diff: Diff) -> Iterator[str]:
    yield f"{'change' if isinstance(diff.old_text, str) else 'new file'} {diff.path}"
    yield from _first_lines(_diff_lines(diff))


def _diff_lines(diff: Diff) -> list[str]:
    old = diff.old_text if isinstance(diff.old_text, str) else ""
    if len(old) + len(diff.new_text) > _MAX_DIFF_LENGTH:
        return [f"{len(diff.new_text)} characters, too long to compare"]
    lines = difflib.unified_diff(old.splitlines(), diff.new_text.splitlines(), lineterm="", n=2)
    return [line for line in islice(lines, 2, None) if not line.startswith("@@")]


def _first_lines(lines: list[str]) -> Iterator[str]:
    yield from lines[:_MAX_LINES]
    if len(lines) > _MAX_LINES:
        yield f"... and {count_text(len(lines) - _MAX_LINES, 'more line')}"


def _shorten(line: str) -> str:
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[:_MAX_LINE_LENGTH]}..."


async def _read_line(keyboard: int) -> str:
    """Read one line from the terminal. After a cancellation the keyboard is no longer read."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def deliver(text: str) -> None:
        if not line.done():
            line.set_result(text)

    if sys.platform == "win32":
        # The loop cannot watch a console. A thread that still waits for input ends with the process.
        read = sys.stdin.readline
        threading.Thread(target=lambda: loop.call_soon_threadsafe(deliver, read()), daemon=True).start()
        return await line

    def ready() -> None:
        try:
            deliver(os.read(keyboard, _MAX_INPUT_BYTES).decode(errors="replace"))
        except OSError:
            deliver("")

    loop.add_reader(keyboard, ready)
    try:
        return await line
    finally:
        loop.remove_reader(keyboard)


async def _ask_field(
    question: TerminalQuestion, form: ElicitationForm, name: str, schema: Any, values: dict[str, Any]
) -> bool:
    """Ask for one field until the input is valid. Returns False if the user leaves."""
    required, default = name in form.required, form.defaults.get(name)
    title = field_title(schema, name)
    if schema.description:
        question.show(schema.description, "  ")
    choices = field_choices(schema)
    for number, (_, label) in enumerate(choices, 1):
        question.show(f"  {number}  {one_line(label)}")
    hint = _field_hint(schema, choices, default, required)
    while True:
        answer = await question.read_line(f"{title}{hint}: ")
        if answer is None:
            return False
        if not answer and default is not None:
            values[name] = default
            return True
        if not answer and not required:
            return True
        value = parse_field_value(schema, answer, choices)
        problems = await form.problems({name: value})
        if name not in problems:
            values[name] = value
            return True
        question.show(f"{title} {problems[name]}", "  ")


def _field_hint(schema: Any, choices: Sequence[tuple[str, str]], default: Any, required: bool) -> str:
    notes: list[str] = []
    match schema:
        case BooleanPropertySchema():
            notes.append("y or n")
        case MultiSelectPropertySchema():
            notes.append("numbers, separated by commas")
        case _ if choices:
            notes.append("a number")
        case IntegerPropertySchema() | NumberPropertySchema():
            notes.append("a number")
        case StringPropertySchema() if schema.format:
            notes.append(schema.format)
        case _:
            pass
    if default is not None:
        notes.append(f"Enter for {_value_text(default)}")
    elif not required:
        notes.append("Enter for none")
    return f" ({'; '.join(notes)})" if notes else ""


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(cast("list[str]", value)) if isinstance(value, list) else str(value)
