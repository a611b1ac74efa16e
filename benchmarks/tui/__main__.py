"""Run the measurements, each once, and print a line for each figure."""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

from textual.events import Key

from accord.client.servers import Server
from accord.tui.app import ChatApp
from accord.tui.draft import Draft
from accord.tui.start import Start

HERE = Path(__file__).parent
EMPTY = """
from time import perf_counter; began = perf_counter()
from textual.app import App
class Empty(App):
    def on_mount(self): self.call_after_refresh(lambda: self.exit(perf_counter() - began))
print(Empty().run(headless=True))
"""
OURS = """
from time import perf_counter; began = perf_counter()
from accord.cli.chatting.arguments import read_arguments
from accord.cli.chat import start_of
from accord.tui.app import ChatApp
class Ours(ChatApp):
    def on_mount(self): self.call_after_refresh(lambda: self.exit(perf_counter() - began))
print(Ours(start_of(read_arguments([]))).run(headless=True))
"""


def painting() -> None:
    """The first paint, beside that of an empty app: the best of several."""
    best: dict[str, float] = {}
    for name, program in [("empty", EMPTY), ("ours", OURS)] * 5:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
        )
        best[name] = min(best.get(name, 60.0), float(done.stdout.strip().splitlines()[-1]))
    print(
        f"first paint: {best['ours'] * 1000:.0f} ms, empty app {best['empty'] * 1000:.0f} ms, ratio {best['ours'] / best['empty']:.2f}"
    )


def app_for(count: int, cwd: str, session: str | None = None) -> ChatApp:
    """The client with the flooding agent behind it."""
    server = Server(
        name="flood", origin="user", command=(sys.executable, str(HERE / "flood_agent.py"), str(count))
    )
    return ChatApp(Start(find=lambda _: server, cwd=cwd, name="flood", session=session))


class Stretches:
    """The longest that the event loop was held by one callback, in seconds of processor time: other programs do not count."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.what = ""
        self._run: Any = asyncio.events.Handle._run

    def __enter__(self) -> "Stretches":
        run = self._run

        def timed(handle: Any) -> None:
            began = thread_time()
            run(handle)
            took = thread_time() - began
            if took > self.longest:
                self.longest, self.what = took, repr(getattr(handle._callback, "__self__", handle))[:300]

        asyncio.events.Handle._run = timed  # pyright: ignore
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.events.Handle._run = self._run  # pyright: ignore[reportPrivateUsage]


async def reached(condition: Any, seconds: float = 60.0) -> float:
    """Wait until it holds; how long that took."""
    began = perf_counter()
    while not condition():
        if perf_counter() - began > seconds:
            raise TimeoutError
        await asyncio.sleep(0.002)
    return perf_counter() - began


async def flood(count: int, cwd: str) -> None:
    """Keys while a turn floods the screen: from the key to the letter in the editor."""
    app = app_for(count, cwd)
    async with app.run_test(size=(120, 40)):
        view = app.view
        await reached(lambda: view.conversation is not None and view.conversation.phase == "ready")
        began = perf_counter()
        delays: list[float] = []
        with Stretches() as held:
            view.say(Draft("go"))
            while view.conversation is not None and view.conversation.phase == "running":
                length = len(view.prompt.editor.text)
                view.prompt.editor.post_message(Key("x", "x"))
                delays.append(await reached(lambda before=length: len(view.prompt.editor.text) > before))
                await asyncio.sleep(0.01)
        took = perf_counter() - began
        delays.sort()
        print(
            f"flood: {count} updates in {took:.2f} s; keys: median {delays[len(delays) // 2] * 1000:.0f} ms, "
            f"worst {delays[-1] * 1000:.0f} ms of {len(delays)}, "
            f"the loop was held for {held.longest * 1000:.0f} ms at most; memory {_memory():.0f} MiB"
        )
        if held.longest > 0.05:
            print("  by", held.what)


async def opening(count: int, cwd: str) -> None:
    """A long session: from the start of the program to the screen, and then page after page."""
    app = app_for(count, cwd, session="s")
    async with app.run_test(size=(120, 40)) as pilot:
        view = app.view
        took = await reached(lambda: view.conversation is not None and view.conversation.phase == "ready")
        shown = took + await reached(lambda: view.transcript.drawn_lines > count)
        pages: list[float] = []
        for _ in range(100):
            began = perf_counter()
            view.transcript.scroll_page_up(animate=False)
            await pilot.pause()
            pages.append(perf_counter() - began)
        pages.sort()
        print(
            f"session of {count} messages: shown after {shown:.2f} s (agent and import included); a page up: median "
            f"{pages[50] * 1000:.0f} ms, worst {pages[-1] * 1000:.0f} ms; memory {_memory():.0f} MiB"
        )


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ACCORD_HOME"] = folder
        wanted = sys.argv[1:] or ["painting", "opening", "flood"]
        if "painting" in wanted:
            painting()
        if "opening" in wanted:
            asyncio.run(opening(2_000, folder))
        if "flood" in wanted:
            asyncio.run(flood(10_000, folder))


if __name__ == "__main__":
    main()
