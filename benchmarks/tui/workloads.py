"""The workloads. `python -m benchmarks.tui.workloads NAME` runs one and prints its figures."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time, thread_time
from typing import Any

from textual.events import Key

from accord.frontend.agent_config import ConfiguredAgent
from accord.tui.chat_app import ChatApp
from accord.tui.chat_types import ChatStart, Draft

Figures = dict[str, float]

HERE = Path(__file__).parent
SIZE = (120, 40)
PAGES = 60
EMPTY = """
from time import perf_counter; began = perf_counter()
from textual.app import App
class Empty(App):
    def on_mount(self): self.call_after_refresh(lambda: self.exit(perf_counter() - began))
print(Empty().run(headless=True))
"""
OURS = """
from time import perf_counter; began = perf_counter()
from accord.cli.chat_command import read_arguments
from accord.cli.chat_command import chat_start
from accord.tui.chat_app import ChatApp
class Ours(ChatApp):
    def on_mount(self): self.call_after_refresh(lambda: self.exit(perf_counter() - began))
print(Ours(chat_start(read_arguments([]))).run(headless=True))
"""


def painting(cwd: str) -> Figures:
    """Measure the first paint, compared with an empty app."""
    took: dict[str, float] = {}
    for name, program in (("empty", EMPTY), ("ours", OURS)):
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=60, check=True
        )
        took[name] = float(done.stdout.strip().splitlines()[-1]) * 1000
    return {
        "first paint, ms": took["ours"],
        "first paint of an empty app, ms": took["empty"],
        "first paint, relative to an empty app": took["ours"] / took["empty"],
    }


def app_for(count: int, cwd: str, session: str | None = None) -> ChatApp:
    """Create the client with the flooding agent."""
    server = ConfiguredAgent(
        name="flood", origin="user", command=(sys.executable, str(HERE / "flood_agent.py"), str(count))
    )
    return ChatApp(ChatStart(find_agent=lambda _: server, cwd=cwd, name="flood", session=session))


class CallbackTimer:
    """Records the longest callback of the event loop, in seconds of processor time."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.what = ""
        self._run: Any = asyncio.events.Handle._run

    def __enter__(self) -> "CallbackTimer":
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


async def wait_until(condition: Callable[[], Any], seconds: float = 120.0) -> float:
    """Wait until the condition is true; return the seconds."""
    began = perf_counter()
    while not condition():
        if perf_counter() - began > seconds:
            raise TimeoutError
        await asyncio.sleep(0.002)
    return perf_counter() - began


def on_screen(app: ChatApp, text: str) -> bool:
    strips = app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
    return any(text in strip.text for strip in strips)


def resident() -> float:
    """Return the resident memory of this process in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


async def opening(cwd: str, count: int = 2_000) -> Figures:
    """Open a long session: time until its newest message is shown, and for each page up."""
    began, spent = perf_counter(), process_time()
    app = app_for(count, cwd, session="s")
    with CallbackTimer() as callbacks:
        async with app.run_test(size=SIZE):
            view = app.view
            await wait_until(lambda: view.chat_session is not None and view.chat_session.phase == "ready")
            await wait_until(lambda: on_screen(app, f"Answer {count // 2 - 1}"))
            shown, used = perf_counter() - began, process_time() - spent
            await wait_until(lambda: len(view.transcript.items) == count)
            whole = perf_counter() - began
            await asyncio.sleep(0.2)
            walls: list[float] = []
            busy: list[float] = []
            for _ in range(PAGES):
                parse_ansi = asyncio.Event()
                began, spent = perf_counter(), thread_time()
                view.transcript.page(-1)
                view.transcript.call_after_refresh(parse_ansi.set)
                await parse_ansi.wait()
                walls.append(perf_counter() - began)
                busy.append(thread_time() - spent)
    return {
        "2,000 messages: newest shown, ms": shown * 1000,
        "2,000 messages: newest shown, CPU ms": used * 1000,
        "2,000 messages: all loaded, ms": whole * 1000,
        "2,000 messages: longest callback, CPU ms": callbacks.longest * 1000,
        "page up, ms": statistics.median(walls) * 1000,
        "page up, CPU ms": statistics.median(busy) * 1000,
        "slowest page up, CPU ms": max(busy) * 1000,
    }


async def flood(cwd: str, count: int = 10_000) -> Figures:
    """Type during a turn with many updates: time from the key to the letter in the prompt."""
    app = app_for(count, cwd)
    async with app.run_test(size=SIZE):
        view = app.view
        await wait_until(lambda: view.chat_session is not None and view.chat_session.phase == "ready")
        before = resident()
        began = perf_counter()
        delays: list[float] = []
        with CallbackTimer() as callbacks:
            view.submit(Draft("go"))
            while view.chat_session is not None and view.chat_session.phase == "running":
                length = len(view.prompt.editor.text)
                view.prompt.editor.post_message(Key("x", "x"))
                delays.append(await wait_until(lambda before=length: len(view.prompt.editor.text) > before))
                await asyncio.sleep(0.01)
        took = perf_counter() - began
        await wait_until(lambda: on_screen(app, "done"))
        name = f"{count:,} updates"
        return {
            f"{name}: ms": took * 1000,
            f"{name}: key latency, median ms": statistics.median(delays) * 1000,
            f"{name}: key latency, maximum ms": max(delays) * 1000,
            f"{name}: longest callback, CPU ms": callbacks.longest * 1000,
            f"{name}: memory before, MiB": before,
            f"{name}: memory after, MiB": resident(),
        }


async def long_flood(cwd: str) -> Figures:
    """Run `flood` with 100,000 updates."""
    return await flood(cwd, 100_000)


WORKLOADS: dict[str, Callable[[str], Any]] = {
    "painting": painting,
    "opening": opening,
    "flood": flood,
    "long_flood": long_flood,
}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="accord-bench-") as folder:
        os.environ["ACCORD_HOME"] = folder
        result = WORKLOADS[sys.argv[1]](folder)
        print(json.dumps(asyncio.run(result) if asyncio.iscoroutine(result) else result))


if __name__ == "__main__":
    main()
