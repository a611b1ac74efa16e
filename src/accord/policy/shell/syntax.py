"""The pieces of a shell line: words with what is known of their value, redirections, simple commands.

Nothing here is guessed: a word whose value is only settled when the line runs has no `text`.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

PartKind = Literal["text", "variable", "unknown"]

_EXPANDED = re.compile(r"\$\{#?([A-Za-z_][A-Za-z0-9_]*|[0-9@*?$!#-])")


@dataclass(frozen=True, slots=True)
class WordPart:
    """A stretch of a word: text as it will be, a variable by its name, or something only the run can tell, as written."""

    kind: PartKind
    text: str = ""
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One word as the shell splits them, before its expansions."""

    raw: str
    parts: tuple[WordPart, ...]
    start: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether it was written without quotes and stands for itself: only then can it be a reserved word."""
        return len(self.parts) == 1 and self.parts[0] == WordPart("text", self.raw)

    @property
    def has_glob(self) -> bool:
        """Whether the shell may replace it by the names of files."""
        # What is quoted cannot begin a pattern, but it can stand inside of `[...]`.
        bare = "".join("]" if part.quoted or part.kind != "text" else part.text for part in self.parts)
        return "*" in bare or "?" in bare or -1 < bare.find("[") < bare.rfind("]")

    @property
    def has_braces(self) -> bool:
        """Whether the shell may make several words of it, by braces."""
        bare = "".join(part.text for part in self.parts if part.kind == "text" and not part.quoted)
        inside = bare[bare.find("{") + 1 : max(bare.rfind("}"), 0)] if "{" in bare else ""
        return "," in inside or ".." in inside

    @property
    def has_tilde(self) -> bool:
        """Whether it begins with a `~` that the shell replaces."""
        return bool(self.parts) and not self.parts[0].quoted and self.parts[0].text.startswith("~")

    @property
    def unquoted(self) -> str | None:
        """Its characters once quotes are gone, globs, braces and `~` left as they are; None with expansions in it."""
        if any(part.kind != "text" for part in self.parts):
            return None
        return "".join(part.text for part in self.parts)

    @property
    def text(self) -> str | None:
        """The one word that the program will see, where that is certain."""
        if self.has_glob or self.has_braces or self.has_tilde:
            return None
        return self.unquoted

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables in it, also those that are cut or replaced in (`${NAME%x}`)."""
        whole = (part.text for part in self.parts if part.kind == "variable")
        parts = (_EXPANDED.match(part.text) for part in self.parts if part.kind == "unknown")
        return (*whole, *(found[1] for found in parts if found))


def literal(text: str) -> Word:
    """A word that is exactly this text."""
    return Word(text, (WordPart("text", text, quoted=True),))


UNKNOWN = Word("...", (WordPart("unknown"),))
"""Any number of words that only the run can tell."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`NAME=value` in front of a command or alone. The value of an array is several words."""

    name: str
    values: tuple[Word, ...] = ()
    in_loop: bool = False
    """Whether a loop sets it to one value after the other, names of files included."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where a command's input or output goes. Here-documents and copies of descriptors name no file."""

    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        """Whether the file is written."""
        return self.operator not in ("<", "<&")


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A simple command: the program and its arguments, what is set for it, where its input and output go."""

    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    piped_from: "SimpleCommand | None" = field(default=None, repr=False)
    """The command whose output it reads through a pipe."""
    stdin: list[str] = field(default_factory=list[str], repr=False)
    """The texts of the here-documents and here-strings it reads, expansions left as written."""
    stdin_variables: list[str] = field(default_factory=list[str], repr=False)
    """The variables whose values are in those texts."""
    succeeded: tuple["SimpleCommand", ...] = field(default=(), repr=False)
    """Commands that have surely succeeded when this one runs (`cd build && this`)."""
    via: tuple[str, ...] = ()
    """The programs that start it, outermost first: `sudo`, `xargs`, `bash -c`..."""

    @property
    def program(self) -> str | None:
        """The program as written, where that is certain and in plain characters."""
        name = self.words[0].text if self.words else None
        return name if name and name.isascii() else None

    @property
    def name(self) -> str:
        """The program without its folder; empty where it is not certain."""
        return (self.program or "").rpartition("/")[2]

    @property
    def arguments(self) -> tuple[Word, ...]:
        """Everything after the program."""
        return self.words[1:]

    def inner_command(self, words: tuple[Word, ...], *assignments: Assignment) -> "SimpleCommand":
        """The command that this one starts, with these words."""
        return replace(
            self,
            words=words,
            assignments=(*self.assignments, *assignments),
            redirects=(),
            via=(*self.via, self.name or "?"),
        )
