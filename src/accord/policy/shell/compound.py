"""The compound commands of the shell: groups, `if`, loops, `case`, `[[ ]]`, functions. Each reads itself, keyword and all."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .reader import Unreadable
from .words import Assignment, Command, Word

if TYPE_CHECKING:
    from .grammar import Grammar

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Inside [[ ]] these calculate, and calculating a variable's content can run commands.
_CALCULATING: Final = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R", "=~"))


def _group(grammar: "Grammar") -> None:
    grammar.expect("{")
    grammar.statements("}")
    grammar.expect("}")


def _if(grammar: "Grammar") -> None:
    while grammar.reserved() in ("if", "elif"):
        grammar.reader.at += len(grammar.reserved() or "")
        grammar.statements("then")
        grammar.expect("then")
        grammar.statements("elif", "else", "fi")
    if grammar.reserved() == "else":
        grammar.expect("else")
        grammar.statements("fi")
    grammar.expect("fi")


def _while(grammar: "Grammar") -> None:
    grammar.reader.at += len("while")  # `until` is as long
    grammar.statements("do")
    _body(grammar)


def _body(grammar: "Grammar") -> None:
    grammar.reading.loops = True
    grammar.expect("do")
    grammar.statements("done")
    grammar.expect("done")


def _for(grammar: "Grammar") -> None:
    reader = grammar.reader
    reader.at += len(grammar.reserved() or "")  # `for` or `select`
    reader.blanks()
    variable = reader.match(_NAME)
    if variable is None:
        raise Unreadable("a loop without a variable")
    reader.gap()
    values: list[Word] = []
    if grammar.reserved() == "in":
        grammar.expect("in")
        reader.blanks()
        while not reader.done and reader.char not in ";\n":
            values.append(reader.word())
            reader.blanks()
    grammar.reading.commands.append(
        Command(assignments=(Assignment(variable[0], tuple(values), in_turn=True),))
    )
    if not reader.take(";") and not reader.see("\n") and grammar.reserved() != "do":
        raise Unreadable("a loop without its commands")
    _body(grammar)


def _case(grammar: "Grammar") -> None:
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
            raise Unreadable("a case without its end")
        reader.gap()
    grammar.expect("esac")


def _test(grammar: "Grammar") -> None:
    reader = grammar.reader
    grammar.reading.starts.add(reader.at)
    grammar.expect("[[")
    while True:
        reader.gap()
        if reader.done:
            raise Unreadable("']]' is missing")
        if grammar.reserved() == "]]":
            grammar.expect("]]")
            return
        if any(reader.take(operator) for operator in ("&&", "||", "(", ")", "<", ">")):
            continue
        word = reader.word()
        if word.raw in _CALCULATING:
            raise Unreadable(f"{word.raw} inside [[ ]]")


def _function(grammar: "Grammar") -> None:
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


def _coprocess(grammar: "Grammar") -> None:
    grammar.expect("coproc")
    grammar.reading.doubts.append("it starts a coprocess")
    grammar.reader.blanks()
    grammar.command(None)


COMPOUND: Final[dict[str, Callable[["Grammar"], None]]] = {
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
