"""Finds the code of README.md and docs/, and writes the Python code as modules for the type checkers.

A comment on the line before a block says how it is run and checked:

    <!-- fragment: REASON -->     neither run nor type-checked
    <!-- not run: REASON -->      type-checked only
    <!-- given: NAME, NAME -->    runs inside an async function with these parameters, see GIVEN
    <!-- continues -->            runs after the previous Python block of the page, with its names

A block with `title="NAME"` is saved under this name before the page's commands run, unless the title is a
path. So is a Python block whose first line is a comment with a file name.
`python -m tools.snippets FOLDER` writes the modules.
"""

import ast
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools import schema_examples

ROOT = Path(__file__).resolve().parent.parent

GIVEN = {
    "agent": "accord.RemoteAgent",
    "app": "accord.Agent",
    "client": "accord.testing.ScriptedClient",
    "folder": "str",
    "handlers": "accord.ClientHandlers",
    "options": "accord.ClientOptions",
    "policy": "accord.Policy",
    "session": "accord.ClientSession",
    "token": "str",
    "transport": "accord.wire.transport.Transport",
}
"""The parameters that a block can ask for, with their types."""

IMPORTS = {
    "accord.testing": "import accord.testing",
    "accord.wire": "import accord.wire.transport",
    "accord": "import accord",
    "asyncio": "import asyncio",
    "pytest": "import pytest",
    "Path": "from pathlib import Path",
}
"""Names that a block may use without importing them, because the page's first block did."""

PYRIGHT: dict[str, object] = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "venvPath": str(ROOT),
    "venv": ".venv",
    "exclude": [],
    "reportMissingTypeStubs": False,
    # A short block shows a value or a case that a whole program would use.
    "reportUnusedExpression": False,
    "reportUnusedFunction": False,
    "reportUnusedImport": False,
    "reportUnusedVariable": False,
}

_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<note>[^\n]*) -->\n)?"
    r'^(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"\n]+)")?[^\n]*\n'
    r"(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_FILE_LINE = re.compile(r"# ([\w-]+\.py)\n")
_NOTES = ("fragment", "not run", "given", "continues")


@dataclass
class Snippet:
    """One block of code of a page."""

    page: Path
    line: int
    language: str
    code: str
    notes: dict[str, str] = field(default_factory=dict[str, str])
    title: str = ""
    before: "Snippet | None" = None
    """The Python block that this one continues."""
    is_continued: bool = False

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name under which the block is saved."""
        named = _FILE_LINE.match(self.code) if self.language == "python" else None
        title = "" if "/" in self.title else self.title
        return title or (named[1] if named else None)

    @property
    def given(self) -> list[str]:
        """The names of this block's parameters, and of those it continues."""
        names = self.before.given if self.before else []
        return names + [name for name in re.findall(r"\w+", self.notes.get("given", "")) if name not in names]

    @property
    def body(self) -> str:
        """The code after that of the blocks it continues."""
        return f"{self.before.body}\n{self.code}" if self.before else self.code

    @property
    def is_function(self) -> bool:
        """Whether the code becomes the body of an async function: it has parameters, or awaits."""
        if self.given:
            return True
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(self.body, self.place, "exec", flags)
        inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
        awaits = (ast.Await, ast.AsyncFor, ast.AsyncWith)
        found = list[ast.AST](tree.body)
        while found:
            node = found.pop()
            if isinstance(node, awaits):
                return True
            if not isinstance(node, inner):
                found += ast.iter_child_nodes(node)
        return False

    def module(self) -> str:
        """The code as a module: with its imports, inside an async function `snippet` if it has to be."""
        body = self.body
        known = set(re.findall(r"^(?:import|from) ([\w.]+)|import (\w+)$", body, re.MULTILINE))
        names = {name for pair in known for name in pair}
        types = " ".join(GIVEN[name] for name in self.given)
        wanted = [
            line
            for name, line in IMPORTS.items()
            if name not in names
            and line not in body
            and re.search(rf"\b{re.escape(name)}\b", body + " " + types)
        ]
        head = "\n".join(wanted)
        if self.is_function:
            parameters = ", ".join(f"{name}: {GIVEN[name]}" for name in self.given)
            indented = textwrap.indent(body, "    ")
            return f"{head}\n\n\nasync def snippet({parameters}) -> None:\n{indented}\n"
        return f"{head}\n{body}" if head else body


def pages() -> list[Path]:
    """Return README.md and all pages of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def snippets(page: Path) -> list[Snippet]:
    """Return the blocks of a page."""
    return list(_read(page))


def _read(page: Path) -> Iterator[Snippet]:
    text = page.read_text("utf-8")
    previous: Snippet | None = None
    for match in _BLOCK.finditer(text):
        code = textwrap.dedent(match["code"])
        line = text.count("\n", 0, match.start("language")) + 1
        notes = _read_note(match["note"] or "")
        found = Snippet(page, line, match["language"], code, notes, match["title"] or "")
        if "continues" in found.notes:
            found.before = previous
            if previous is not None:
                previous.is_continued = True
        if found.language == "python" and "fragment" not in found.notes:
            previous = found
        yield found


def _read_note(text: str) -> dict[str, str]:
    notes: dict[str, str] = {}
    for part in text.split(";"):
        key, _, value = part.strip().partition(":")
        if key in _NOTES:
            notes[key] = value.strip()
    return notes


def modules() -> dict[str, tuple[str, str]]:
    """Return by file name the place and the text of each module to type-check."""
    found: dict[str, tuple[str, str]] = {}
    for page in pages():
        stem = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
        for snippet in snippets(page):
            if snippet.language != "python" or "fragment" in snippet.notes or snippet.is_continued:
                continue
            name = snippet.file or f"{stem}_{snippet.line}.py"
            text = snippet.module()
            if name in found and found[name][1] != text:
                raise SystemExit(f"{snippet.place}: {name} differs from the block at {found[name][0]}")
            found[name] = (snippet.place, text)
    found["schema_examples.py"] = ("the examples of accord.schema", schema_examples.module())
    return found


def write_modules(folder: Path) -> None:
    """Write the modules, and leave unchanged files alone for the caches of the type checkers."""
    folder.mkdir(parents=True, exist_ok=True)
    found = modules()
    for path in folder.glob("*.py"):
        if path.name not in found:
            path.unlink()
    for name, (place, text) in found.items():
        path = folder / name
        text = f"# {place}\n{text}"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT, indent=1), "utf-8")


if __name__ == "__main__":
    write_modules(Path(sys.argv[1]))
