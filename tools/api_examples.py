"""A griffe extension: adds an example to the docstring of a public name.

For a message it is the code and its JSON, else the shortest function of examples/api that uses the name.
"""

import ast
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

from griffe import Attribute, Class, Docstring, Extension, Object
from tools import schema_examples, schema_tables
from tools.public_api import MODULES, public_names

from accord import schema

MADE_BY_ACCORD = {
    "AgentConnection", "AgentSession", "Client", "ClientRequest", "ClientSession", "ClientTerminal",
    "Compaction", "EventStream", "McpCall", "PendingAgent", "PermissionAnswer", "RemoteAgent",
    "ScriptedTurn", "SessionClient", "Subagent", "ToolCallScope", "Turn",
}  # fmt: skip
"""Classes whose objects programs get and do not make."""
OPAQUE = "An opaque string: compare it, never parse it."
"""What is said of the ids, whose names say the rest."""
LABELS = {"async", "classmethod", "property", "staticmethod"}
"""What the pages show beside a name: how to use it."""
FOLDER = Path(__file__).resolve().parent.parent / "examples" / "api"


def used_names(tree: ast.AST, imported: dict[str, str]) -> set[str]:
    """Return the dotted names of accord that a piece of code uses."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in imported:
            found.add(imported[node.id])
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    return found


@cache
def examples() -> dict[str, str]:
    """Return by the last part of a name the code of its example, with the imports that it needs."""
    best: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        imports: dict[str, ast.stmt] = {}
        imported: dict[str, str] = {}
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    name = alias.asname or alias.name
                    imports[name.partition(".")[0] if isinstance(node, ast.Import) else name] = node
                    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("accord"):
                        imported[name] = f"{node.module}.{alias.name}"
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            parts = _with_its_helpers(node, tree)
            words = {name.id for part in parts for name in ast.walk(part) if isinstance(name, ast.Name)}
            needed = [_only(imports[name], words) for name in imports if name in words]
            sources = [ast.get_source_segment(text, part) or "" for part in parts]
            code = "\n".join([*dict.fromkeys(needed), "", "", "\n\n\n".join(sources)])
            for name in used_names(node, imported):
                if name.startswith("accord"):
                    last = name.rpartition(".")[2]
                    if last not in best or len(code) < len(best[last]):
                        best[last] = code
    return best


def _with_its_helpers(node: ast.stmt, tree: ast.Module) -> list[ast.stmt]:
    """Return a function after the functions and classes of its file that it uses."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    words = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    return [*(part for part in tree.body if isinstance(part, kinds) and part.name in words), node]


def _only(node: ast.stmt, words: set[str]) -> str:
    """Return an import statement with only the names that are used."""
    if isinstance(node, ast.ImportFrom):
        names = [alias.name for alias in node.names if (alias.asname or alias.name) in words]
        return f"from {node.module} import {', '.join(names)}"
    return ast.unparse(node)


class ApiExamples(Extension):
    """Adds the examples, and leaves out what only Accord itself uses."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Leave out the constructors that only Accord calls, and how it fills its attributes."""
        if cls.name in MADE_BY_ACCORD:
            cls.members.pop("__init__", None)
        for member in cls.members.values():
            if isinstance(member, Attribute):
                is_default = "class-attribute" in member.labels and not str(member.value).startswith("field(")
                member.value = member.value if is_default else None

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Add the example of a class, a function or a type of a module."""
        obj.labels &= LABELS
        parent = obj.parent
        if parent is None or not parent.is_module or not obj.path.startswith("accord."):
            return
        blocks = example_blocks(obj)
        if blocks:
            words = [obj.docstring.value if obj.docstring else OPAQUE]
            text = "\n\n".join([*words, *field_table(obj), *blocks])
            obj.docstring = Docstring(text, parent=obj)


def example_blocks(obj: Object) -> list[str]:
    """Return the example of a name as blocks of Markdown."""
    found: list[str] = []
    if obj.name in examples():
        code = examples()[obj.name]
        place = first_use(code, obj.path)
        if place.rpartition(".")[2] != obj.name and not is_message_type(obj):
            return [f"**Example**: at [`{place}`][{place}]."]
        found.append(f"```python\n{textwrap.dedent(code)}\n```")
    if is_message_type(obj):
        code, text = schema_examples.example(obj.name)
        found.append(f"```python\n{code}\n```")
        found += [f"```json\n{text}\n```"] if text else []
    return ["**Example**", *found] if found else []


def first_use(code: str, path: str) -> str:
    """Return the public name on the same page that shows the code: the first one that uses it."""
    module = max((name for name in MODULES if path.startswith(f"{name}.")), key=len, default="")
    names = (name for name in public_names(module) if examples().get(name) == code) if module else iter(())
    return f"{module}.{next(names, path.rpartition('.')[2])}"


def field_table(obj: Object) -> list[str]:
    """Return the table of a message's fields, if it has any."""
    is_message = is_message_type(obj) and obj.is_class and obj.name not in schema_examples.OTHERS
    table = schema_tables.table(getattr(schema, obj.name)) if is_message else ""
    return [table] if table else []


def is_message_type(obj: Object) -> bool:
    """Whether the page of accord.schema shows this object."""
    return obj.path.startswith("accord.schema.") and obj.name in schema_names()


@cache
def schema_names() -> frozenset[str]:
    """Return the names that accord.schema exports."""
    return frozenset(public_names("accord.schema"))
