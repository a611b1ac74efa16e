"""The line at the bottom of the screen with the keys of the moment.

Loaded before the first paint: keep the client out.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from accord.tui.theme import palette_of

if TYPE_CHECKING:
    from textual.geometry import Size

    from accord.tui.session_view import SessionView

KeyHint: TypeAlias = tuple[str, str]
"""A key and what it does now. The most important ones are first."""
_GAP = "  "


class KeyFooter(Widget):
    """Shows as many keys as fit into one line, the most important ones first."""

    DEFAULT_CSS: ClassVar[str] = "KeyFooter { height: 1; padding: 0 2; }"

    def __init__(self, hints: Callable[[], Sequence[KeyHint]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hints = hints

    def render(self) -> Text:
        palette = palette_of(self)
        lines: list[Text] = []
        for line in hint_lines(self._hints(), self.content_size.width)[: max(self.content_size.height, 1)]:
            pieces = (Text.assemble((key, palette.strong), (f" {does}", palette.muted)) for key, does in line)
            lines.append(Text(_GAP).join(pieces))
        return Text("\n", no_wrap=True, overflow="crop").join(lines)


class ScreenFooter(KeyFooter):
    """The keys of a screen on top of the session, at the bottom of the terminal; in up to three lines."""

    DEFAULT_CSS: ClassVar[str] = """
    ScreenFooter { dock: bottom; height: auto; max-height: 3; background: $background; }
    """

    def get_content_height(self, container: "Size", viewport: "Size", width: int) -> int:
        # A footer of a screen below must not be seen above this one: its keys do nothing now.
        covered = [
            footer.size.height
            for screen in self.app.screen_stack  # pyright: ignore[reportUnknownMemberType]
            if screen is not self.screen
            for footer in screen.query(ScreenFooter)
        ]
        return max(len(hint_lines(self._hints(), width)), 1, *covered)


def hint_lines(hints: Iterable[KeyHint], width: int) -> list[list[KeyHint]]:
    """The hints in lines of this width."""
    lines: list[list[KeyHint]] = []
    room = -1
    for key, meaning in hints:
        needed = cell_len(key) + 1 + cell_len(meaning)
        if needed > room:
            lines.append([])
            room = width
        lines[-1].append((key, meaning))
        room -= needed + len(_GAP)
    return lines


def key_name(key: str) -> str:
    """A key in Textual's notation as people write it: `ctrl+pageup` as `Ctrl+PgUp`."""
    names = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "question_mark": "?"}
    first = key.split(",")[0]
    *modifiers, last = first.split("+")
    shown = names.get(last, last.upper() if len(last) == 1 and modifiers else last)
    if len(last) > 1 and last not in names:
        shown = last.capitalize()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), shown])


def hints_of(view: "SessionView") -> Sequence[KeyHint]:
    """The keys that do something now, the most important ones first."""
    if view.dialog is not None and view.dialog.armed and view.dialog.has_focus_within:
        return view.dialog.key_hints
    if view.transcript.has_focus:
        hints = [("Esc", "prompt"), ("Enter", "unfold"), ("c", "copy"), ("j k", "select"), ("↑ ↓", "scroll")]
        return _stop_hints(view) + hints
    if view.welcome.has_focus:
        return ("Enter", "choose"), ("↑ ↓", "select"), ("Tab", "prompt")
    if view.queue_view.has_focus:
        return ("Enter", "edit"), ("x", "remove"), ("↑ ↓", "select"), ("Esc", "prompt")
    if view.prompt.popup.open:
        return ("Tab", "complete"), ("↑ ↓", "select"), ("Esc", "close")
    return _prompt_hints(view)


def _prompt_hints(view: "SessionView") -> list[KeyHint]:
    chat, key = view.chat_session, partial(key_of, view)
    phase = "connecting" if chat is None else chat.phase
    hints: list[KeyHint] = []
    if view.dialog is not None and view.dialog.armed:
        hints.append(("Tab", "answer the question"))
    if phase in ("running", "cancelling"):
        steers = chat is not None and chat.agent is not None and chat.agent.can_steer
        hints += [(key("stop"), "stop"), *_stop_hints(view)]
        hints.append(("Enter", "send to the running turn" if steers else "queue"))
        hints.append((key("later"), "queue"))
    elif phase == "lost":
        hints.append((key("restart"), "reconnect now"))
    elif phase in ("dead", "failed"):
        hints.append((key("restart"), "restart the agent" if phase == "dead" else "try again"))
    elif view.prompt.draft:
        hints += [("Enter", "send"), ("Ctrl+J", "new line"), (key("editor"), "editor")]
        hints += [(key("stash"), "put aside"), ("Ctrl+C", "clear")]
    else:
        hints += _stop_hints(view)
        hints += [("Tab", "choose above")] if view.welcome.shown else []
        hints += [("/", "commands"), ("@", "files"), ("!", "shell"), ("?", "keys")]
        hints += [(key("stash"), "take back")] if view.stash else []
        hints += [("Ctrl+P", "menu"), (key("restart"), "history"), (key("review"), "review changes")]
    return [*hints, ("Ctrl+D", "quit")] if not view.prompt.draft else hints


def _stop_hints(view: "SessionView") -> list[KeyHint]:
    """The key that stops a tool call or a command alone, if there is one that can be stopped."""
    running = view.status.running
    if not running:
        return []
    from accord.tui.running_work import selected_work

    if view.transcript.has_focus and view.transcript.selected is not None:
        what = "stop this" if selected_work(view, running) is not None else ""
    else:
        what = "stop a call" if any(work.kind == "call" for work in running) else "stop a command"
    return [(key_of(view, "stop_work"), what)] if what else []


def key_of(view: "SessionView", action: str) -> str:
    """The key of an action, as the user set it."""
    from accord.tui.actions import ACTIONS

    chosen = view.chat_app.settings.keys.get(action)
    if chosen:
        return key_name(chosen)
    found = next(known for known in ACTIONS if known.name == action)
    return found.key_label or key_name(found.key)
