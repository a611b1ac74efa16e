"""docs/architecture.md and the glossary name only what exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "accord"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
GLOSSARY = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Glossary")[2].partition("\n## ")[0]

PATH_ROW = re.compile(r"^\| [^|]*\| `([\w/.]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)
MODULE_ROW = re.compile(r"^\| `(accord[\w.]*)` \|", re.MULTILINE)


@cache
def defined_names(file: Path) -> frozenset[str]:
    """Return the functions and classes of a file, methods as `Class.method`."""
    names: set[str] = set()

    def add(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    add(node.body, f"{prefix}{node.name}.")

    add(ast.parse(file.read_text("utf-8")).body, "")
    return frozenset(names)


def module_exists(name: str) -> bool:
    path = ROOT / "src" / Path(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@pytest.mark.parametrize(("file", "name"), sorted(set(PATH_ROW.findall(PAGE))))
def test_a_step_of_a_path_names_an_existing_function(file: str, name: str) -> None:
    assert name in defined_names(SOURCE / file)


def test_every_path_is_described() -> None:
    assert re.findall(r"^## Path (\d)", PAGE, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert len(PATH_ROW.findall(PAGE)) >= 40


def test_every_file_to_change_exists() -> None:
    section = PAGE.partition("## Where do I change")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w./-]+/[\w.*-]*)`", section)
    assert len(named) > 60
    found = {name for name in named if any(any(base.glob(name)) for base in (ROOT, SOURCE))}
    assert set(named) - found - {"config.toml", "session/update", "_accord/..."} == set()


def test_every_named_module_exists() -> None:
    named = MODULE_ROW.findall(PAGE) + re.findall(r"\| `(accord[\w.]*)` \|$", GLOSSARY, re.MULTILINE)
    assert len(named) > 300
    assert [name for name in named if not module_exists(name)] == []


def test_every_package_is_in_the_map() -> None:
    packages = {f"accord.{folder.name}" for folder in SOURCE.iterdir() if (folder / "__init__.py").is_file()}
    table = PAGE.partition("## Packages")[2].partition("\n## ")[0]
    assert set(MODULE_ROW.findall(table)) == packages


def test_the_glossary_has_at_most_sixty_words() -> None:
    words = re.findall(r"^\| ([a-z][\w -]*) \|", GLOSSARY, re.MULTILINE)
    assert "session state" in words
    assert len(set(words)) == len(words) <= 61  # with the head of the table
