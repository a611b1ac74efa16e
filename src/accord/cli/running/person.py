"""The person at the terminal: one question at a time, read line by line, without holding up anything else.

What was typed before a question is shown is thrown away: nobody agrees to what they have not seen.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TextIO

from accord.cleaning import one_line, visible
from accord.cli.output import Output
from accord.cli.running.describing import choose, describe
from accord.client import ClientSession, PermissionRequest
from accord.client.keyboard import forget_typed
from accord.policy.request import Decision, Request
from accord.schema import PermissionOption

_LONGEST: Final = 64 * 1024
_LONGEST_TEXT: Final = 8_000


def is_there() -> bool:
    """Whether somebody can be asked: both sides of the conversation are terminals."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


class Person:
    """Who can be asked. Questions wait for each other."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._one_at_a_time = asyncio.Lock()
        self._gone = asyncio.Event()

    def dismiss(self) -> None:
        """The person wants no more questions: the open one, and all that follow, go unanswered."""
        self._gone.set()

    @asynccontextmanager
    async def asked(self) -> AsyncGenerator["Question"]:
        """Have the person's attention."""
        async with self._one_at_a_time:
            with self._output.question():
                forget_typed(sys.stdin.fileno())
                question = Question(sys.stdin.fileno(), sys.stderr, self._gone)
                try:
                    yield question
                except asyncio.CancelledError:
                    question.say("")  # what was being asked stands there half answered
                    raise


class Question:
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
        self, asked: PermissionRequest, request: Request, decision: Decision
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
        self.say(f"\n{one_line(session.life.name)} asks: {what}")
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
