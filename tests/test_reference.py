"""The reference pages are current and complete, and the navigation has every page."""

import asyncio
import builtins
import importlib.util
import inspect
import re
import symtable
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tools import (
    api_reference,
    command_reference,
    configuration_reference,
    schema_examples,
    site_check,
)
from tools.public_api import MODULES, home_of, public_names, text_below
from tools.site_nav import nav_pages

import accord
from accord.coder.user_config import KEYS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EXAMPLES = sorted((ROOT / "examples" / "api").glob("*.py"))


def test_the_configuration_reference_is_current() -> None:
    assert configuration_reference.PAGE.read_text("utf-8") == configuration_reference.page(), (
        "run `make docs`"
    )


def test_every_setting_has_a_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| *\|$", configuration_reference.page(), re.MULTILINE)
    assert rows == []


def test_the_configuration_reference_has_every_key_of_the_coding_agent() -> None:
    page = configuration_reference.PAGE.read_text("utf-8")
    assert [key for key in KEYS if f"\n### [{key}" not in page and f"\n| `{key}` |" not in page] == []


def test_the_command_reference_is_current() -> None:
    assert command_reference.PAGE.read_text("utf-8") == command_reference.page(), "run `make commands`"


def test_the_api_reference_has_every_public_name() -> None:
    found = {path: path.read_text("utf-8") for path in api_reference.FOLDER.glob("*.md")}
    assert found == api_reference.pages(), "run `make docs`"
    for name in accord.__all__:
        assert name == "__version__" or home_of(name) in MODULES


def test_the_public_modules_are_those_of_the_client_guide() -> None:
    table = (DOCS / "client.md").read_text("utf-8").partition("## Public modules")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(accord[\w.]*)`", row.split("|")[1])]
    assert set(listed) == {"accord", "accord.compat", *MODULES}  # compat: docs/official-sdk.md has all of it


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_docstring(module: str) -> None:
    """For a type alias or a constant: the text below its definition."""
    loaded = importlib.import_module(module)
    missing = [
        name
        for name in public_names(module)
        if name not in api_reference.FOREIGN
        and not (module == "accord.schema" and name.endswith("Id"))  # plain strings; the name says it
        and not (own_doc(getattr(loaded, name)) or text_below(name, module))
    ]
    assert missing == []


def own_doc(value: object) -> str | None:
    return inspect.getdoc(value) if inspect.isclass(value) or inspect.isroutine(value) else None


def test_every_page_is_in_the_navigation() -> None:
    listed = [path for _, path in nav_pages()]
    assert len(listed) == len(set(listed))
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_of_the_reference_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location(f"api_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for function in [value for value in vars(module).values() if inspect.iscoroutinefunction(value)]:
        if function.__module__ == module.__name__:
            asyncio.run(asyncio.wait_for(function(), PATIENCE))


def test_every_public_name_has_an_example() -> None:
    """`examples/api` is the program that uses every public name, for the reference and the type checkers."""
    code = "\n".join(path.read_text("utf-8") for path in EXAMPLES)
    used = set(re.findall(r"\w+", code))
    missing = {
        f"{module}.{name}"
        for module in MODULES
        if module != "accord.schema"  # see the next test
        for name in public_names(module)
        if name not in used
    }
    assert missing == set()


def test_every_example_defines_the_names_that_it_uses() -> None:
    api_examples = pytest.importorskip(
        "tools.api_examples", reason="it needs the [docs] extra; `make docs` runs it"
    )
    for name, code in api_examples.examples().items():
        table = symtable.symtable(code, name, "exec")
        known = {*dir(builtins), *(symbol.get_name() for symbol in table.get_symbols() if symbol.is_local())}
        assert globals_of(table) <= known, f"the example of {name}"


def globals_of(table: symtable.SymbolTable) -> set[str]:
    """The global names that a piece of code uses."""
    found = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return found.union(*(globals_of(child) for child in table.get_children()))


def test_every_message_has_a_valid_example() -> None:
    for name in public_names("accord.schema"):
        code, _ = schema_examples.example(name)
        assert f"schema.{name}" in code


def test_every_page_shows_code_at_its_top() -> None:
    for path in DOCS.glob("*.md"):
        top = path.read_text("utf-8").splitlines()[:12]
        assert any(line.startswith("```") for line in top), f"{path.name}: no command or code at the top"


def test_a_broken_link_anchor_or_image_of_the_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h2 id="one">One</h2><a href="a.html#one"></a><a href="b.html"></a><a href="#two"></a>'
        '<img src="c.png"><script src="https://example.org/d.js"></script>'
    )
    assert site_check.problems(tmp_path) == [
        "a.html: loads https://example.org/d.js",
        "a.html: b.html does not exist",
        "a.html: #two has no such heading",
        "a.html: c.png does not exist",
    ]
