"""A griffe extension: adds to the docstring of a public name the shortest function of examples/api for it."""

import ast
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

from griffe import Docstring, Extension, Object

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
            words = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            needed = [_only(imports[name], words) for name in imports if name in words]
            source = ast.get_source_segment(text, node) or ""
            code = "\n".join([*dict.fromkeys(needed), "", "", source])
            for name in used_names(node, imported):
                if name.startswith("accord"):
                    last = name.rpartition(".")[2]
                    if last not in best or len(code) < len(best[last]):
                        best[last] = code
    return best


def _only(node: ast.stmt, words: set[str]) -> str:
    """Return an import statement with only the names that are used."""
    if isinstance(node, ast.ImportFrom):
        names = [alias.name for alias in node.names if (alias.asname or alias.name) in words]
        return f"from {node.module} import {', '.join(names)}"
    return ast.unparse(node)


class ApiExamples(Extension):
    """Adds the examples."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Add the example of a class, a function or a type of a module."""
        parent = obj.parent
        if parent is None or not parent.is_module or not obj.path.startswith("accord."):
            return
        code = examples().get(obj.name)
        if code is None:
            return
        words = obj.docstring.value if obj.docstring else ""
        block = f"```python\n{textwrap.dedent(code)}\n```"
        obj.docstring = Docstring(f"{words}\n\n**Example**\n\n{block}", parent=obj)
