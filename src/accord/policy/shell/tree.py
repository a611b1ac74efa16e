"""The second opinion: the same line, read by tree-sitter's grammar of bash.

A line is judged only where both readings find the same commands in the same places. Where ours gave up, what the tree
shows is still held against the hard floor and the rules that forbid.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from .grammar import single_word
from .words import UNKNOWN, Assignment, Command, Redirect, Word

if TYPE_CHECKING:
    from tree_sitter import Language, Node

_FOREIGN: Final = re.compile(r"[^\t\n -~]")
# Everything in the tree that runs something under a name of its own.
_COMMANDS: Final = frozenset(("command", "declaration_command", "unset_command", "test_command"))


class Tree(NamedTuple):
    """What tree-sitter found."""

    starts: set[int]
    """Where the program of each command stands."""
    commands: list[Command]
    broken: bool
    """Whether the line does not parse."""


def parse(text: str) -> Tree | None:
    """Tree-sitter's reading; None where it is not installed."""
    language = _language()
    if language is None:
        return None
    from tree_sitter import Parser

    # Its scanner asks the C library about every character, which past ASCII is beyond the library's tables and can end the
    # process. To the shell such characters are letters, so letters they are; and a byte is a character then.
    root = Parser(language).parse(_FOREIGN.sub("x", text).encode()).root_node
    found = Tree(set(), [], root.has_error)
    _gather(root, text, found)
    return found


@cache
def _language() -> "Language | None":
    try:
        import tree_sitter_bash
        from tree_sitter import Language
    except ImportError:
        return None
    return Language(tree_sitter_bash.language())


def _gather(root: "Node", text: str, found: Tree) -> None:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(node.children))
        if node.type in _COMMANDS:
            name = node.child_by_field_name("name")
            start = node.start_byte if node.type != "command" else name.start_byte if name else None
            if start is not None:
                found.starts.add(start)
            found.commands.append(_command(node, text))
        elif node.type == "file_redirect":
            found.commands.append(Command(redirects=tuple(_redirects(node, text))))


def _command(node: "Node", text: str) -> Command:
    words: list[Word] = []
    assignments: list[Assignment] = []
    for child in node.children:
        if child.type == "variable_assignment":
            name = child.child_by_field_name("name")
            value = child.child_by_field_name("value")
            values = (_word(value, text),) if value else ()
            assignments.append(Assignment(_text(name, text) if name else "", values))
        elif not child.type.endswith("_redirect"):
            words.append(_word(child, text))
    # Arguments behind a redirection hang from the redirection in this grammar.
    above = node.parent
    if above is not None and above.type == "redirected_statement":
        for redirect in above.children_by_field_name("redirect"):
            words.extend(_word(late, text) for late in redirect.children_by_field_name("destination")[1:])
    return Command(tuple(words), tuple(assignments))


def _redirects(node: "Node", text: str) -> list[Redirect]:
    operator = next((child.type for child in node.children if child.type[:1] in "<>&"), ">")
    return [
        Redirect(operator, _word(target, text)) for target in node.children_by_field_name("destination")[:1]
    ]


def _word(node: "Node", text: str) -> Word:
    return single_word(_text(node, text)) or UNKNOWN


def _text(node: "Node", text: str) -> str:
    return text[node.start_byte : node.end_byte]
