"""Asks the user at the terminal: permissions, forms, web addresses, questions.

Imported on first use.
"""

import asyncio
import difflib
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, Final, TextIO, cast

from accord.cli.output import Output
from accord.client import DECLINED, ClientSession, ElicitationForm, ElicitationUrl, PermissionRequest
from accord.client.elicitation_forms import FormAnswer
from accord.frontend.forms import answer_to, choices_of, forget_typed, read_question, title_of, value_of
from accord.frontend.policy_handler import judged
from accord.policy.request import ActionRequest, Decision
from accord.safe_text import one_line, visible
from accord.schema import (
    BooleanPropertySchema,
    Content,
    Diff,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    PermissionOption,
    StringPropertySchema,
    TextContent,
    Unknown,
)

# MERGED cli.running.describing: A permission request in words: what the agent wants to do, so that somebody can decide about it.

_LINES: Final = 40
_LONGEST_LINE: Final = 400
_LARGEST_DIFF: Final = 200_000


def describe(
    question: "TerminalQuestion", asked: PermissionRequest, request: ActionRequest, decision: Decision
) -> None:
    """Say who asks, for what, and why the rules did not decide it. What the rules judge is shown whole, whatever the title says."""
    call = asked.call
    kind = f" [{call.display_kind}]" if call.display_kind != "other" else ""
    question.say(f"\n{asked.session.agent.name} asks: {one_line(call.label)}{kind}")
    for line in judged(asked, request):
        question.say(line, "  ")
    for line in _shown(asked, request):
        question.say(_short(line), "  | ")  # the agent's words: nothing in them can pass for an option
    if decision.rule not in ("default ask", "default reads"):
        question.say(f"({decision.reason})", "  ")


def _shown(asked: PermissionRequest, request: ActionRequest) -> Iterator[str]:
    for item in asked.call.content:
        if isinstance(item, Diff):
            yield f"{'change' if isinstance(item.old_text, str) else 'new file'} {item.path}"
            yield from _some(_changed(item))
        elif isinstance(item, Content) and isinstance(item.content, TextContent):
            yield from _some(item.content.text.split("\n"))
    raw = asked.call.raw_input
    if isinstance(raw, dict) and not (request.command or request.paths or request.url):
        given = cast("dict[str, Any]", raw)
        yield from _some([f"{name}: {one_line(str(value))}" for name, value in given.items()])


def _changed(diff: Diff) -> list[str]:
    old = diff.old_text if isinstance(diff.old_text, str) else ""
    if len(old) + len(diff.new_text) > _LARGEST_DIFF:
        return [f"{len(diff.new_text)} characters, too many to compare here"]
    lines = difflib.unified_diff(old.splitlines(), diff.new_text.splitlines(), lineterm="", n=2)
    return [line for line in islice(lines, 2, None) if not line.startswith("@@")]


def _some(lines: list[str]) -> Iterator[str]:
    yield from lines[:_LINES]
    if len(lines) > _LINES:
        yield f"... and {len(lines) - _LINES} lines more"


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


async def choose(
    question: "TerminalQuestion", options: Sequence[PermissionOption]
) -> PermissionOption | None:
    """Let the person choose by number; nothing is chosen by Enter alone. None: went away."""
    for number, option in enumerate(options, 1):
        question.say(f"  {number}  {one_line(option.name or option.option_id)}")
    if not options:
        question.say("  The agent offers nothing to choose: it is refused.")
        return None
    while True:
        typed = await question.line(
            f"Choose 1-{len(options)}: " if len(options) > 1 else "Type 1, or Ctrl-D: "
        )
        if typed is None:
            return None
        if typed.isdecimal() and 1 <= int(typed) <= len(options):
            return options[int(typed) - 1]


# MERGED cli.running.person: The person at the terminal: one question at a time, read line by line, without holding up anything else.
#
# What was typed before a question is shown is thrown away: nobody agrees to what they have not seen.

_LONGEST: Final = 64 * 1024
_LONGEST_TEXT: Final = 8_000


def is_there() -> bool:
    """Whether somebody can be asked: both sides of the conversation are terminals."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


class TerminalUser:
    """Who can be asked. Questions wait for each other."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._one_at_a_time = asyncio.Lock()
        self._gone = asyncio.Event()

    def dismiss(self) -> None:
        """The person wants no more questions: the open one, and all that follow, go unanswered."""
        self._gone.set()

    @asynccontextmanager
    async def asked(self) -> AsyncGenerator["TerminalQuestion"]:
        """Have the person's attention."""
        async with self._one_at_a_time:
            with self._output.question():
                forget_typed(sys.stdin.fileno())
                question = TerminalQuestion(sys.stdin.fileno(), sys.stderr, self._gone)
                try:
                    yield question
                except asyncio.CancelledError:
                    question.say("")  # what was being asked stands there half answered
                    raise


class TerminalQuestion:
    """A conversation with the person, as long as they have been asked something."""

    def __init__(self, keyboard: int, screen: TextIO, gone: asyncio.Event) -> None:
        self._keyboard = keyboard
        self._screen = screen
        self._gone = gone

    def say(self, text: str, indent: str = "") -> None:
        """Show a text, with everything spelled out that could deceive; the indent is in front of each of its lines."""
        shown = (
            text
            if len(text) <= _LONGEST_TEXT
            else f"{text[:_LONGEST_TEXT]}\n... and {len(text) - _LONGEST_TEXT} characters more"
        )
        if self._gone.is_set():
            return
        for line in shown.split("\n"):
            self._screen.write(f"{indent}{visible(line.expandtabs())}\n")
        self._screen.flush()

    async def line(self, prompt: str) -> str | None:
        """What is typed behind the prompt; None when the person goes away (Ctrl-D) or was dismissed."""
        if self._gone.is_set():
            return None
        self._screen.write(visible(prompt))
        self._screen.flush()
        typed = await self._until_gone(_typed(self._keyboard))
        if not typed.endswith("\n"):
            self._screen.write("\n")
            self._screen.flush()
            if not typed:
                return None
        return typed.strip()

    async def yes(self, prompt: str) -> bool | None:
        """Whether a yes was typed; everything else is a no. None: went away."""
        answer = await self.line(f"{prompt} [y/N] ")
        return None if answer is None else answer.casefold() in ("y", "yes")

    async def permission(
        self, asked: PermissionRequest, request: ActionRequest, decision: Decision
    ) -> PermissionOption | None:
        """May this tool call run?"""
        describe(self, asked, request, decision)
        return await choose(self, asked.options)

    async def access(
        self,
        session: ClientSession,
        what: str,
        extras: Sequence[str],
        decision: Decision,
        options: Sequence[PermissionOption],
    ) -> PermissionOption | None:
        """May the agent do this through this client?"""
        self.say(f"\n{one_line(session.agent.name)} asks: {what}")
        for line in extras:
            self.say(line, "  ")
        self.say(decision.reason, "  ")
        return await choose(self, options)

    async def _until_gone(self, typing: Coroutine[Any, Any, str]) -> str:
        """What is typed, or nothing."""
        typed, gone = asyncio.ensure_future(typing), asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait((typed, gone), return_when=asyncio.FIRST_COMPLETED)
            return typed.result() if typed.done() else ""
        finally:
            for task in (typed, gone):
                task.cancel()
            await asyncio.gather(typed, gone, return_exceptions=True)


async def _typed(keyboard: int) -> str:
    """One line, as the terminal hands it over; cancelling takes the hand off the keyboard."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def deliver(text: str) -> None:
        if not line.done():
            line.set_result(text)

    if sys.platform == "win32":
        # A console cannot be watched by the loop. A thread that nobody answers ends with the process.
        read = sys.stdin.readline
        threading.Thread(target=lambda: loop.call_soon_threadsafe(deliver, read()), daemon=True).start()
        return await line

    def ready() -> None:
        try:
            deliver(os.read(keyboard, _LONGEST).decode(errors="replace"))
        except OSError:
            deliver("")

    loop.add_reader(keyboard, ready)
    try:
        return await line
    finally:
        loop.remove_reader(keyboard)


# MERGED cli.running.forms: What an agent asks the user beside permissions: forms, web addresses, and the plain question of Agentao's extension.
#
# Asked on the terminal and checked before they are sent; without a terminal declined.


class TerminalForms:
    """Puts the agent's questions to the person. `done` counts them: an agent that asks has begun to work."""

    def __init__(self, person: TerminalUser | None, note: Callable[[str], None]) -> None:
        self.done = 0
        self._person = person
        self._note = note

    async def form(self, form: ElicitationForm) -> FormAnswer:
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
                question.say(f"{title_of(form.fields[name], name)}: {_forms_shown(value)}", "  ")
            agreed = await question.yes("Send this?")
        if agreed is None:
            return None
        return values if agreed else DECLINED

    async def address(self, address: ElicitationUrl) -> bool | None:
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


async def _fill_in(
    question: TerminalQuestion, form: ElicitationForm, name: str, schema: Any, values: dict[str, Any]
) -> bool:
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
        notes.append(f"Enter for {_forms_shown(default)}")
    elif not required:
        notes.append("Enter for none")
    return f" ({'; '.join(notes)})" if notes else ""


def _forms_shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(cast("list[str]", value)) if isinstance(value, list) else str(value)
