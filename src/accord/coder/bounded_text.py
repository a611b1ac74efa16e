"""Truncates long text to its beginning and end; fences text of others so that it cannot forge the marks."""

import re
from typing import Final

from accord.safe_text import one_line

# MERGED coder.output: Text of any length within a bound: its beginning and its end, and how much was left out between them.

# Control sequences of terminals, of the three sorts that programs print, and lone controls.
_CONTROLS: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]"
)
_ERASED: Final = re.compile(r"[^\x08\n]\x08")
_LONGEST_LINE: Final = 4096
_OVERWRITTEN: Final = re.compile(r"^.*\r(?=[^\n])", re.MULTILINE)


class TruncatedText:
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
    kept = TruncatedText(most)
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


class CommandOutput:
    """The output of a command as it comes, made readable line by line and capped."""

    def __init__(self, most: int) -> None:
        self._kept = TruncatedText(most)
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


# MERGED coder.context.fence: Text of others between two marks that the text itself cannot forge.

_LONGEST_VALUE: Final = 2000


def fenced(tag: str, text: str, **attributes: str | None) -> str:
    """The text between `<tag ...>` and `</tag>`; numbered where the text has such an end in it already.

    The same text is fenced the same way every time. Attributes that are None or empty are left out.
    """
    name = _free_name(tag, text)
    shown = "".join(f' {key}="{attribute(value)}"' for key, value in attributes.items() if value)
    return f"<{name}{shown}>\n{text}{'' if text.endswith(chr(10)) else chr(10)}</{name}>"


def attribute(value: str) -> str:
    """A value for one line: nothing in it ends the line, the quotes or the mark."""
    return one_line(value, _LONGEST_VALUE).replace('"', "%22").replace("<", "%3C").replace(">", "%3E")


def _free_name(tag: str, text: str) -> str:
    # One pass finds every number that is taken, however many a hostile text tries.
    taken = {
        int(number or 1) for number in re.findall(rf"<\s*/\s*{tag}(?:-(\d{{1,9}}))?", text, re.IGNORECASE)
    }
    number = 1
    while number in taken:
        number += 1
    return tag if number == 1 else f"{tag}-{number}"
