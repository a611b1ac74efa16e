from pathlib import Path

from accord.schema.methods import METHODS
from accord.schema.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def test_the_page_of_methods_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_the_page_shows_every_method_with_its_gates() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(METHODS)
    for method, row in zip(METHODS, rows, strict=True):
        assert f"`{method.name}`" in row
        assert all(gate in row for gate in method.gates)
        assert ("unstable" in row) is not method.stable
