"""Sends what has changed on the screen, the lines near the focus first, as fast as the terminal shows it.

A line that cannot be sent now is sent later as it is then: frames are dropped, never queued.

Loaded before the first paint: keep the client out.
"""

import asyncio
import os
from collections.abc import Sequence
from contextvars import copy_context
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rich.cells import cell_len
from rich.color import ColorSystem
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import ChopsUpdate, CompositorUpdate
from textual._context import visible_screen_stack
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.geometry import Size

    from accord.tui.chat_app import ChatApp
    from accord.tui.terminal_driver import TerminalDriver


class Run(NamedTuple):
    """A text of one style, with the escape sequences before and after it."""

    before: str
    text: str
    after: str
    plain: bool = True
    """Whether its spaces look like erased cells."""

    def cut(self, start: int, end: int) -> "Run":
        return self._replace(text=self.text[start : len(self.text) - end])


_MIN_ERASED: Final = 8
"""Spaces at the end of a line that are written as one sequence."""
_Line: TypeAlias = tuple[int, tuple[Run, ...]]
_CHUNK: Final = 1024
"""Characters that are written together while the terminal is slow."""
_AT_ONCE: Final = 200
"""Characters that a terminal shows together anyway."""
_FAST: Final = 16 * 1024
"""Room from which on everything is written together."""


class FrameSender:
    """Keeps which lines have changed, and what the terminal shows of each."""

    def __init__(self, app: "ChatApp", driver: "TerminalDriver") -> None:
        self._app = app
        self._driver = driver
        self._size: Size | None = None
        self._shown: dict[int, tuple[Run, ...]] = {}
        self._changed: set[int] = set()
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._timer: asyncio.TimerHandle | None = None
        # GNU screen erases without the color of the background.
        self._erases = "STY" not in os.environ
        self.forget_screen()
        driver.on_answer = self._on_answer
        driver.on_start = self.forget_screen

    def forget_screen(self) -> None:
        """Send all lines again: the terminal may show anything."""
        self._shown.clear()
        self._changed.update(range(self._app.size.height))

    def frame_changed(self, update: CompositorUpdate) -> None:
        """Send the lines of an update, now or when the terminal is ready for them."""
        if self._app.size != self._size:
            self._size = self._app.size
            self.forget_screen()
        if isinstance(update, ChopsUpdate):
            self._changed.update(y for y, _, _ in update.spans)
        else:
            self._changed.update(range(self._app.size.height))
        self._send()

    def _on_answer(self) -> None:
        if self._changed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._send, context=self._context.copy())

    def _on_timer(self) -> None:
        self._timer = None
        self._send()

    def _send(self) -> None:
        pace, app = self._driver.pace, self._app
        if not self._changed or not app.accepts_frames:
            return
        lines = self._drawn_lines() if pace.room(monotonic()) > 0 else []
        while lines and (room := pace.room(monotonic())) > 0:
            text = self._take(lines, room if room >= _FAST else _CHUNK)
            if text:
                x, y = app.screen.outer_size.clamp_offset(app.cursor_position)
                text = f"{text}\x1b[{y + 1};{x + 1}H"
                synchronized = app.synchronizes_frames and len(text) > _AT_ONCE
                self._driver.write(f"{SYNC_START}{text}{SYNC_END}" if synchronized else text)
        wait = pace.wait_time(monotonic()) if self._changed else None
        if wait is not None and self._timer is None:
            self._timer = self._loop.call_later(wait, self._on_timer, context=self._context.copy())

    def _drawn_lines(self) -> list[_Line]:
        """The changed lines as they are now, the nearest to the focus last."""
        app = self._app
        focused = app.screen.focused
        near = app.size.height if focused is None else focused.region.y
        visible_screen_stack.set(app._background_screens)  # pyright: ignore
        compositor = app.screen._compositor  # pyright: ignore[reportPrivateUsage]
        chops = compositor._render_chops(  # pyright: ignore[reportPrivateUsage]
            compositor.size.region, self._changed.__contains__
        )
        self._changed.intersection_update(range(len(chops)))
        colors = app.console._color_system or ColorSystem.TRUECOLOR  # pyright: ignore[reportPrivateUsage]
        order = sorted(self._changed, key=lambda y: (-abs(y - near), y))
        return [(y, runs_of(Strip.join(chops[y].values()), colors)) for y in order]

    def _take(self, lines: list[_Line], limit: int) -> str:
        """Take lines off the end until their escape sequences have this length."""
        out: list[str] = []
        used = 0
        while lines and used < limit:
            y, line = lines.pop()
            text = changed_text(self._shown.get(y), line, y, erase=self._erases)
            self._shown[y] = line
            self._changed.discard(y)
            out.append(text)
            used += len(text)
        return "".join(out)


def runs_of(strip: Strip, colors: ColorSystem) -> tuple[Run, ...]:
    """The texts of a line with their escape sequences; neighbors of the same style are one."""
    runs: list[Run] = []
    for text, style, _ in strip:
        before = after = ""
        if style is not None:
            before, _, after = Strip.render_style(style, "\0", colors).partition("\0")
        has_link = style is not None and bool(style.link)
        if runs and runs[-1].before == before and not has_link:
            runs[-1] = runs[-1]._replace(text=runs[-1].text + text)
        elif text:
            plain = style is None or not (style.reverse or style.underline or has_link)
            runs.append(Run(before, text, after, plain))
    return tuple(runs)


def changed_text(shown: Sequence[Run] | None, line: Sequence[Run], y: int, *, erase: bool = True) -> str:
    """The sequences that turn the shown line into this one; everything if it is unknown what is shown.

    `erase` says whether the terminal erases with the color of the background.
    """
    x = end = 0
    middle = list(line)
    if shown is not None:
        start = 0
        while start < min(len(shown), len(line)) and shown[start] == line[start]:
            x += cell_len(line[start].text)
            start += 1
        while end < min(len(shown), len(line)) - start and shown[-1 - end] == line[-1 - end]:
            end += 1
        middle = list(line[start : len(line) - end])
        if not middle:
            return ""
        cut, end_cut = _common(shown[start : len(shown) - end], middle)
        x += cut
        end += end_cut
    text = "".join(f"{run.before}{run.text}{run.after}" for run in middle[:-1])
    last = middle[-1]
    words = last.text.rstrip(" ")
    if erase and not end and last.plain and len(last.text) - len(words) >= _MIN_ERASED:
        text += f"{last.before}{words}\x1b[K{last.after}"
    else:
        text += f"{last.before}{last.text}{last.after}"
    return f"\x1b[{y + 1};{x + 1}H{text}"


def _common(before: Sequence[Run], after: list[Run]) -> tuple[int, int]:
    """Cut what the first runs have in common at their start, and the last at their end.

    Returns the number of characters that were cut at both ends.
    """
    start = end = 0
    if not before:
        return start, end
    first, last = before[0], before[-1]
    if first.before == after[0].before:
        start = _common_length(first.text, after[0].text)
        if not (first.text[start : start + 1] + after[0].text[start : start + 1]).isascii():
            start = max(start - 1, 0)  # the next character may combine with the one before it
        after[0] = after[0].cut(start, 0)
    old_text = last.text[start:] if len(before) == 1 else last.text
    if last.before == after[-1].before and sum(map(_width, before)) == sum(map(_width, after)) + start:
        end = _common_length(old_text[::-1], after[-1].text[::-1])
        after[-1] = after[-1].cut(0, end)
    while len(after) > 1 and not after[-1].text:
        after.pop()
    return start, end


def _common_length(first: str, second: str) -> int:
    """How many ASCII characters, which take one cell each, both texts begin with."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other or not one.isascii():
            break
        length += 1
    return length


def _width(run: Run) -> int:
    return cell_len(run.text)
