"""Creates the screenshots of the guide: `python -m tests.tui.screenshots` writes docs/images/chat-*.svg."""

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.tui.chat import Chat, running_chat

from accord.tui.chat_settings import ChatSettings
from accord.tui.chat_types import Draft

_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_IDS = re.compile(r"\bk[0-9]{2,}\b")  # session ids of the keeper agent
AGENT = (sys.executable, str(Path(__file__).parent / "agents" / "picture_agent.py"))
IMAGES = Path(__file__).parents[2] / "docs" / "images"


async def conversation(chat: Chat) -> None:
    await chat.send("Why does the parser lose the last line?")
    await chat.wait_until(lambda: chat.view.turns == 1)
    await chat.wait_until(lambda: chat.view.status.title and chat.view.plan.steps)


async def start(chat: Chat) -> None:
    await chat.wait_until(lambda: "Agents ·" in chat.screen)


async def permission(chat: Chat) -> None:
    await chat.send("Keep the last line")
    await chat.wait_for_dialog()


async def pick(chat: Chat) -> None:
    await chat.pilot.press("f3")


async def sessions(chat: Chat) -> None:
    await conversation(chat)
    await chat.pilot.press("f2")
    await chat.wait_until(lambda: "Write the guide" in chat.screen)


async def tabs(chat: Chat) -> None:
    await conversation(chat)
    start = chat.view.start
    for words in ("Write the guide", "ask"):
        view = await chat.app.open(start)
        await chat.wait_ready()
        view.submit(Draft(words))
        await chat.wait_until(lambda view=view: view.turns or view.dialog)
    chat.app.tabs.show(chat.app.views[0])


async def settings(chat: Chat) -> None:
    await chat.pilot.press("f9")


async def keys(chat: Chat) -> None:
    await chat.pilot.press("f1")


async def wire(chat: Chat) -> None:
    await conversation(chat)
    await chat.pilot.press("f12")
    await chat.pilot.pause()
    await chat.pilot.press("up", "up")


async def diff(chat: Chat) -> None:
    await chat.send("Keep the last line")
    await chat.wait_for_dialog()
    await chat.pilot.press("1")
    await chat.wait_until(lambda: chat.view.turns == 1)
    chat.view.toggle_item()


async def dashboard(chat: Chat) -> None:
    await tabs(chat)
    await chat.pilot.press("alt+d")
    await chat.wait_until(lambda: "waits for your answer" in chat.screen)


SMALL, USUAL, LARGE = (80, 24), (120, 40), (200, 60)
SCREENSHOTS: dict[str, tuple[Callable[[Chat], Awaitable[None]], tuple[int, int], str]] = {
    "start": (start, USUAL, "dark"),
    "start-small": (start, SMALL, "light"),
    "conversation": (conversation, USUAL, "dark"),
    "conversation-light": (conversation, USUAL, "light"),
    "conversation-large": (conversation, LARGE, "dark"),
    "conversation-large-light": (conversation, LARGE, "light"),
    "narrow": (conversation, SMALL, "dark"),
    "narrow-light": (conversation, SMALL, "light"),
    "permission": (permission, USUAL, "dark"),
    "permission-light": (permission, USUAL, "light"),
    "permission-small": (permission, SMALL, "dark"),
    "permission-large": (permission, LARGE, "dark"),
    "models": (pick, SMALL, "dark"),
    "sessions": (sessions, USUAL, "dark"),
    "tabs": (tabs, USUAL, "dark"),
    "dashboard": (dashboard, USUAL, "dark"),
    "settings": (settings, SMALL, "dark"),
    "keys": (keys, LARGE, "dark"),
    "wire": (wire, LARGE, "dark"),
    "diff": (diff, LARGE, "dark"),
    "diff-light": (diff, LARGE, "light"),
}


async def take_screenshot(name: str, folder: Path) -> None:
    prepare, size, theme = SCREENSHOTS[name]
    sessions_file = folder / "sessions.json"
    sessions_file.write_text(json.dumps([
        {"sessionId": "a1", "cwd": str(folder), "title": "Fix the parser",
         "updatedAt": "2026-03-02T10:00:00Z"},
        {"sessionId": "a2", "cwd": str(folder), "title": "Write the guide",
         "updatedAt": "2026-03-01T09:30:00Z"},
        {"sessionId": "a3", "cwd": "/home/me/other", "title": "Try the new model",
         "updatedAt": "2026-02-11T18:02:00Z"},
    ]))  # fmt: skip
    app: dict[str, Any] = {"settings": ChatSettings(theme=theme)}
    env: dict[str, str | None] = {"KEEPER_FILE": str(sessions_file)}
    async with running_chat(folder, AGENT, size=size, env=env, name="keeper", app=app) as chat:
        await chat.wait_ready()
        await prepare(chat)
        for _ in range(3):
            await chat.clock.advance(1)
            await chat.pilot.pause()
        drawn = chat.app.export_screenshot(title="accord chat")
    # The class names are random. A fixed name keeps the file the same for the same screen.
    unique = drawn.partition('class="rich-terminal"')[2].partition(".terminal-")[2].partition("-")[0]
    if unique:
        drawn = drawn.replace(f"terminal-{unique}", "terminal-chat")
    drawn = _FONTS.sub("", drawn)  # the guide must load nothing from other servers
    drawn = _IDS.sub(lambda id: "k" + "123456789"[: len(id[0]) - 1], drawn)  # of the same width
    drawn = drawn.replace(str(folder), "/home/me/project")
    drawn = drawn.replace(os.environ["ACCORD_HOME"], "/home/me/.accord")
    (IMAGES / f"chat-{name}.svg").write_text(drawn, "utf-8")


async def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
    for name in SCREENSHOTS:
        with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
            os.environ["ACCORD_HOME"] = home
            await take_screenshot(name, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
