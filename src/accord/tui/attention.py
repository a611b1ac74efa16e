"""Who wants the user: which sessions ask, which are done and were not looked at yet, and how the user is told outside the screen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from accord.cleaning import clean_line, one_line

if TYPE_CHECKING:
    from accord.tui.sessionview import SessionView
    from accord.tui.settings.table import Settings

Mark: TypeAlias = Literal["", "busy", "asks", "done", "dead"]
"""What the tab of a session tells."""

_LONGEST: Final = 120
_NINE: Final = frozenset(("iTerm.app", "WezTerm", "ghostty", "WarpTerminal", "kitty"))
_SEVENS: Final = ("foot", "rxvt-unicode", "contour")


@dataclass(slots=True)
class _Known:
    """What was known of a session the last time."""

    turns: int = 0
    dialog: Any = None
    ended: bool = False
    unseen: bool = False


class Attention:
    """Keeps an eye on all sessions. `write` sends text to the terminal as it is."""

    def __init__(self, write: Callable[[str], None], environ: Mapping[str, str]) -> None:
        self._write = write
        self._environ = environ
        self._known: dict[int, _Known] = {}

    def look(self, view: "SessionView", *, seen: bool, settings: "Settings") -> None:
        """Something has changed there; `seen` by the user, who has it before them."""
        known = self._known.setdefault(id(view), _Known())
        phase = "" if view.conversation is None else view.conversation.phase
        news = ""
        if view.dialog is not known.dialog:
            known.dialog = view.dialog
            if view.dialog is not None:
                news = f"asks: {view.dialog.border_title or 'a question'}"
        ended = phase in ("dead", "failed")
        if view.turns > known.turns and phase not in ("running", "cancelling"):
            known.turns = view.turns
            known.unseen = True
            news = news or "is done"
        if ended and not known.ended:
            known.unseen = True
            news = "has ended" if phase == "dead" else "could not be connected"
        known.ended = ended
        if seen:
            known.unseen = False
        if news and (settings.notify_when == "always" or not seen):
            about = view.status.title or view.status.folder
            self._tell(view.status.agent or "Accord", f"{news} ({about})", settings)

    def mark(self, view: "SessionView") -> Mark:
        """What its tab tells."""
        known = self._known.get(id(view), _Known())
        phase = "" if view.conversation is None else view.conversation.phase
        if view.dialog is not None:
            return "asks"
        if phase in ("dead", "failed"):
            return "dead"
        if phase in ("running", "cancelling", "connecting"):
            return "busy"
        return "done" if known.unseen else ""

    def forget(self, view: "SessionView") -> None:
        """It is closed."""
        self._known.pop(id(view), None)

    def _tell(self, title: str, text: str, settings: "Settings") -> None:
        way = settings.notify
        if way == "off":
            return
        said = desktop_note(self._environ, title, text, insist=way == "desktop") if way != "bell" else ""
        self._write(said or "\x07")


def desktop_note(environ: Mapping[str, str], title: str, text: str, *, insist: bool = False) -> str:
    """The sequence by which this terminal notifies the desktop; empty where it is not known to. `insist`: try it anyway."""
    title, text = (one_line(clean_line(words), _LONGEST).replace(";", ",") for words in (title, text))
    program, term = environ.get("TERM_PROGRAM", ""), environ.get("TERM", "")
    if any(term.startswith(name) for name in _SEVENS):
        return f"\x1b]777;notify;{title};{text}\x1b\\"
    if program in _NINE or "kitty" in term or insist:
        return f"\x1b]9;{title}: {text}\x1b\\"
    return ""
