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
    variables: list[str] = field(default_factory=list[str])

    def add(self, text: str, variables: tuple[str, ...]) -> None:
        self.texts.append(text)
        self.variables += variables


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
        self.parse_statements(close, allow_empty=True)

    def parse_statements(self, *stops: str, allow_empty: bool = False) -> None:
        lexer = self.lexer
        while True:
            lexer.skip_blanks_and_newlines()
            if lexer.at_end or self._at_stop(stops):
                break
            allow_empty = True  # there is a command
            self._parse_and_or()
            lexer.skip_blanks()
            if (
                not lexer.at_end
                and lexer.char in ";&\n"
                and not lexer.looking_at(";;")
                and not lexer.looking_at(";&")
            ):
                if lexer.char != "\n":
                    lexer.position += 1
            elif not lexer.at_end and not self._at_stop(stops):
                raise UnsupportedSyntax(f"{lexer.char!r} where it does not belong")
        if not allow_empty and stops:
            raise UnsupportedSyntax("an empty list of commands")

    def _at_stop(self, stops: tuple[str, ...]) -> bool:
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
        self.lexer.skip_blanks_and_newlines()
        if self.reserved_word() != word:
            raise UnsupportedSyntax(f"{word!r} is missing")
        self.lexer.position += len(word)

    def _parse_and_or(self) -> None:
        outer_succeeded = self._succeeded
        command, only_and = self._parse_pipeline(), True
        while True:
            self.lexer.skip_blanks()
            if self.lexer.skip_text("||"):
                only_and, self._succeeded = False, outer_succeeded
            elif not self.lexer.skip_text("&&"):
                break
            elif command is not None and only_and:
                self._succeeded = (*self._succeeded, command)
            self.lexer.skip_blanks_and_newlines()
            command = self._parse_pipeline()
        self._succeeded = outer_succeeded

    def _parse_pipeline(self) -> SimpleCommand | None:
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
            lexer.skip_blanks_and_newlines()
            commands = self.result.commands
            self.parse_command(commands[-1] if commands else None)
            single = None

    def parse_command(self, piped_from: SimpleCommand | None) -> SimpleCommand | None:
        """Parse one command. Return it if it is a simple command."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NestingTooDeep("commands that are nested too deeply")
        single = self._parse_any_command(piped_from)
        self._depth -= 1
        return single

    def _parse_any_command(self, piped_from: SimpleCommand | None) -> SimpleCommand | None:
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
            return self._parse_simple_command(piped_from)
        self._parse_redirects()
        return None

    def expect_closing(self, close: str) -> None:
        if not self.lexer.skip_text(close):
            raise UnsupportedSyntax(f"{close!r} is missing")

    def _parse_redirects(self) -> None:
        """Parse the redirections after a group, a loop or a subshell."""
        found: list[Redirect] = []
        stdin = _StandardInput()
        self.lexer.skip_blanks()
        while self._parse_redirect(found, stdin):
            self.lexer.skip_blanks()
        self.result.commands.append(
            SimpleCommand(
                redirects=tuple(found),
                stdin=stdin.texts,
                stdin_variables=stdin.variables,
                succeeded=self._succeeded,
            )
        )

    def _parse_simple_command(self, piped_from: SimpleCommand | None) -> SimpleCommand | None:
        lexer = self.lexer
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirects: list[Redirect] = []
        stdin = _StandardInput()
        start, index, succeeded = lexer.position, len(self.result.commands), self._succeeded
        self.result.commands.append(SimpleCommand())
        while True:
            lexer.skip_blanks()
            if not words and (assignment := self._parse_assignment()):
                assignments.append(assignment)
            elif self._parse_redirect(redirects, stdin):
                continue
            elif lexer.looking_at("("):
                self._function(words, index)
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
            stdin.variables,
            succeeded,
        )
        self.result.commands[index] = command
        return command

    def _function(self, words: list[Word], index: int) -> None:
        lexer = self.lexer
        if len(words) != 1 or not re.compile(r"\([ \t]*\)").match(lexer.text, lexer.position, lexer.end):
            raise UnsupportedSyntax("'(' where it does not belong")
        lexer.position = lexer.text.index(")", lexer.position) + 1
        lexer.skip_blanks_and_newlines()
        self.parse_function_body(words[0].raw, index)

    def parse_function_body(self, name: str, first_command: int) -> None:
        self.result.doubts.append(f"it defines a function, {name}")
        self.parse_command(None)
        self.result.functions.append((name, range(first_command, len(self.result.commands))))

    def _parse_assignment(self) -> Assignment | None:
        lexer = self.lexer
        if _SUBSCRIPT.match(lexer.text, lexer.position, lexer.end):
            raise UnsupportedSyntax("a member of an array")
        found = lexer.match(_ASSIGNMENT)
        if found is None:
            return None
        if lexer.skip_text("("):
            values: list[Word] = []
            lexer.skip_blanks_and_newlines()
            while not lexer.skip_text(")"):
                values.append(lexer.read_word())
                if values[-1].raw.startswith("["):
                    raise UnsupportedSyntax("a member of an array")
                lexer.skip_blanks_and_newlines()
            return Assignment(found[1], tuple(values))
        return Assignment(found[1], (lexer.read_word() if self._at_word() else literal(""),))

    def _at_word(self) -> bool:
        lexer = self.lexer
        return not lexer.at_end and (
            lexer.char not in WORD_ENDS or lexer.looking_at("<(") or lexer.looking_at(">(")
        )

    def _parse_redirect(self, found: list[Redirect], stdin: _StandardInput) -> bool:
        lexer = self.lexer
        match = _REDIRECT.match(lexer.text, lexer.position, lexer.end)
        operator = (match[2] or match[3]) if match else ""
        if match is None or (operator in "<>" and lexer.text[match.end() : match.end() + 1] == "("):
            if match and match[1]:
                raise UnsupportedSyntax("a descriptor in front of a command")
            return False
        lexer.position = match.end()
        if operator in ("<<", "<<-"):
            self._parse_here_document(operator == "<<-", stdin)
            return True
        lexer.skip_blanks()
        if operator in ("<&", ">&") and lexer.skip_text("-"):
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

    def _parse_here_document(self, strip: bool, stdin: _StandardInput) -> None:
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
    _loop_body(parser)


def _loop_body(parser: "ShellParser") -> None:
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
    lexer.skip_blanks_and_newlines()
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
    if not lexer.skip_text(";") and not lexer.looking_at("\n") and parser.reserved_word() != "do":
        raise UnsupportedSyntax("a loop without its commands")
    _loop_body(parser)


def _case(parser: "ShellParser") -> None:
    lexer = parser.lexer
    parser.expect("case")
    lexer.skip_blanks()
    lexer.read_word()
    parser.expect("in")
    lexer.skip_blanks_and_newlines()
    while parser.reserved_word() != "esac":
        lexer.skip_text("(")
        lexer.skip_blanks()
        lexer.read_word()
        lexer.skip_blanks()
        while lexer.skip_text("|"):
            lexer.skip_blanks()
            lexer.read_word()
            lexer.skip_blanks()
        parser.expect_closing(")")
        parser.parse_statements(";;", ";&", "esac", allow_empty=True)
        if not any(lexer.skip_text(end) for end in (";;&", ";;", ";&")) and parser.reserved_word() != "esac":
            raise UnsupportedSyntax("a case without its end")
        lexer.skip_blanks_and_newlines()
    parser.expect("esac")


def _double_brackets(parser: "ShellParser") -> None:
    lexer = parser.lexer
    parser.result.starts.add(lexer.position)
    parser.expect("[[")
    while True:
        lexer.skip_blanks_and_newlines()
        if lexer.at_end:
            raise UnsupportedSyntax("']]' is missing")
        if parser.reserved_word() == "]]":
            parser.expect("]]")
            return
        if any(lexer.skip_text(operator) for operator in ("&&", "||", "(", ")", "<", ">")):
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
    if lexer.skip_text("("):
        lexer.skip_blanks()
        parser.expect_closing(")")
    lexer.skip_blanks_and_newlines()
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
