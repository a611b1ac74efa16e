"""`accord chat` without a terminal: each line of stdin is a prompt; answers are printed as by `accord run`.

Imported on first use: it loads accord.client.
"""

import asyncio
import sys
import threading
from typing import TYPE_CHECKING

from accord.cli.command_parser import is_terminal
from accord.cli.exit_codes import DONE, FAILED, INTERRUPTED, exit_code
from accord.cli.output import Output, output_for
from accord.client import ClientEvent, ClientSession, RemoteAgent
from accord.clock import SYSTEM_CLOCK
from accord.errors import AccordError, UsageError
from accord.session import TurnEnded
from accord.tui.chat_session import ChatSession
from accord.tui.chat_types import ChatStart, Draft, DraftQueue, Phase

if TYPE_CHECKING:
    from accord.tui.parts.note_part import Tone


def run_plain_chat(start: ChatStart) -> int:
    """Chat until the end of stdin. The exit code is that of the last turn that failed."""
    try:
        return asyncio.run(PlainChat(start).run())
    except KeyboardInterrupt:
        return INTERRUPTED


class PlainChat:
    """Runs a chat session and prints it to stdout; notes go to stderr."""

    def __init__(self, start: ChatStart) -> None:
        self._queue = DraftQueue()
        self._chat = ChatSession(start, self, None, self._queue, SYSTEM_CLOCK)
        self._output = self._new_output()
        self._opened: tuple[ClientSession, RemoteAgent] | None = None
        self._step_done = asyncio.Event()  # set after connecting and after each turn
        self._code = DONE

    async def run(self) -> int:
        """Connect, then run one turn per line of stdin. Returns the exit code."""
        lines = _read_stdin_lines()
        sign = "> " if is_terminal(sys.stdin) and is_terminal(sys.stdout) else ""
        try:
            self._chat.begin()
            await self._step_done.wait()
            while self._chat.phase == "ready":
                sys.stdout.write(sign)
                sys.stdout.flush()
                if (line := await lines.get()) is None:
                    sys.stdout.write("\n" * bool(sign))
                    break
                if line.strip():
                    await self._turn(line)
        finally:
            await self._chat.aclose()
        return self._code

    async def _turn(self, line: str) -> None:
        self._step_done.clear()
        self._output = self._new_output()
        assert self._opened is not None
        self._output.opened(*self._opened)
        self._queue.paused = False
        self._queue.add(Draft(line))
        self._chat.advance()
        await self._step_done.wait()

    def _new_output(self) -> Output:
        terminal = is_terminal(sys.stdout)
        return output_for("text", stdout=sys.stdout, stderr=sys.stderr, terminal=terminal, command="chat")

    # -- called by the chat session --------------------------------------------------------------------------

    def phase_changed(self, phase: Phase) -> None:
        """Continue when the session is ready for the next prompt."""
        if phase == "ready":
            self._step_done.set()

    def opened(self, session: ClientSession, agent: RemoteAgent) -> None:
        """Keep the session and its agent for the output of each turn."""
        self._opened = (session, agent)

    def link_changed(self, lost: str) -> None:
        """Print that the gateway is gone, or back."""
        self.note(f"the gateway is lost ({lost}); reconnecting" if lost else "connected to the gateway again")

    def event_received(self, event: ClientEvent) -> None:
        """Print an event of the session."""
        self._output.event(event)

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Print a note on stderr."""
        for line in (text, *details.splitlines()):
            self._output.note(line)

    def failed(self, error: AccordError, details: str) -> None:
        """End the chat because the agent could not be reached."""
        for line in details.splitlines():
            self._output.note(line)
        self._code = exit_code(error)
        self._output.finished(None, error, self._code)
        self._step_done.set()

    def turn_ended(self, ended: TurnEnded | None, error: AccordError | None) -> None:
        """Print how the turn ended."""
        code = DONE if error is None and ended is not None and ended.stop_reason == "end_turn" else FAILED
        code = exit_code(error) if error is not None else code
        self._output.finished(ended, error, code)
        if code != DONE:
            self._code = code
        self._step_done.set()

    def queue_changed(self) -> None:
        """Do nothing: the queue is not shown."""


def _read_stdin_lines() -> "asyncio.Queue[str | None]":
    """Return a queue of the lines of stdin, then None.

    A thread reads them, because that works on every system.
    """
    if sys.stdin is None:
        raise UsageError("stdin is closed; pipe the prompts in, one per line")
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str | None] = asyncio.Queue()

    def put(line: str | None) -> None:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, line)
        except RuntimeError:
            pass  # the loop is closed

    def read() -> None:
        for line in sys.stdin:
            put(line.rstrip("\n"))
        put(None)

    threading.Thread(target=read, daemon=True, name="stdin").start()
    return queue
