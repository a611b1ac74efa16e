"""`CommandLine`: all commands of a shell line, and every doubt about them.

Two parsers must find the same commands at the same positions: our own (`grammar.py`) and tree-sitter's bash
grammar. If they differ, or ours gives up, the line has a doubt, and the commands that tree-sitter found are
still checked against the never-allowed commands and the rules that deny. Without tree-sitter every line has a
doubt.

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


MAX_LENGTH: Final = 64 * 1024
MAX_WORDS: Final = 500
"""The maximum for one command. Longer commands are doubted."""
# Letters and symbols without a visible glyph.
_INVISIBLE_LETTERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_INVISIBLE_CATEGORIES: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"))


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The commands of a line.

    The list is certainly complete only if `parsed` is true and there are no doubts.
    """

    text: str
    commands: tuple[SimpleCommand, ...] = ()
    """All commands that were found, in order. Wrappers such as `sudo` are not unwrapped yet."""
    doubts: tuple[str, ...] = ()
    """What else may run, or may run differently than it looks."""
    parsed: bool = True
    """Whether the line is valid shell syntax. Other lines never run without a question."""
    loops: bool = False
    """Whether a command may run again after a later one."""
    functions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The functions that the line defines, with the names of the commands inside."""


@lru_cache(maxsize=256)
def parse_line(text: str) -> CommandLine:
    """Parse a line for `bash -c`."""
    if len(text) > MAX_LENGTH:
        return CommandLine(text, (), ("it is too long",), parsed=False)
    hidden_description = hidden_character(text)
    parsed = parse_shell(text)
    tree = _parse_with_tree_sitter(text)
    commands, doubts = list(parsed.commands), list(parsed.doubts)
    if hidden_description is not None:
        doubts.insert(0, hidden_description)
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
        (name, tuple(parsed.commands[index].name for index in command_range))
        for name, command_range in parsed.functions
    )
    return CommandLine(
        text,
        tuple(filter(_has_content, commands)),
        tuple(doubts),
        parsed=tree is not None
        and not (tree.has_error or hidden_description or parsed.too_deep or too_many_words),
        loops=parsed.loops or bool(parsed.functions) or parsed.unsupported is not None,
        functions=functions,
    )


def line_from_arguments(arguments: tuple[str, ...]) -> CommandLine:
    """Return the command line of a program that is started without a shell."""
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
    """Describe a character that is invisible or looks like another one, if the text contains one."""
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


_NON_ASCII: Final = re.compile(r"[^\t\n -~]")
# Nodes that run something.
_COMMAND_NODES: Final = frozenset(("command", "declaration_command", "unset_command", "test_command"))


class TreeSitterResult(NamedTuple):
    """What tree-sitter found."""

    starts: set[int]
    """The positions of the program names."""
    commands: list[SimpleCommand]
    has_error: bool
    """Whether the line does not parse."""


def _parse_with_tree_sitter(text: str) -> TreeSitterResult | None:
    """Parse a line with tree-sitter. Returns None if it is not installed."""
    language = _language()
    if language is None:
        return None
    from tree_sitter import Parser

    # Its scanner passes every character to the C library, which can crash for characters beyond ASCII. The
    # shell treats them as letters, so they are replaced by letters. Byte offsets then equal character
    # offsets.
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
            assignments.append(Assignment(_source(name, text) if name else "", values))
        elif not child.type.endswith("_redirect"):
            words.append(_word(child, text))
    # In this grammar, arguments after a redirection belong to the redirection.
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
    return single_word(_source(node, text)) or UNKNOWN


def _source(node: "Node", text: str) -> str:
    return text[node.start_byte : node.end_byte]
