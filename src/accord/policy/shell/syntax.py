"""The parts of a shell line: words, assignments, redirections and simple commands.

A word whose value is known only at run time has no `text`. Nothing is guessed.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

PartKind = Literal["text", "variable", "unknown"]

_EXPANDED_NAME = re.compile(r"\$\{#?([A-Za-z_][A-Za-z0-9_]*|[0-9@*?$!#-])")


@dataclass(frozen=True, slots=True)
class WordPart:
    """A part of a word: literal text, the name of a variable, or the source of another expansion."""

    kind: PartKind
    text: str = ""
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a line, before its expansions."""

    raw: str
    parts: tuple[WordPart, ...]
    start: int = 0

    @property
    def has_glob(self) -> bool:
        """Whether the shell may replace it with file names."""
        # Quoted characters cannot start a pattern, but can be inside `[...]`.
        unquoted_text = "".join(
            "]" if part.quoted or part.kind != "text" else part.text for part in self.parts
        )
        return (
            "*" in unquoted_text
            or "?" in unquoted_text
            or -1 < unquoted_text.find("[") < unquoted_text.rfind("]")
        )

    @property
    def has_braces(self) -> bool:
        """Whether brace expansion may make several words of it."""
        unquoted_text = "".join(part.text for part in self.parts if part.kind == "text" and not part.quoted)
        between_braces = (
            unquoted_text[unquoted_text.find("{") + 1 : max(unquoted_text.rfind("}"), 0)]
            if "{" in unquoted_text
            else ""
        )
        return "," in between_braces or ".." in between_braces

    @property
    def has_tilde(self) -> bool:
        """Whether it starts with a `~` that the shell expands."""
        return bool(self.parts) and not self.parts[0].quoted and self.parts[0].text.startswith("~")

    @property
    def unquoted(self) -> str | None:
        """Its characters without quotes. Globs, braces and `~` stay as written. None if it has expansions."""
        if any(part.kind != "text" for part in self.parts):
            return None
        return "".join(part.text for part in self.parts)

    @property
    def text(self) -> str | None:
        """The word that the program receives; None if that is not certain."""
        if self.has_glob or self.has_braces or self.has_tilde:
            return None
        return self.unquoted

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables in it, including those with an operator (`${NAME%x}`)."""
        plain_names = (part.text for part in self.parts if part.kind == "variable")
        expansions = (_EXPANDED_NAME.match(part.text) for part in self.parts if part.kind == "unknown")
        return (*plain_names, *(found[1] for found in expansions if found))


def literal(text: str) -> Word:
    """Return a word that is exactly this text."""
    return Word(text, (WordPart("text", text, quoted=True),))


UNKNOWN = Word("...", (WordPart("unknown"),))
"""Stands for any number of words that are known only at run time."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`NAME=value`, before a command or alone. An array has several values."""

    name: str
    values: tuple[Word, ...] = ()
    in_loop: bool = False
    """Whether a loop assigns the values one after another, with file names expanded."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirection to or from a file. Here-documents and copied descriptors are not included."""

    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        """Whether the file is written."""
        return self.operator not in ("<", "<&")


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A simple command: program, arguments, assignments and redirections."""

    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    piped_from: "SimpleCommand | None" = field(default=None, repr=False)
    """The command whose output it reads through a pipe."""
    stdin: list[str] = field(default_factory=list[str], repr=False)
    """The here-documents and here-strings it reads, with expansions as written."""
    stdin_variables: list[str] = field(default_factory=list[str], repr=False)
    """The variables that are expanded in those texts."""
    succeeded: tuple["SimpleCommand", ...] = field(default=(), repr=False)
    """The commands that have certainly succeeded before this one runs (`cd build && this`)."""
    via: tuple[str, ...] = ()
    """The programs that start it, outermost first: `sudo`, `xargs`, `bash -c`..."""

    @property
    def program(self) -> str | None:
        """The program as written; None if it is not certain or not ASCII."""
        name = self.words[0].text if self.words else None
        return name if name and name.isascii() else None

    @property
    def name(self) -> str:
        """The program without its directory; empty if it is not certain."""
        return (self.program or "").rpartition("/")[2]

    @property
    def arguments(self) -> tuple[Word, ...]:
        """The words after the program."""
        return self.words[1:]

    def inner_command(self, words: tuple[Word, ...], *assignments: Assignment) -> "SimpleCommand":
        """Return the command with these words that this one starts."""
        return replace(
            self,
            words=words,
            assignments=(*self.assignments, *assignments),
            redirects=(),
            via=(*self.via, self.name or "?"),
        )
