"""Makes the table of a message's fields for the API reference: the field, its type, its JSON member."""

import ast
import inspect
import re
import textwrap
from typing import Any, cast

from msgspec import Struct

from accord import schema
from accord.schema.type_shape import ObjectOf, shape_of

PLAIN = {
    "Double": "float",
    "Flag": "bool",
    "Int32": "int",
    "Int64": "int",
    "NonEmpty": "str",
    "Uint16": "int",
    "Uint32": "int",
    "Uint64": "int",
}
"""The plain types of the aliases that only say what a reader of JSON does."""
MARKS = ("Annotated", "Choice", "Kept", "Lenient", "Open", "Opt", "OrEmpty", "Section", "Strict", "Unstable")
"""Marks around a type."""


class PlainTypes(ast.NodeTransformer):
    """Takes the marks of `accord.schema.base` off an annotation."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(PLAIN.get(node.id, node.id))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        name = ast.unparse(node.value)
        inside = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
        if name in MARKS:
            return cast("ast.AST", self.visit(inside))
        if name == "Items":
            return ast.Subscript(ast.Name("list"), cast("ast.expr", self.visit(inside)))
        return node if name == "Literal" else self.generic_visit(node)


def annotations(cls: type[Struct]) -> dict[str, str]:
    """Return the types of all fields, as code."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("accord.schema."):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            for node in cast("ast.ClassDef", tree).body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found[node.target.id] = ast.unparse(PlainTypes().visit(node.annotation))
    return found


def linked(code: str) -> str:
    """Return a type as HTML, with links to the types of the page."""
    text = code.replace("<", "&lt;").replace("|", "&#124;")
    return f"<code>{re.sub(r'[A-Za-z]+', _link, text)}</code>"


def _link(word: re.Match[str]) -> str:
    is_listed = hasattr(schema, word[0]) and word[0] != "Any"
    return f'<a href="schema.html#accord.schema.{word[0]}">{word[0]}</a>' if is_listed else word[0]


def table(cls: Any) -> str:
    """Return the table of a class; empty for a class without fields."""
    shape = shape_of(cls)
    assert isinstance(shape, ObjectOf)
    types = annotations(cls)
    lines: list[str] = []
    for field in shape.fields:
        if field.wire != "_meta":
            notes = ["required"] * field.required + ["unstable"] * field.unstable
            lines.append(
                f"| `{field.name}` | {linked(types[field.name])} | `{field.wire}` | {', '.join(notes)} |"
            )
    return "\n".join(["| field | type | in JSON | |", "|---|---|---|---|", *lines]) if lines else ""


def other_members(cls: type[Struct]) -> list[str]:
    """Return the public properties and methods of a class, which are no fields."""
    return [
        name
        for name, value in vars(cls).items()
        if not name.startswith("_") and (isinstance(value, property) or inspect.isroutine(value))
    ]
