"""A conversation without a terminal: each line of stdin is a prompt, and what comes of it is printed as `accord run` prints it."""

import asyncio
import sys
import threading
from typing import TYPE_CHECKING

from accord.cli import DONE, FAILED, INTERRUPTED, exit_code
from accord.cli.output import Output, output_for
from accord.client import ClientEvent, ClientSession, RemoteAgent
from accord.clock import SYSTEM_CLOCK
from accord.errors import AccordError, UsageError
from accord.session import TurnEnded
from accord.tui.chat_session import ChatSession
from accord.tui.chat_types import ChatStart, Draft, DraftQueue, Phase

if TYPE_CHECKING:
    from accord.tui.parts.markdown_part import Tone


def chat_plainly(start: ChatStart) -> int:
    """Read to the end of stdin; the exit code is that of the last turn that did not go well."""
    try:
        return asyncio.run(PlainChat(start).run())
    except KeyboardInterrupt:
        return INTERRUPTED


class PlainChat:
    """The stage of a conversation, on paper."""

    def __init__(self, start: ChatStart) -> None:
        self._queue = DraftQueue()
        self._conversation = ChatSession(start, self, None, self._queue, SYSTEM_CLOCK)
        self._output = self._new_output()
        self._opened: tuple[ClientSession, RemoteAgent] | None = None
        self._step = asyncio.Event()  # set when something is over: connecting, or a turn
        self._code = DONE

    async def run(self) -> int:
        """Everything, to the last line."""
        lines = _lines()
        try:
            self._conversation.begin()
            await self._step.wait()
            while self._conversation.phase == "ready" and (line := await lines.get()) is not None:
                if line.strip():
                    await self._turn(line)
        finally:
            await self._conversation.aclose()
        return self._code

    async def _turn(self, line: str) -> None:
        self._step.clear()
        self._output = self._new_output()
        assert self._opened is not None
        self._output.opened(*self._opened)
        self._queue.held = False
        self._queue.add(Draft(line))
        self._conversation.advance()
        await self._step.wait()

    def _new_output(self) -> Output:
        terminal = sys.stdout is not None and sys.stdout.isatty()
        return output_for("text", stdout=sys.stdout, stderr=sys.stderr, terminal=terminal, command="chat")

    # -- the stage ----------------------------------------------------------------------------------------------

    def phase_changed(self, phase: Phase) -> None:
        """What it waits for may be over."""
        if phase == "ready":
            self._step.set()

    def opened(self, session: ClientSession, agent: RemoteAgent) -> None:
        """The session is there."""
        self._opened = (session, agent)

    def happened(self, event: ClientEvent) -> None:
        """An event of the session."""
        self._output.event(event)

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Tell the user something, on stderr."""
        for line in (text, *details.splitlines()):
            self._output.note(line)

    def failed(self, error: AccordError, details: str) -> None:
        """It could not be connected."""
        for line in details.splitlines():
            self._output.note(line)
        self._code = exit_code(error)
        self._output.finished(None, error, self._code)
        self._step.set()

    def turn_over(self, ended: TurnEnded | None, error: AccordError | None) -> None:
        """A turn is over."""
        code = DONE if error is None and ended is not None and ended.stop_reason == "end_turn" else FAILED
        code = exit_code(error) if error is not None else code
        self._output.finished(ended, error, code)
        if code != DONE:
            self._code = code
        self._step.set()

    def queue_changed(self) -> None:
        """Nobody looks at it."""


def _lines() -> "asyncio.Queue[str | None]":
    """The lines of stdin as they come, then None. A thread reads them: nothing else can, on every system."""
    if sys.stdin is None:
        raise UsageError("there is no stdin to read prompts from")
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str | None] = asyncio.Queue()

    def put(line: str | None) -> None:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, line)
        except RuntimeError:
            pass  # the loop is closed: nobody listens any more

    def read() -> None:
        for line in sys.stdin:
            put(line.rstrip("\n"))
        put(None)

    threading.Thread(target=read, daemon=True, name="stdin").start()
    return queue
