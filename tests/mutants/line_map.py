"""Which tests execute which line of which function, kept in `build/mutants/lines` per test file.

A line is kept as its distance from the first line of its function, with a hash of the function. So the map
stays useful when the source changes elsewhere.
"""

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coverage import CoverageData
from tests.mutants.mutated_tree import MutatedTree
from tests.mutants.mutations import AREAS, ROOT, SOURCE, Mutant, functions_of, source_files

# Browsers, foreign SDKs, whole conformance runs and these tools themselves: slow, and of other subjects.
_LEFT_OUT = (
    "tests/web/",
    "tests/packages/",
    "tests/interop/",
    "tests/check/",
    "tests/mutants/",
    "tests/soak/",
)
_LIMIT = 1200.0


@dataclass(frozen=True, slots=True)
class TimedTest:
    """A test with the seconds it took and the hash of its file."""

    id: str
    seconds: float
    file_hash: str


class LineMap:
    """The tests of every line. `update` runs the test files that are new or changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, dict[str, Any]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for test in test_files():
            stored = self._stored(test)
            if stored.is_file():
                self._files[test] = json.loads(stored.read_text("utf-8"))

    def outdated(self) -> list[str]:
        """Return the test files that are new or changed, those of the areas' packages first."""
        changed = [
            test for test in test_files() if self._files.get(test, {}).get("hash") != file_hash(ROOT / test)
        ]
        near = {pattern.rpartition("/")[0].removesuffix("/**") for area in AREAS.values() for pattern in area}
        folders = tuple(f"tests/{folder}/" for folder in near - {"cli"})
        return sorted(changed, key=lambda test: not test.startswith(folders))

    def update(self, tree: MutatedTree, test: str) -> int:
        """Run a test file and record its lines. Return how many of its tests passed."""
        recording = tree.root.parent / "recording"
        shutil.rmtree(recording, ignore_errors=True)
        (recording / "lines").mkdir(parents=True)
        sources = [tree.root / file.relative_to(ROOT) for area in AREAS for file in source_files(area)]
        (recording / "files.txt").write_text("\n".join(map(str, sources)), "utf-8")
        digest = file_hash(ROOT / test)
        words = ["-m", "pytest", "-p", "tests.mutants.line_recorder", "-p", "no:cacheprovider"]
        _, output = tree.run([*words, "--hypothesis-profile=ci", "--tb=short", test], _LIMIT)
        finished = recording / "times.json"
        times: dict[str, float] = json.loads(finished.read_text("utf-8")) if finished.exists() else {}
        (self._folder / f"{test.replace('/', '.')}.log").write_text(output, "utf-8")
        tests = sorted(times)
        numbers = {name: number for number, name in enumerate(tests)}
        lines = _recorded(recording / "lines", tree.root / "src" / "accord", numbers)
        entry = {"hash": digest, "tests": [[name, times[name]] for name in tests], "lines": lines}
        self._files[test] = entry
        self._stored(test).write_text(json.dumps(entry), "utf-8")
        shutil.rmtree(recording, ignore_errors=True)
        return len(tests)

    def tests_of(self, mutant: Mutant) -> list[TimedTest]:
        """Return the tests that execute the mutant's lines, near ones first and then by time.

        If the function has changed since, return the tests of the function; if it is new, of the file.
        """
        found: list[tuple[bool, float, TimedTest]] = []
        near = f"tests/{mutant.file.partition('/')[0]}/"
        for file, entry in self._files.items():
            for number in self._numbers(entry, mutant):
                name, seconds = entry["tests"][number]
                test = TimedTest(name, seconds, entry["hash"])
                found.append((not file.startswith(near), seconds, test))
        return [test for _, _, test in sorted(found, key=lambda row: row[:2])]

    def _numbers(self, entry: dict[str, Any], mutant: Mutant) -> Iterable[int]:
        functions = entry["lines"].get(mutant.file, {})
        recorded = functions.get(mutant.function)
        if recorded is None:
            known = any(
                mutant.function in other["lines"].get(mutant.file, {}) for other in self._files.values()
            )
            every = () if known else functions.values()
            return {number for one in every for numbers in one["at"].values() for number in numbers}
        if recorded["hash"] != mutant.function_hash:
            return {number for numbers in recorded["at"].values() for number in numbers}
        return {number for line in mutant.lines for number in recorded["at"].get(str(line), ())}

    def _stored(self, test: str) -> Path:
        return self._folder / f"{test.replace('/', '.')}.json"


def _recorded(folder: Path, source: Path, numbers: dict[str, int]) -> dict[str, Any]:
    """Return the recorded lines by file, function and distance from its first line."""
    lines: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for file in folder.iterdir():
        data = CoverageData(str(file))
        data.read()
        for measured in data.measured_files():
            name = Path(measured).relative_to(source).as_posix()
            for line, contexts in data.contexts_by_lineno(measured).items():
                lines[name][line] |= {numbers[test] for test in contexts if test in numbers}
        data.close(force=True)
    result: dict[str, Any] = {}
    for name, by_line in lines.items():
        functions: dict[str, Any] = {}
        for function in functions_of((SOURCE / name).read_bytes()):
            at = {
                line - function.first: sorted(tests)
                for line, tests in sorted(by_line.items())
                if function.first < line <= function.last and tests
            }
            if at:
                functions[function.name] = {"hash": function.hash, "at": at}
        result[name] = functions
    return result


def test_files() -> Iterator[str]:
    """Yield the test files that count."""
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        name = file.relative_to(ROOT).as_posix()
        if not name.startswith(_LEFT_OUT) and "node_modules" not in name:
            yield name


def file_hash(file: Path) -> str:
    """Return a short hash of a file; empty if there is none."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file.is_file() else ""
