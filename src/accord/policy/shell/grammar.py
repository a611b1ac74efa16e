"""Words to commands: pipelines, lists, groups, loops, functions."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from accord.policy.shell.lexer import ENDS, NestingTooDeep, ShellLexer, UnsupportedSyntax
from accord.policy.shell.syntax import Assignment, Redirect, SimpleCommand, Word, literal

# MERGED policy.shell.compound: The compound commands of the shell: groups, `if`, loops, `case`, `[[ ]]`, functions. Each reads itself, keyword and all.

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Inside [[ ]] these calculate, and calculating a variable's content can run commands.
_CALCULATING: Final = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R", "=~"))


def _group(grammar: "ShellParser") -> None:
    grammar.expect("{")
    grammar.statements("}")
    grammar.expect("}")


def _if(grammar: "ShellParser") -> None:
    while grammar.reserved() in ("if", "elif"):
        grammar.reader.at += len(grammar.reserved() or "")
        grammar.statements("then")
        grammar.expect("then")
        grammar.statements("elif", "else", "fi")
    if grammar.reserved() == "else":
        grammar.expect("else")
        grammar.statements("fi")
    grammar.expect("fi")


def _while(grammar: "ShellParser") -> None:
    grammar.reader.at += len("while")  # `until` is as long
    grammar.statements("do")
    _body(grammar)


def _body(grammar: "ShellParser") -> None:
    grammar.reading.loops = True
    grammar.expect("do")
    grammar.statements("done")
    grammar.expect("done")


def _for(grammar: "ShellParser") -> None:
    reader = grammar.reader
    reader.at += len(grammar.reserved() or "")  # `for` or `select`
    reader.blanks()
    variable = reader.match(_NAME)
    if variable is None:
        raise UnsupportedSyntax("a loop without a variable")
    reader.gap()
    values: list[Word] = []
    if grammar.reserved() == "in":
        grammar.expect("in")
        reader.blanks()
        while not reader.done and reader.char not in ";\n":
            values.append(reader.word())
            reader.blanks()
    grammar.reading.commands.append(
        SimpleCommand(assignments=(Assignment(variable[0], tuple(values), in_turn=True),))
    )
    if not reader.take(";") and not reader.see("\n") and grammar.reserved() != "do":
        raise UnsupportedSyntax("a loop without its commands")
    _body(grammar)


def _case(grammar: "ShellParser") -> None:
    reader = grammar.reader
    grammar.expect("case")
    reader.blanks()
    reader.word()
    grammar.expect("in")
    reader.gap()
    while grammar.reserved() != "esac":
        reader.take("(")
        reader.blanks()
        reader.word()
        reader.blanks()
        while reader.take("|"):
            reader.blanks()
            reader.word()
            reader.blanks()
        grammar.close(")")
        grammar.statements(";;", ";&", "esac", empty=True)
        if not any(reader.take(end) for end in (";;&", ";;", ";&")) and grammar.reserved() != "esac":
            raise UnsupportedSyntax("a case without its end")
        reader.gap()
    grammar.expect("esac")


def _test(grammar: "ShellParser") -> None:
    reader = grammar.reader
    grammar.reading.starts.add(reader.at)
    grammar.expect("[[")
    while True:
        reader.gap()
        if reader.done:
            raise UnsupportedSyntax("']]' is missing")
        if grammar.reserved() == "]]":
            grammar.expect("]]")
            return
        if any(reader.take(operator) for operator in ("&&", "||", "(", ")", "<", ">")):
            continue
        word = reader.word()
        if word.raw in _CALCULATING:
            raise UnsupportedSyntax(f"{word.raw} inside [[ ]]")


def _function(grammar: "ShellParser") -> None:
    reader = grammar.reader
    grammar.expect("function")
    reader.blanks()
    name = reader.word().raw
    reader.blanks()
    if reader.take("("):
        reader.blanks()
        grammar.close(")")
    reader.gap()
    grammar.defined(name, len(grammar.reading.commands))


def _coprocess(grammar: "ShellParser") -> None:
    grammar.expect("coproc")
    grammar.reading.doubts.append("it starts a coprocess")
    grammar.reader.blanks()
    grammar.command(None)


COMPOUND: Final[dict[str, Callable[["ShellParser"], None]]] = {
    "{": _group,
    "if": _if,
    "while": _while,
    "until": _while,
    "for": _for,
    "select": _for,
    "case": _case,
    "[[": _test,
    "function": _function,
    "coproc": _coprocess,
}
"""Each compound command by the word it begins with, where the reading then stands."""


# MERGED policy.shell.grammar: The grammar of a shell line: every simple command in it, wherever it stands.
#
# Pipes, lists, groups, subshells, `if`, loops, `case`, substitutions and here-documents are read; what the reading cannot
# vouch for is a doubt, and what it cannot read at all ends it (`UnsupportedSyntax`). Commands found before that are kept.

DEEPEST: Final = 24
_REDIRECT: Final = re.compile(r"([0-9]*)(<<<|<<-|<<|<>|<&|<|>>|>\||>&|>)|(&>>?)")
_DELIMITER: Final = re.compile(r"'([^'\n]*)'|\"([^\"$`\\\n]*)\"|([A-Za-z0-9_.+!%-]+)")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_RESERVED: Final = re.compile(r"(?:[a-z]+|\[\[|\]\]|[{}!])(?=[ \t\n;&|()<>]|\Z)")
_CLOSERS: Final = frozenset(("then", "do", "done", "fi", "else", "elif", "esac", "}", "]]"))
# Bash expands the word of `>&word` a second time when it is not a number: `>&'$(run)'` runs a command. Words of
# these characters alone stay as they are.
_EXPANDS_TO_ITSELF: Final = re.compile(r"[\w./+,:@%=-]+")


@dataclass(slots=True)
class ParsedLine:
    """What was found in a line."""

    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    starts: set[int] = field(default_factory=set[int])
    """Where the program of each command stands, for comparison with another reading."""
    functions: list[tuple[str, range]] = field(default_factory=list[tuple[str, range]])
    """The functions that are defined, and which of the commands are theirs."""
    loops: bool = False
    """Whether a command may run again after one that stands behind it."""
    doubts: list[str] = field(default_factory=list[str])
    unreadable: str | None = None
    too_deep: bool = False


@dataclass(slots=True)
class _Heard:
    """What a command reads from here-documents and here-strings."""

    texts: list[str] = field(default_factory=list[str])
    told: list[str] = field(default_factory=list[str])

    def hear(self, text: str, variables: tuple[str, ...]) -> None:
        self.texts.append(text)
        self.told += variables


def read(text: str) -> ParsedLine:
    """Read the line as far as it can be read."""
    grammar = ShellParser(text)
    try:
        grammar.whole()
    except UnsupportedSyntax as error:
        grammar.reading.unreadable = str(error)
        grammar.reading.too_deep = isinstance(error, NestingTooDeep)
    return grammar.reading


class ShellParser:
    def __init__(self, text: str) -> None:
        self.reading = ParsedLine()
        self.reader = ShellLexer(text, self._nested)
        self._depth = 0
        self._given: tuple[SimpleCommand, ...] = ()

    def whole(self) -> None:
        reader = self.reader
        self.statements()
        if not reader.done:
            raise UnsupportedSyntax(f"{reader.char!r} where it does not belong")
        reader.close()

    def _nested(self, reader: ShellLexer, close: str) -> None:
        self.statements(close, empty=True)

    def statements(self, *stops: str, empty: bool = False) -> None:
        reader = self.reader
        while True:
            reader.gap()
            if reader.done or self._stops(stops):
                break
            empty = True
            self._and_or()
            reader.blanks()
            if not reader.done and reader.char in ";&\n" and not reader.see(";;") and not reader.see(";&"):
                if reader.char != "\n":
                    reader.at += 1
            elif not reader.done and not self._stops(stops):
                raise UnsupportedSyntax(f"{reader.char!r} where it does not belong")
        if not empty and stops:
            raise UnsupportedSyntax("an empty list of commands")

    def _stops(self, stops: tuple[str, ...]) -> bool:
        for stop in stops:
            if stop and stop[0] in ");":
                if self.reader.see(stop):
                    return True
            elif stop and self.reserved() == stop:
                return True
        return False

    def reserved(self) -> str | None:
        """The reserved word that may stand here."""
        reader = self.reader
        found = _RESERVED.match(reader.text, reader.at, reader.end)
        return found[0] if found else None

    def expect(self, word: str) -> None:
        self.reader.gap()
        if self.reserved() != word:
            raise UnsupportedSyntax(f"{word!r} is missing")
        self.reader.at += len(word)

    def _and_or(self) -> None:
        outer = self._given
        done, only_and = self._pipeline(), True
        while True:
            self.reader.blanks()
            if self.reader.take("||"):
                only_and, self._given = False, outer
            elif not self.reader.take("&&"):
                break
            elif done is not None and only_and:
                self._given = (*self._given, done)
            self.reader.gap()
            done = self._pipeline()
        self._given = outer

    def _pipeline(self) -> SimpleCommand | None:
        """Read a pipeline; if it is one command whose success is the pipeline's, that command."""
        reader = self.reader
        negated = False
        while self.reserved() == "!":
            negated = True
            reader.at += 1
            reader.blanks()
        single = self.command(None)
        while True:
            reader.blanks()
            if not reader.see("|") or reader.see("||"):
                return None if negated else single
            reader.at += 2 if reader.see("|&") else 1
            reader.gap()
            commands = self.reading.commands
            self.command(commands[-1] if commands else None)
            single = None

    def command(self, source: SimpleCommand | None) -> SimpleCommand | None:
        """Read one command; if it is a simple one, it is returned."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise NestingTooDeep("commands that are nested too deeply")
        single = self._any_command(source)
        self._depth -= 1
        return single

    def _any_command(self, source: SimpleCommand | None) -> SimpleCommand | None:
        reader = self.reader
        word = self.reserved()
        if reader.see("("):
            if reader.see("(("):
                raise UnsupportedSyntax("arithmetic, or two subshells at once")
            reader.at += 1
            self.statements(")")
            self.close(")")
        elif word in COMPOUND:
            COMPOUND[word](self)
        elif word in _CLOSERS:
            raise UnsupportedSyntax(f"{word!r} where it does not belong")
        else:
            return self._simple(source)
        self._redirects()
        return None

    def close(self, close: str) -> None:
        if not self.reader.take(close):
            raise UnsupportedSyntax(f"{close!r} is missing")

    def _redirects(self) -> None:
        """What stands behind a group, a loop or a subshell."""
        found: list[Redirect] = []
        heard = _Heard()
        self.reader.blanks()
        while self._redirect(found, heard):
            self.reader.blanks()
        self.reading.commands.append(
            SimpleCommand(redirects=tuple(found), stdin=heard.texts, told=heard.told, given=self._given)
        )

    def _simple(self, source: SimpleCommand | None) -> SimpleCommand | None:
        reader = self.reader
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirects: list[Redirect] = []
        heard = _Heard()
        start, place, given = reader.at, len(self.reading.commands), self._given
        self.reading.commands.append(SimpleCommand())
        while True:
            reader.blanks()
            if not words and (assignment := self._assignment()):
                assignments.append(assignment)
            elif self._redirect(redirects, heard):
                continue
            elif reader.see("("):
                self._function(words, place)
                return None
            elif self._at_word():
                words.append(reader.word())
            else:
                break
        if reader.at == start:
            raise UnsupportedSyntax(f"{reader.char!r} where a command should be")
        if words:
            self.reading.starts.add(words[0].start)
        command = SimpleCommand(
            tuple(words), tuple(assignments), tuple(redirects), source, heard.texts, heard.told, given
        )
        self.reading.commands[place] = command
        return command

    def _function(self, words: list[Word], place: int) -> None:
        reader = self.reader
        if len(words) != 1 or not re.compile(r"\([ \t]*\)").match(reader.text, reader.at, reader.end):
            raise UnsupportedSyntax("'(' where it does not belong")
        reader.at = reader.text.index(")", reader.at) + 1
        reader.gap()
        self.defined(words[0].raw, place)

    def defined(self, name: str, place: int) -> None:
        self.reading.doubts.append(f"it defines a function, {name}")
        self.command(None)
        self.reading.functions.append((name, range(place, len(self.reading.commands))))

    def _assignment(self) -> Assignment | None:
        reader = self.reader
        if _SUBSCRIPT.match(reader.text, reader.at, reader.end):
            raise UnsupportedSyntax("a member of an array")
        found = reader.match(_ASSIGNMENT)
        if found is None:
            return None
        if reader.take("("):
            values: list[Word] = []
            reader.gap()
            while not reader.take(")"):
                values.append(reader.word())
                if values[-1].raw.startswith("["):
                    raise UnsupportedSyntax("a member of an array")
                reader.gap()
            return Assignment(found[1], tuple(values))
        return Assignment(found[1], (reader.word() if self._at_word() else literal(""),))

    def _at_word(self) -> bool:
        reader = self.reader
        return not reader.done and (reader.char not in ENDS or reader.see("<(") or reader.see(">("))

    def _redirect(self, found: list[Redirect], heard: _Heard) -> bool:
        reader = self.reader
        seen = _REDIRECT.match(reader.text, reader.at, reader.end)
        operator = (seen[2] or seen[3]) if seen else ""
        if seen is None or (operator in "<>" and reader.text[seen.end() : seen.end() + 1] == "("):
            if seen and seen[1]:
                raise UnsupportedSyntax("a descriptor in front of a command")
            return False
        reader.at = seen.end()
        if operator in ("<<", "<<-"):
            self._document(operator == "<<-", heard)
            return True
        reader.blanks()
        if operator in ("<&", ">&") and reader.take("-"):
            return True  # closed; whatever follows is another word, blank or not
        target = reader.word()
        if operator == "<<<":
            heard.hear(target.spelled if target.spelled is not None else target.raw, target.variables)
        elif operator in ("<&", ">&") and _is_descriptor(target):
            pass
        elif operator == "<&":
            raise UnsupportedSyntax("a copy of a descriptor that is not a number")
        else:
            if operator == ">&" and not _EXPANDS_TO_ITSELF.fullmatch(target.text or ""):
                self.reading.doubts.append("bash expands the target of >& twice")
            found.append(Redirect(operator, target))
        return True

    def _document(self, strip: bool, heard: _Heard) -> None:
        reader = self.reader
        reader.blanks()
        found = reader.match(_DELIMITER)
        if found is None or not (reader.done or reader.char in ENDS):
            raise UnsupportedSyntax("an unusual end of a here-document")
        quoted = found[3] is None
        delimiter = found[1] or found[2] or found[3] or ""
        reader.await_document(delimiter, quoted, strip, heard.hear)


def _is_descriptor(target: Word) -> bool:
    """Whether the word of `>&` or `<&` is a descriptor to copy (`2`), to move (`2-`) or to close (`-`)."""
    # A quoted `2-` is the name of a file.
    return bool(re.fullmatch(r"[0-9]+|-", target.text or "") or re.fullmatch(r"[0-9]+-", target.raw))


def single_word(text: str) -> Word | None:
    """The text as one word, if that is what it is."""

    def nested(reader: ShellLexer, close: str) -> None:
        raise UnsupportedSyntax("a command")

    reader = ShellLexer(text, nested)
    with suppress(UnsupportedSyntax):
        word = reader.word()
        if reader.done:
            return word
    return None
