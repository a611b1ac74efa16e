"""The terminal client with a real agent behind it, and somebody at its keys."""

import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from accord.client.servers import Server
from accord.clock import Clock
from accord.testing import FakeClock
from accord.tui.app import ChatApp
from accord.tui.sessionview import SessionView
from accord.tui.start import Start

PUPPET = (sys.executable, str(Path(__file__).parent / "agents" / "puppet.py"))
KEEPER = (sys.executable, str(Path(__file__).parent / "agents" / "keeper.py"))


class Chat:
    """A running client."""

    def __init__(self, app: ChatApp, pilot: Pilot[int], clock: FakeClock) -> None:
        self.app = app
        self.pilot = pilot
        self.clock = clock

    @property
    def view(self) -> SessionView:
        """The session that is shown."""
        return self.app.view

    @property
    def phase(self) -> str:
        """What goes on."""
        return "" if self.view.conversation is None else self.view.conversation.phase

    @property
    def text(self) -> str:
        """The whole conversation as it is drawn."""
        transcript = self.view.transcript
        transcript.frame()
        return "\n".join(transcript.lines())

    @property
    def screen(self) -> str:
        """What is on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    @property
    def told(self) -> list[str]:
        """What was told in passing."""
        return [note.message for note in self.app._notifications]

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until it holds; the run's own limit ends a wait that is in vain."""
        while not (found := condition()):
            await self.pilot.pause()
        return found

    async def shows(self, *texts: str) -> None:
        """Wait until the conversation has these texts."""
        await self.until(lambda: all(text in self.text for text in texts))

    async def ready(self) -> None:
        """Wait until prompts can go out."""
        await self.until(lambda: self.phase == "ready")

    async def type(self, text: str) -> None:
        """Write into the prompt as by hand."""
        await self.pilot.press(*["space" if char == " " else char for char in text])

    async def say(self, text: str) -> None:
        """Write a prompt and send it."""
        self.view.prompt.editor.write(text)
        await self.pilot.press("enter")

    async def question(self) -> Any:
        """Wait for a question, and until it takes keys."""
        dialog = await self.until(lambda: self.view.dialog)
        await self.until(lambda: dialog._seen is not None)
        while not dialog.armed:
            await self.clock.advance(1)
            await self.pilot.pause()
        return dialog


@asynccontextmanager
async def chatting(
    cwd: Path,
    command: Sequence[str] = PUPPET,
    *,
    size: tuple[int, int] = (100, 30),
    env: dict[str, str | None] | None = None,
    find: Callable[[Any], Server] | None = None,
    name: str = "puppet",
    app: dict[str, Any] | None = None,
    **start: Any,
) -> AsyncGenerator[Chat]:
    """The client on a screen of this size, with the agent that a command starts; `app` is what the app is made with."""
    server = Server(name=name, origin="user", command=tuple(command), env=env or {})
    clock = FakeClock()
    begun = Start(find=find or (lambda _: server), cwd=str(cwd), name=name, **start)
    chat = ChatApp(begun, clock=_as_clock(clock), **(app or {}))
    async with chat.run_test(size=size) as pilot:
        try:
            yield Chat(chat, pilot, clock)
        finally:
            await chat.close_sessions()


def _as_clock(clock: FakeClock) -> Clock:
    return clock
