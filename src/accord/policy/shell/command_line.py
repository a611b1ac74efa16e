"""All commands of a line and every doubt about them, checked against tree-sitter.

Imported on first use.
"""

import re
import unicodedata
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from accord.policy.shell.grammar import parse_shell, single_word
from accord.policy.shell.syntax import UNKNOWN, Assignment, Redirect, SimpleCommand, Word, literal

if TYPE_CHECKING:
    from tree_sitter import Language, Node


# MERGED policy.shell.tree: The second opinion: the same line, read by tree-sitter's grammar of bash.
#
# A line is judged only where both readings find the same commands in the same places. Where ours gave up, what the tree
# shows is still held against the hard floor and the rules that forbid.

_NON_ASCII: Final = re.compile(r"[^\t\n -~]")
# Everything in the tree that runs something under a name of its own.
_COMMAND_NODES: Final = frozenset(("command", "declaration_command", "unset_command", "test_command"))


class TreeSitterResult(NamedTuple):
    """What tree-sitter found."""

    starts: set[int]
    """Where the program of each command stands."""
    commands: list[SimpleCommand]
    has_error: bool
    """Whether the line does not parse."""


def _parse_with_tree_sitter(text: str) -> TreeSitterResult | None:
    """Tree-sitter's reading; None where it is not installed."""
    language = _language()
    if language is None:
        return None
    from tree_sitter import Parser

    # Its scanner asks the C library about every character, which past ASCII is beyond the library's tables and can end the
    # process. To the shell such characters are letters, so letters they are; and a byte is a character then.
    root = Parser(language).parse(_NON_ASCII.sub("x", text).encode()).root_node
    found = TreeSitterResult(set(), [], root.has_error)
    _collect(root, text, found)
    return found


@cache
def _language() -> "Language | None":
    try:
        import tree_sitter_bash
        from tree_sitter import Language
    except ImportError:
        return None
    return Language(tree_sitter_bash.language())


def _collect(root: "Node", text: str, found: TreeSitterResult) -> None:
    pending = [root]
    while pending:
        node = pending.pop()
        pending.extend(reversed(node.children))
        if node.type in _COMMAND_NODES:
            name = node.child_by_field_name("name")
            start = node.start_byte if node.type != "command" else name.start_byte if name else None
            if start is not None:
                found.starts.add(start)
            found.commands.append(_command(node, text))
        elif node.type == "file_redirect":
            found.commands.append(SimpleCommand(redirects=tuple(_redirects(node, text))))


def _command(node: "Node", text: str) -> SimpleCommand:
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
    parent = node.parent
    if parent is not None and parent.type == "redirected_statement":
        for redirect in parent.children_by_field_name("redirect"):
            words.extend(
                _word(argument, text) for argument in redirect.children_by_field_name("destination")[1:]
            )
    return SimpleCommand(tuple(words), tuple(assignments))


def _redirects(node: "Node", text: str) -> list[Redirect]:
    operator = next((child.type for child in node.children if child.type[:1] in "<>&"), ">")
    return [
        Redirect(operator, _word(target, text)) for target in node.children_by_field_name("destination")[:1]
    ]


def _word(node: "Node", text: str) -> Word:
    return single_word(_text(node, text)) or UNKNOWN


def _text(node: "Node", text: str) -> str:
    return text[node.start_byte : node.end_byte]


# MERGED policy.shell.line: A shell line and what is known about it: its commands, and every reason to doubt that these are all.
#
# Two readings have to agree (ours in `grammar.py`, tree-sitter's in `tree.py`). Without tree-sitter no line is judged.

MAX_LENGTH: Final = 64 * 1024
MAX_WORDS: Final = 500
"""In one command. Who has more to say is not judged."""
# Letters and symbols that look like nothing at all.
_INVISIBLE_LETTERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_INVISIBLE_CATEGORIES: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"))


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What is known about a line. Only one that is `parsed` and has no doubts is known completely."""

    text: str
    commands: tuple[SimpleCommand, ...] = ()
    """Everything that was found to run, in the order of the line, wrappers not yet opened."""
    doubts: tuple[str, ...] = ()
    """What may run besides, or otherwise than it looks."""
    parsed: bool = True
    """Whether it is a line of shell at all. One that is not is never run unasked."""
    loops: bool = False
    """Whether a command may run again after one that stands behind it."""
    functions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The functions it defines, each with the names of the commands inside."""


@lru_cache(maxsize=256)
def parse_line(text: str) -> CommandLine:
    """Read a line that is meant for `bash -c`."""
    if len(text) > MAX_LENGTH:
        return CommandLine(text, (), ("it is too long",), parsed=False)
    hidden = hidden_character(text)
    parsed = parse_shell(text)
    tree = _parse_with_tree_sitter(text)
    commands, doubts = list(parsed.commands), list(parsed.doubts)
    if hidden is not None:
        doubts.insert(0, hidden)
    elif tree is None:
        doubts.insert(0, "there is no shell parser (pip install 'accord[agent]')")
    elif tree.has_error:
        doubts.insert(0, "it does not parse")
    if parsed.unsupported is not None:
        doubts.append(f"it has {parsed.unsupported}")
    if tree is not None and (doubts or parsed.starts != tree.starts):
        commands.extend(tree.commands)
        if not doubts:
            doubts.append("two readings of it do not agree")
    too_many_words = any(len(command.words) > MAX_WORDS for command in commands)
    if too_many_words:
        doubts.insert(0, f"it has a command of more than {MAX_WORDS} words")
        commands = [replace(command, words=command.words[:MAX_WORDS]) for command in commands]
    functions = tuple(
        (name, tuple(parsed.commands[place].name for place in places)) for name, places in parsed.functions
    )
    return CommandLine(
        text,
        tuple(filter(_has_content, commands)),
        tuple(doubts),
        parsed=tree is not None and not (tree.has_error or hidden or parsed.too_deep or too_many_words),
        loops=parsed.loops or bool(parsed.functions) or parsed.unsupported is not None,
        functions=functions,
    )


def line_from_arguments(arguments: tuple[str, ...]) -> CommandLine:
    """A command that is started without a shell: the program and its arguments, as they are."""
    if (
        not arguments
        or len(arguments) > MAX_WORDS
        or any(hidden_character(argument) for argument in arguments)
    ):
        return CommandLine(" ".join(arguments), (), ("it cannot be read",), parsed=False)
    return CommandLine(
        " ".join(arguments), (SimpleCommand(tuple(literal(argument) for argument in arguments)),)
    )


def hidden_character(text: str) -> str | None:
    """Why nobody should trust their eyes on this text, if so: characters that do not show, or do not show as they are."""
    for char in text:
        if char in " \n\t" or "!" <= char <= "~":
            continue
        if char < " " or char == "\x7f":
            return f"it has a control character, {char!r}"
        if char in _INVISIBLE_LETTERS or unicodedata.category(char) in _INVISIBLE_CATEGORIES:
            return f"it has a character that does not show, {char!a}"
    return None


def _has_content(command: SimpleCommand) -> bool:
    return bool(command.words or command.assignments or command.redirects or command.stdin)
