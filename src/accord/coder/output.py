"""Text of any length within a bound: its beginning and its end, and how much was left out between them."""

import re
from typing import Final

# Control sequences of terminals, of the three sorts that programs print, and lone controls.
_CONTROLS: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]"
)
_ERASED: Final = re.compile(r"[^\x08\n]\x08")
_LONGEST_LINE: Final = 4096
_OVERWRITTEN: Final = re.compile(r"^.*\r(?=[^\n])", re.MULTILINE)


class Capped:
    """Takes text as it comes and keeps the first and the last of it, `most` characters together."""

    def __init__(self, most: int) -> None:
        self.size = 0
        """Characters that came."""
        self._head_size = most // 2
        self._tail_size = most - most // 2
        self._head = ""
        self._tail = ""
        self._lost = 0
        self._lost_lines = 0

    def add(self, text: str) -> None:
        """More of the text."""
        self.size += len(text)
        room = self._head_size - len(self._head)
        if room > 0 and not self._tail:
            self._head += text[:room]
            text = text[room:]
        if not text:
            return
        joined = self._tail + text
        surplus = len(joined) - self._tail_size
        if surplus > 0:
            self._lost += surplus
            self._lost_lines += joined.count("\n", 0, surplus)
            joined = joined[surplus:]
        self._tail = joined

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return not self._lost

    def text(self, advice: str = "") -> str:
        """What was kept, with a line in place of what was not; `advice` says how to get at that."""
        if self.whole:
            return self._head + self._tail
        head, tail = _whole_lines(self._head, self._tail)
        lost = self._lost + len(self._head) - len(head) + len(self._tail) - len(tail)
        lines = (
            self._lost_lines
            + self._head.count("\n", len(head))
            + self._tail.count("\n", 0, len(self._tail) - len(tail))
        )
        advice = f"; {advice}" if advice else ""
        start = "" if not head or head.endswith("\n") else "\n"
        return f"{head}{start}[... {lost:,} characters, {lines:,} lines left out here{advice} ...]\n{tail}"


def capped(text: str, most: int, advice: str = "") -> str:
    """The text, or its beginning and end if it has more than `most` characters."""
    if len(text) <= most:
        return text
    kept = Capped(most)
    kept.add(text)
    return kept.text(advice)


def _whole_lines(head: str, tail: str) -> tuple[str, str]:
    """Cut back to line ends, where that costs less than half."""
    end = head.rfind("\n") + 1
    start = tail.find("\n") + 1
    return (
        head[:end] if end > len(head) // 2 else head,
        tail[start:] if 0 < start < len(tail) // 2 else tail,
    )


class Transcript:
    """The output of a command as it comes, made readable line by line and capped."""

    def __init__(self, most: int) -> None:
        self._kept = Capped(most)
        self._line = ""  # not ended yet: the next piece may overwrite it

    def add(self, text: str) -> None:
        """More output."""
        text = self._line + text
        end = text.rfind("\n") + 1
        if len(text) - end > _LONGEST_LINE:
            line = readable(text[end:]) + ("\r" if text.endswith("\r") else "")
            text = text[:end] + line
            end = len(text) if len(line) > _LONGEST_LINE else end
        self._kept.add(readable(text[:end]))
        self._line = text[end:]

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return self._kept.whole

    def text(self, advice: str = "") -> str:
        """What there is of it now."""
        return self._kept.text(advice) + readable(self._line)


def readable(output: str) -> str:
    """The output of a command as text: without colours, erased characters and overwritten lines."""
    if "\x1b" not in output and "\r" not in output and output.isprintable():
        return output
    text = _CONTROLS.sub("", output).replace("\r\n", "\n")
    for _ in range(80):  # each pass erases one character before each run of backspaces
        shorter = _ERASED.sub("", text)
        if shorter == text:
            break
        text = shorter
    return _OVERWRITTEN.sub("", text.replace("\b", "")).replace("\r", "")
