"""Runs the chat app with a real agent, presses keys and reads the screen."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from textual.pilot import Pilot

from accord.clock import Clock
from accord.frontend.agent_config import ConfiguredAgent
from accord.testing import FakeClock
from accord.tui.chat_app import ChatApp
from accord.tui.chat_types import ChatStart
from accord.tui.session_view import SessionView

DEMO_AGENT = (sys.executable, str(Path(__file__).parent / "agents" / "demo_agent.py"))
KEEPER = (sys.executable, str(Path(__file__).parent / "agents" / "keeper.py"))


class Chat:
    """A running client."""

    def __init__(self, app: ChatApp, pilot: Pilot[int], clock: FakeClock) -> None:
        self.app = app
        self.pilot = pilot
        self.clock = clock

    @property
    def view(self) -> SessionView:
        """The visible session."""
        return self.app.view

    @property
    def phase(self) -> str:
        """The phase of the session, or an empty string before it exists."""
        return "" if self.view.chat_session is None else self.view.chat_session.phase

    @property
    def text(self) -> str:
        """The whole transcript as drawn."""
        transcript = self.view.transcript
        transcript.frame()
        return "\n".join(transcript.lines())

    @property
    def screen(self) -> str:
        """The screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    @property
    def notifications(self) -> list[str]:
        """The texts of all notifications."""
        return [note.message for note in self.app._notifications]

    async def wait_until(self, condition: Callable[[], Any]) -> Any:
        """Wait until the condition holds and return its value; fail with the screen after a long time."""
        try:
            async with asyncio.timeout(PATIENCE / 5):
                while not (found := condition()):
                    await self.pilot.pause()
        except TimeoutError:
            raise AssertionError(f"{self.screen}\n{self.notifications}") from None
        return found

    async def wait_for_text(self, *texts: str) -> None:
        """Wait until the transcript has these texts."""
        await self.wait_until(lambda: all(text in self.text for text in texts))

    async def wait_for_layout(self) -> None:
        """Wait until every widget has its place."""
        screen = self.app.screen
        await self.wait_until(lambda: not screen._layout_required and not screen._callbacks)

    async def wait_ready(self) -> None:
        """Wait until prompts can be sent."""
        await self.wait_until(lambda: self.phase == "ready")

    async def type(self, text: str) -> None:
        """Press the keys of this text."""
        await self.pilot.press(*["space" if char == " " else char for char in text])

    async def send(self, text: str) -> None:
        """Write a prompt and send it."""
        self.view.prompt.editor.write(text)
        await self.pilot.press("enter")

    async def wait_for_dialog(self) -> Any:
        """Wait for a dialog that accepts keys, and return it."""
        dialog = await self.wait_until(lambda: self.view.dialog)
        await self.wait_until(lambda: dialog._visible_since is not None)
        while not dialog.armed:
            await self.clock.advance(1)
            await self.pilot.pause()
        return dialog


@asynccontextmanager
async def running_chat(
    cwd: Path,
    command: Sequence[str] = DEMO_AGENT,
    *,
    size: tuple[int, int] = (100, 30),
    env: dict[str, str | None] | None = None,
    find: Callable[[Any], ConfiguredAgent] | None = None,
    name: str = "demo",
    app: dict[str, Any] | None = None,
    toasts: bool = False,
    **start: Any,
) -> AsyncGenerator[Chat]:
    """Run the app on a screen of this size, with the agent that `command` starts. `app` holds arguments of
    the app. `toasts` shows notifications on the screen."""
    server = ConfiguredAgent(name=name, origin="user", command=tuple(command), env=env or {})
    clock = FakeClock()
    chat_start = ChatStart(find_agent=find or (lambda _: server), cwd=str(cwd), name=name, **start)
    chat = ChatApp(chat_start, clock=_as_clock(clock), **(app or {}))
    async with chat.run_test(size=size, notifications=toasts) as pilot:
        try:
            yield Chat(chat, pilot, clock)
        finally:
            await chat.close_sessions()


def _as_clock(clock: FakeClock) -> Clock:
    return clock
