"""`ShellParser`: words to commands, for pipelines, lists, groups, loops and functions.

The parser finds every simple command in a line, also inside substitutions and here-documents. It records a
doubt for constructs whose effect it cannot predict, and stops with `UnsupportedSyntax` at constructs it
cannot read. Commands found before that are kept.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from accord.policy.shell.lexer import WORD_ENDS, NestingTooDeep, ShellLexer, UnsupportedSyntax
from accord.policy.shell.syntax import Assignment, Redirect, SimpleCommand, Word, literal

MAX_DEPTH: Final = 24
_REDIRECT: Final = re.compile(r"([0-9]*)(<<<|<<-|<<|<>|<&|<|>>|>\||>&|>)|(&>>?)")
_DELIMITER: Final = re.compile(r"'([^'\n]*)'|\"([^\"$`\\\n]*)\"|([A-Za-z0-9_.+!%-]+)")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_RESERVED: Final = re.compile(r"(?:[a-z]+|\[\[|\]\]|[{}!])(?=[ \t\n;&|()<>]|\Z)")
_CLOSING_WORDS: Final = frozenset(("then", "do", "done", "fi", "else", "elif", "esac", "}", "]]"))
# Bash expands the word of `>&word` a second time if it is not a number: `>&'$(run)'` runs a command. A word
# of these characters alone expands to itself.
_EXPANDS_TO_ITSELF: Final = re.compile(r"[\w./+,:@%=-]+")


@dataclass(slots=True)
class ParsedLine:
    """The commands of a line, and what the parser could not predict."""

    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    starts: set[int] = field(default_factory=set[int])
    """The positions of the program names, for the comparison with tree-sitter."""
    functions: list[tuple[str, range]] = field(default_factory=list[tuple[str, range]])
    """The functions that are defined, each with the range of its commands."""
    loops: bool = False
    """Whether a command may run again after a later one."""
    doubts: list[str] = field(default_factory=list[str])
    unsupported: str | None = None
    too_deep: bool = False


@dataclass(slots=True)
class _StandardInput:
    """The here-documents and here-strings of a command."""

    texts: list[str] = field(default_factory=list[str])
    stdin_variables: list[str] = field(default_factory=list[str])

    def add(self, text: str, variables: tuple[str, ...]) -> None:
        self.texts.append(text)
        self.stdin_variables += variables


def parse_shell(text: str) -> ParsedLine:
    """Parse the line as far as possible."""
    parser = ShellParser(text)
    try:
        parser.parse_line()
    except UnsupportedSyntax as error:
        parser.result.unsupported = str(error)
        parser.result.too_deep = isinstance(error, NestingTooDeep)
    return parser.result


class ShellParser:
    def __init__(self, text: str) -> None:
        self.result: ParsedLine = ParsedLine()
        self.lexer: ShellLexer = ShellLexer(text, self._parse_nested)
        self._depth = 0
        self._succeeded: tuple[SimpleCommand, ...] = ()

    def parse_line(self) -> None:
        lexer = self.lexer
        self.parse_statements()
        if not lexer.at_end:
            raise UnsupportedSyntax(f"{lexer.char!r} where it does not belong")
        lexer.check_complete()

    def _parse_nested(self, lexer: ShellLexer, close: str) -> None:
        self.parse_statements(close, empty=True)

    def parse_statements(self, *stops: str, empty: bool = False) -> None:
        lexer = self.lexer
        while True:
            lexer.skip_gap()
            if lexer.at_end or self._stops(stops):
                break
            empty = True
            self._and_or()
            lexer.skip_blanks()
            if (
                not lexer.at_end
                and lexer.char in ";&\n"
                and not lexer.looking_at(";;")
                and not lexer.looking_at(";&")
            ):
                if lexer.char != "\n":
                    lexer.position += 1
            elif not lexer.at_end and not self._stops(stops):
                raise UnsupportedSyntax(f"{lexer.char!r} where it does not belong")
        if not empty and stops:
            raise UnsupportedSyntax("an empty list of commands")

    def _stops(self, stops: tuple[str, ...]) -> bool:
        for stop in stops:
            if stop and stop[0] in ");":
                if self.lexer.looking_at(stop):
                    return True
            elif stop and self.reserved_word() == stop:
                return True
        return False

    def reserved_word(self) -> str | None:
        """Return the reserved word at this position."""
        lexer = self.lexer
        found = _RESERVED.match(lexer.text, lexer.position, lexer.end)
        return found[0] if found else None

    def expect(self, word: str) -> None:
        self.lexer.skip_gap()
        if self.reserved_word() != word:
            raise UnsupportedSyntax(f"{word!r} is missing")
        self.lexer.position += len(word)

    def _and_or(self) -> None:
        outer = self._succeeded
        done, only_and = self._pipeline(), True
        while True:
            self.lexer.skip_blanks()
            if self.lexer.take("||"):
                only_and, self._succeeded = False, outer
            elif not self.lexer.take("&&"):
                break
            elif done is not None and only_and:
                self._succeeded = (*self._succeeded, done)
            self.lexer.skip_gap()
            done = self._pipeline()
        self._succeeded = outer

    def _pipeline(self) -> SimpleCommand | None:
        """Parse a pipeline.

        Return its command if it has exactly one, and that command's success is the pipeline's.
        """
        lexer = self.lexer
        negated = False
        while self.reserved_word() == "!":
            negated = True
            lexer.position += 1
            lexer.skip_blanks()
        single = self.parse_command(None)
        while True:
            lexer.skip_blanks()
            if not lexer.looking_at("|") or lexer.looking_at("||"):
                return None if negated else single
            lexer.position += 2 if lexer.looking_at("|&") else 1
            lexer.skip_gap()
            commands = self.result.commands
            self.parse_command(commands[-1] if commands else None)
            single = None

    def parse_command(self, piped_from: SimpleCommand | None) -> SimpleCommand | None:
        """Parse one command. Return it if it is a simple command."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NestingTooDeep("commands that are nested too deeply")
        single = self._any_command(piped_from)
        self._depth -= 1
        return single

    def _any_command(self, piped_from: SimpleCommand | None) -> SimpleCommand | None:
        lexer = self.lexer
        word = self.reserved_word()
        if lexer.looking_at("("):
            if lexer.looking_at("(("):
                raise UnsupportedSyntax("arithmetic, or two subshells at once")
            lexer.position += 1
            self.parse_statements(")")
            self.expect_closing(")")
        elif word in COMPOUND_COMMANDS:
            COMPOUND_COMMANDS[word](self)
        elif word in _CLOSING_WORDS:
            raise UnsupportedSyntax(f"{word!r} where it does not belong")
        else:
            return self._simple(piped_from)
        self._redirects()
        return None

    def expect_closing(self, close: str) -> None:
        if not self.lexer.take(close):
            raise UnsupportedSyntax(f"{close!r} is missing")

    def _redirects(self) -> None:
        """Parse the redirections after a group, a loop or a subshell."""
        found: list[Redirect] = []
        stdin = _StandardInput()
        self.lexer.skip_blanks()
        while self._redirect(found, stdin):
            self.lexer.skip_blanks()
        self.result.commands.append(
            SimpleCommand(
                redirects=tuple(found),
                stdin=stdin.texts,
                stdin_variables=stdin.stdin_variables,
                succeeded=self._succeeded,
            )
        )

    def _simple(self, piped_from: SimpleCommand | None) -> SimpleCommand | None:
        lexer = self.lexer
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirects: list[Redirect] = []
        stdin = _StandardInput()
        start, place, succeeded = lexer.position, len(self.result.commands), self._succeeded
        self.result.commands.append(SimpleCommand())
        while True:
            lexer.skip_blanks()
            if not words and (assignment := self._assignment()):
                assignments.append(assignment)
            elif self._redirect(redirects, stdin):
                continue
            elif lexer.looking_at("("):
                self._function(words, place)
                return None
            elif self._at_word():
                words.append(lexer.read_word())
            else:
                break
        if lexer.position == start:
            raise UnsupportedSyntax(f"{lexer.char!r} where a command should be")
        if words:
            self.result.starts.add(words[0].start)
        command = SimpleCommand(
            tuple(words),
            tuple(assignments),
            tuple(redirects),
            piped_from,
            stdin.texts,
            stdin.stdin_variables,
            succeeded,
        )
        self.result.commands[place] = command
        return command

    def _function(self, words: list[Word], place: int) -> None:
        lexer = self.lexer
        if len(words) != 1 or not re.compile(r"\([ \t]*\)").match(lexer.text, lexer.position, lexer.end):
            raise UnsupportedSyntax("'(' where it does not belong")
        lexer.position = lexer.text.index(")", lexer.position) + 1
        lexer.skip_gap()
        self.parse_function_body(words[0].raw, place)

    def parse_function_body(self, name: str, place: int) -> None:
        self.result.doubts.append(f"it defines a function, {name}")
        self.parse_command(None)
        self.result.functions.append((name, range(place, len(self.result.commands))))

    def _assignment(self) -> Assignment | None:
        lexer = self.lexer
        if _SUBSCRIPT.match(lexer.text, lexer.position, lexer.end):
            raise UnsupportedSyntax("a member of an array")
        found = lexer.match(_ASSIGNMENT)
        if found is None:
            return None
        if lexer.take("("):
            values: list[Word] = []
            lexer.skip_gap()
            while not lexer.take(")"):
                values.append(lexer.read_word())
                if values[-1].raw.startswith("["):
                    raise UnsupportedSyntax("a member of an array")
                lexer.skip_gap()
            return Assignment(found[1], tuple(values))
        return Assignment(found[1], (lexer.read_word() if self._at_word() else literal(""),))

    def _at_word(self) -> bool:
        lexer = self.lexer
        return not lexer.at_end and (
            lexer.char not in WORD_ENDS or lexer.looking_at("<(") or lexer.looking_at(">(")
        )

    def _redirect(self, found: list[Redirect], stdin: _StandardInput) -> bool:
        lexer = self.lexer
        seen = _REDIRECT.match(lexer.text, lexer.position, lexer.end)
        operator = (seen[2] or seen[3]) if seen else ""
        if seen is None or (operator in "<>" and lexer.text[seen.end() : seen.end() + 1] == "("):
            if seen and seen[1]:
                raise UnsupportedSyntax("a descriptor in front of a command")
            return False
        lexer.position = seen.end()
        if operator in ("<<", "<<-"):
            self._document(operator == "<<-", stdin)
            return True
        lexer.skip_blanks()
        if operator in ("<&", ">&") and lexer.take("-"):
            return True  # `>&-` closes; the text after it is another word
        target = lexer.read_word()
        if operator == "<<<":
            stdin.add(target.unquoted if target.unquoted is not None else target.raw, target.variables)
        elif operator in ("<&", ">&") and _is_descriptor(target):
            pass
        elif operator == "<&":
            raise UnsupportedSyntax("a copy of a descriptor that is not a number")
        else:
            if operator == ">&" and not _EXPANDS_TO_ITSELF.fullmatch(target.text or ""):
                self.result.doubts.append("bash expands the target of >& twice")
            found.append(Redirect(operator, target))
        return True

    def _document(self, strip: bool, stdin: _StandardInput) -> None:
        lexer = self.lexer
        lexer.skip_blanks()
        found = lexer.match(_DELIMITER)
        if found is None or not (lexer.at_end or lexer.char in WORD_ENDS):
            raise UnsupportedSyntax("an unusual end of a here-document")
        quoted = found[3] is None
        delimiter = found[1] or found[2] or found[3] or ""
        lexer.expect_document(delimiter, quoted, strip, stdin.add)


def _is_descriptor(target: Word) -> bool:
    """Whether the word of `>&` or `<&` is a descriptor to copy (`2`), to move (`2-`) or to close (`-`)."""
    # A quoted `2-` is the name of a file.
    return bool(re.fullmatch(r"[0-9]+|-", target.text or "") or re.fullmatch(r"[0-9]+-", target.raw))


def single_word(text: str) -> Word | None:
    """Parse the text as one word. Return None if it is anything else."""

    def nested(lexer: ShellLexer, close: str) -> None:
        raise UnsupportedSyntax("a command")

    lexer = ShellLexer(text, nested)
    with suppress(UnsupportedSyntax):
        word = lexer.read_word()
        if lexer.at_end:
            return word
    return None


# Compound commands: groups, `if`, loops, `case`, `[[ ]]`, functions. Each function starts at its keyword.

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Inside [[ ]] these evaluate arithmetic, and evaluating the value of a variable can run commands.
_ARITHMETIC_OPERATORS: Final = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R", "=~"))


def _group(parser: "ShellParser") -> None:
    parser.expect("{")
    parser.parse_statements("}")
    parser.expect("}")


def _if(parser: "ShellParser") -> None:
    while parser.reserved_word() in ("if", "elif"):
        parser.lexer.position += len(parser.reserved_word() or "")
        parser.parse_statements("then")
        parser.expect("then")
        parser.parse_statements("elif", "else", "fi")
    if parser.reserved_word() == "else":
        parser.expect("else")
        parser.parse_statements("fi")
    parser.expect("fi")


def _while(parser: "ShellParser") -> None:
    parser.lexer.position += len("while")  # `until` has the same length
    parser.parse_statements("do")
    _body(parser)


def _body(parser: "ShellParser") -> None:
    parser.result.loops = True
    parser.expect("do")
    parser.parse_statements("done")
    parser.expect("done")


def _for(parser: "ShellParser") -> None:
    lexer = parser.lexer
    lexer.position += len(parser.reserved_word() or "")  # `for` or `select`
    lexer.skip_blanks()
    variable = lexer.match(_NAME)
    if variable is None:
        raise UnsupportedSyntax("a loop without a variable")
    lexer.skip_gap()
    values: list[Word] = []
    if parser.reserved_word() == "in":
        parser.expect("in")
        lexer.skip_blanks()
        while not lexer.at_end and lexer.char not in ";\n":
            values.append(lexer.read_word())
            lexer.skip_blanks()
    parser.result.commands.append(
        SimpleCommand(assignments=(Assignment(variable[0], tuple(values), in_loop=True),))
    )
    if not lexer.take(";") and not lexer.looking_at("\n") and parser.reserved_word() != "do":
        raise UnsupportedSyntax("a loop without its commands")
    _body(parser)


def _case(parser: "ShellParser") -> None:
    lexer = parser.lexer
    parser.expect("case")
    lexer.skip_blanks()
    lexer.read_word()
    parser.expect("in")
    lexer.skip_gap()
    while parser.reserved_word() != "esac":
        lexer.take("(")
        lexer.skip_blanks()
        lexer.read_word()
        lexer.skip_blanks()
        while lexer.take("|"):
            lexer.skip_blanks()
            lexer.read_word()
            lexer.skip_blanks()
        parser.expect_closing(")")
        parser.parse_statements(";;", ";&", "esac", empty=True)
        if not any(lexer.take(end) for end in (";;&", ";;", ";&")) and parser.reserved_word() != "esac":
            raise UnsupportedSyntax("a case without its end")
        lexer.skip_gap()
    parser.expect("esac")


def _double_brackets(parser: "ShellParser") -> None:
    lexer = parser.lexer
    parser.result.starts.add(lexer.position)
    parser.expect("[[")
    while True:
        lexer.skip_gap()
        if lexer.at_end:
            raise UnsupportedSyntax("']]' is missing")
        if parser.reserved_word() == "]]":
            parser.expect("]]")
            return
        if any(lexer.take(operator) for operator in ("&&", "||", "(", ")", "<", ">")):
            continue
        word = lexer.read_word()
        if word.raw in _ARITHMETIC_OPERATORS:
            raise UnsupportedSyntax(f"{word.raw} inside [[ ]]")


def _function(parser: "ShellParser") -> None:
    lexer = parser.lexer
    parser.expect("function")
    lexer.skip_blanks()
    name = lexer.read_word().raw
    lexer.skip_blanks()
    if lexer.take("("):
        lexer.skip_blanks()
        parser.expect_closing(")")
    lexer.skip_gap()
    parser.parse_function_body(name, len(parser.result.commands))


def _coprocess(parser: "ShellParser") -> None:
    parser.expect("coproc")
    parser.result.doubts.append("it starts a coprocess")
    parser.lexer.skip_blanks()
    parser.parse_command(None)


COMPOUND_COMMANDS: Final[dict[str, Callable[["ShellParser"], None]]] = {
    "{": _group,
    "if": _if,
    "while": _while,
    "until": _while,
    "for": _for,
    "select": _for,
    "case": _case,
    "[[": _double_brackets,
    "function": _function,
    "coproc": _coprocess,
}
"""The parser of each compound command, by its first word."""
