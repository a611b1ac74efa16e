"""`ShellLexer`: characters to words, with quotes, expansions and here-documents.

It reads a strict subset of bash exactly as bash does and raises `UnsupportedSyntax` for everything else. The
parser in `grammar.py` uses it, and is called back for the commands inside `$( )`, backquotes and `<( )`.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from accord.policy.shell.syntax import Word, WordPart

BLANK: Final = " \t"
WORD_ENDS: Final = " \t\n;&|()<>"
"""The characters that end an unquoted word. `<(` and `>(` do not."""

_PLAIN_TEXT: Final = re.compile(r"[^ \t\n;&|()<>'\"\\$`]+")
_PLAIN_IN_QUOTES: Final = re.compile(r"[^\"\\$`]+")
_VARIABLE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*|[0-9?$!#@*-])")
_BRACED_VARIABLE: Final = re.compile(
    r"\$\{(?:(#?[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[?$#@*!-])"
    r"(?:(?::?[-+?]|%%?|\#\#?|//?|\^\^?|,,?)[^${}`\"'\\<>()\n~]*|:[0-9]+(?::[0-9]+)?)?)\}"
)
_ARITHMETIC: Final = re.compile(r"\$\(\([0-9+*/% -]*\)\)")
_ESCAPE: Final = re.compile(r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4}))")
_ESCAPED_CHARACTERS: Final = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


class UnsupportedSyntax(Exception):
    """The line contains syntax that the parser does not support; the message names it."""


class NestingTooDeep(UnsupportedSyntax):
    """Commands are nested beyond the limit."""


class _HereDocument(NamedTuple):
    delimiter: str
    quoted: bool
    strip: bool
    on_read: Callable[[str, tuple[str, ...]], None]


class ShellLexer:
    """A position in a line. Reads one word at a time."""

    def __init__(self, text: str, parse_nested: Callable[["ShellLexer", str], None]) -> None:
        self.text: str = text
        self.position: int = 0
        self.end: int = len(text)
        self._parse_nested = parse_nested
        self._pending_documents: list[_HereDocument] = []

    def looking_at(self, text: str) -> bool:
        """Whether the rest of the line starts with the text."""
        return self.text.startswith(text, self.position, self.end)

    def skip_text(self, text: str) -> bool:
        """Skip the text if the rest of the line starts with it. Return whether it did."""
        found = self.looking_at(text)
        if found:
            self.position += len(text)
        return found

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skip what the pattern matches at this position."""
        found = pattern.match(self.text, self.position, self.end)
        if found:
            self.position = found.end()
        return found

    @property
    def at_end(self) -> bool:
        """Whether the end is reached."""
        return self.position >= self.end

    @property
    def char(self) -> str:
        """The next character, or an empty string at the end."""
        return self.text[self.position] if self.position < self.end else ""

    def skip_blanks(self) -> None:
        """Skip blanks, line continuations and a comment."""
        while not self.at_end:
            if self.char in BLANK:
                self.position += 1
            elif self.looking_at("\\\n"):
                if self.position and self.text[self.position - 1] not in " \t\n":
                    raise UnsupportedSyntax("a word or operator that is continued on the next line")
                self.position += 2
            elif self.char == "#":
                newline = self.text.find("\n", self.position, self.end)
                self.position = self.end if newline < 0 else newline
            else:
                return

    def skip_blanks_and_newlines(self) -> None:
        self.skip_blanks()
        while self.char == "\n":
            self.skip_newline()
            self.skip_blanks()

    def skip_newline(self) -> None:
        """Skip a newline and the here-documents that start after it."""
        self.position += 1
        documents, self._pending_documents = self._pending_documents, []
        for document in documents:
            self._read_document(document)

    def expect_document(
        self, delimiter: str, quoted: bool, strip: bool, on_read: Callable[[str, tuple[str, ...]], None]
    ) -> None:
        """Register a here-document.

        It is read after this line and passed to `on_read`, with its variables.
        """
        self._pending_documents.append(_HereDocument(delimiter, quoted, strip, on_read))

    def check_complete(self) -> None:
        """Raise if a here-document is still missing at the end of the line."""
        if self._pending_documents:
            raise UnsupportedSyntax("a here-document without its text")

    def read_word(self) -> Word:
        """Read the word at this position."""
        start = self.position
        parts: list[WordPart] = []
        while not self.at_end:
            char = self.char
            if char in "<>" and self.text[self.position + 1 : self.position + 2] == "(":
                self.position += 2
                parts.append(self._substitution(quoted=False))
            elif char in WORD_ENDS:
                break
            elif char == "'":
                parts.append(WordPart("text", self._single_quoted(), quoted=True))
            elif char == '"':
                self.position += 1
                parts.extend(self._double_quoted())
            elif char == "\\":
                parts.append(self._escaped())
            elif char in "$`":
                parts.append(self._expansion(quoted=False))
            else:
                parts.append(WordPart("text", self._plain_text(_PLAIN_TEXT)))
        raw = self.text[start : self.position]
        if not raw:
            raise UnsupportedSyntax(
                f"{self.char!r} where a word should be" if self.char else "a word that is missing"
            )
        if raw.startswith("{") and raw.endswith("}") and self.char and self.char in "<>":
            raise UnsupportedSyntax("a descriptor kept in a variable")
        return Word(raw, _join_text_parts(parts), start)

    def _single_quoted(self) -> str:
        closing = self.text.find("'", self.position + 1, self.end)
        if closing < 0:
            raise UnsupportedSyntax("a quote that is never closed")
        quoted = self.text[self.position + 1 : closing]
        self.position = closing + 1
        return quoted

    def _escaped(self) -> WordPart:
        if self.position + 1 >= self.end or self.text[self.position + 1] == "\n":
            raise UnsupportedSyntax("a backslash at the end of a line, inside a word")
        self.position += 2
        return WordPart("text", self.text[self.position - 1], quoted=True)

    def _double_quoted(self) -> list[WordPart]:
        # An empty part keeps `""` a word. It also keeps the next part from being read as a reserved word or
        # as `~`.
        parts = [WordPart("text", "", quoted=True)]
        while not self.skip_text('"'):
            if self.at_end:
                raise UnsupportedSyntax("a quote that is never closed")
            if self.char == "\\" and self.text[self.position + 1 : self.position + 2] in (
                "$",
                "`",
                '"',
                "\\",
            ):
                parts.append(self._escaped())
            elif self.looking_at("\\\n"):
                # The shell joins lines before it looks for names: `$HO\` and `ME` is $HOME.
                if parts[-1].kind != "text" or parts[-1].text.endswith("$"):
                    raise UnsupportedSyntax("an expansion that is continued on the next line")
                self.position += 2
            elif self.char in "$`":
                parts.append(self._expansion(quoted=True))
            else:
                parts.append(WordPart("text", self._plain_text(_PLAIN_IN_QUOTES), quoted=True))
        return parts

    def _plain_text(self, pattern: re.Pattern[str]) -> str:
        """Read characters without a special meaning, at least one."""
        found = pattern.match(self.text, self.position, self.end)
        start, self.position = self.position, found.end() if found else self.position + 1
        return self.text[start : self.position]

    def _expansion(self, quoted: bool) -> WordPart:
        """Read the expansion at a `$` or a backquote."""
        if self.char == "`":
            return self._backquoted(quoted)
        if not quoted and self.looking_at("$'"):
            return WordPart("text", self._ansi_quoted(), quoted=True)
        if not quoted and self.looking_at('$"'):
            raise UnsupportedSyntax("a translated string")
        if self.looking_at("$(("):
            if self.match(_ARITHMETIC) is None:
                raise UnsupportedSyntax("arithmetic with more than numbers in it")
            return WordPart("unknown", "$((", quoted)
        if self.skip_text("$("):
            return self._substitution(quoted)
        if self.looking_at("${"):
            found = self.match(_BRACED_VARIABLE)
            if found is None:
                raise UnsupportedSyntax("an expansion with more than a variable in it")
            is_plain_variable = found[0] == f"${{{found[1]}}}" and not found[1].startswith("#")
            return (
                WordPart("variable", found[1], quoted)
                if is_plain_variable
                else WordPart("unknown", found[0], quoted)
            )
        if self.looking_at("$["):
            raise UnsupportedSyntax("arithmetic with more than numbers in it")
        found = self.match(_VARIABLE)
        if found:
            return WordPart("variable", found[1], quoted)
        self.position += 1
        return WordPart("text", "$", quoted=True)

    def _substitution(self, quoted: bool) -> WordPart:
        start = self.position - 2
        if self._pending_documents:
            raise UnsupportedSyntax("a command inside a line with a here-document")
        self._parse_nested(self, ")")
        if not self.skip_text(")"):
            raise UnsupportedSyntax("a command that is never closed with ')'")
        self.check_complete()
        return WordPart("unknown", self.text[start : self.position], quoted)

    def _backquoted(self, quoted: bool) -> WordPart:
        closing = self.text.find("`", self.position + 1, self.end)
        if closing < 0:
            raise UnsupportedSyntax("a backquote that is never closed")
        if "\\" in self.text[self.position : closing]:
            raise UnsupportedSyntax("a backslash between backquotes")
        start, end, self.end = self.position, self.end, closing
        self.position += 1
        try:
            self._parse_nested(self, "")
            self.check_complete()
        finally:
            self.end = end
        source, self.position = self.text[start : closing + 1], closing + 1
        return WordPart("unknown", source, quoted)

    def _ansi_quoted(self) -> str:
        self.position += 2
        text = ""
        while not self.skip_text("'"):
            if self.at_end:
                raise UnsupportedSyntax("a quote that is never closed")
            if self.char != "\\":
                text += self.char
                self.position += 1
                continue
            found = self.match(_ESCAPE)
            if found is None:
                raise UnsupportedSyntax("an unusual escape in $'...'")
            simple, octal, byte, point = found.groups()
            code = int(octal, 8) if octal else int(byte or point or "1", 16)
            if code == 0 or (not point and code > 127) or 0xD800 <= code < 0xE000:
                raise UnsupportedSyntax("an unusual escape in $'...'")
            text += _ESCAPED_CHARACTERS[simple] if simple else chr(code)
        return text

    def _read_document(self, document: _HereDocument) -> None:
        start = self.position
        while True:
            if self.at_end:
                raise UnsupportedSyntax(f"a here-document that never ends with {document.delimiter}")
            newline = self.text.find("\n", self.position, self.end)
            stop = self.end if newline < 0 else newline
            line = self.text[self.position : stop]
            if (line.lstrip("\t") if document.strip else line) == document.delimiter:
                break
            if not document.quoted and (len(line) - len(line.rstrip("\\"))) % 2:
                raise UnsupportedSyntax("a continued line in a here-document")
            self.position = min(stop + 1, self.end)
        end_of_body, next_line = self.position, min(stop + 1, self.end)
        expanded = () if document.quoted else self._document_expansions(start, end_of_body)
        document.on_read(self.text[start:end_of_body], Word("", expanded).variables)
        self.position = next_line

    def _document_expansions(self, start: int, stop: int) -> tuple[WordPart, ...]:
        found: list[WordPart] = []
        self.position, end, self.end = start, self.end, stop
        try:
            while not self.at_end:
                if self.char == "\\":
                    self.position += 2
                elif self.char in "$`":
                    found.append(self._expansion(quoted=True))
                else:
                    self.position += 1
        finally:
            self.end = end
        return tuple(found)


def _join_text_parts(parts: list[WordPart]) -> tuple[WordPart, ...]:
    """Join neighboring text parts with the same quoting."""
    joined: list[WordPart] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last and last.kind == part.kind == "text" and last.quoted == part.quoted:
            joined[-1] = WordPart("text", last.text + part.text, part.quoted)
        else:
            joined.append(part)
    return tuple(joined)
