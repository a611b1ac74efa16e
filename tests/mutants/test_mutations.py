"""The mutants are a fixed sample, and every explanation belongs to code that exists."""

import ast
from collections import Counter
from pathlib import Path

import pytest
from tests.mutants import mutations
from tests.mutants.mutations import (
    ALWAYS,
    AREAS,
    SOURCE,
    Mutant,
    explanations,
    mutants_of,
    possible_mutants,
    sample,
)


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return sample()


def test_every_area_has_a_hundred_mutants(mutants: list[Mutant]) -> None:
    counts = Counter(mutant.area for mutant in mutants)
    assert set(counts) == set(AREAS)
    assert min(counts.values()) >= 100
    assert len({mutant.key for mutant in mutants}) == counts.total() >= 400


def test_every_mutant_of_the_sample_is_valid_python_and_changes_the_code(mutants: list[Mutant]) -> None:
    sources: dict[str, tuple[bytes, ast.Module]] = {}
    for mutant in mutants:
        if mutant.file not in sources:
            source = (SOURCE / mutant.file).read_bytes()
            sources[mutant.file] = source, ast.parse(source)
        source, tree = sources[mutant.file]
        first, end = statement_around(source, tree, mutant.start)
        changed = mutant.apply(source)
        changed_statement = ast.parse(changed[first : end + len(changed) - len(source)])
        assert ast.dump(changed_statement) != ast.dump(ast.parse(source[first:end])), mutant.key


def statement_around(source: bytes, tree: ast.Module, place: int) -> tuple[int, int]:
    """Where the statement of the module at this place starts and ends: to parse whole files takes long."""
    line = source[:place].count(b"\n") + 1
    starts = [0, *(index + 1 for index, byte in enumerate(source) if byte == 10)]
    for node in tree.body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        if first <= line <= (node.end_lineno or 0):
            return starts[first - 1], starts[node.end_lineno or 0]
    raise AssertionError(f"no statement at byte {place}")


def test_mutants_that_once_survived_stay_in_the_sample(mutants: list[Mutant]) -> None:
    found = {(mutant.file, mutant.original) for mutant in mutants}
    missing = [case for case in ALWAYS if (case[0], case[2]) not in found]
    assert missing == [], "the code has changed: name what takes its place in ALWAYS"


def test_every_explanation_is_of_code_that_exists() -> None:
    """Not only of the sample: another part of an area gets into it when any of its files changes."""
    explained = explanations()
    assert set(explained) - {mutant.key for area in AREAS for mutant in possible_mutants(area)} == set()
    assert all(text.endswith(".") and len(text) > 20 for text in explained.values())


@pytest.mark.parametrize("change", ["# a comment\n", "def other(a):\n    return a and not a\n"])
def test_a_change_elsewhere_keeps_the_keys(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations, "SOURCE", tmp_path)
    file = tmp_path / "a.py"
    code = "def add(a, b):\n    if a > b and b:\n        return a + b\n    b = not a\n    raise ValueError\n"
    file.write_text(code)
    before = [(mutant.key, mutant.function_hash) for mutant in mutants_of("x", file)]
    file.write_text(change + code)
    after = [(mutant.key, mutant.function_hash) for mutant in mutants_of("x", file)]
    assert [key for key, _ in before] == [
        "a.py::add: a > b and b -> not (a > b and b)",
        "a.py::add: a > b and b -> True",
        "a.py::add: a > b and b -> a > b or b",
        "a.py::add: a > b -> a >= b",
        "a.py::add: return a + b -> return None",
        "a.py::add: a + b -> a - b",
        "a.py::add: not a -> a",
        "a.py::add: raise ValueError -> pass",
    ]
    assert set(before) <= set(after)
