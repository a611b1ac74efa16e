"""Truncates long text to its beginning and end, and wraps foreign text in tags that it cannot forge."""

import re
from typing import Final

from accord.safe_text import one_line
from accord.text_width import count_text

# The three kinds of terminal control sequences that programs print, and single control characters.
_CONTROLS: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]"
)
_ERASED: Final = re.compile(r"[^\x08\n]\x08")
_LINE_CHARS: Final = 4096
_OVERWRITTEN: Final = re.compile(r"^.*\r(?=[^\n])", re.MULTILINE)


class TruncatedText:
    """Collects text and keeps its beginning and its end, `limit` characters in total."""

    def __init__(self, limit: int) -> None:
        self.size: int = 0
        """The number of characters added so far."""
        self._head_size = limit // 2
        self._tail_size = limit - limit // 2
        self._head = ""
        self._tail = ""
        self._dropped = 0
        self._dropped_lines = 0

    def add(self, text: str) -> None:
        """Append a piece of the text."""
        self.size += len(text)
        free = self._head_size - len(self._head)
        if free > 0 and not self._tail:
            self._head += text[:free]
            text = text[free:]
        if not text:
            return
        joined = self._tail + text
        surplus = len(joined) - self._tail_size
        if surplus > 0:
            self._dropped += surplus
            self._dropped_lines += joined.count("\n", 0, surplus)
            joined = joined[surplus:]
        self._tail = joined

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""
        return not self._dropped

    def text(self, advice: str = "") -> str:
        """The kept text, with a line in place of what was left out. `advice` says how to get the rest."""
        if self.complete:
            return self._head + self._tail
        head, tail = _cut_to_lines(self._head, self._tail)
        dropped = self._dropped + len(self._head) - len(head) + len(self._tail) - len(tail)
        lines = (
            self._dropped_lines
            + self._head.count("\n", len(head))
            + self._tail.count("\n", 0, len(self._tail) - len(tail))
        )
        advice = f"; {advice}" if advice else ""
        start = "" if not head or head.endswith("\n") else "\n"
        gap = f"{count_text(dropped, 'character')}, {count_text(lines, 'line')}"
        return f"{head}{start}[... {gap} left out here{advice} ...]\n{tail}"


def truncate(text: str, limit: int, advice: str = "") -> str:
    """The text, or its beginning and end if it has more than `limit` characters."""
    if len(text) <= limit:
        return text
    truncated = TruncatedText(limit)
    truncated.add(text)
    return truncated.text(advice)


def _cut_to_lines(head: str, tail: str) -> tuple[str, str]:
    """Cut back to line ends where that costs less than half of the text."""
    end = head.rfind("\n") + 1
    start = tail.find("\n") + 1
    return (
        head[:end] if end > len(head) // 2 else head,
        tail[start:] if 0 < start < len(tail) // 2 else tail,
    )


class CommandOutput:
    """Collects the output of a command: makes it readable line by line and truncates it."""

    def __init__(self, limit: int) -> None:
        self._truncated = TruncatedText(limit)
        self._line = ""  # not ended yet: the next piece may overwrite it

    def add(self, text: str) -> None:
        """Append a piece of output."""
        text = self._line + text
        end = text.rfind("\n") + 1
        if len(text) - end > _LINE_CHARS:
            line = clean_output(text[end:]) + ("\r" if text.endswith("\r") else "")
            text = text[:end] + line
            end = len(text) if len(line) > _LINE_CHARS else end
        self._truncated.add(clean_output(text[:end]))
        self._line = text[end:]

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""
        return self._truncated.complete

    def text(self, advice: str = "") -> str:
        """The output so far."""
        return self._truncated.text(advice) + clean_output(self._line)


def clean_output(output: str) -> str:
    """The output of a command as text: without colors, erased characters and overwritten lines."""
    if "\x1b" not in output and "\r" not in output and output.isprintable():
        return output
    text = _CONTROLS.sub("", output).replace("\r\n", "\n")
    for _ in range(80):  # each pass erases one character before each run of backspaces
        shorter = _ERASED.sub("", text)
        if shorter == text:
            break
        text = shorter
    return _OVERWRITTEN.sub("", text.replace("\b", "")).replace("\r", "")


_ATTRIBUTE_CHARS: Final = 2000


def wrap_in_tag(tag: str, text: str, **attributes: str | None) -> str:
    """The text between `<tag ...>` and `</tag>`. The tag gets a number if the text contains such an end tag.

    The same text always gets the same tag. Attributes that are None or empty are left out.
    """
    tag_name = _unused_tag(tag, text)
    attribute_text = "".join(
        f' {key}="{escape_attribute(value)}"' for key, value in attributes.items() if value
    )
    return f"<{tag_name}{attribute_text}>\n{text}{'' if text.endswith(chr(10)) else chr(10)}</{tag_name}>"


def escape_attribute(value: str) -> str:
    """A value for one line: it cannot end the line, the quotes or the tag."""
    return one_line(value, _ATTRIBUTE_CHARS).replace('"', "%22").replace("<", "%3C").replace(">", "%3E")


def _unused_tag(tag: str, text: str) -> str:
    # One pass finds every number in use, however many a hostile text contains.
    used_numbers = {
        int(number or 1) for number in re.findall(rf"<\s*/\s*{tag}(?:-(\d{{1,9}}))?", text, re.IGNORECASE)
    }
    number = 1
    while number in used_numbers:
        number += 1
    return tag if number == 1 else f"{tag}-{number}"
